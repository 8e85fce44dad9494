//! Moves samples from where they lie into the batch a training loop takes next.
//!
//! [`Job`] is the place to start: it is the walk of a sample, step by step. [`prepare`] holds the
//! operations, one file each.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use forebay_engine::{Job, JobSpec, Loader, LoaderSpec, Next, prepare::{Decode, Pipeline, RandomResizedCrop}};
//! use forebay_policy::{plan::{BatchSpec, Batches}, sample::{Order, Shard}};
//! use forebay_store::format::Folder;
//!
//! # let root = tempfile::tempdir()?;
//! # std::fs::create_dir(root.path().join("grey"))?;
//! # let mut file = b"P5 8 8 255\n".to_vec();
//! # file.extend([7; 64]);
//! # for i in 0..4 { std::fs::write(root.path().join(format!("grey/{i}.pgm")), &file)?; }
//! let pipeline = Pipeline::new(Decode::default()).then(RandomResizedCrop::new((4, 4)))?;
//! let loader = Arc::new(Loader::new(Arc::new(Folder::open(root.path())?), pipeline, LoaderSpec::default())?);
//! let order = Order::shuffled(4, 0, 0);
//! let batches = Batches::new(BatchSpec { order, batch_size: 2, shard: Shard::new(0, 1)?, drop_last: false, start: 0 })?;
//! let mut job = Job::new(&loader, JobSpec::default(), Some(batches))?;
//! let mut samples = 0;
//! loop {
//!     match job.next(Duration::from_millis(100))? {
//!         Next::Batch(batch) => samples += batch.len(),
//!         Next::Waiting => continue,
//!         Next::End => break,
//!     }
//! }
//! assert_eq!(samples, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod assemble;
mod deliver;
mod fetch;
mod job;
mod loader;
mod metrics;
mod pool;
pub mod prepare;

pub use assemble::{Loss, OnError};
pub use deliver::Batch;
pub use forebay_store::{Error, Kind, Result};
pub use job::{Job, JobSpec, Next, Watch};
pub use loader::{Loader, LoaderSpec};
pub use metrics::Stats;
