//! Compiles the part of the JPEG decoder that is in C, against the libjpeg-turbo of `turbojpeg-sys`.

use std::env;

fn main() {
    let sources = ["decompress.c", "huffman.c"].map(|name| format!("src/prepare/jpeg/{name}"));
    let mut build = cc::Build::new();
    // Unset where the library is the system's and its headers are where the compiler looks anyway.
    if let Ok(include) = env::var("DEP_TURBOJPEG_INCLUDE") {
        build.includes(include.split(','));
    }
    // Always optimised: a debug build decodes real images too.
    build.files(&sources).std("c11").opt_level(3).extra_warnings(true).compile("forebay_jpeg");
    for source in sources.iter().map(String::as_str).chain(["src/prepare/jpeg/huffman.h"]) {
        println!("cargo:rerun-if-changed={source}");
    }
}
