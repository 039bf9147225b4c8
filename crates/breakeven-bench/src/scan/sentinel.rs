//! The same piece of plain arithmetic again and again: where its time moves, the machine has changed and not what is measured. It is too short to meet
//! other work on the same cores: `contention` sees that.

use super::clock::Clock;

/// Steps of it, about 50 us.
const STEPS: u32 = 40_000;

/// Nanoseconds that it takes now, best of three.
pub fn time(clock: &dyn Clock) -> u64 {
    let once = || {
        let begun = clock.now();
        std::hint::black_box(work(std::hint::black_box(1)));
        clock.nanoseconds_since(begun)
    };
    (0..3).map(|_| once()).min().unwrap_or(0)
}

/// Each step needs the one before, so it takes the same on every width of vectors.
fn work(seed: u64) -> u64 {
    (0..STEPS).fold(seed, |bits, _| {
        let bits = bits ^ (bits << 13);
        let bits = bits ^ (bits >> 7);
        bits ^ (bits << 17)
    })
}
