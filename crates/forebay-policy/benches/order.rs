//! What one evaluation of an order costs, either way, at the size of ImageNet and at ten billion samples.
//!
//! *Chained* feeds each answer into the next question, so that it measures latency; *swept* asks for consecutive
//! numbers, as the planner does, so that the processor overlaps evaluations.
//!
//! `cargo bench -p forebay-policy --bench order`

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_policy::Order;

const EVALUATIONS: u64 = 10_000;

fn at(criterion: &mut Criterion) {
    direction(criterion, "at", |order, position| order.at(position));
}

fn position(criterion: &mut Criterion) {
    direction(criterion, "position", |order, sample| order.position(sample));
}

fn direction(criterion: &mut Criterion, name: &str, evaluate: impl Fn(&Order, u64) -> u64) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(EVALUATIONS));
    for n in [1_280_000, 10_000_000_000] {
        let order = Order::shuffled(n, 0, 0);
        group.bench_with_input(BenchmarkId::new("chained", n), &order, |bencher, order| {
            bencher.iter(|| (0..EVALUATIONS).fold(black_box(0), |value, _| evaluate(order, value)));
        });
        group.bench_with_input(BenchmarkId::new("swept", n), &order, |bencher, order| {
            let first = black_box(n / 2);
            let numbers = first..first + EVALUATIONS;
            bencher.iter(|| numbers.clone().fold(0, |sum: u64, i| sum.wrapping_add(evaluate(order, i))));
        });
    }
    group.finish();
}

fn construct(criterion: &mut Criterion) {
    criterion.bench_function("shuffled", |bencher| {
        let mut epoch = 0;
        bencher.iter(|| {
            epoch += 1;
            Order::shuffled(black_box(1_280_000), 0, epoch)
        });
    });
}

criterion_group!(benches, at, position, construct);
criterion_main!(benches);
