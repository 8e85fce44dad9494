//! The walk of a sample, from files to batches: laws 1 to 4.

#![allow(clippy::unwrap_used)] // also outside of the functions marked as tests

mod folder;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use folder::{Copy, Pictures, augmented, drain, epoch, eventually, next, plain, run};
use forebay_engine::prepare::{CenterCrop, Decode, Form, Image, Operation, Pipeline};
use forebay_engine::{Job, JobSpec, Kind, Loader, LoaderSpec, Next, OnError, Result, Watch};
use forebay_policy::{BatchSpec, Batches, Key, Order, Rng, Shard};
use forebay_store::arena::Hooks;
use forebay_store::format::Folder;

#[test]
fn a_batch_holds_the_pictures_and_labels_of_its_samples() {
    let pictures = Pictures::new(300);
    let batches = run(&pictures.loader(&plain(), 2, 7), JobSpec::default(), epoch(300, 7, 0)).unwrap();
    let mut planned = Vec::new();
    for (batch, plan) in batches.iter().zip(&epoch(300, 7, 0)) {
        plan.fill(&mut planned);
        assert_eq!(batch.samples, planned);
        for (i, &sample) in batch.samples.iter().enumerate() {
            let picture = &batch.pictures[i * 360..][..360];
            assert_eq!((u64::from(picture[0]), u64::from(picture[120])), (sample & 255, sample >> 8));
            assert_eq!(batch.labels[i], (sample % 2) as i64);
        }
    }
    assert_eq!(batches.len(), 43);
    assert_eq!(batches.last().unwrap().samples.len(), 300 - 42 * 7);
}

#[test]
fn batches_are_the_same_to_the_bit_for_any_number_of_workers_and_every_time() {
    let pictures = Pictures::new(101);
    let spec = JobSpec { seed: 3, epoch: 4, ..JobSpec::default() };
    let expected = run(&pictures.loader(&augmented(), 0, 8), spec, epoch(101, 8, 0)).unwrap();
    for workers in [0, 1, 2, 8] {
        for _ in 0..3 {
            let loader = pictures.loader(&augmented(), workers, 8);
            for lookahead in [1, 5] {
                let got = run(&loader, JobSpec { lookahead, ..spec }, epoch(101, 8, 0)).unwrap();
                assert!(got == expected, "{workers} workers, lookahead {lookahead}");
            }
        }
    }
    let other = run(&pictures.loader(&augmented(), 2, 8), JobSpec { epoch: 5, ..spec }, epoch(101, 8, 0)).unwrap();
    assert!(other != expected, "another epoch is augmented otherwise");
}

#[test]
fn in_any_order_the_same_batches_come_each_once() {
    let pictures = Pictures::new(200);
    let mut expected = run(&pictures.loader(&augmented(), 2, 6), JobSpec::default(), epoch(200, 6, 0)).unwrap();
    let any_order = JobSpec { in_order: false, lookahead: 6, ..JobSpec::default() };
    let mut got = run(&pictures.loader(&augmented(), 8, 6), any_order, epoch(200, 6, 0)).unwrap();
    let mut samples: Vec<_> = got.iter().flat_map(|batch| batch.samples.clone()).collect();
    samples.sort_unstable();
    assert!(samples.iter().copied().eq(0..200), "each sample once");
    expected.sort();
    got.sort();
    assert!(got == expected);
}

/// Holds picture 0 back until four others are done.
#[derive(Debug, Default)]
struct FirstIsLate(AtomicUsize);

impl fmt::Display for FirstIsLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("first_is_late()")
    }
}

impl Operation for FirstIsLate {
    fn form(&self, _: &mut Form) -> Result<()> {
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        match image.rows_mut()?.next().map(|row| row[0][0]) {
            Some(0) => eventually("four others are done", || self.0.load(Ordering::SeqCst) == 4),
            Some(1) => {}
            _ => _ = self.0.fetch_add(1, Ordering::SeqCst),
        }
        Ok(())
    }
}

#[test]
fn a_slow_batch_holds_back_those_behind_it_only_where_order_is_asked_for() {
    let pictures = Pictures::new(6);
    for (in_order, expected) in [(true, [[0, 1], [2, 3], [4, 5]]), (false, [[2, 3], [4, 5], [0, 1]])] {
        let loader = pictures.loader(&plain().then(FirstIsLate::default()).unwrap(), 2, 2);
        let spec = JobSpec { in_order, lookahead: 3, ..JobSpec::default() };
        let (order, shard) = (Order::sequential(6), Shard::alone());
        let batches = Batches::new(BatchSpec { order, batch_size: 2, shard, drop_last: false, start: 0 }).unwrap();
        let mut got: Vec<_> = run(&loader, spec, batches).unwrap().into_iter().map(|batch| batch.samples).collect();
        if !in_order {
            // The two that do not wait may overtake each other.
            got[..2].sort();
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn two_jobs_of_one_loader_do_not_disturb_each_other() {
    let pictures = Pictures::new(90);
    let loader = pictures.loader(&augmented(), 2, 4);
    let expected = run(&loader, JobSpec::default(), epoch(90, 4, 0)).unwrap();
    let mut jobs = [(); 3].map(|()| Job::new(&loader, JobSpec::default(), Some(epoch(90, 4, 0))).unwrap());
    for batch in &expected {
        for job in &mut jobs {
            assert_eq!(&Copy::from(&next(job).unwrap().unwrap()), batch);
        }
    }
}

#[test]
fn resuming_where_a_batch_ended_gives_the_rest_of_the_epoch() {
    let pictures = Pictures::new(103);
    let loader = pictures.loader(&augmented(), 2, 6);
    let whole = run(&loader, JobSpec::default(), epoch(103, 6, 0)).unwrap();
    for done in [0, 1, 9, 17, 18] {
        let start = if done == 0 { 0 } else { whole[done - 1].end };
        let rest = run(&loader, JobSpec::default(), epoch(103, 6, start)).unwrap();
        assert!(rest == whole[done..], "after {done} batches");
    }
    assert_eq!(whole.last().unwrap().end, 103);
}

#[test]
fn ranks_together_receive_each_sample_once_and_augment_it_as_one_rank_would() {
    let pictures = Pictures::new(96);
    let loader = pictures.loader(&augmented(), 2, 12);
    let alone = run(&loader, JobSpec::default(), epoch(96, 12, 0)).unwrap();
    let ranks: Vec<_> = (0..3)
        .map(|rank| {
            let (order, shard) = (Order::shuffled(96, 5, 1), Shard::new(rank, 3).unwrap());
            let batches = Batches::new(BatchSpec { order, batch_size: 4, shard, drop_last: false, start: 0 }).unwrap();
            run(&loader, JobSpec::default(), batches).unwrap()
        })
        .collect();
    for (step, whole) in alone.iter().enumerate() {
        let together: Vec<u8> = ranks.iter().flat_map(|batches| batches[step].pictures.clone()).collect();
        assert!(together == whole.pictures, "step {step}");
        assert!(ranks.iter().all(|batches| batches[step].end == whole.end));
    }
}

#[test]
fn an_empty_plan_ends_at_once() {
    let pictures = Pictures::new(3);
    let order = Order::shuffled(3, 0, 0);
    let spec = BatchSpec { order, batch_size: 4, shard: Shard::alone(), drop_last: true, start: 0 };
    let batches = run(&pictures.loader(&plain(), 1, 4), JobSpec::default(), Batches::new(spec).unwrap()).unwrap();
    assert!(batches.is_empty());
}

#[test]
fn the_end_stays_the_end() {
    let pictures = Pictures::new(5);
    let mut job = Job::new(&pictures.loader(&plain(), 1, 5), JobSpec::default(), Some(epoch(5, 5, 0))).unwrap();
    assert!(next(&mut job).unwrap().is_some());
    for _ in 0..3 {
        assert!(matches!(job.next(Duration::ZERO).unwrap(), Next::End));
    }
}

/// Slabs mapped and not yet unmapped, and the most there ever were. A hook is a plain function, so each test
/// that counts needs counters of its own.
macro_rules! counting_hooks {
    ($mapped:ident, $most:ident) => {{
        static $mapped: AtomicUsize = AtomicUsize::new(0);
        static $most: AtomicUsize = AtomicUsize::new(0);
        let hooks = Hooks {
            mapped: Some(|_, _| {
                let now = $mapped.fetch_add(1, Ordering::SeqCst) + 1;
                $most.fetch_max(now, Ordering::SeqCst);
            }),
            unmapping: Some(|_| {
                $mapped.fetch_sub(1, Ordering::SeqCst);
            }),
        };
        (hooks, &$mapped, &$most)
    }};
}

#[test]
fn no_more_slabs_are_mapped_than_are_held_and_looked_ahead_to() {
    let (hooks, mapped, most) = counting_hooks!(MAPPED, MOST);
    let pictures = Pictures::new(400);
    let spec = LoaderSpec { workers: 4, readers: 1, batch_size: 4, hooks, ..LoaderSpec::default() };
    let loader = pictures.loader_with(&plain(), spec);
    let job_spec = JobSpec { lookahead: 3, ..JobSpec::default() };
    let mut job = Job::new(&loader, job_spec, Some(epoch(400, 4, 0))).unwrap();
    let mut held = std::collections::VecDeque::new();
    while let Some(batch) = next(&mut job).unwrap() {
        held.push_back(batch);
        if held.len() == 3 {
            held.pop_front();
        }
    }
    // Two are kept and a third is in hand when the next three are started. Beyond that a slab may be on its way
    // back: the one reader lets go of a batch when it turns to the next.
    assert!((5..=7).contains(&most.load(Ordering::SeqCst)), "{}", most.load(Ordering::SeqCst));
    drop((held, job, loader));
    eventually("every slab is unmapped once nobody holds one", || mapped.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_slab_returns_with_the_last_handle_over_it() {
    let pictures = Pictures::new(60);
    // Room for two slabs: a walk of 60 batches needs every one of them back.
    let spec =
        LoaderSpec { workers: 2, readers: 1, batch_size: 1, ram_budget: 2 * 392 * 4 / 3 + 8, ..LoaderSpec::default() };
    let loader = pictures.loader_with(&plain(), spec);
    let mut job = Job::new(&loader, JobSpec::default(), Some(epoch(60, 1, 0))).unwrap();
    let mut count = 0;
    while let Some(batch) = next(&mut job).unwrap() {
        let second_handle = batch.clone();
        drop(batch);
        assert_eq!(second_handle.len(), 1);
        count += 1;
    }
    assert_eq!(count, 60);
}

#[test]
fn a_batch_outlives_its_job_and_its_loader() {
    let pictures = Pictures::new(20);
    let loader = pictures.loader(&plain(), 2, 5);
    let mut job = Job::new(&loader, JobSpec::default(), Some(epoch(20, 5, 0))).unwrap();
    let batch = next(&mut job).unwrap().unwrap();
    let before = Copy::from(&batch);
    drop((job, loader));
    let again = pictures.loader(&plain(), 2, 5);
    run(&again, JobSpec::default(), epoch(20, 5, 0)).unwrap();
    assert_eq!(Copy::from(&batch), before);
}

#[test]
fn a_program_that_keeps_every_batch_is_told_so_and_goes_on_once_it_lets_go() {
    let pictures = Pictures::new(60);
    let spec = LoaderSpec { workers: 2, readers: 1, batch_size: 10, ram_budget: 20_000, ..LoaderSpec::default() };
    let mut job = Job::new(&pictures.loader_with(&plain(), spec), JobSpec::default(), Some(epoch(60, 10, 0))).unwrap();
    let mut held = Vec::new();
    let error = loop {
        match next(&mut job) {
            Ok(batch) => held.push(batch.expect("the budget does not hold the epoch")),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::OverBudget);
    assert_eq!(
        error.to_string(),
        format!(
            "the program holds on to all {} batches of 0 MB that ram_budget allows; \
             let go of earlier batches or copy them, or raise ram_budget",
            held.len()
        )
    );
    let mut samples: Vec<u64> = held.iter().flat_map(|batch| batch.samples().to_vec()).collect();
    held.clear();
    samples.extend(drain(&mut job).unwrap().iter().flat_map(|batch| batch.samples.clone()));
    assert_eq!(samples.len(), 60);
    assert_eq!(samples.into_iter().collect::<HashSet<_>>().len(), 60, "nothing is lost or comes twice");
}

#[test]
fn a_budget_without_room_for_two_batches_is_refused() {
    let pictures = Pictures::new(4);
    let spec = LoaderSpec { batch_size: 4, ram_budget: 3000, ..LoaderSpec::default() };
    let error = Loader::new(pictures.folder(), plain(), spec).unwrap_err();
    assert_eq!(error.kind(), Kind::OverBudget);
    assert!(error.to_string().contains("must hold two batches"), "{error}");
}

#[test]
fn pictures_of_many_sizes_are_refused_with_the_remedy() {
    let pictures = Pictures::new(4);
    let decode = Pipeline::new(Decode::default());
    let error = Loader::new(pictures.folder(), decode, LoaderSpec::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.to_string().contains("end the pipeline with resize((height, width))"), "{error}");
}

#[test]
fn a_job_dropped_midway_leaves_the_pool_working_and_its_slabs_behind() {
    let (hooks, mapped, _) = counting_hooks!(MAPPED, MOST);
    let pictures = Pictures::new(200);
    // Eight slabs in all: were the slabs of dropped jobs lost, the third job could not start.
    let spec = LoaderSpec { workers: 2, readers: 2, batch_size: 5, ram_budget: 8 * 1864 * 4 / 3 + 8, hooks };
    let loader = pictures.loader_with(&plain(), spec);
    let expected = run(&loader, JobSpec::default(), epoch(200, 5, 0)).unwrap();
    for taken in [0, 1, 2, 5, 0, 3] {
        let spec = JobSpec { lookahead: 6, ..JobSpec::default() };
        let mut job = Job::new(&loader, spec, Some(epoch(200, 5, 0))).unwrap();
        for batch in &expected[..taken] {
            assert_eq!(&Copy::from(&next(&mut job).unwrap().unwrap()), batch);
        }
        // Starts batches even where none is taken.
        let _ = job.next(Duration::ZERO).unwrap();
    }
    assert!(run(&loader, JobSpec::default(), epoch(200, 5, 0)).unwrap() == expected);
    drop(loader);
    eventually("every slab is unmapped", || mapped.load(Ordering::SeqCst) == 0);
}

#[test]
fn cancelling_from_another_thread_ends_the_walk() {
    let pictures = Pictures::new(500);
    for workers in [0, 2] {
        let loader = pictures.loader(&plain(), workers, 2);
        let mut job = Job::new(&loader, JobSpec::default(), Some(epoch(500, 2, 0))).unwrap();
        let (watch, count) = (job.watch(), Mutex::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                eventually("ten batches have come", || *count.lock().unwrap() >= 10);
                watch.cancel();
            });
            while next(&mut job).unwrap().is_some() {
                let mut count = count.lock().unwrap();
                *count += 1;
                assert!(*count < 250, "the walk went on to its end");
                // Holds the walk at ten until the other thread has seen them.
                if *count == 10 {
                    drop(count);
                    eventually("the walk is cancelled", || matches!(job.next(Duration::ZERO), Ok(Next::End)));
                    break;
                }
            }
        });
        assert!(matches!(job.next(Duration::ZERO).unwrap(), Next::End));
    }
}

/// Holds every sample back until the job is cancelled.
#[derive(Debug)]
struct HeldBack(Arc<Mutex<Option<Watch>>>);

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held_back()")
    }
}

impl Operation for HeldBack {
    fn form(&self, _: &mut Form) -> Result<()> {
        Ok(())
    }

    fn apply(&self, _: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        eventually("the job is there to be cancelled", || self.0.lock().unwrap().is_some());
        self.0.lock().unwrap().as_ref().unwrap().cancel();
        Ok(())
    }
}

#[test]
fn a_batch_that_was_given_up_half_way_is_not_handed_out() {
    let pictures = Pictures::new(8);
    let gate = Arc::default();
    let loader = pictures.loader(&plain().then(HeldBack(Arc::clone(&gate))).unwrap(), 1, 8);
    let mut job = Job::new(&loader, JobSpec::default(), Some(epoch(8, 8, 0))).unwrap();
    *gate.lock().unwrap() = Some(job.watch());
    // The first sample cancels the job; the other seven are then passed over, and their slots hold anything.
    assert!(next(&mut job).unwrap().is_none());
}

#[test]
fn jobs_of_many_threads_on_one_loader_each_get_their_own_batches() {
    let pictures = Pictures::new(60);
    let loader = pictures.loader(&augmented(), 2, 7);
    let specs = [0, 1, 2].map(|epoch_number| JobSpec { epoch: epoch_number, ..JobSpec::default() });
    let expected = specs.map(|spec| run(&loader, spec, epoch(60, 7, 0)).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (loader, expected) = (&loader, &expected);
            scope.spawn(move || {
                let mut rng = Key::new(2, 0, thread).rng(0);
                for _ in 0..25 {
                    let which = rng.below(3) as usize;
                    let spec = JobSpec { lookahead: 1 + rng.below(4) as usize, ..specs[which] };
                    let mut job = Job::new(loader, spec, Some(epoch(60, 7, 0))).unwrap();
                    // Breaks off anywhere, or goes on to the end.
                    for batch in expected[which].iter().take(rng.below(12) as usize) {
                        assert_eq!(&Copy::from(&next(&mut job).unwrap().unwrap()), batch);
                    }
                }
            });
        }
    });
}

// Fed jobs

/// Feeds lists of samples to a job and copies the batches that come.
fn feed(job: &mut Job, lists: &[Vec<u64>]) -> Vec<Copy> {
    let mut lists = lists.iter().cloned().chain(std::iter::once(Vec::new()));
    let mut batches = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "{} batches came within 30 s", batches.len());
        while job.wants_feeding() {
            job.feed(lists.next().expect("a job that was told the end is fed no more")).unwrap();
        }
        match job.next(Duration::from_millis(50)).unwrap() {
            Next::Batch(batch) => batches.push(Copy::from(&batch)),
            Next::Waiting => {}
            Next::End => return batches,
        }
    }
}

#[test]
fn a_fed_job_gives_the_batches_it_is_fed() {
    let pictures = Pictures::new(30);
    let lists = vec![vec![3, 4, 5], vec![29], vec![0, 0, 0, 0], vec![7, 8]];
    for workers in [0, 1, 2] {
        let mut job = Job::new(&pictures.loader(&plain(), workers, 4), JobSpec::default(), None).unwrap();
        let batches = feed(&mut job, &lists);
        assert_eq!(batches.iter().map(|batch| batch.samples.clone()).collect::<Vec<_>>(), lists);
        assert_eq!(batches.iter().map(|batch| batch.end).collect::<Vec<_>>(), [3, 4, 8, 10]);
        for batch in &batches {
            for (i, sample) in batch.samples.iter().enumerate() {
                assert_eq!(u64::from(batch.pictures[360 * i]), *sample);
            }
        }
    }
}

#[test]
fn a_sample_fed_twice_is_augmented_anew_and_the_same_in_every_run() {
    let pictures = Pictures::new(30);
    let lists = vec![vec![5, 5, 5], vec![5, 6]];
    let runs = [0, 1, 2].map(|workers| {
        let mut job = Job::new(&pictures.loader(&augmented(), workers, 4), JobSpec::default(), None).unwrap();
        feed(&mut job, &lists)
    });
    assert!(runs.iter().all(|run| *run == runs[0]));
    let size = 9 * 7 * 3 * 4;
    let pictures: Vec<_> = runs[0].iter().flat_map(|batch| batch.pictures.chunks_exact(size)).collect();
    assert_eq!(pictures.len(), 5);
    assert_eq!(pictures.iter().collect::<HashSet<_>>().len(), 5);
}

#[test]
fn a_fed_batch_may_be_larger_than_the_loader_expected() {
    let pictures = Pictures::new(300);
    let lists = vec![vec![1, 2], (0..299).collect(), vec![4], (5..90).collect()];
    for workers in [0, 2] {
        let loader = pictures.loader(&plain(), workers, 2);
        let batches = feed(&mut Job::new(&loader, JobSpec::default(), None).unwrap(), &lists);
        assert_eq!(batches.iter().map(|batch| batch.samples.clone()).collect::<Vec<_>>(), lists);
        assert!(batches[1].labels.iter().copied().eq((0..299).map(|sample| sample % 2)));
    }
}

#[test]
fn a_fed_batch_of_tiny_pictures_may_be_larger_than_the_loader_expected() {
    let pictures = Pictures::new(40);
    let tiny = Pipeline::new(Decode::default()).then(CenterCrop { size: (2, 2) }).unwrap();
    for batch_size in 1..8 {
        let loader = pictures.loader(&tiny, 1, batch_size);
        let lists: Vec<Vec<u64>> = (1..12).map(|len| (0..len).collect()).collect();
        let batches = feed(&mut Job::new(&loader, JobSpec::default(), None).unwrap(), &lists);
        assert_eq!(batches.iter().map(|batch| batch.samples.clone()).collect::<Vec<_>>(), lists);
    }
}

#[test]
fn files_that_turn_out_shorter_than_they_said_leave_room_for_the_next() {
    // The system's own files say 4096 and have a few.
    let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    let Ok(stat) = path.metadata() else { return };
    assert!(stat.len() > std::fs::read(path).unwrap().len() as u64);
    let folder = Folder::from_listing("", vec!["only".into()], (0..40).map(|_| (path, 0)));
    let spec = LoaderSpec { workers: 1, readers: 1, batch_size: 4, ram_budget: 40_000, ..LoaderSpec::default() };
    let loader = Arc::new(Loader::new(Arc::new(folder), plain(), spec).unwrap());
    let spec = JobSpec { on_error: OnError::Skip(40), ..JobSpec::default() };
    let mut job = Job::new(&loader, spec, Some(epoch(40, 4, 0))).unwrap();
    assert!(drain(&mut job).unwrap().is_empty());
    assert_eq!(job.watch().losses().len(), 40);
}

#[test]
fn a_sample_beyond_the_dataset_is_refused_and_the_job_goes_on() {
    let pictures = Pictures::new(5);
    let mut job = Job::new(&pictures.loader(&plain(), 1, 2), JobSpec::default(), None).unwrap();
    let error = job.feed(vec![1, 5]).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert_eq!(error.to_string(), "the sampler asked for sample 5 of a dataset of 5");
    assert_eq!(feed(&mut job, &[vec![4]])[0].samples, [4]);
}

#[test]
fn a_fed_job_that_is_fed_nothing_waits_without_an_error() {
    let pictures = Pictures::new(5);
    let mut job = Job::new(&pictures.loader(&plain(), 1, 2), JobSpec::default(), None).unwrap();
    assert!(job.wants_feeding());
    assert!(matches!(job.next(Duration::ZERO).unwrap(), Next::Waiting));
    assert_eq!(feed(&mut job, &[vec![2]]).len(), 1);
    assert!(!job.wants_feeding());
}

#[test]
fn stats_count_what_was_delivered() {
    let pictures = Pictures::new(50);
    let loader = pictures.loader(&plain(), 2, 8);
    let mut job = Job::new(&loader, JobSpec::default(), Some(epoch(50, 8, 0))).unwrap();
    let watch = Arc::new(job.watch());
    drain(&mut job).unwrap();
    let stats = watch.stats();
    assert_eq!((stats.samples, stats.batches, stats.errors), (50, 7, 0));
    assert_eq!(stats.bytes, 50 * folder::ppm(0).len() as u64);
    assert!(stats.fetching > Duration::ZERO && stats.preparing > Duration::ZERO);
}
