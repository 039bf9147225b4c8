//! Times of a made-up machine with two cores and much else to do: heavy tails, drift, and bursts in which somebody takes half of it.

use breakeven_study::stats::Random;

/// The machine at some time.
pub struct LoadedMachine {
    random: Random,
    /// ln of how slow it is at the moment, a walk that is pulled back to 0.
    drift: f64,
    /// Samples that the burst goes on for, and how slow it makes everything.
    burst: (u32, f64),
}

impl LoadedMachine {
    pub fn new(seed: u64) -> LoadedMachine {
        LoadedMachine { random: Random::new(seed), drift: 0.0, burst: (0, 1.0) }
    }

    /// The next sample of something that takes `time_ns` on a quiet machine.
    pub fn sample(&mut self, time_ns: f64) -> f64 {
        self.move_on();
        let jitter = (0.03 * self.random.normal()).exp();
        // One in twelve is interrupted, for a time without mean: Pareto with exponent 1.
        let tail = if self.random.unit() < 1.0 / 12.0 { 1.0 + 0.1 / self.random.unit() } else { 1.0 };
        time_ns * self.drift.exp() * self.burst.1 * jitter * tail
    }

    fn move_on(&mut self) {
        self.drift = 0.999 * self.drift + 0.004 * self.random.normal();
        self.burst = match self.burst {
            (0, _) if self.random.unit() < 0.01 => (5 + self.random.below(60) as u32, 1.2 + self.random.unit()),
            (0, _) => (0, 1.0),
            (left, slow) => (left - 1, if left == 1 { 1.0 } else { slow }),
        };
    }

    /// Times of A and B in turns of five, B taking `ratio` of A's time: A B, B A, A B ...
    pub fn turns(&mut self, blocks: usize, ratio: f64) -> (Vec<f64>, Vec<f64>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for block in 0..blocks {
            let order = if block % 2 == 0 { [false, true] } else { [true, false] };
            for is_b in order {
                let time = if is_b { 100_000.0 * ratio } else { 100_000.0 };
                let row = if is_b { &mut b } else { &mut a };
                row.extend((0..5).map(|_| self.sample(time)));
            }
        }
        (a, b)
    }
}
