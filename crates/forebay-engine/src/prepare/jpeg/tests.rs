//! The reference for all of this is `tj3Decompress8`, which decodes with libjpeg's own entropy decoder.

use std::ffi::c_void;
use std::ptr;

use forebay_policy::{Key, Rng};
use turbojpeg_sys as sys;

use super::*;

/// How a test image is coded.
#[derive(Debug, Clone, Copy)]
struct Coding {
    subsampling: sys::TJSAMP,
    colours: Option<sys::TJCS>,
    quality: c_int,
    parameters: &'static [(sys::TJPARAM, c_int)],
}

const BASELINE: Coding = Coding { subsampling: sys::TJSAMP_TJSAMP_420, colours: None, quality: 90, parameters: &[] };

const SUBSAMPLINGS: [sys::TJSAMP; 7] = [
    sys::TJSAMP_TJSAMP_444,
    sys::TJSAMP_TJSAMP_422,
    sys::TJSAMP_TJSAMP_420,
    sys::TJSAMP_TJSAMP_GRAY,
    sys::TJSAMP_TJSAMP_440,
    sys::TJSAMP_TJSAMP_411,
    sys::TJSAMP_TJSAMP_441,
];

/// The plain kind, tables of its own, restart marks after blocks and rows, progressive, arithmetic.
const KINDS: [&[(sys::TJPARAM, c_int)]; 6] = [
    &[],
    &[(sys::TJPARAM_TJPARAM_OPTIMIZE, 1)],
    &[(sys::TJPARAM_TJPARAM_RESTARTBLOCKS, 3)],
    &[(sys::TJPARAM_TJPARAM_RESTARTROWS, 1), (sys::TJPARAM_TJPARAM_OPTIMIZE, 1)],
    &[(sys::TJPARAM_TJPARAM_PROGRESSIVE, 1)],
    &[(sys::TJPARAM_TJPARAM_ARITHMETIC, 1)],
];

/// A gradient under noise of an amplitude that varies from corner to corner: flat blocks and busy ones.
fn scene(width: u32, height: u32, rng: &mut Rng) -> Vec<u8> {
    let mut levels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for channel in 0..4 {
                let noise = (x * 256 / width) * (y * 256 / height) / 256;
                let level = x * (channel + 1) + y * 2 + (rng.below(256) as u32 * noise) / 256;
                levels.push(level as u8);
            }
        }
    }
    levels
}

fn encode(width: u32, height: u32, coding: Coding, rng: &mut Rng) -> Vec<u8> {
    let levels = scene(width, height, rng);
    let mut buffer = ptr::null_mut();
    let mut length = 0;
    let format = if coding.colours.is_some() { sys::TJPF_TJPF_CMYK } else { sys::TJPF_TJPF_RGBX };
    // SAFETY: the levels are four bytes a pixel, and what comes back is copied before it is freed.
    unsafe {
        let handle = sys::tj3Init(sys::TJINIT_TJINIT_COMPRESS as c_int);
        let set = |parameter: sys::TJPARAM, value| assert_eq!(sys::tj3Set(handle, parameter as c_int, value), 0);
        set(sys::TJPARAM_TJPARAM_SUBSAMP, coding.subsampling as c_int);
        set(sys::TJPARAM_TJPARAM_QUALITY, coding.quality);
        coding.colours.iter().for_each(|&colours| set(sys::TJPARAM_TJPARAM_COLORSPACE, colours as c_int));
        coding.parameters.iter().for_each(|&(parameter, value)| set(parameter, value));
        let (width, height) = (width as c_int, height as c_int);
        let status =
            sys::tj3Compress8(handle, levels.as_ptr(), width, 0, height, format as c_int, &mut buffer, &mut length);
        assert_eq!(status, 0, "{coding:?}");
        let bytes = std::slice::from_raw_parts(buffer, length as usize).to_vec();
        sys::tj3Free(buffer.cast::<c_void>());
        sys::tj3Destroy(handle);
        bytes
    }
}

/// A decoder that uses our entropy decoder wherever it can.
fn ours() -> Decompressor {
    Decompressor::learning_from(0)
}

/// What libjpeg says of a file.
#[derive(Debug)]
enum Stock {
    Fine(Vec<Pixel>),
    Warned(Vec<Pixel>),
    Failed(String),
}

fn stock(bytes: &[u8], rect: Rect, denominator: u32, is_cmyk: bool) -> Stock {
    let mut pixels = vec![Pixel::default(); rect.width as usize * rect.height as usize];
    let format = if is_cmyk { sys::TJPF_TJPF_CMYK } else { sys::TJPF_TJPF_RGBX };
    // SAFETY: the pixels have room for the rectangle, and the handle is this function's own.
    unsafe {
        let handle = sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS as c_int);
        let reason = || CStr::from_ptr(sys::tj3GetErrorStr(handle)).to_string_lossy().into_owned();
        let is_warning = || sys::tj3GetErrorCode(handle) == sys::TJERR_TJERR_WARNING as c_int;
        sys::tj3DecompressHeader(handle, bytes.as_ptr(), bytes.len() as _);
        let scale = sys::tjscalingfactor { num: 1, denom: denominator as c_int };
        let [x, y, w, h] = [rect.x, rect.y, rect.width, rect.height].map(|edge| edge as c_int);
        let mut status = sys::tj3SetScalingFactor(handle, scale);
        if status == 0 {
            status = sys::tj3SetCroppingRegion(handle, sys::tjregion { x, y, w, h });
        }
        let result = if status != 0 {
            Stock::Failed(reason())
        } else {
            let target = pixels.as_mut_ptr().cast();
            match sys::tj3Decompress8(handle, bytes.as_ptr(), bytes.len() as _, target, 0, format as c_int) {
                0 => Stock::Fine(pixels),
                _ if is_warning() => Stock::Warned(pixels),
                _ => Stock::Failed(reason()),
            }
        };
        sys::tj3Destroy(handle);
        result
    }
}

fn random_region(header: Header, rng: &mut Rng) -> Rect {
    let (x, y) = (rng.below(header.width.into()) as u32, rng.below(header.height.into()) as u32);
    let width = 1 + rng.below((header.width - x).into()) as u32;
    let height = 1 + rng.below((header.height - y).into()) as u32;
    Rect { x, y, width, height }
}

/// Decodes a region of a sound file and compares it with libjpeg's.
fn check_region(
    decompressor: &mut Decompressor,
    bytes: &[u8],
    region: Rect,
    denominator: u32,
    note: &dyn Fn() -> String,
) {
    let header = decompressor.header(bytes).unwrap();
    let mut pixels = Vec::new();
    let decoded = decompressor.decode(bytes, header, region, denominator, &mut pixels).unwrap();
    let Stock::Fine(mut expected) = stock(bytes, decoded, denominator, header.is_cmyk) else {
        panic!("libjpeg does not decode {decoded:?} of {}", note());
    };
    if header.is_cmyk {
        expected.iter_mut().for_each(|pixel| *pixel = rgb_from_inverted_cmyk(*pixel));
    }
    assert!(pixels == expected, "{decoded:?} at 1/{denominator} of {}", note());
}

#[test]
fn every_kind_of_file_decodes_as_libjpeg_does() {
    let mut rng = Key::new(1, 0, 0).rng(0);
    // One decoder for all, so that tables come and go.
    let mut decompressor = ours();
    for subsampling in SUBSAMPLINGS {
        for parameters in KINDS {
            for (width, height) in [(1, 1), (7, 9), (16, 16), (33, 17), (130, 97), (250, 131)] {
                let quality = 10 + rng.below(91) as c_int;
                let coding = Coding { subsampling, parameters, quality, ..BASELINE };
                let bytes = encode(width, height, coding, &mut rng);
                let header = decompressor.header(&bytes).unwrap();
                assert_eq!((header.width, header.height), (width, height));
                let note = || format!("{width} x {height} {coding:?}");
                for denominator in [1, 2, 4, 8] {
                    let whole = Rect { x: 0, y: 0, width, height };
                    check_region(&mut decompressor, &bytes, whole, denominator, &note);
                    for _ in 0..4 {
                        let region = random_region(header, &mut rng);
                        check_region(&mut decompressor, &bytes, region, denominator, &note);
                    }
                }
            }
        }
    }
}

#[test]
fn small_files_with_codes_of_their_own_decode_as_libjpeg_does() {
    let mut rng = Key::new(9, 0, 0).rng(0);
    let mut decompressor = Decompressor::new();
    // Enough of them that the plain ones' code becomes known.
    for number in 0..300 {
        let coding = Coding { parameters: KINDS[number % 2], quality: 50 + (number / 6) as c_int, ..BASELINE };
        let bytes = encode(48, 40, coding, &mut rng);
        assert!(bytes.len() < WORTH_LEARNING);
        let header = decompressor.header(&bytes).unwrap();
        let region = random_region(header, &mut rng);
        check_region(&mut decompressor, &bytes, region, 1, &|| format!("file {number}"));
    }
}

#[test]
fn every_quality_decodes_as_libjpeg_does() {
    let mut rng = Key::new(2, 0, 0).rng(0);
    let mut decompressor = ours();
    for quality in 1..=100 {
        for subsampling in [sys::TJSAMP_TJSAMP_420, sys::TJSAMP_TJSAMP_444, sys::TJSAMP_TJSAMP_GRAY] {
            let coding = Coding { quality, subsampling, ..BASELINE };
            let bytes = encode(200, 150, coding, &mut rng);
            let header = decompressor.header(&bytes).unwrap();
            let region = random_region(header, &mut rng);
            check_region(&mut decompressor, &bytes, region, 1, &|| format!("{coding:?}"));
        }
    }
}

#[test]
fn cmyk_decodes_as_libjpeg_does() {
    let mut rng = Key::new(3, 0, 0).rng(0);
    let mut decompressor = ours();
    for colours in [sys::TJCS_TJCS_CMYK, sys::TJCS_TJCS_YCCK] {
        for subsampling in [sys::TJSAMP_TJSAMP_444, sys::TJSAMP_TJSAMP_420] {
            let coding = Coding { subsampling, colours: Some(colours), ..BASELINE };
            let bytes = encode(90, 70, coding, &mut rng);
            let header = decompressor.header(&bytes).unwrap();
            assert!(header.is_cmyk);
            for denominator in [1, 2] {
                let region = random_region(header, &mut rng);
                check_region(&mut decompressor, &bytes, region, denominator, &|| format!("{coding:?}"));
            }
        }
    }
}

#[test]
fn a_region_is_the_same_part_of_the_whole() {
    let mut rng = Key::new(4, 0, 0).rng(0);
    let mut decompressor = ours();
    for subsampling in SUBSAMPLINGS {
        let bytes = encode(190, 140, Coding { subsampling, ..BASELINE }, &mut rng);
        let header = decompressor.header(&bytes).unwrap();
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        decompressor.decode(&bytes, header, Rect { x: 0, y: 0, width: 190, height: 140 }, 1, &mut whole).unwrap();
        for _ in 0..50 {
            let region = random_region(header, &mut rng);
            let decoded = decompressor.decode(&bytes, header, region, 1, &mut part).unwrap();
            for y in region.y..region.y + region.height {
                for x in region.x..region.x + region.width {
                    let of_part = part[((y - decoded.y) * decoded.width + x - decoded.x) as usize];
                    assert_eq!(of_part, whole[(y * 190 + x) as usize], "{x} {y} of {region:?} {subsampling}");
                }
            }
        }
    }
}

/// Damages a file: flips, overwrites, inserts or removes a few bytes, mostly behind the header.
fn damage(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
    for _ in 0..=rng.below(4) {
        let from = if rng.chance(0.8) { scan.min(bytes.len() - 1) } else { 2 };
        let at = from + rng.below((bytes.len() - from) as u64) as usize;
        match rng.below(6) {
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = rng.below(256) as u8,
            3 => bytes[at] = 0xff,
            4 => bytes.insert(at, [0xff, 0x00, 0xd0, 0xd9, 0xd3][rng.below(5) as usize]),
            _ => {
                let count = (1 + rng.below(40) as usize).min(bytes.len() - at).min(bytes.len() - 4);
                bytes.drain(at..at + count);
            }
        }
        if bytes.len() < 8 {
            break;
        }
    }
    if rng.chance(0.1) {
        bytes.truncate(bytes.len() - rng.below(bytes.len() as u64 - 3) as usize);
    }
    bytes
}

/// Whether libjpeg's fast loop may have left coefficients behind that its slow loop does not give: it does where
/// a scan without restart marks is interrupted, unless the file is about to end.
fn may_have_leftovers(bytes: &[u8]) -> bool {
    let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap_or(0) + 2;
    let fast = scan..bytes.len().saturating_sub(512).max(scan);
    let has_restarts = bytes.windows(4).any(|segment| segment == [0xff, 0xdd, 0, 4]);
    !has_restarts && bytes[fast].windows(2).any(|pair| pair[0] == 0xff && pair[1] != 0)
}

#[test]
fn a_damaged_file_decodes_as_libjpeg_does_or_fails() {
    let mut rng = Key::new(5, 0, 0).rng(0);
    let mut sound = Vec::new();
    for parameters in KINDS {
        for subsampling in [sys::TJSAMP_TJSAMP_420, sys::TJSAMP_TJSAMP_444, sys::TJSAMP_TJSAMP_GRAY] {
            for quality in [20, 75, 97] {
                sound.push(encode(120, 90, Coding { subsampling, parameters, quality, ..BASELINE }, &mut rng));
            }
        }
    }
    let mut decompressor = ours();
    let (mut fine, mut warned, mut failed) = (0, 0, 0);
    for number in 0..6000 {
        let bytes = damage(&sound[rng.below(sound.len() as u64) as usize], &mut rng);
        let Ok(header) = decompressor.header(&bytes) else {
            failed += 1;
            continue;
        };
        // A damaged size may claim gigabytes; `Decode` refuses such before it comes to this.
        if u64::from(header.width) * u64::from(header.height) > 1 << 20 {
            continue;
        }
        let whole = Rect { x: 0, y: 0, width: header.width, height: header.height };
        let region = if rng.chance(0.5) { whole } else { random_region(header, &mut rng) };
        let denominator = [1, 1, 2, 8][rng.below(4) as usize];
        let mut pixels = Vec::new();
        let Ok(decoded) = decompressor.decode(&bytes, header, region, denominator, &mut pixels) else {
            failed += 1;
            let result = stock(&bytes, whole, 1, header.is_cmyk);
            assert!(!matches!(result, Stock::Fine(_)), "file {number} is fine for libjpeg");
            continue;
        };
        if header.is_cmyk || may_have_leftovers(&bytes) {
            continue;
        }
        match stock(&bytes, decoded, denominator, false) {
            Stock::Fine(expected) => {
                fine += 1;
                assert!(pixels == expected, "file {number}, {region:?} at 1/{denominator}");
            }
            Stock::Warned(expected) => {
                warned += 1;
                assert!(pixels == expected, "file {number}, {region:?} at 1/{denominator}, with a warning");
            }
            // Some samplings are refused by `tj3` alone.
            Stock::Failed(reason) => assert!(reason.contains("subsampling"), "file {number}: {reason}"),
        }
    }
    assert!(fine > 500 && warned > 500 && failed > 500, "{fine} fine, {warned} warned, {failed} failed");
}

/// Compares a file that libjpeg warns of.
fn check_warned(decompressor: &mut Decompressor, bytes: &[u8], region: Rect) {
    let header = decompressor.header(bytes).unwrap();
    let mut pixels = Vec::new();
    let decoded = decompressor.decode(bytes, header, region, 1, &mut pixels).unwrap();
    let Stock::Warned(expected) = stock(bytes, decoded, 1, false) else { panic!("libjpeg does not warn") };
    assert!(pixels == expected, "{region:?}");
}

#[test]
fn codes_that_differ_in_length_alone_are_told_apart() {
    let mut rng = Key::new(10, 0, 0).rng(0);
    let sound = encode(100, 80, BASELINE, &mut rng);
    let mut changed = sound.clone();
    let table = changed.windows(5).position(|head| head[..2] == [0xff, 0xc4] && head[4] == 0x10).unwrap();
    // A symbol of 4 bits, the last of which becomes one of 16.
    changed[table + 5 + 3] -= 1;
    changed[table + 5 + 15] += 1;
    let whole = Rect { x: 0, y: 0, width: 100, height: 80 };
    let mut decompressor = ours();
    check_region(&mut decompressor, &sound, whole, 1, &|| "a sound file".into());
    check_warned(&mut decompressor, &changed, whole);
    check_region(&mut decompressor, &sound, whole, 1, &|| "a sound file again".into());
}

#[test]
fn restart_marks_that_never_come_are_recovered_from_alike() {
    let mut rng = Key::new(11, 0, 0).rng(0);
    let mut bytes = encode(400, 300, Coding { quality: 98, ..BASELINE }, &mut rng);
    // Long enough that the next mark, which is the end, is far beyond what is cleaned at a time.
    assert!(bytes.len() > 100_000);
    let scan = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
    bytes.splice(scan..scan, [0xff, 0xdd, 0, 4, 0, 5]);
    let mut decompressor = ours();
    check_warned(&mut decompressor, &bytes, Rect { x: 0, y: 0, width: 400, height: 300 });
    check_warned(&mut decompressor, &bytes, Rect { x: 100, y: 50, width: 200, height: 100 });
}

#[test]
fn a_file_cut_short_fails_whichever_part_is_wanted() {
    let mut rng = Key::new(6, 0, 0).rng(0);
    let mut decompressor = ours();
    for parameters in KINDS {
        let bytes = encode(120, 90, Coding { parameters, ..BASELINE }, &mut rng);
        let scan = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 16;
        for _ in 0..100 {
            let length = scan + rng.below((bytes.len() - 2 - scan) as u64) as usize;
            let header = decompressor.header(&bytes[..length]).unwrap();
            let region = Rect { x: 3, y: 2, width: 20, height: 1 };
            let error = decompressor.decode(&bytes[..length], header, region, 1, &mut Vec::new()).unwrap_err();
            assert!(error.to_string().starts_with("the JPEG ends early"), "{error}");
        }
        for length in 0..scan - 16 {
            assert!(decompressor.header(&bytes[..length]).is_err());
        }
    }
}

#[test]
fn a_file_without_tables_does_not_borrow_those_of_the_last() {
    let mut rng = Key::new(7, 0, 0).rng(0);
    let other = encode(64, 64, Coding { parameters: &[(sys::TJPARAM_TJPARAM_OPTIMIZE, 1)], ..BASELINE }, &mut rng);
    let mut bare = encode(64, 64, BASELINE, &mut rng);
    while let Some(at) = bare.windows(2).position(|pair| pair == [0xff, 0xc4]) {
        let length = usize::from(u16::from_be_bytes([bare[at + 2], bare[at + 3]]));
        bare.drain(at..at + 2 + length);
    }
    let whole = Rect { x: 0, y: 0, width: 64, height: 64 };
    let mut decompressor = ours();
    let header = decompressor.header(&other).unwrap();
    decompressor.decode(&other, header, whole, 1, &mut Vec::new()).unwrap();
    check_region(&mut decompressor, &bare, whole, 1, &|| "a file without Huffman tables".into());
}

#[test]
fn a_header_read_by_another_decoder_serves_as_well() {
    let mut rng = Key::new(8, 0, 0).rng(0);
    let first = encode(80, 60, BASELINE, &mut rng);
    let second = encode(80, 60, Coding { quality: 40, ..BASELINE }, &mut rng);
    let region = Rect { x: 10, y: 20, width: 30, height: 30 };
    let header = ours().header(&second).unwrap();
    let mut ours = ours();
    ours.header(&first).unwrap();
    let (mut pixels, mut expected) = (Vec::new(), Vec::new());
    ours.decode(&second, header, region, 1, &mut pixels).unwrap();
    let again = ours.header(&second).unwrap();
    ours.decode(&second, again, region, 1, &mut expected).unwrap();
    assert_eq!(pixels, expected);
    // A header that is not the file's is a mistake, and an error rather than a write out of bounds.
    let small = encode(8, 8, BASELINE, &mut rng);
    assert!(ours.decode(&small, header, region, 1, &mut pixels).is_err());
}

#[test]
fn more_than_eight_bits_are_refused() {
    let levels = [100_i16; 8 * 8 * 3];
    let mut buffer = ptr::null_mut();
    let mut length = 0;
    // SAFETY: the levels are three to a pixel, and what comes back is copied before it is freed.
    let bytes = unsafe {
        let handle = sys::tj3Init(sys::TJINIT_TJINIT_COMPRESS as c_int);
        for (parameter, value) in [
            (sys::TJPARAM_TJPARAM_SUBSAMP, sys::TJSAMP_TJSAMP_444 as c_int),
            (sys::TJPARAM_TJPARAM_QUALITY, 90),
            (sys::TJPARAM_TJPARAM_PRECISION, 12),
        ] {
            assert_eq!(sys::tj3Set(handle, parameter as c_int, value), 0);
        }
        let format = sys::TJPF_TJPF_RGB as c_int;
        assert_eq!(sys::tj3Compress12(handle, levels.as_ptr(), 8, 0, 8, format, &mut buffer, &mut length), 0);
        let bytes = std::slice::from_raw_parts(buffer, length as usize).to_vec();
        sys::tj3Free(buffer.cast::<c_void>());
        sys::tj3Destroy(handle);
        bytes
    };
    let error = ours().header(&bytes).unwrap_err();
    assert!(error.to_string().starts_with("the JPEG has more than 8 bits a sample"), "{error}");
}
