//! A fork after use: law 7. Alone in its file, because a fork copies one thread of however many there are.

#![allow(clippy::unwrap_used)] // also outside of the functions marked as tests

mod folder;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use folder::{Copy, Pictures, augmented, drain, epoch, next, run};
use forebay_engine::{Batch, Job, JobSpec, Kind, Loader};

/// What a child finds, as an exit status; zero is as it should be.
fn inherit(pictures: &Pictures, expected: &[Copy], loader: Arc<Loader>, mut job: Job, batch: Batch) -> i32 {
    match job.next(Duration::from_secs(1)) {
        Err(error) if error.kind() == Kind::Config && error.to_string().contains("before a fork") => {}
        _ => return 1,
    }
    if !loader.is_foreign() {
        return 2;
    }
    if Copy::from(&batch) != expected[0] {
        return 3;
    }
    // Any of these would wait for ever if it waited for a thread or a lock of the parent.
    drop(batch);
    drop(job);
    drop(loader);
    match run(&pictures.loader(&augmented(), 2, 6), JobSpec::default(), epoch(120, 6, 0)) {
        Ok(batches) if batches == expected => 0,
        Ok(_) => 4,
        Err(_) => 5,
    }
}

#[test]
fn a_forked_child_gets_an_error_lets_go_of_everything_and_can_start_anew() {
    let pictures = Pictures::new(120);
    let expected = run(&pictures.loader(&augmented(), 1, 6), JobSpec::default(), epoch(120, 6, 0)).unwrap();
    for (round, workers) in [0, 1, 2, 8].into_iter().cycle().enumerate().take(24) {
        let loader = pictures.loader(&augmented(), workers, 6);
        // So much under way that threads are at work while the process is copied.
        let spec = JobSpec { lookahead: 8, ..JobSpec::default() };
        let mut job = Job::new(&loader, spec, Some(epoch(120, 6, 0))).unwrap();
        let batch = next(&mut job).unwrap().unwrap();
        // SAFETY: the child runs on this thread alone and leaves by `_exit`, without running what the parent's
        // other threads have registered.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: both calls may be made at any time. A child that hangs is killed by the alarm.
            unsafe {
                libc::alarm(20);
                let inherited = AssertUnwindSafe(|| inherit(&pictures, &expected, loader, job, batch));
                libc::_exit(catch_unwind(inherited).unwrap_or(6));
            }
        }
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "round {round}, {workers} workers: the child hung or died of {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "round {round}, {workers} workers");
        // The parent goes on as if nothing had happened.
        assert!(drain(&mut job).unwrap() == expected[1..], "round {round}");
    }
}
