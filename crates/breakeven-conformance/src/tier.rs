//! How much is tried.

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Lengths at the seams of vectors, words, blocks and workgroups.
    Quick,
    /// Every length up to 257 as well.
    Full,
}

const SEAMS: &[usize] =
    &[0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1025, 4099];

impl Tier {
    /// Lengths to try.
    pub fn lengths(self) -> Vec<usize> {
        match self {
            Tier::Quick => SEAMS.to_vec(),
            Tier::Full => (0..=257).chain(SEAMS.iter().copied().filter(|&n| n > 257)).collect(),
        }
    }
}
