//! At which size the faster of two devices changes, how surely, and where another measurement would tell most.

use crate::stats::{Interval, Random, Sorted};
use crate::{Crossing, Side};

/// Within this much of each other, two devices are as good as equal: 5%.
const INDIFFERENT: f64 = 1.05;
/// How many times the samples are drawn anew.
const DRAWS: usize = 1000;

/// A size at which both devices were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The size.
    pub elements: u64,
    /// Wall times on the CPU.
    pub cpu: Sorted,
    /// Wall times on the GPU.
    pub gpu: Sorted,
    /// Arithmetic operations of a call, or elements where these are not known; by this rates are formed.
    pub work: f64,
}

impl Point {
    /// ln of CPU time over GPU time: above 0 the GPU is faster.
    fn advantage(&self) -> f64 {
        (self.cpu.q1_ns() / self.gpu.q1_ns()).ln()
    }
}

/// Two curves over sizes, with the advantage of the GPU between them taken as a straight line over ln of the size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    points: Vec<Point>,
    /// ln of size, and advantage.
    line: Vec<(f64, f64)>,
}

impl Curves {
    /// The curves through `points`; `None` if there are none. Of two points of a size, the first is taken.
    pub fn new(mut points: Vec<Point>) -> Option<Curves> {
        points.sort_by_key(|point| point.elements);
        points.dedup_by_key(|point| point.elements);
        let line = points.iter().map(|point| (ln(point.elements), point.advantage())).collect();
        (!points.is_empty()).then_some(Curves { points, line })
    }

    /// The smallest and the largest size.
    pub fn range(&self) -> [u64; 2] {
        [self.points[0].elements, self.points[self.points.len() - 1].elements]
    }

    /// The faster device at the size that has place `index`; `None` where they are equal.
    fn faster(&self, index: usize) -> Option<Side> {
        side(self.line[index].1)
    }

    /// All sizes at which the faster one changes, with 95% intervals from samples drawn anew by `seed`.
    pub fn crossings(&self, seed: u64) -> Vec<Crossing> {
        let found = crossings(&self.line);
        let mut near = vec![Vec::with_capacity(DRAWS); found.len()];
        let mut random = Random::new(seed);
        for _ in 0..DRAWS {
            let drawn = self.draw(&mut random);
            let again = crossings(&drawn);
            for (at, sizes) in found.iter().zip(&mut near) {
                sizes.push(nearest(*at, &again, &drawn));
            }
        }
        found.iter().zip(&mut near).map(|(at, sizes)| crossing(*at, sizes)).collect()
    }

    /// The line through lower quartiles of samples that are drawn anew.
    fn draw(&self, random: &mut Random) -> Vec<(f64, f64)> {
        let mut quartile = |times: &Sorted| times.draw(0.25, random);
        let mut advantage = |point: &Point| (quartile(&point.cpu) / quartile(&point.gpu)).ln();
        self.points.iter().map(|point| (ln(point.elements), advantage(point))).collect()
    }

    /// The smallest size from which the GPU is faster at all larger sizes that were measured.
    pub fn wins_from(&self) -> Option<u64> {
        let first = (0..self.points.len()).rev().take_while(|&index| self.faster(index) == Some(Side::Gpu)).last()?;
        Some(self.points[first].elements)
    }

    /// Around the last crossing, the sizes at which the two are within 5% of each other. `None` without a crossing.
    pub fn band(&self) -> Option<[u64; 2]> {
        let (at, _) = *crossings(&self.line).last()?;
        let limit = INDIFFERENT.ln();
        let below = self.line.iter().rposition(|(size, advantage)| *size < at && advantage.abs() > limit);
        let above = self.line.iter().position(|(size, advantage)| *size > at && advantage.abs() > limit);
        let edge = |outside: usize, inside: usize| {
            let ((x0, d0), (x1, d1)) = (self.line[outside], self.line[inside]);
            let level = limit.copysign(d0);
            size(x0 + (x1 - x0) * (d0 - level) / (d0 - d1))
        };
        let [first, last] = self.range();
        Some([
            below.map_or(first, |outside| edge(outside, outside + 1)),
            above.map_or(last, |outside| edge(outside, outside - 1)),
        ])
    }

    /// The offload threshold of GPU-BLOB, over the sizes as measured: the smallest from which the GPU's rate stays above the CPU's, one size
    /// at which it does not being passed over if the GPU's rate at the size before or after is above the CPU's there. That is what
    /// `calculateOffloadThreshold.py` of <https://github.com/UoB-HPC/GPU-BLAS-Offload-Benchmark> computes; at the last size, where it has
    /// nothing to look ahead to, a drop counts here.
    pub fn gpu_blob(&self) -> Option<u64> {
        let rates: Vec<(f64, f64)> =
            self.points.iter().map(|point| (point.work / point.cpu.q1_ns(), point.work / point.gpu.q1_ns())).collect();
        let mut threshold = None;
        for (index, &(cpu, gpu)) in rates.iter().enumerate() {
            let before = index.checked_sub(1).map_or(0.0, |before| rates[before].1);
            let after = rates.get(index + 1).map_or(0.0, |after| after.1);
            match threshold {
                Some(_) if cpu >= gpu && before <= cpu && after <= cpu => threshold = None,
                None if cpu < gpu => threshold = Some(self.points[index].elements),
                _ => {}
            }
        }
        threshold
    }

    /// Up to `count` sizes whose measurement would tell most of where the faster one changes: inside the intervals of `crossings` and the steps
    /// around them, far from what was measured. Empty once the steps are below a tenth.
    pub fn sizes_to_add(&self, crossings: &[Crossing], count: usize) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().map(|point| point.elements).collect();
        let mut added = Vec::new();
        while added.len() < count {
            let steps = sizes.windows(2).filter(|step| crossings.iter().any(|crossing| touches(crossing, step)));
            let widest = steps.max_by(|a, b| ratio(a).total_cmp(&ratio(b))).filter(|step| ratio(step) > 1.1);
            let Some(step) = widest else { break };
            let middle = size(f64::midpoint(ln(step[0]), ln(step[1])));
            let place = sizes.partition_point(|size| *size < middle);
            if sizes.get(place) == Some(&middle) {
                break;
            }
            sizes.insert(place, middle);
            added.push(middle);
        }
        added.sort_unstable();
        added
    }

    /// The finding in a sentence, from these points alone.
    pub fn verdict(&self, crossings: &[Crossing]) -> String {
        let ends_with = (0..self.points.len()).rev().find_map(|index| self.faster(index));
        match (crossings, ends_with) {
            ([], faster) => self.verdict_without_crossing(faster),
            ([one], _) if one.to == Side::Gpu => format!("GPU from {}", place(one)),
            ([one], _) => format!("CPU from {}, GPU below", place(one)),
            ([one, two], _) if two.to == Side::Cpu => {
                format!("GPU from {} to {}, CPU elsewhere", place(one), place(two))
            }
            ([.., last], _) => {
                let name = if last.to == Side::Gpu { "GPU" } else { "CPU" };
                let changes = if crossings.len() == 2 { "change" } else { "changes" };
                format!("{name} from {}, after {} {changes} below it", place(last), crossings.len() - 1)
            }
        }
    }

    /// "none in [1,000, 2,000,000]: CPU at every size", where more than one size could have shown a change.
    fn verdict_without_crossing(&self, faster: Option<Side>) -> String {
        let name = match faster {
            Some(Side::Cpu) => "CPU",
            Some(Side::Gpu) => "GPU",
            None => "both equal",
        };
        match self.range().map(grouped) {
            [only, last] if only == last => format!("at the only size measured on both, {only}: {name}"),
            [first, last] => format!("none in [{first}, {last}]: {name} at every size"),
        }
    }
}

/// "53,000 elements (41,000 to 70,000)".
fn place(crossing: &Crossing) -> String {
    let [at, low, high] = [crossing.elements, crossing.low, crossing.high].map(grouped);
    format!("{at} elements ({low} to {high})")
}

/// "1,234,567".
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn ln(elements: u64) -> f64 {
    (elements.max(1) as f64).ln()
}

fn size(ln: f64) -> u64 {
    ln.exp().round() as u64
}

fn ratio(step: &[u64]) -> f64 {
    step[1] as f64 / step[0].max(1) as f64
}

fn side(advantage: f64) -> Option<Side> {
    match advantage {
        advantage if advantage > 0.0 => Some(Side::Gpu),
        advantage if advantage < 0.0 => Some(Side::Cpu),
        _ => None,
    }
}

/// Whether a step between two sizes holds the crossing or a part of its interval.
fn touches(crossing: &Crossing, step: &[u64]) -> bool {
    step[0] <= crossing.high && crossing.low <= step[1]
}

/// ln of the sizes at which `line` changes its sign, and to which side. Points on zero belong to the side that they come from.
fn crossings(line: &[(f64, f64)]) -> Vec<(f64, Side)> {
    let mut found = Vec::new();
    let mut last: Option<(f64, f64, Side)> = None;
    for &(x, advantage) in line {
        let Some(now) = side(advantage) else { continue };
        if let Some((x0, d0, before)) = last
            && before != now
        {
            found.push((x0 + (x - x0) * d0 / (d0 - advantage), now));
        }
        last = Some((x, advantage, now));
    }
    found
}

/// Where `line`, drawn anew and crossing at `again`, has the crossing `at`: the nearest to the same side; and if there is none, that end of the
/// range beyond which it must be.
fn nearest(at: (f64, Side), again: &[(f64, Side)], line: &[(f64, f64)]) -> f64 {
    let same = again.iter().filter(|(_, to)| *to == at.1).map(|(x, _)| *x);
    let nearest = same.min_by(|a, b| (a - at.0).abs().total_cmp(&(b - at.0).abs()));
    let (first, last) = (line[0], line[line.len() - 1]);
    let is_below = side(first.1) == Some(at.1);
    nearest.unwrap_or(if is_below { first.0 } else { last.0 })
}

fn crossing(at: (f64, Side), sizes: &mut [f64]) -> Crossing {
    let [low, high] = Interval::Percent95.of(sizes);
    Crossing { elements: size(at.0), low: size(low.min(at.0)), high: size(high.max(at.0)), to: at.1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curves through (elements, CPU time, GPU time), each with `samples` samples that vary by `noise`.
    fn noisy(rows: &[(u64, f64, f64)], noise: f64, samples: usize, seed: u64) -> Curves {
        let mut random = Random::new(seed);
        let mut times = |time: f64| {
            let all: Vec<f64> = (0..samples).map(|_| time * (noise * random.normal()).exp()).collect();
            Sorted::new(&all).expect("times")
        };
        let mut point =
            |&(elements, cpu, gpu)| Point { elements, cpu: times(cpu), gpu: times(gpu), work: elements as f64 };
        Curves::new(rows.iter().map(&mut point).collect()).expect("points")
    }

    fn exact(rows: &[(u64, f64, f64)]) -> Curves {
        noisy(rows, 0.0, 1, 1)
    }

    fn verdict(rows: &[(u64, f64, f64)]) -> String {
        let curves = exact(rows);
        curves.verdict(&curves.crossings(1))
    }

    const ONE: [(u64, f64, f64); 4] =
        [(1_000, 1e3, 1e5), (10_000, 1e4, 1e5), (100_000, 1e5, 1e5 / 2.0), (1_000_000, 1e6, 2e5)];

    #[test]
    fn the_verdict_follows_from_the_rows() {
        assert_eq!(verdict(&ONE[..2]), "none in [1,000, 10,000]: CPU at every size");
        assert_eq!(verdict(&ONE[2..]), "none in [100,000, 1,000,000]: GPU at every size");
        let equal = [(7, 5.0, 5.0), (70, 6.0, 6.0)];
        assert_eq!(verdict(&equal), "none in [7, 70]: both equal at every size");
        assert_eq!(verdict(&equal[..1]), "at the only size measured on both, 7: both equal");
        assert_eq!(verdict(&ONE[3..]), "at the only size measured on both, 1,000,000: GPU");
        assert_eq!(verdict(&ONE[..1]), "at the only size measured on both, 1,000: CPU");
        assert!(verdict(&ONE).starts_with("GPU from 58,"), "{}", verdict(&ONE));
        let back = [(1_000, 2.0, 1.0), (4_000, 1.0, 2.0)];
        assert_eq!(verdict(&back), "CPU from 2,000 elements (2,000 to 2,000), GPU below");
        let window = [(1_000, 1.0, 2.0), (4_000, 2.0, 1.0), (16_000, 1.0, 2.0)];
        let said = "GPU from 2,000 elements (2,000 to 2,000) to 8,000 elements (8,000 to 8,000), CPU elsewhere";
        assert_eq!(verdict(&window), said);
        let twice = [(1_000, 2.0, 1.0), (4_000, 1.0, 2.0), (16_000, 2.0, 1.0)];
        assert!(verdict(&twice).ends_with("after 1 change below it"), "{}", verdict(&twice));
        let three = [(10, 1.0, 2.0), (100, 2.0, 1.0), (1000, 1.0, 2.0), (10_000, 2.0, 1.0)];
        assert!(verdict(&three).ends_with("after 2 changes below it"), "{}", verdict(&three));
    }

    #[test]
    fn the_band_reaches_as_far_as_five_percent() {
        let curves = exact(&[(1_000, 1.0, 2.0), (100_000, 2.0, 1.0)]);
        let [low, high] = curves.band().expect("a crossing");
        // ln 1.05 is 7% of ln 2, on both sides of 10,000, of which each side is a decade long.
        assert_eq!((low, high), (8504, 11760));
        assert_eq!(exact(&ONE[..2]).band(), None);
    }

    /// How often the interval holds the true crossing, and how wide it is at the median, as a ratio.
    fn intervals(samples: usize) -> (f64, f64) {
        let truth = exact(&ONE).crossings(1)[0].elements;
        let found: Vec<Crossing> = (0..100).map(|seed| noisy(&ONE, 0.1, samples, seed).crossings(1)[0]).collect();
        let holds = found.iter().filter(|crossing| (crossing.low..=crossing.high).contains(&truth)).count();
        let widths: Vec<f64> = found.iter().map(|crossing| crossing.high as f64 / crossing.low as f64).collect();
        (holds as f64 / 100.0, Sorted::new(&widths).expect("widths").median_ns())
    }

    #[test]
    fn an_interval_holds_the_crossing_and_narrows_with_samples() {
        let ((few, wide), (many, narrow)) = (intervals(30), intervals(400));
        assert!(few >= 0.9 && many >= 0.9, "{few} {many}");
        assert!(narrow < wide.sqrt(), "{narrow} {wide}");
    }

    #[test]
    fn a_crossing_that_may_not_be_there_reaches_to_the_end() {
        let curves = noisy(&[(1_000, 1.0, 2.0), (10_000, 1.02, 1.0)], 0.1, 15, 9);
        for crossing in curves.crossings(1) {
            assert_eq!(crossing.high, 10_000);
        }
    }

    #[test]
    fn a_momentary_drop_is_passed_over_by_gpu_blob_alone() {
        let drop = [(10, 10.0, 5.0), (20, 20.0, 21.0), (40, 40.0, 10.0)];
        assert_eq!((exact(&drop).gpu_blob(), exact(&drop).wins_from()), (Some(10), Some(40)));
        let long = [(10, 10.0, 5.0), (20, 2.0, 20.0), (40, 4.0, 40.0), (80, 80.0, 10.0)];
        assert_eq!((exact(&long).gpu_blob(), exact(&long).wins_from()), (Some(80), Some(80)));
        assert_eq!((exact(&ONE[..2]).gpu_blob(), exact(&ONE[..2]).wins_from()), (None, None));
        assert_eq!((exact(&ONE).gpu_blob(), exact(&ONE).wins_from()), (Some(100_000), Some(100_000)));
    }

    #[test]
    fn more_sizes_are_wanted_where_the_crossing_is() {
        let curves = exact(&ONE);
        let crossings = curves.crossings(1);
        let sizes = curves.sizes_to_add(&crossings, 3);
        assert_eq!(sizes.len(), 3);
        assert!(sizes.iter().all(|size| (10_000..100_000).contains(size)), "{sizes:?}");
        assert!(curves.sizes_to_add(&crossings, 1000).len() < 100);
        assert!(exact(&ONE[..2]).sizes_to_add(&[], 3).is_empty());
    }
}
