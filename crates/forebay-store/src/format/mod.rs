//! Which bytes are which sample.

mod folder;

pub use folder::{Folder, IMAGE_EXTENSIONS};
