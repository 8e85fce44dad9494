//! JPEG, decoded only where the pixels are wanted.
//!
//! A safe face for libjpeg-turbo's `tj3` interface. The decoder skips the inverse transform of blocks
//! outside the region and stops after its last row; only the entropy-coded data above the region must be walked through.
//!
//! Chroma is upsampled by a filter that looks one chroma sample to each side, so a region is decoded two
//! pixels wider than asked: its pixels are then those of the whole image, to the bit.

use std::ffi::{CStr, c_int};

use forebay_store::{Error, Result};
use turbojpeg_sys as sys;

use super::image::{Pixel, Rect, grow};

/// What the header of a JPEG says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub width: u32,
    pub height: u32,
    subsampling: c_int,
    is_cmyk: bool,
}

/// Width of a coded block column by `TJSAMP`: a region starts at a multiple of it.
const COLUMN: [u32; 7] = [8, 16, 16, 8, 8, 32, 8];

/// Pixels decoded beyond each side of a region, for the chroma filter.
const MARGIN: u32 = 2;

/// A decoder, reused for image after image.
pub(super) struct Decompressor(sys::tjhandle);

// SAFETY: a handle is plain state without ties to a thread; `&mut self` keeps it to one at a time.
unsafe impl Send for Decompressor {}

impl Decompressor {
    pub fn new() -> Self {
        // SAFETY: plain constructor; the parameter keeps colour profiles, which nobody reads, from being copied.
        let handle = unsafe {
            let handle = sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS as c_int);
            assert!(!handle.is_null(), "libjpeg-turbo needs a few KB of memory to start");
            sys::tj3Set(handle, sys::TJPARAM_TJPARAM_SAVEMARKERS as c_int, 0);
            handle
        };
        Decompressor(handle)
    }

    /// Reads the header, which decides how a region can be decoded.
    pub fn header(&mut self, bytes: &[u8]) -> Result<Header> {
        // SAFETY: the pointer and length are those of a live slice.
        let status = unsafe { sys::tj3DecompressHeader(self.0, bytes.as_ptr(), bytes.len() as u64) };
        self.check(status, "the JPEG header is damaged")?;
        let colours = self.parameter(sys::TJPARAM_TJPARAM_COLORSPACE);
        if self.parameter(sys::TJPARAM_TJPARAM_PRECISION) != 8 {
            return Err(Error::corrupt("the JPEG has more than 8 bits a sample").remedy("convert it to an 8-bit JPEG"));
        }
        Ok(Header {
            width: self.parameter(sys::TJPARAM_TJPARAM_JPEGWIDTH) as u32,
            height: self.parameter(sys::TJPARAM_TJPARAM_JPEGHEIGHT) as u32,
            subsampling: self.parameter(sys::TJPARAM_TJPARAM_SUBSAMP),
            is_cmyk: colours == sys::TJCS_TJCS_CMYK as c_int || colours == sys::TJCS_TJCS_YCCK as c_int,
        })
    }

    /// Decodes at least `region` at 1/`denominator` of the size (1, 2, 4 or 8) into `pixels`. Returns the
    /// rectangle of the scaled image that `pixels` holds.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        header: Header,
        region: Rect,
        denominator: u32,
        pixels: &mut Vec<Pixel>,
    ) -> Result<Rect> {
        let (width, height) = (header.width.div_ceil(denominator), header.height.div_ceil(denominator));
        let mut decoded = Rect { x: 0, y: 0, width, height };
        let is_whole = Rect { x: 0, y: 0, width: header.width, height: header.height } == region;
        // A file without its end mark may be cut short anywhere: it is decoded whole, so that it fails
        // whichever part is asked for.
        if !is_whole && ends_properly(bytes) {
            if let Some(&column) = usize::try_from(header.subsampling).ok().and_then(|s| COLUMN.get(s)) {
                let column = (column / denominator).max(1);
                let left = (region.x / denominator).saturating_sub(MARGIN) / column * column;
                let right = ((region.x + region.width).div_ceil(denominator) + MARGIN).min(width);
                let top = region.y / denominator;
                let bottom = (region.y + region.height).div_ceil(denominator).min(height);
                decoded = Rect { x: left, y: top, width: right - left, height: bottom - top };
            }
        }
        let pixels = grow(pixels, decoded.width, decoded.height);
        let region = sys::tjregion {
            x: decoded.x as c_int,
            y: decoded.y as c_int,
            w: decoded.width as c_int,
            h: decoded.height as c_int,
        };
        let scale = sys::tjscalingfactor { num: 1, denom: denominator as c_int };
        let format = if header.is_cmyk { sys::TJPF_TJPF_CMYK } else { sys::TJPF_TJPF_RGBX };
        // SAFETY: `pixels` has room for the decoded rectangle at four bytes a pixel, rows without gaps
        // (pitch 0), and `bytes` is a live slice.
        let status = unsafe {
            let mut status = sys::tj3SetScalingFactor(self.0, scale);
            if status == 0 {
                status = sys::tj3SetCroppingRegion(self.0, region);
            }
            if status == 0 {
                status = sys::tj3Decompress8(
                    self.0,
                    bytes.as_ptr(),
                    bytes.len() as u64,
                    pixels.as_mut_ptr().cast(),
                    0,
                    format as c_int,
                );
            }
            status
        };
        self.check(status, "the JPEG is damaged")?;
        if header.is_cmyk {
            pixels.iter_mut().for_each(|pixel| *pixel = rgb_from_inverted_cmyk(*pixel));
        }
        Ok(decoded)
    }

    fn parameter(&self, parameter: sys::TJPARAM) -> c_int {
        // SAFETY: reads a number out of a live handle.
        unsafe { sys::tj3Get(self.0, parameter as c_int) }
    }

    /// Turns a status into a result. Warnings pass, as they do in Pillow, except that the file ends early.
    fn check(&self, status: c_int, what: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the handle is live, and the text is copied before the next call can change it.
        let (code, reason) = unsafe {
            (sys::tj3GetErrorCode(self.0), CStr::from_ptr(sys::tj3GetErrorStr(self.0)).to_string_lossy().into_owned())
        };
        if reason.contains("Premature end of JPEG file") {
            return Err(
                Error::corrupt("the JPEG ends early").remedy("restore the file, or drop it with on_error=\"skip\"")
            );
        }
        if code == sys::TJERR_TJERR_WARNING as c_int {
            return Ok(());
        }
        let reason = reason.rsplit(": ").next().unwrap_or_default().to_lowercase();
        Err(Error::corrupt(format!("{what}: {reason}")).remedy("restore the file, or drop it with on_error=\"skip\""))
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: made by `tj3Init`, destroyed once.
        unsafe { sys::tj3Destroy(self.0) };
    }
}

/// Whether the end mark stands where it should, give or take some padding.
fn ends_properly(bytes: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(32)..];
    tail.windows(2).any(|pair| pair == [0xff, 0xd9])
}

/// Adobe stores CMYK inverted; the conversion is Pillow's.
fn rgb_from_inverted_cmyk([c, m, y, k]: Pixel) -> Pixel {
    let ink = |c: u8| {
        // 255 - c and 255 - k are the plain values; white minus ink times what black leaves.
        let (c, left) = (u32::from(255 - c), u32::from(k));
        let product = c * left + 128;
        (left - ((product + (product >> 8)) >> 8)) as u8
    };
    [ink(c), ink(m), ink(y), 255]
}
