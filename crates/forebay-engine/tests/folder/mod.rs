//! What the tests of the walk share: folders of small pictures, and ways to run a job to its end.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_engine::prepare::{CenterCrop, Decode, HorizontalFlip, Normalize, Pipeline, RandomResizedCrop};
use forebay_engine::{Batch, Error, Job, JobSpec, Loader, LoaderSpec, Next, OnError};
use forebay_policy::{BatchSpec, Batches, Order, Shard};
use forebay_store::format::Folder;
use tempfile::TempDir;

/// A folder of pictures in two classes; odd samples are of class 1.
pub struct Pictures {
    pub root: TempDir,
    pub count: u64,
}

impl Pictures {
    /// `count` pictures of 12 x 10 whose pixels are made of their number.
    pub fn new(count: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let pictures = Pictures { root, count };
        for sample in 0..count {
            std::fs::write(pictures.path(sample), ppm(sample)).unwrap();
        }
        pictures
    }

    pub fn path(&self, sample: u64) -> PathBuf {
        self.root.path().join(format!("{sample}.ppm"))
    }

    pub fn damage(&self, sample: u64, bytes: &[u8]) {
        std::fs::write(self.path(sample), bytes).unwrap();
    }

    /// The listing.
    pub fn folder(&self) -> Arc<Folder> {
        let paths: Vec<_> = (0..self.count).map(|sample| self.path(sample)).collect();
        let samples = paths.iter().zip(0..).map(|(path, sample)| (path.as_path(), sample % 2));
        Arc::new(Folder::from_listing("", vec!["even".into(), "odd".into()], samples))
    }

    /// A loader of a pipeline, with room for many batches.
    pub fn loader(&self, pipeline: &Pipeline, workers: usize, batch_size: usize) -> Arc<Loader> {
        self.loader_with(pipeline, LoaderSpec { workers, readers: 3, batch_size, ..LoaderSpec::default() })
    }

    pub fn loader_with(&self, pipeline: &Pipeline, spec: LoaderSpec) -> Arc<Loader> {
        Arc::new(Loader::new(self.folder(), pipeline.clone(), spec).unwrap())
    }
}

/// A picture that tells its number: the first pixel is its two lower bytes.
pub fn ppm(sample: u64) -> Vec<u8> {
    let mut file = b"P6 12 10 255\n".to_vec();
    for place in 0..120_u64 {
        let noise = (place * 2_654_435_761 + sample * 40_503) >> 7;
        file.extend(if place == 0 { [sample as u8, (sample >> 8) as u8, 7] } else { [noise as u8, place as u8, 1] });
    }
    file
}

/// Keeps the picture as it is, so that it can be recognised.
pub fn plain() -> Pipeline {
    Pipeline::new(Decode::default()).then(CenterCrop { size: (10, 12) }).unwrap()
}

/// Draws at every step.
pub fn augmented() -> Pipeline {
    let crop = Pipeline::new(Decode::default()).then(RandomResizedCrop::new((9, 7))).unwrap();
    crop.then(HorizontalFlip { p: 0.5 }).unwrap().then(Normalize::default()).unwrap()
}

/// The batches of a shuffled epoch for one rank.
pub fn epoch(count: u64, batch_size: u32, start: u64) -> Batches {
    let order = Order::shuffled(count, 5, 1);
    Batches::new(BatchSpec { order, batch_size, shard: Shard::alone(), drop_last: false, start }).unwrap()
}

/// A batch, copied out of its slab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    pub samples: Vec<u64>,
    pub labels: Vec<i64>,
    pub pictures: Vec<u8>,
    pub end: u64,
}

impl From<&Batch> for Copy {
    fn from(batch: &Batch) -> Self {
        Copy {
            samples: batch.samples().to_vec(),
            labels: batch.labels(),
            pictures: batch.pictures().to_vec(),
            end: batch.end(),
        }
    }
}

/// The next batch. Fails the test, instead of hanging it, if nothing comes.
pub fn next(job: &mut Job) -> Result<Option<Batch>, Error> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match job.next(Duration::from_millis(50))? {
            Next::Batch(batch) => return Ok(Some(batch)),
            Next::End => return Ok(None),
            Next::Waiting => assert!(Instant::now() < deadline, "no batch came within 30 s"),
        }
    }
}

/// All the batches of a job, copied.
pub fn drain(job: &mut Job) -> Result<Vec<Copy>, Error> {
    let mut batches = Vec::new();
    while let Some(batch) = next(job)? {
        batches.push(Copy::from(&batch));
    }
    Ok(batches)
}

/// Runs an epoch and copies it.
pub fn run(loader: &Arc<Loader>, spec: JobSpec, batches: Batches) -> Result<Vec<Copy>, Error> {
    drain(&mut Job::new(loader, spec, Some(batches)).unwrap())
}

pub fn on_error(on_error: OnError) -> JobSpec {
    JobSpec { on_error, ..JobSpec::default() }
}

/// Waits for what other threads are about to do; fails if they never do.
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}
