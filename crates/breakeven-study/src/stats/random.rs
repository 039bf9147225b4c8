//! Random numbers that follow from a seed alone, on every machine.

/// A generator (`SplitMix64`: one addition and a mix for each number, which is plenty for resampling).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator that follows from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Evenly between 0 and 1, never either.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Evenly one of `0..count`. `count` is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count - 1)
    }

    /// Normally distributed around 0 with deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * angle.cos()
    }

    /// Gamma distributed with the given shape, at least 1, and scale 1: Marsaglia and Tsang's method of 2000.
    fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = self.normal();
            let v = (1.0 + c * normal).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// The place in sorted data of the element that is at `rank` (from 0) when `count` elements are drawn anew with replacement and sorted.
    ///
    /// Drawing places evenly and sorting them is drawing even numbers and sorting these, so the one at a rank is Beta distributed. That is
    /// exact, and takes no time that grows with `count`.
    pub fn place_of_rank(&mut self, rank: usize, count: usize) -> usize {
        let below = self.gamma((rank + 1) as f64);
        let above = self.gamma((count - rank) as f64);
        ((below / (below + above) * count as f64) as usize).min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_everywhere() {
        let mut random = Random::new(1);
        assert_eq!([random.bits(), random.bits()], [0x910A_2DEC_8902_5CC1, 0xBEEB_8DA1_658E_EC67]);
    }

    #[test]
    fn places_are_those_of_drawing_and_sorting() {
        let (count, rank, draws) = (40, 10, 4000);
        let mut random = Random::new(7);
        let by_sorting = |random: &mut Random| {
            let mut places: Vec<usize> = (0..count).map(|_| random.below(count)).collect();
            places.sort_unstable();
            places[rank]
        };
        let slow: usize = (0..draws).map(|_| by_sorting(&mut random)).sum();
        let fast: usize = (0..draws).map(|_| random.place_of_rank(rank, count)).sum();
        // Deviation of one draw is below 3 places, so that of the mean below 0.05.
        assert!((slow as f64 - fast as f64).abs() / (draws as f64) < 0.25, "{slow} {fast}");
    }
}
