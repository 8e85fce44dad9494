//! Many short lives: law 7. Alone in its file, because it counts the threads of the process.

#![allow(clippy::unwrap_used)] // also outside of the functions marked as tests

mod folder;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use folder::{Copy, Pictures, augmented, epoch, eventually, next, run};
use forebay_engine::{Job, JobSpec, LoaderSpec, OnError};
use forebay_policy::{Key, Rng};
use forebay_store::arena::Hooks;

static MAPPED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

const HOOKS: Hooks = Hooks {
    mapped: Some(|_, _| {
        MOST.fetch_max(MAPPED.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    }),
    unmapping: Some(|_| {
        MAPPED.fetch_sub(1, Ordering::SeqCst);
    }),
};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// One loader, some jobs on it, broken off anywhere, let go of in any order.
fn live(pictures: &Pictures, expected: &[Vec<Copy>], rng: &mut Rng) {
    let batch_size = 1 + rng.below(expected.len() as u64) as usize;
    let expected = &expected[batch_size - 1];
    let slab = (9 * 7 * 3 * 4 * batch_size).next_multiple_of(64) + 8 * batch_size;
    let limit = 4 + rng.below(6) as usize;
    let spec = LoaderSpec {
        workers: rng.below(4) as usize,
        readers: 1 + rng.below(4) as usize,
        batch_size,
        ram_budget: (slab * limit * 4).div_ceil(3) as u64,
        hooks: HOOKS,
    };
    eventually("the slabs of the last round are unmapped", || MAPPED.load(Ordering::SeqCst) == 0);
    MOST.store(0, Ordering::SeqCst);
    let loader = pictures.loader_with(&augmented(), spec);
    let (mut held, mut jobs) = (Vec::new(), Vec::new());
    for _ in 0..=rng.below(2) {
        let spec = JobSpec {
            lookahead: 1 + rng.below(5) as usize,
            in_order: rng.chance(0.7),
            on_error: if rng.chance(0.5) { OnError::Raise } else { OnError::Skip(3) },
            ..JobSpec::default()
        };
        let mut job = Job::new(&loader, spec, Some(epoch(pictures.count, batch_size as u32, 0))).unwrap();
        // Jobs that live on hold slabs of their own under way: with one job, and few batches held, none starves.
        jobs.clear();
        for i in 0..rng.below(expected.len() as u64 + 2) as usize {
            let Some(batch) = next(&mut job).unwrap() else {
                assert_eq!(i, expected.len());
                break;
            };
            let copy = Copy::from(&batch);
            assert!(if spec.in_order { copy == expected[i] } else { expected.contains(&copy) });
            if held.len() < 2 && rng.chance(0.3) {
                held.push((batch, copy));
            }
        }
        if rng.chance(0.5) {
            let _ = job.next(Duration::ZERO).unwrap();
        }
        if rng.chance(0.3) {
            job.watch().cancel();
        }
        jobs.push(job);
    }
    assert!(MOST.load(Ordering::SeqCst) <= limit, "{} slabs of {limit}", MOST.load(Ordering::SeqCst));
    match rng.below(3) {
        0 => drop((jobs, loader)),
        1 => drop((loader, jobs)),
        // The loader goes last, after what is held.
        _ => drop(jobs),
    }
    // What is held outlives them all, unchanged.
    assert!(held.iter().all(|(batch, copy)| Copy::from(batch) == *copy));
}

#[test]
fn thousands_of_short_jobs_leave_no_thread_and_no_slab_behind() {
    let pictures = Pictures::new(40);
    let expected: Vec<_> = (1..=9)
        .map(|size| {
            run(&pictures.loader(&augmented(), 0, size), JobSpec::default(), epoch(40, size as u32, 0)).unwrap()
        })
        .collect();
    let before = threads();
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 3000 && start.elapsed() < Duration::from_secs(10) {
        live(&pictures, &expected, &mut Key::new(1, 0, rounds).rng(0));
        rounds += 1;
        if rounds % 20 == 0 {
            eventually("threads and slabs are as before", || threads() == before && MAPPED.load(Ordering::SeqCst) == 0);
        }
    }
    eventually("threads and slabs are as before", || threads() == before && MAPPED.load(Ordering::SeqCst) == 0);
    assert!(rounds >= 100, "only {rounds} rounds in ten seconds");
}
