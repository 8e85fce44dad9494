//! JPEG, decoded only where the pixels are wanted.
//!
//! A safe face for libjpeg-turbo. The decoder skips the inverse transform of blocks outside the region and stops
//! after its last row; only the entropy-coded data before it must be walked through. As that is most of
//! the work, the walk is our own: `huffman.c` replaces libjpeg's entropy decoder for baseline files. All else, and
//! every other kind of file, is libjpeg's, and pixels are those of its `tj3Decompress8`, to the bit.
//!
//! Chroma is upsampled by a filter that looks one chroma sample to each side, so a region is decoded two
//! pixels wider than asked: its pixels are then those of the whole image.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_store::{Error, Result};
// The library behind the functions below.
use turbojpeg_sys as _;

use super::image::{Pixel, Rect, grow};

#[cfg(test)]
mod tests;

/// What the header of a JPEG says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub width: u32,
    pub height: u32,
    /// Width of a coded column: a region starts at a multiple of it.
    column: u32,
    is_cmyk: bool,
    /// No two headers share it, so that a decoder knows the one it has just read.
    number: u64,
}

/// Pixels decoded beyond each side of a region, for the chroma filter.
const MARGIN: u32 = 2;

/// Bytes of a file with unknown Huffman codes that make it worth to build the tables of our decoder for them:
/// that takes as long as they save on about half as many.
const WORTH_LEARNING: usize = 8 << 10;

/// A decoder, reused for image after image.
pub(super) struct Decompressor {
    state: NonNull<ffi::State>,
    /// The header that `state` has read and not yet decoded the image of.
    read: Option<(u64, usize)>,
}

// SAFETY: the state has no ties to a thread; `&mut self` keeps it to one at a time.
unsafe impl Send for Decompressor {}

impl Decompressor {
    pub fn new() -> Self {
        Self::learning_from(WORTH_LEARNING)
    }

    fn learning_from(bytes: usize) -> Self {
        // SAFETY: plain constructor.
        let state = NonNull::new(unsafe { ffi::forebay_jpeg_new(bytes) });
        Decompressor { state: state.expect("a JPEG decoder needs 100 KB of memory to start"), read: None }
    }

    /// Reads the header, which decides how a region can be decoded.
    pub fn header(&mut self, bytes: &[u8]) -> Result<Header> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut header = ffi::Header::default();
        self.read = None;
        // SAFETY: the state is live, and the pointer and length are those of a live slice.
        let status = unsafe { ffi::forebay_jpeg_header(self.state.as_ptr(), bytes.as_ptr(), bytes.len(), &mut header) };
        self.check(status, "the JPEG header is damaged")?;
        if header.precision != 8 {
            return Err(Error::corrupt("the JPEG has more than 8 bits a sample").remedy("convert it to an 8-bit JPEG"));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.read = Some((number, bytes.len()));
        let ffi::Header { width, height, column, is_cmyk, .. } = header;
        Ok(Header { width, height, column, is_cmyk: is_cmyk != 0, number })
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
            let column = (header.column / denominator).max(1);
            let left = (region.x / denominator).saturating_sub(MARGIN) / column * column;
            let right = ((region.x + region.width).div_ceil(denominator) + MARGIN).min(width);
            let top = region.y / denominator;
            let bottom = (region.y + region.height).div_ceil(denominator).min(height);
            decoded = Rect { x: left, y: top, width: right - left, height: bottom - top };
        }
        let pixels = grow(pixels, decoded.width, decoded.height);
        // The usual case: the header has just been read from these bytes, and need not be again.
        let has_header = self.read.take() == Some((header.number, bytes.len()));
        // SAFETY: the state is live and `bytes` a live slice, at least as long as its header if that is not read
        // again. `pixels` has room for the rectangle at four bytes a pixel; the callee fails if the image is not
        // such that it gets just that.
        let status = unsafe {
            ffi::forebay_jpeg_decode(
                self.state.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
                has_header.into(),
                ffi::Rect { x: decoded.x, y: decoded.y, width: decoded.width, height: decoded.height },
                denominator,
                pixels.as_mut_ptr().cast(),
            )
        };
        self.check(status, "the JPEG is damaged")?;
        if header.is_cmyk {
            pixels.iter_mut().for_each(|pixel| *pixel = rgb_from_inverted_cmyk(*pixel));
        }
        Ok(decoded)
    }

    /// Turns a status into a result. Warnings have passed, as they do in Pillow, except that the file ends early.
    fn check(&self, status: c_int, what: &str) -> Result<()> {
        let error = match status {
            ffi::OK => return Ok(()),
            ffi::ENDS_EARLY => Error::corrupt("the JPEG ends early"),
            _ => {
                // SAFETY: the state is live, and the text is copied before the next call can change it.
                let reason = unsafe { CStr::from_ptr(ffi::forebay_jpeg_message(self.state.as_ptr())) };
                let reason = reason.to_string_lossy().to_lowercase();
                Error::corrupt(format!("{what}: {}", reason.rsplit(": ").next().unwrap_or_default()))
            }
        };
        Err(error.remedy("restore the file, or drop it with on_error=\"skip\""))
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: made by `forebay_jpeg_new`, freed once.
        unsafe { ffi::forebay_jpeg_free(self.state.as_ptr()) };
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

/// What `decompress.c` offers.
mod ffi {
    use super::{c_char, c_int};

    pub const OK: c_int = 0;
    pub const ENDS_EARLY: c_int = 2;

    /// A decoder in C.
    #[repr(C)]
    pub struct State {
        _opaque: [u8; 0],
    }

    #[repr(C)]
    #[derive(Default)]
    pub struct Header {
        pub width: u32,
        pub height: u32,
        pub precision: u32,
        pub column: u32,
        pub is_cmyk: u32,
    }

    #[repr(C)]
    pub struct Rect {
        pub x: u32,
        pub y: u32,
        pub width: u32,
        pub height: u32,
    }

    unsafe extern "C" {
        pub fn forebay_jpeg_new(worth_learning: usize) -> *mut State;
        pub fn forebay_jpeg_free(state: *mut State);
        pub fn forebay_jpeg_message(state: *const State) -> *const c_char;
        pub fn forebay_jpeg_header(state: *mut State, bytes: *const u8, length: usize, header: *mut Header) -> c_int;
        pub fn forebay_jpeg_decode(
            state: *mut State,
            bytes: *const u8,
            length: usize,
            has_header: c_int,
            rect: Rect,
            denominator: u32,
            pixels: *mut u8,
        ) -> c_int;
    }
}
