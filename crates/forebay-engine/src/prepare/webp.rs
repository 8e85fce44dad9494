//! WebP, by libwebp: still pictures, and the first frame of animations.
//!
//! Frames after the first are never looked at, so an animation costs no more than a still picture, however
//! long it is and whatever is wrong with the rest of it.

use libwebp_sys as sys;

use super::image::Pixel;

/// What the header of a WebP says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub width: u32,
    pub height: u32,
    is_animated: bool,
}

/// Reads the header, unless it is damaged.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    // SAFETY: the structure is made of numbers, for which zero is a value, and the slice is live.
    let (status, features) = unsafe {
        let mut features: sys::WebPBitstreamFeatures = std::mem::zeroed();
        (sys::WebPGetFeatures(bytes.as_ptr(), bytes.len(), &raw mut features), features)
    };
    let is_sound = status == sys::VP8StatusCode::VP8_STATUS_OK;
    let (width, height) = (u32::try_from(features.width).ok()?, u32::try_from(features.height).ok()?);
    is_sound.then_some(Header { width, height, is_animated: features.has_animation != 0 })
}

/// Decodes into `pixels`, which must have room for just the picture. `None` if the file is damaged.
pub(super) fn decode(bytes: &[u8], header: Header, pixels: &mut [Pixel]) -> Option<()> {
    if header.is_animated {
        return first_frame(bytes, header, pixels);
    }
    let (size, stride) = (size_of_val(pixels), i32::try_from(header.width * 4).ok()?);
    // SAFETY: the slices are live, and libwebp keeps within the size it is told.
    let end = unsafe { sys::WebPDecodeRGBAInto(bytes.as_ptr(), bytes.len(), pixels.as_mut_ptr().cast(), size, stride) };
    (!end.is_null()).then_some(())
}

fn first_frame(bytes: &[u8], header: Header, pixels: &mut [Pixel]) -> Option<()> {
    let version = sys::WebPGetDemuxABIVersion();
    let data = sys::WebPData { bytes: bytes.as_ptr(), size: bytes.len() };
    // SAFETY: the structures are made of numbers and pointers, for which zero is a value; `data` outlives the
    // decoder, which is deleted once; the canvas it lends is copied before that, and is as large as `pixels`.
    unsafe {
        let mut options: sys::WebPAnimDecoderOptions = std::mem::zeroed();
        if sys::WebPAnimDecoderOptionsInitInternal(&raw mut options, version) == 0 {
            return None;
        }
        let decoder = sys::WebPAnimDecoderNewInternal(&raw const data, &raw const options, version);
        if decoder.is_null() {
            return None;
        }
        let mut info: sys::WebPAnimInfo = std::mem::zeroed();
        let (mut canvas, mut time) = (std::ptr::null_mut(), 0);
        let is_sound = sys::WebPAnimDecoderGetInfo(decoder, &raw mut info) != 0
            && (info.canvas_width, info.canvas_height) == (header.width, header.height)
            && pixels.len() == header.width as usize * header.height as usize
            && sys::WebPAnimDecoderGetNext(decoder, &raw mut canvas, &raw mut time) != 0;
        if is_sound {
            std::ptr::copy_nonoverlapping(canvas, pixels.as_mut_ptr().cast(), size_of_val(pixels));
        }
        sys::WebPAnimDecoderDelete(decoder);
        is_sound.then_some(())
    }
}
