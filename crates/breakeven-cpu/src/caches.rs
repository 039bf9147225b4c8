//! The processor's caches, as it tells them: blocks of work are cut to fit these.

/// Bytes of one core's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caches {
    pub first: usize,
    pub second: usize,
}

/// What processors of the last ten years have at least, where they do not tell.
const USUAL: Caches = Caches { first: 32 << 10, second: 256 << 10 };

impl Caches {
    /// Those of this machine.
    pub fn here() -> Caches {
        let told = told();
        let size = |level, usual| told.iter().find(|(l, _)| *l == level).map_or(usual, |(_, bytes)| *bytes);
        Caches { first: size(1, USUAL.first), second: size(2, USUAL.second) }
    }
}

/// Leaves of CPUID that list caches: Intel's, and AMD's of the same form.
#[cfg(target_arch = "x86_64")]
const LEAVES: [(u32, u32); 2] = [(0, 4), (0x8000_0000, 0x8000_001D)];
/// Caches that a processor lists at most: a guard against one that never ends its list.
#[cfg(target_arch = "x86_64")]
const MOST: u32 = 8;

/// Levels and bytes of the caches that hold data.
#[cfg(target_arch = "x86_64")]
fn told() -> Vec<(u32, usize)> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let exists = |(first, leaf): &(u32, u32)| __cpuid(*first).eax >= *leaf;
    let list = |leaf: u32| -> Vec<(u32, usize)> {
        let entries = (0..MOST).map(|index| __cpuid_count(leaf, index)).take_while(|entry| entry.eax & 31 != 0);
        let is_code = |kind: u32| kind == 2;
        let data = entries.filter(|entry| !is_code(entry.eax & 31));
        data.map(|entry| (entry.eax >> 5 & 7, bytes(entry.ebx, entry.ecx))).collect()
    };
    LEAVES
        .iter()
        .filter(|leaf| exists(leaf))
        .map(|(_, leaf)| list(*leaf))
        .find(|list| !list.is_empty())
        .unwrap_or_default()
}

/// Ways, partitions, bytes of a line and sets, each less one.
#[cfg(target_arch = "x86_64")]
fn bytes(shape: u32, sets: u32) -> usize {
    let field = |from: u32, bits: u32| (shape >> from & ((1 << bits) - 1)) as usize + 1;
    field(22, 10) * field(12, 10) * field(0, 12) * (sets as usize + 1)
}

#[cfg(not(target_arch = "x86_64"))]
fn told() -> Vec<(u32, usize)> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_of_a_plausible_size() {
        let caches = Caches::here();
        assert!((16 << 10..=512 << 10).contains(&caches.first), "{caches:?}");
        assert!((128 << 10..=64 << 20).contains(&caches.second), "{caches:?}");
        assert!(caches.first < caches.second, "{caches:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_size_is_the_product_of_its_parts() {
        // 12 ways of 64 sets of 64 bytes; 16 ways of 2048 sets.
        assert_eq!(bytes(11 << 22 | 63, 63), 48 << 10);
        assert_eq!(bytes(15 << 22 | 63, 2047), 2 << 20);
    }
}
