//! Where bytes come from.

mod local;

pub use local::read_file;
