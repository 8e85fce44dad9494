//! Holds what samples are made of: the [`source`] their bytes come from, the [`mod@format`] that says which
//! bytes are which sample, and the [`arena`] that batches are assembled in.
//!
//! Nothing here decides anything: which sample comes next is `forebay-policy`'s word, and moving bytes
//! between these places is `forebay-engine`'s work.
//!
//! ```
//! use forebay_store::{arena::Arena, format::Folder};
//!
//! # let root = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(root.path().join("cat")).unwrap();
//! # std::fs::write(root.path().join("cat/1.jpg"), b"bytes").unwrap();
//! let folder = Folder::open(root.path())?;
//! assert_eq!(folder.classes(), ["cat"]);
//! assert_eq!(folder.label(0), 0);
//!
//! let arena = Arena::new(1 << 16, 4, Default::default());
//! let slab = arena.lease()?.expect("an empty arena has room");
//! assert_eq!(slab.bytes().len(), 1 << 16);
//! # Ok::<(), forebay_store::Error>(())
//! ```

pub mod arena;
mod error;
pub mod fork;
pub mod format;
pub mod source;

pub use error::{Error, Kind, Result};
