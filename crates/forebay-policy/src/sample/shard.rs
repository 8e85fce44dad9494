//! One rank among equals.

use crate::Error;

/// Which of `world` equal parts of every global batch is ours.
///
/// **Invariant:** `rank < world`, and `world` is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    rank: u32,
    world: u32,
}

impl Shard {
    /// The `rank`-th of `world` parts, counted from zero.
    ///
    /// # Errors
    ///
    /// `Config` if `rank` is not below `world`.
    pub fn new(rank: u32, world: u32) -> Result<Self, Error> {
        if rank < world {
            Ok(Self { rank, world })
        } else {
            Err(Error::config(format!(
                "rank {rank} is not one of a world of {world}: ranks count from 0 to the world size less one"
            )))
        }
    }

    /// The whole: the only rank of a world of one.
    #[must_use]
    pub const fn alone() -> Self {
        Self { rank: 0, world: 1 }
    }

    /// Our place among the ranks, from zero.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn world(self) -> u32 {
        self.world
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::alone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn every_rank_below_the_world_is_accepted() {
        for world in 1..5 {
            for rank in 0..world {
                let shard = Shard::new(rank, world).expect("the rank is below the world");
                assert_eq!((shard.rank(), shard.world()), (rank, world));
            }
        }
    }

    #[test]
    fn a_rank_outside_the_world_is_a_config_error_that_names_both() {
        for (rank, world) in [(0, 0), (1, 1), (4, 4), (9, 4)] {
            let error = Shard::new(rank, world).expect_err("the rank is not below the world");
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(!error.is_transient());
            let text = error.to_string();
            assert!(text.contains(&format!("rank {rank}")) && text.contains(&format!("world of {world}")), "{text}");
        }
    }
}
