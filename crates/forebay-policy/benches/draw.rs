//! What keyed random numbers cost: a key with its first draw, and long streams.
//!
//! `cargo bench -p forebay-policy --bench draw`

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay_policy::Key;

const DRAWS: u64 = 10_000;

fn draw(criterion: &mut Criterion) {
    criterion.bench_function("key", |bencher| {
        bencher.iter(|| Key::new(black_box(0), black_box(0), black_box(0)).rng(black_box(0)));
    });
    criterion.bench_function("key and first draw", |bencher| {
        bencher.iter(|| Key::new(black_box(0), black_box(0), black_box(0)).rng(0).next_u64());
    });
    let mut group = criterion.benchmark_group("stream");
    group.throughput(Throughput::Elements(DRAWS));
    group.bench_function("next_u64", |bencher| {
        let mut rng = Key::new(0, 0, 0).rng(0);
        bencher.iter(|| (0..DRAWS).fold(0, |sum: u64, _| sum.wrapping_add(rng.next_u64())));
    });
    group.bench_function("normal", |bencher| {
        let mut rng = Key::new(0, 0, 0).rng(0);
        bencher.iter(|| (0..DRAWS).map(|_| rng.normal()).sum::<f32>());
    });
    group.finish();
}

criterion_group!(benches, draw);
criterion_main!(benches);
