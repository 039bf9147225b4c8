//! How large the units of a convolution are: the sizes whose cycles, roughly reckoned, are fewest. They change no result: sums
//! are split by shapes alone.
//!
//! What has to fit a cache follows from the caches that the processor tells of. The cycles below are no times: only ways of cutting
//! one shape are compared by them, so that their ratios count. `PRODUCT` and `SEEN` follow from what cores of the last ten years have
//! in common, two registers multiplied in a cycle and a line from the second-level cache in two; the others are beside these what
//! they were on one AVX-512 core.

use super::geometry::Geometry;
use crate::caches::Caches;
use crate::shifts::SLACK;

/// What stays in the second-level cache, which has to hold all of it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Sums of one unit: a sixteenth of it.
    sums: usize,
    /// Weights: half of it.
    weights: usize,
    /// Bytes of the planes of one unit: an eighth.
    pub plane_bytes: usize,
    /// Bytes of the columns of one tile, which are there instead of planes and sums: a quarter.
    pub column_bytes: usize,
}

impl Fit {
    pub fn new(caches: Caches) -> Fit {
        let part = caches.second / 16;
        Fit { sums: part / 4, weights: 8 * part / 4, plane_bytes: 2 * part, column_bytes: 4 * part }
    }
}

/// Output channels of a unit: whole registers of sums, few enough that weights stay in the cache.
const OUTS: [usize; 6] = [128, 64, 48, 32, 16, 8];
/// Most places of a line.
const ALONG: [usize; 3] = [1024, 512, 256];
/// Units in which as much of the time is lost to threads that wait for others as all of them take.
const WASTED: f64 = 2.5;
/// Products that are worth a thread of their own.
const WORTH: usize = 1 << 20;

/// Cycles in which three vectors of sums and what they straddle come from the second-level cache for each line that they see:
/// once for all output channels of a unit, and two for each of four cache lines.
const SEEN: f64 = 8.0;
/// Cycles of a vector of sums for each term and output channel, and of starting three of them.
const PRODUCT: f64 = 0.5;
const START: f64 = 0.15;
/// Cycles of bringing in a line and each of its elements, one after the other and apart.
const LINE: f64 = 16.0;
const NEAR: f64 = 0.1;
const APART: f64 = 0.25;
/// Cycles that a weight takes to be brought in from the second-level cache, a sixteenth of a line, or from farther.
const WEIGHT: [f64; 2] = [0.1, 1.0];
/// Cycles of finishing a row of sums, each of its lines, and each of its elements.
const ROW: f64 = 100.0;
const JOINED: f64 = 15.0;
const FINISHED: f64 = 0.3;

/// Output channels, rows and columns of places of a unit, for windows that need so many planes of each channel, so many
/// rows and columns longer than the places are many.
pub(super) fn tile(g: &Geometry, phases: [usize; 2], halo: [usize; 2], fit: Fit) -> [usize; 3] {
    let outs = OUTS.iter().map(|&most| even(g.outs, most).next_multiple_of(8).min(g.outs));
    let columns = || ALONG.iter().map(|&most| even(g.axes[2].count, most));
    let all = outs.flat_map(|outs| columns().map(move |columns| (outs, columns)));
    let tiles = all.flat_map(|(outs, columns)| evenly(g.axes[1].count).map(move |rows| [outs, rows, columns]));
    let cost = |tile: &[usize; 3]| cycles(g, *tile, (phases, halo), fit);
    let best = tiles.min_by(|a, b| cost(a).total_cmp(&cost(b)));
    best.unwrap_or([g.outs.min(8), 1, g.axes[2].count.min(ALONG[2])])
}

/// The extent of parts of nearly one size, none larger than `most`.
fn even(n: usize, most: usize) -> usize {
    n.div_ceil(n.div_ceil(most).max(1))
}

/// Every extent into which `n` can be cut evenly.
fn evenly(n: usize) -> impl Iterator<Item = usize> {
    let mut next = n;
    std::iter::from_fn(move || {
        let this = next;
        (this > 0).then(|| {
            let parts = n.div_ceil(this);
            next = if this == 1 { 0 } else { n.div_ceil(parts + 1).min(this - 1) };
            this
        })
    })
}

fn cycles(g: &Geometry, [outs, rows, columns]: [usize; 3], (phases, halo): ([usize; 2], [usize; 2]), fit: Fit) -> f64 {
    let width = columns + halo[1];
    let places = (rows - 1) * width + columns;
    if outs * places > fit.sums && (rows > 1 || columns > ALONG[2] && outs > OUTS[5]) {
        return f64::INFINITY;
    }
    let vectors = places.div_ceil(SLACK + 1);
    let computed = (vectors as f64 * PRODUCT + vectors.div_ceil(3) as f64 * START) * (outs * g.terms()) as f64;
    let seen = g.channels * g.axes[0].size * g.axes[1].size * phases[1];
    let computed = computed + SEEN * (vectors.div_ceil(3) * seen) as f64;
    let lines = (g.channels * g.axes[0].size * phases[0] * (rows + halo[0]) * phases[1]) as f64;
    let element = if g.axes[2].stride == 1 && g.axes[2].step == 1 { NEAR } else { APART };
    let brought = if g.is_steppable() { 0.0 } else { lines * (LINE + element * width as f64) };
    let weight = WEIGHT[usize::from(g.groups * g.outs * g.terms() > fit.weights)];
    let brought = brought + weight * (outs * g.terms()) as f64;
    let finished = outs as f64 * (ROW + rows as f64 * (JOINED + FINISHED * columns as f64));
    let tiles = g.axes[0].count * g.axes[1].count.div_ceil(rows) * g.axes[2].count.div_ceil(columns);
    let units = (g.n * g.groups * g.outs.div_ceil(outs) * tiles) as f64;
    let worth = (g.outs * g.places() * g.n * g.groups * g.terms() / WORTH) as f64;
    // Work that is worth few threads loses nothing in few units.
    let wasted = if worth > units { WASTED.min(worth) / units } else { 0.0 };
    (computed + brought + finished) * units * (1.0 + wasted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_at_once_fits_the_second_level_cache() {
        for second in [256 << 10, 512 << 10, 2 << 20] {
            let fit = Fit::new(Caches { first: 32 << 10, second });
            assert!(4 * (fit.sums + fit.weights) + fit.plane_bytes.max(fit.column_bytes) < second, "{fit:?}");
        }
        let large = Fit { sums: 32 << 10, weights: 256 << 10, plane_bytes: 256 << 10, column_bytes: 512 << 10 };
        assert_eq!(Fit::new(Caches { first: 48 << 10, second: 2 << 20 }), large);
    }

    #[test]
    fn extents_are_cut_evenly() {
        assert_eq!(evenly(7).collect::<Vec<_>>(), [7, 4, 3, 2, 1]);
        assert_eq!(evenly(1).collect::<Vec<_>>(), [1]);
        assert_eq!(evenly(0).count(), 0);
        assert_eq!((even(1030, 512), even(5, 8), even(0, 8)), (344, 5, 0));
    }
}
