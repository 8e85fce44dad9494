//! The batches of one epoch, for one rank.
//!
//! The epoch is cut into global batches of `batch_size × world` consecutive positions, and rank `r` takes the `r`-th
//! contiguous part of each. The ranks together therefore hold the same global batch whatever their number is, and a
//! position saved under one world size can be resumed under another that has the same global batch.
//!
//! **Invariant:** every rank has the same number of batches, and its `k`-th batch has as many samples as that of any
//! other rank. Collective operations deadlock otherwise.
//!
//! At the end of the epoch fewer than a global batch of positions may be left. They are dropped, or else padded to a
//! multiple of the world size by beginning again at position 0, as `torch.utils.data.DistributedSampler` does, and
//! dealt out in contiguous parts. With one rank there is nothing to pad: its last batch is shorter.
//!
//! Cost: a plan is a few numbers. Any batch is found in constant time, and its samples at the cost of the order.

use std::ops::Range;

use crate::{Error, Order, Shard};

/// What to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSpec {
    /// The order of the epoch, the same on every rank.
    pub order: Order,
    /// Samples in a batch of one rank.
    pub batch_size: u32,
    /// Which part of each global batch is ours.
    pub shard: Shard,
    /// Whether the positions that do not fill a global batch are left out.
    pub drop_last: bool,
    /// The global position to start from: 0, or what [`Batches::consumed`] gave when the state was saved.
    pub start: u64,
}

/// The batches that one rank has still to receive in an epoch.
///
/// ```
/// use forebay_policy::{BatchSpec, Batches, Order, Shard};
///
/// let spec = BatchSpec { order: Order::sequential(10), batch_size: 4, shard: Shard::alone(), drop_last: false, start: 0 };
/// let batches = Batches::new(spec)?;
/// assert_eq!(batches.len(), 3);
/// let last = batches.batch(2).expect("there are three batches");
/// assert!(last.samples().eq([8, 9]));
/// # Ok::<(), forebay_policy::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches {
    spec: BatchSpec,
    /// Global batches that are whole.
    whole: u64,
    /// Positions that are left after them and not dropped.
    tail: u64,
}

impl Batches {
    /// Plans the batches from `start` to the end of the epoch.
    ///
    /// # Errors
    ///
    /// `Config` if the batch size is zero, or `start` lies beyond the end of the order.
    pub fn new(spec: BatchSpec) -> Result<Self, Error> {
        if spec.batch_size == 0 {
            return Err(Error::config("batch size is 0: a batch holds at least one sample"));
        }
        let samples = spec.order.len();
        let Some(left) = samples.checked_sub(spec.start) else {
            return Err(Error::config(format!(
                "start position {} lies beyond the {samples} samples of the epoch: \
                 was the state saved with another dataset?",
                spec.start
            )));
        };
        let global = global_batch_size(&spec);
        let tail = if spec.drop_last { 0 } else { left % global };
        Ok(Self { whole: left / global, tail, spec })
    }

    /// How many batches remain from the start. Equal on all ranks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.whole + u64::from(self.tail > 0)
    }

    /// Whether none remain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was planned.
    #[must_use]
    pub fn spec(&self) -> &BatchSpec {
        &self.spec
    }

    /// Positions that all ranks together consume with one whole batch each.
    #[must_use]
    pub fn global_batch_size(&self) -> u64 {
        global_batch_size(&self.spec)
    }

    /// Our part of the `index`-th remaining batch, or none past the last.
    #[must_use]
    pub fn batch(&self, index: u64) -> Option<Batch<'_>> {
        let size = if index < self.whole {
            u64::from(self.spec.batch_size)
        } else if index < self.len() {
            self.tail.div_ceil(u64::from(self.spec.shard.world()))
        } else {
            return None;
        };
        let first = self.consumed(index) + u64::from(self.spec.shard.rank()) * size;
        Some(Batch { index, position: first % self.spec.order.len(), size, order: &self.spec.order })
    }

    /// The remaining batches in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { batches: self, remaining: 0..self.len() }
    }

    /// The global position reached once `batches` of the remaining batches are consumed: where to start again.
    ///
    /// Padding is not counted, so this never exceeds the length of the order. More batches than remain count as all.
    #[must_use]
    pub fn consumed(&self, batches: u64) -> u64 {
        if batches <= self.whole {
            self.spec.start + batches * self.global_batch_size()
        } else {
            self.spec.start + self.whole * self.global_batch_size() + self.tail
        }
    }
}

impl<'plan> IntoIterator for &'plan Batches {
    type Item = Batch<'plan>;
    type IntoIter = Iter<'plan>;

    fn into_iter(self) -> Iter<'plan> {
        self.iter()
    }
}

/// The remaining batches of a plan, in order.
#[derive(Debug, Clone)]
pub struct Iter<'plan> {
    batches: &'plan Batches,
    remaining: Range<u64>,
}

impl<'plan> Iterator for Iter<'plan> {
    type Item = Batch<'plan>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.batch(self.remaining.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.remaining.size_hint()
    }

    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        self.batches.batch(self.remaining.nth(skipped)?)
    }
}

/// One rank's part of one global batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'plan> {
    /// Which of the remaining batches this is, from zero at the start of the plan.
    pub index: u64,
    /// The global position of its first sample.
    pub position: u64,
    size: u64,
    order: &'plan Order,
}

impl<'plan> Batch<'plan> {
    /// How many samples it holds; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.size as usize
    }

    /// The global positions of its samples, in the order of its slots.
    ///
    /// They are consecutive, but for padding, which begins again at 0.
    pub fn positions(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let (mut next, end) = (self.position, self.order.len());
        (0..self.size as u32).map(move |_| {
            let position = next;
            next = if next + 1 == end { 0 } else { next + 1 };
            position
        })
    }

    /// Its samples, in the order of its slots.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = u64> + use<'plan> {
        let order = self.order;
        self.positions().map(|position| order.at(position))
    }

    /// Replaces the contents of `samples` by those of this batch, without allocating where it has room.
    pub fn fill(&self, samples: &mut Vec<u64>) {
        samples.clear();
        samples.extend(self.samples());
    }
}

fn global_batch_size(spec: &BatchSpec) -> u64 {
    u64::from(spec.batch_size) * u64::from(spec.shard.world())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use proptest::prelude::*;

    fn plan(order: &Order, batch_size: u32, (rank, world): (u32, u32), drop_last: bool, start: u64) -> Batches {
        Batches::new(BatchSpec {
            order: order.clone(),
            batch_size,
            shard: Shard::new(rank, world).expect("the rank is below the world"),
            drop_last,
            start,
        })
        .expect("the tested plans are valid")
    }

    fn samples(batches: &Batches) -> Vec<Vec<u64>> {
        batches.iter().map(|batch| batch.samples().collect()).collect()
    }

    /// Each global batch, as the ranks hold it one after another.
    fn global(order: &Order, batch_size: u32, world: u32, drop_last: bool, start: u64) -> Vec<Vec<u64>> {
        let ranks: Vec<_> =
            (0..world).map(|rank| samples(&plan(order, batch_size, (rank, world), drop_last, start))).collect();
        (0..ranks[0].len()).map(|k| ranks.iter().flat_map(|rank| rank[k].clone()).collect()).collect()
    }

    /// The definition, with everything written out: a list of the epoch, cut and padded.
    fn reference(
        order: &Order,
        batch_size: u32,
        (rank, world): (u32, u32),
        drop_last: bool,
        start: u64,
    ) -> Vec<Vec<u64>> {
        let epoch: Vec<u64> = (0..order.len()).map(|position| order.at(position)).collect();
        let mut batches = Vec::new();
        for chunk in epoch[start as usize..].chunks((batch_size * world) as usize) {
            let mut chunk = chunk.to_vec();
            if chunk.len() < (batch_size * world) as usize {
                if drop_last {
                    break;
                }
                let mut again = epoch.iter().cycle();
                while chunk.len() % world as usize != 0 {
                    chunk.extend(again.next());
                }
            }
            let part = chunk.len() / world as usize;
            batches.push(chunk[rank as usize * part..][..part].to_vec());
        }
        batches
    }

    #[test]
    fn a_batch_of_nothing_is_a_config_error() {
        let spec =
            BatchSpec { order: Order::sequential(4), batch_size: 0, shard: Shard::alone(), drop_last: false, start: 0 };
        assert_eq!(Batches::new(spec).expect_err("the batch size is zero").kind(), ErrorKind::Config);
    }

    #[test]
    fn a_start_beyond_the_end_is_a_config_error_and_the_end_itself_is_an_empty_plan() {
        let spec = |start| BatchSpec {
            order: Order::sequential(4),
            batch_size: 1,
            shard: Shard::alone(),
            drop_last: false,
            start,
        };
        assert_eq!(Batches::new(spec(5)).expect_err("5 is beyond 4").kind(), ErrorKind::Config);
        let done = Batches::new(spec(4)).expect("4 is the end");
        assert!(done.is_empty() && done.batch(0).is_none() && done.consumed(1) == 4);
    }

    #[test]
    fn no_samples_make_no_batches() {
        let batches = plan(&Order::shuffled(0, 0, 0), 4, (0, 2), false, 0);
        assert_eq!((batches.len(), batches.iter().count(), batches.consumed(3)), (0, 0, 0));
    }

    #[test]
    fn more_ranks_than_samples_go_round_again_and_again() {
        let order = Order::sequential(3);
        let held: Vec<_> = (0..8).flat_map(|rank| samples(&plan(&order, 4, (rank, 8), false, 0)).concat()).collect();
        assert_eq!(held, [0, 1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_padded_tail_is_dealt_out_in_contiguous_parts() {
        let order = Order::sequential(13);
        let held = |rank| samples(&plan(&order, 2, (rank, 4), false, 0));
        assert_eq!(held(0), [vec![0, 1], vec![8, 9]]);
        assert_eq!(held(1), [vec![2, 3], vec![10, 11]]);
        assert_eq!(held(2), [vec![4, 5], vec![12, 0]]);
        assert_eq!(held(3), [vec![6, 7], vec![1, 2]]);
    }

    #[test]
    fn the_largest_plans_do_not_overflow() {
        let order = Order::sequential(1 << 63);
        let world = u32::MAX;
        let batches = plan(&order, u32::MAX, (world - 1, world), false, (1 << 63) - 1);
        assert_eq!((batches.len(), batches.consumed(u64::MAX)), (1, 1 << 63));
        let last = batches.batch(0).expect("one position is left");
        assert_eq!(last.samples().collect::<Vec<_>>(), [u64::from(world) - 2]);
    }

    #[test]
    fn filling_reuses_the_room_there_is() {
        let batches = plan(&Order::shuffled(100, 0, 0), 10, (1, 2), true, 0);
        let mut room = Vec::with_capacity(10);
        let place = room.as_ptr();
        for batch in &batches {
            batch.fill(&mut room);
            assert!(room.iter().copied().eq(batch.samples()));
            assert_eq!((room.as_ptr(), room.len()), (place, batch.len()));
        }
    }

    prop_compose! {
        fn epochs()(n in 1_u64..200, seed: u64, shuffle: bool) -> Order {
            if shuffle { Order::shuffled(n, seed, 0) } else { Order::sequential(n) }
        }
    }

    proptest! {
        #[test]
        fn a_plan_is_what_the_definition_says(
            order in epochs(), batch_size in 1_u32..9, world in 1_u32..9, drop_last: bool, start in 0_u64..200,
        ) {
            let start = start % (order.len() + 1);
            let lengths: Vec<_> = (0..world).map(|rank| {
                let batches = plan(&order, batch_size, (rank, world), drop_last, start);
                let expected = reference(&order, batch_size, (rank, world), drop_last, start);
                prop_assert_eq!(batches.len(), expected.len() as u64);
                prop_assert_eq!(samples(&batches), expected);
                Ok(batches.iter().map(|batch| batch.len()).collect::<Vec<_>>())
            }).collect::<Result<_, _>>()?;
            prop_assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "ranks hold batches of unequal size");
        }

        #[test]
        fn each_sample_comes_exactly_once(order in epochs(), batch_size in 1_u32..9, world in 1_u32..9) {
            let mut held = global(&order, batch_size, world, false, 0).concat();
            let padding = (world as usize - order.len() as usize % world as usize) % world as usize;
            prop_assert_eq!(held.len(), order.len() as usize + padding);
            held.truncate(order.len() as usize);
            held.sort_unstable();
            prop_assert!(held.into_iter().eq(0..order.len()));
        }

        #[test]
        fn dropping_the_last_leaves_out_less_than_a_global_batch(order in epochs(), batch_size in 1_u32..9, world in 1_u32..9) {
            let held = global(&order, batch_size, world, true, 0).concat();
            let whole = order.len() - order.len() % u64::from(batch_size * world);
            prop_assert!(held.into_iter().eq((0..whole).map(|position| order.at(position))));
        }

        #[test]
        fn the_world_size_does_not_change_a_global_batch(order in epochs(), quarter in 1_u32..5, start in 0_u64..200) {
            let start = start % (order.len() + 1);
            let alone = global(&order, 4 * quarter, 1, false, start);
            for world in [2, 4] {
                let shared = global(&order, 4 * quarter / world, world, false, start);
                prop_assert_eq!(shared.len(), alone.len());
                for (shared, alone) in shared.iter().zip(&alone) {
                    prop_assert!(shared.starts_with(alone));
                    prop_assert!(shared.len() - alone.len() < world as usize, "more padding than one round of the ranks");
                }
            }
        }

        #[test]
        fn resuming_gives_what_was_left(
            order in epochs(), batch_size in 1_u32..9, rank in 0_u32..4, drop_last: bool, done in 0_u64..30,
        ) {
            let whole = plan(&order, batch_size, (rank, 4), drop_last, 0);
            let done = done.min(whole.len());
            let rest = plan(&order, batch_size, (rank, 4), drop_last, whole.consumed(done));
            prop_assert_eq!(samples(&rest), &samples(&whole)[done as usize..]);
            prop_assert_eq!(rest.consumed(u64::MAX), whole.consumed(u64::MAX));
        }

        #[test]
        fn from_any_start_positions_go_on_without_a_gap(
            order in epochs(), batch_size in 1_u32..9, world in 1_u32..5, start in 0_u64..200,
        ) {
            let start = start % (order.len() + 1);
            let held = global(&order, batch_size, world, false, start).concat();
            let expected = (start..).map(|position| order.at(position % order.len())).take(held.len());
            prop_assert!(held.iter().copied().eq(expected));
            prop_assert!(held.len() as u64 >= order.len() - start);
        }

        #[test]
        fn a_batch_knows_its_place(order in epochs(), batch_size in 1_u32..9, rank in 0_u32..4, start in 0_u64..200) {
            let start = start % (order.len() + 1);
            let batches = plan(&order, batch_size, (rank, 4), false, start);
            for (index, batch) in batches.iter().enumerate() {
                prop_assert_eq!(batch.index, index as u64);
                prop_assert_eq!(batch.samples().next(), Some(order.at(batch.position)));
                prop_assert_eq!(batch.positions().len(), batch.len());
                prop_assert!(batch.positions().map(|position| order.at(position)).eq(batch.samples()));
            }
            prop_assert_eq!(batches.consumed(batches.len()), order.len());
        }
    }
}
