//! What a launch touches in memory, and whether two launches may run side by side.

use std::ops::Range;

use breakeven_ir::{Launch, Operand};

/// The bytes of one operand in its slot.
#[derive(Clone, Debug)]
pub struct Touch {
    slot: usize,
    write: bool,
    bytes: Range<u64>,
    /// Extents and steps in bytes, in any order; none of the steps is 0.
    axes: Vec<(u64, u64)>,
}

/// All that a launch touches.
pub fn touches(launch: &Launch) -> Vec<Touch> {
    let reads = launch.kernel.inputs().into_iter().zip(&launch.inputs);
    let writes = launch.kernel.outputs().into_iter().zip(&launch.outputs);
    let reads = reads.filter_map(|(o, &slot)| touch(o, slot, false));
    let writes = writes.filter_map(|(o, &slot)| touch(o, slot, true));
    reads.chain(writes).chain(launch.workspace.map(whole)).collect()
}

fn whole(slot: usize) -> Touch {
    Touch { slot, write: true, bytes: 0..u64::MAX, axes: vec![(u64::MAX, 1)] }
}

fn touch(operand: &Operand, slot: usize, write: bool) -> Option<Touch> {
    let (low, high) = operand.layout.span()?;
    let width = operand.dtype.bytes() as u64;
    let bytes = low as u64 * width..(high as u64 + 1) * width;
    if write && width < 4 {
        // A GPU writes bytes as whole words, whose other bytes are read and written back.
        let bytes = bytes.start / 4 * 4..bytes.end.next_multiple_of(4);
        return Some(Touch { slot, write, axes: vec![(bytes.end - bytes.start, 1)], bytes });
    }
    let steps = operand.layout.strides.iter().map(|s| s.unsigned_abs() as u64 * width);
    let axes = operand.layout.shape.iter().map(|&n| n as u64).zip(steps);
    let axes = axes.filter(|&(n, step)| n > 1 && step > 0).chain([(width, 1)]).collect();
    Some(Touch { slot, write, bytes, axes })
}

/// True when neither launch sees or overwrites what the other writes.
pub fn are_independent(a: &[Touch], b: &[Touch]) -> bool {
    a.iter().all(|x| b.iter().all(|y| x.is_apart(y)))
}

impl Touch {
    fn is_apart(&self, other: &Touch) -> bool {
        self.slot != other.slot
            || !(self.write || other.write)
            || self.bytes.end <= other.bytes.start
            || other.bytes.end <= self.bytes.start
            || self.is_beside(other)
    }

    /// True for parts of one whole, such as columns of a matrix, which lie between each other and share nothing.
    fn is_beside(&self, other: &Touch) -> bool {
        let mut steps: Vec<u64> = self.axes.iter().chain(&other.axes).map(|axis| axis.1).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps.dedup();
        let (Some(own), Some(others)) = (self.digits(&steps), other.digits(&steps)) else { return false };
        own.iter().zip(&others).any(|(a, b)| a.end <= b.start || b.end <= a.start)
    }

    /// Positions as numbers whose digits count `steps`, the longest first: the range of each digit; `None` when a digit
    /// would carry, since a position could then be written in two ways.
    fn digits(&self, steps: &[u64]) -> Option<Vec<Range<u64>>> {
        let mut rest = self.bytes.start;
        let mut outer: Option<u64> = None;
        let mut digit = |&step: &u64| {
            let reach: u64 = self.axes.iter().filter(|axis| axis.1 == step).map(|axis| axis.0 - 1).sum();
            let range = rest / step..rest / step + reach + 1;
            let fits = outer.is_none_or(|outer| outer.is_multiple_of(step) && range.end <= outer / step);
            (rest, outer) = (rest % step, Some(step));
            fits.then_some(range)
        };
        steps.iter().map(&mut digit).collect()
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Layout};

    use super::*;

    fn of(layout: Layout, dtype: DType, write: bool) -> Touch {
        touch(&Operand::new(dtype, layout), 0, write).expect("it has elements")
    }

    /// Compared with the positions themselves: a claim of being apart is true, and is made where `want` says.
    fn check(a: &Layout, b: &Layout, want: bool) {
        let (x, y) = (of(a.clone(), DType::F32, true), of(b.clone(), DType::F32, true));
        let shared = a.positions().any(|p| b.positions().any(|q| p == q));
        assert_eq!((x.is_apart(&y), y.is_apart(&x)), (want, want), "{a:?} {b:?}");
        assert!(!(want && shared), "{a:?} {b:?}");
    }

    #[test]
    fn parts_of_one_whole_are_apart() {
        let whole = Layout::dense([6, 10]);
        let columns = |start, count| whole.slice(1, start, count, 1);
        check(&columns(0, 4), &columns(4, 6), true);
        check(&columns(0, 5), &columns(4, 6), false);
        check(&columns(3, 4).slice(1, 3, 4, -1), &columns(7, 3), true);
        check(&columns(0, 5).permute(&[1, 0]), &columns(5, 5).slice(0, 5, 6, -1), true);
        check(&whole.slice(0, 0, 2, 1), &whole.slice(0, 2, 4, 1), true);
        check(&whole.slice(0, 0, 3, 2), &whole.slice(0, 1, 3, 2), true);
        check(&whole.slice(0, 0, 3, 1), &whole.slice(0, 2, 1, 1), false);
    }

    #[test]
    fn what_cannot_be_told_apart_is_not() {
        let line = Layout::dense([64]);
        check(&line.slice(0, 0, 20, 2), &line.slice(0, 1, 20, 2), true);
        // Steps that do not divide each other are not looked into.
        check(&line.slice(0, 0, 20, 2), &line.slice(0, 1, 20, 3), false);
        check(&line.slice(0, 0, 3, 6), &line.slice(0, 1, 3, 4), false);
        // Rows that reach into the next.
        let carrying = Layout { strides: [4isize, 1].into_iter().collect(), ..Layout::dense([3, 6]) };
        check(&carrying, &line.slice(0, 13, 3, 1), false);
    }

    #[test]
    fn reads_may_overlap_and_bytes_share_words() {
        let line = Layout::dense([8]);
        let read = of(line.clone(), DType::F32, false);
        assert!(read.is_apart(&read.clone()));
        assert!(!read.is_apart(&of(line.slice(0, 7, 1, 1), DType::F32, true)));
        let bytes = |start, count, write| of(Layout::dense([32]).slice(0, start, count, 1), DType::U8, write);
        assert!(!bytes(0, 5, true).is_apart(&bytes(5, 3, true)));
        assert!(!bytes(0, 5, true).is_apart(&bytes(7, 1, false)));
        assert!(bytes(0, 8, true).is_apart(&bytes(8, 5, true)));
    }
}
