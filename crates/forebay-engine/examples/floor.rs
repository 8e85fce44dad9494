//! The floor of the image benchmark: libjpeg-turbo decoding the crop regions of a folder's photographs
//! in a bare loop on one thread, files already in memory, nothing else done.
//!
//! `floor ROOT COUNT` prints one JSON line: images, seconds, cpu_seconds.
#![allow(clippy::print_stdout, missing_docs)]

use std::ffi::c_int;
use std::time::Instant;

use forebay_engine::prepare::RandomResizedCrop;
use forebay_policy::{Key, Order};
use forebay_store::format::Folder;
use turbojpeg_sys as sys;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().ok_or("usage: floor ROOT COUNT")?;
    let count: u64 = arguments.next().ok_or("usage: floor ROOT COUNT")?.parse()?;
    let folder = Folder::open(root)?;
    let order = Order::shuffled(folder.len() as u64, 0, 0);
    let count = count.min(order.len());
    let samples: Vec<u64> = (0..count).map(|position| order.at(position)).collect();
    let files = samples.iter().map(|&sample| std::fs::read(folder.path(sample))).collect::<Result<Vec<_>, _>>()?;
    let crop = RandomResizedCrop::new((224, 224));
    let mut pixels = vec![0; 3 << 20];
    // One pass before the one that counts: page faults and cold caches are not the decoder's.
    decode_all(&samples, &files, &crop, &mut pixels);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    decode_all(&samples, &files, &crop, &mut pixels);
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!("{{\"images\": {count}, \"seconds\": {seconds:.6}, \"cpu_seconds\": {cpu:.6}}}");
    Ok(())
}

fn decode_all(samples: &[u64], files: &[Vec<u8>], crop: &RandomResizedCrop, pixels: &mut Vec<u8>) {
    for (&sample, bytes) in samples.iter().zip(files) {
        decode(bytes, crop, sample, pixels);
    }
}

fn decode(bytes: &[u8], crop: &RandomResizedCrop, sample: u64, pixels: &mut Vec<u8>) {
    thread_local!(static HANDLE: sys::tjhandle = {
        // SAFETY: plain constructor.
        unsafe { sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS as c_int) }
    });
    // SAFETY: the handle is this thread's own, the slices are live, and `pixels` has room for the region.
    HANDLE.with(|&handle| unsafe {
        let parameter = |p: sys::TJPARAM| sys::tj3Get(handle, p as c_int);
        assert_eq!(sys::tj3DecompressHeader(handle, bytes.as_ptr(), bytes.len() as u64), 0);
        let (width, height) = (parameter(sys::TJPARAM_TJPARAM_JPEGWIDTH), parameter(sys::TJPARAM_TJPARAM_JPEGHEIGHT));
        let column = [8, 16, 16, 8, 8, 32, 8][parameter(sys::TJPARAM_TJPARAM_SUBSAMP) as usize];
        let part = crop.part(width as u32, height as u32, &mut Key::new(0, 0, sample).rng(0));
        let left = part.x as c_int / column * column;
        let region = sys::tjregion {
            x: left,
            y: part.y as c_int,
            w: (part.x + part.width) as c_int - left,
            h: part.height as c_int,
        };
        pixels.resize(pixels.len().max(region.w as usize * region.h as usize * 3), 0);
        sys::tj3SetScalingFactor(handle, sys::tjscalingfactor { num: 1, denom: 1 });
        assert_eq!(sys::tj3SetCroppingRegion(handle, region), 0);
        let status = sys::tj3Decompress8(
            handle,
            bytes.as_ptr(),
            bytes.len() as u64,
            pixels.as_mut_ptr(),
            0,
            sys::TJPF_TJPF_RGB as c_int,
        );
        assert_eq!(status, 0);
    });
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the clock into a local.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
