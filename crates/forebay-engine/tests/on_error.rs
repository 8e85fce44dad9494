//! Samples that cannot be read or prepared: law 6.

#![allow(clippy::unwrap_used)] // also outside of the functions marked as tests

mod folder;

use std::fmt;

use folder::{Pictures, drain, epoch, next, on_error, plain, run};
use forebay_engine::prepare::{Form, Image, Operation, Pipeline};
use forebay_engine::{Job, JobSpec, Kind, LoaderSpec, OnError, Result};
use forebay_policy::{BatchSpec, Batches, Order, Rng, Shard};

/// The batches of an epoch in the order of the files.
fn in_file_order(count: u64, batch_size: u32) -> Batches {
    let order = Order::sequential(count);
    Batches::new(BatchSpec { order, batch_size, shard: Shard::alone(), drop_last: false, start: 0 }).unwrap()
}

/// Twenty pictures of which 3 is gone, 8 is empty, 9 is no picture and 14 is cut short.
fn damaged() -> Pictures {
    let pictures = Pictures::new(20);
    std::fs::remove_file(pictures.path(3)).unwrap();
    pictures.damage(8, b"");
    pictures.damage(9, b"no picture at all");
    pictures.damage(14, &folder::ppm(14)[..200]);
    pictures
}

#[test]
fn an_error_names_the_file_the_sample_and_the_remedy_and_the_walk_goes_on() {
    let pictures = damaged();
    for workers in [0, 1, 2] {
        let loader = pictures.loader(&plain(), workers, 4);
        let mut job = Job::new(&loader, JobSpec::default(), Some(in_file_order(20, 4))).unwrap();
        let mut outcomes = Vec::new();
        loop {
            match next(&mut job) {
                Ok(Some(batch)) => outcomes.push(Ok(batch.samples().to_vec())),
                Ok(None) => break,
                Err(error) => outcomes.push(Err(error)),
            }
        }
        assert_eq!(outcomes.len(), 5);
        assert_eq!(outcomes[1].as_ref().unwrap(), &[4, 5, 6, 7]);
        assert_eq!(outcomes[4].as_ref().unwrap(), &[16, 17, 18, 19]);
        // The first of a batch's losses, in the order of its slots, whichever was met first.
        for (batch, sample, kind, message) in [
            (0, 3, Kind::NotFound, "cannot open the file: no such file or directory"),
            (2, 8, Kind::Corrupt, "the file is empty"),
            (3, 14, Kind::Corrupt, "the PNM is damaged"),
        ] {
            let error = outcomes[batch].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.sample_id()), (kind, Some(sample)), "{error}");
            assert_eq!(error.path(), Some(pictures.path(sample).as_path()));
            assert!(error.message().starts_with(message), "{error}");
            let text = error.to_string();
            let place = format!("({}, sample {sample}); ", pictures.path(sample).display());
            assert!(text.contains(&place), "{text} says where, and then what to do");
        }
        assert_eq!(job.watch().stats().errors, 4);
    }
}

#[test]
fn skipping_shrinks_the_batch_and_reports_the_loss() {
    let pictures = damaged();
    for workers in [0, 2] {
        let loader = pictures.loader(&plain(), workers, 4);
        let mut job = Job::new(&loader, on_error(OnError::Skip(10)), Some(in_file_order(20, 4))).unwrap();
        let batches = drain(&mut job).unwrap();
        let samples: Vec<_> = batches.iter().map(|batch| batch.samples.clone()).collect();
        let expected = [vec![0, 1, 2], vec![4, 5, 6, 7], vec![10, 11], vec![12, 13, 15], vec![16, 17, 18, 19]];
        assert_eq!(samples, expected);
        // The gap is closed: pictures and labels are those of the samples that are left.
        for batch in &batches {
            assert_eq!(batch.labels.len(), batch.samples.len());
            for (i, sample) in batch.samples.iter().enumerate() {
                assert_eq!(u64::from(batch.pictures[360 * i]), *sample);
                assert_eq!(batch.labels[i], (sample % 2) as i64);
            }
        }
        let mut losses = job.watch().losses();
        losses.sort_by_key(|loss| loss.sample);
        assert_eq!(losses.iter().map(|loss| loss.sample).collect::<Vec<_>>(), [3, 8, 9, 14]);
        for loss in losses {
            assert_eq!(loss.path, pictures.path(loss.sample));
            assert_eq!(loss.replaced_by, None);
            assert!(loss.reason.contains(&format!("sample {}", loss.sample)), "{}", loss.reason);
        }
        assert_eq!((job.watch().stats().samples, job.watch().stats().errors), (16, 4));
    }
}

#[test]
fn a_batch_of_which_nothing_is_left_does_not_come() {
    let pictures = Pictures::new(6);
    pictures.damage(2, b"");
    pictures.damage(3, b"");
    let batches = run(&pictures.loader(&plain(), 1, 2), on_error(OnError::Skip(2)), in_file_order(6, 2)).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.samples.clone()).collect::<Vec<_>>(), [[0, 1], [4, 5]]);
}

#[test]
fn replacing_keeps_batches_full_and_is_the_same_in_every_run() {
    let pictures = damaged();
    let runs: Vec<_> = [0, 1, 2, 8, 2]
        .iter()
        .map(|&workers| {
            let loader = pictures.loader(&plain(), workers, 4);
            let mut job = Job::new(&loader, on_error(OnError::Replace(64)), Some(epoch(20, 4, 0))).unwrap();
            let batches = drain(&mut job).unwrap();
            let mut losses: Vec<_> = job.watch().losses().iter().map(|loss| (loss.sample, loss.replaced_by)).collect();
            losses.sort_unstable();
            (batches, losses)
        })
        .collect();
    assert!(runs.iter().all(|run| *run == runs[0]));
    let (batches, losses) = &runs[0];
    assert!(batches.iter().all(|batch| batch.samples.len() == 4 && batch.pictures.len() == 4 * 360));
    let planned = run(&Pictures::new(20).loader(&plain(), 0, 4), JobSpec::default(), epoch(20, 4, 0)).unwrap();
    for (got, planned) in batches.iter().zip(&planned) {
        for (i, (&now, &then)) in got.samples.iter().zip(&planned.samples).enumerate() {
            assert_eq!(u64::from(got.pictures[360 * i]), now, "the picture is the substitute's");
            assert_eq!(got.labels[i], (now % 2) as i64, "and so is the label");
            assert_eq!(now != then, [3, 8, 9, 14].contains(&then), "only what is lost is replaced");
            assert!(![3, 8, 9, 14].contains(&now));
        }
    }
    assert!(losses.len() >= 4 && losses.iter().all(|(_, substitute)| substitute.is_some()), "{losses:?}");
}

#[test]
fn another_seed_or_epoch_replaces_by_others() {
    let pictures = Pictures::new(400);
    pictures.damage(7, b"");
    let substitute = |seed, epoch_number| {
        let spec = JobSpec { seed, epoch: epoch_number, ..on_error(OnError::Replace(9)) };
        let mut job = Job::new(&pictures.loader(&plain(), 0, 8), spec, Some(in_file_order(8, 8))).unwrap();
        drain(&mut job).unwrap()[0].samples[7]
    };
    let all: std::collections::HashSet<_> = (0..5).flat_map(|i| [substitute(i, 0), substitute(0, i)]).collect();
    assert!(all.len() >= 7, "{all:?}");
}

#[test]
fn losing_more_than_the_budget_is_an_error_that_says_so() {
    let pictures = damaged();
    for (policy, kind) in [(OnError::Skip(3), "skip"), (OnError::Replace(0), "replace"), (OnError::Skip(0), "skip")] {
        let loader = pictures.loader(&plain(), 1, 4);
        let mut job = Job::new(&loader, on_error(policy), Some(in_file_order(20, 4))).unwrap();
        let error = loop {
            match next(&mut job) {
                Ok(batch) => assert!(batch.is_some(), "{kind}: the epoch ended without an error"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), Kind::OverBudget);
        let text = error.to_string();
        assert!(text.contains("could not be prepared, more than on_error allows; the last: "), "{text}");
        assert!(text.ends_with("repair the dataset or raise the budget of on_error"), "{text}");
        let sample = error.sample_id().expect("the last loss is named");
        assert_eq!(error.path(), Some(pictures.path(sample).as_path()));
    }
}

#[test]
fn a_dataset_of_which_nothing_can_be_read_comes_to_an_end() {
    let pictures = Pictures::new(12);
    (0..12).for_each(|sample| pictures.damage(sample, b""));
    for policy in [OnError::Skip(u64::MAX), OnError::Replace(u64::MAX)] {
        for workers in [0, 2] {
            let loader = pictures.loader(&plain(), workers, 4);
            let batches = run(&loader, on_error(policy), in_file_order(12, 4)).unwrap();
            assert!(batches.is_empty());
        }
    }
}

/// Panics where the top left level is as given.
#[derive(Debug)]
struct PanicAt(u8);

impl fmt::Display for PanicAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic_at({})", self.0)
    }
}

impl Operation for PanicAt {
    fn form(&self, _: &mut Form) -> Result<()> {
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        let level = image.rows_mut()?.next().map(|row| row[0][0]);
        assert!(level != Some(self.0), "a defect of this test");
        Ok(())
    }
}

fn panicking() -> Pipeline {
    plain().then(PanicAt(5)).unwrap()
}

#[test]
fn a_panic_of_an_operation_is_an_error_of_its_sample_and_of_no_other() {
    let pictures = Pictures::new(40);
    for workers in [0, 1, 2] {
        let loader = pictures.loader(&panicking(), workers, 4);
        let mut job = Job::new(&loader, JobSpec::default(), Some(in_file_order(40, 4))).unwrap();
        assert_eq!(next(&mut job).unwrap().unwrap().samples(), [0, 1, 2, 3]);
        let error = next(&mut job).unwrap_err();
        assert_eq!((error.kind(), error.sample_id()), (Kind::Internal, Some(5)));
        assert!(error.to_string().starts_with("preparing the sample panicked: a defect of this test"), "{error}");
        let rest: Vec<u64> = drain(&mut job).unwrap().iter().flat_map(|batch| batch.samples.clone()).collect();
        assert!(rest.iter().copied().eq(8..40));
    }
    let skipped = run(&pictures.loader(&panicking(), 2, 4), on_error(OnError::Skip(1)), in_file_order(40, 4)).unwrap();
    assert_eq!(skipped[1].samples, [4, 6, 7]);
}

#[test]
fn a_folder_where_a_file_should_be_is_an_error_of_its_sample() {
    let pictures = Pictures::new(4);
    std::fs::remove_file(pictures.path(2)).unwrap();
    std::fs::create_dir(pictures.path(2)).unwrap();
    let error = run(&pictures.loader(&plain(), 1, 4), JobSpec::default(), in_file_order(4, 4)).unwrap_err();
    assert_eq!(error.sample_id(), Some(2));
    assert!(error.to_string().contains("expected a file, found a folder"), "{error}");
}

#[test]
fn what_was_lost_is_named_where_its_substitutes_are_lost_too() {
    // Everything but sample 0 is gone, so most substitutes are lost as well.
    let pictures = Pictures::new(8);
    (1..8).for_each(|sample| std::fs::remove_file(pictures.path(sample)).unwrap());
    let loader = pictures.loader(&plain(), 2, 4);
    let mut job = Job::new(&loader, on_error(OnError::Replace(u64::MAX)), Some(in_file_order(8, 4))).unwrap();
    let batches = drain(&mut job).unwrap();
    assert!(batches.iter().flat_map(|batch| &batch.samples).all(|&sample| sample == 0));
    for loss in job.watch().losses() {
        assert_eq!(loss.path, pictures.path(loss.sample));
        let named = format!("({}, sample {})", loss.path.display(), loss.sample);
        assert!(loss.reason.contains(&named), "sample {} is said to be lost by {}", loss.sample, loss.reason);
    }
}

#[test]
fn replacing_under_a_tight_budget_for_files_does_not_stall() {
    // Files of 300 KB, half of them damaged, and room for two in flight: a worker that needs a substitute must not
    // wait for room that only workers can make.
    let pictures = Pictures::new(64);
    let mut large = b"P6 320 320 255\n".to_vec();
    large.resize(15 + 320 * 320 * 3, 50);
    let mut damaged = large.clone();
    damaged[1] = b'9';
    for sample in 0..64 {
        pictures.damage(sample, if sample % 2 == 0 { &damaged } else { &large });
    }
    let spec = LoaderSpec { workers: 1, readers: 8, batch_size: 8, ram_budget: 4 * 700_000, ..LoaderSpec::default() };
    let loader = pictures.loader_with(&plain(), spec);
    let batches = run(&loader, on_error(OnError::Replace(u64::MAX)), in_file_order(64, 8)).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.samples.len()).sum::<usize>(), 64);
}
