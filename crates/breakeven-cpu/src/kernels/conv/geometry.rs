//! The extents and steps of a convolution, over three spatial axes whatever it has.

use breakeven_ir::{ConvKernel, DType, Layout};

use super::Unit;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// Elements of the input.
    pub extent: usize,
    /// Windows.
    pub count: usize,
    /// Elements of a window.
    pub size: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Zeros before the input.
    pub before: isize,
    /// Elements of storage from one element of the input to the next.
    pub step: isize,
}

impl Axis {
    /// An axis that is not there.
    const NONE: Axis = Axis { extent: 1, count: 1, size: 1, stride: 1, dilation: 1, before: 0, step: 0 };

    /// Each window is one element, and the other way round.
    fn is_plain(&self) -> bool {
        (self.size, self.stride, self.before) == (1, 1, 0) && self.count == self.extent
    }

    /// Where element `j` of window `i` lies in the input, if inside.
    pub fn place(&self, i: usize, j: usize) -> isize {
        (i * self.stride + j * self.dilation) as isize - self.before
    }

    /// Where element `j` of window `i` lies in storage, counted from the first element; `None` outside the input.
    pub fn seen(&self, i: usize, j: usize) -> Option<isize> {
        let at = self.place(i, j);
        (0..self.extent as isize).contains(&at).then_some(at * self.step)
    }
}

/// Extents and steps of a convolution.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub n: usize,
    pub groups: usize,
    pub outs: usize,
    pub channels: usize,
    pub axes: [Axis; 3],
    /// Elements of storage of the input by image, group and channel.
    pub x: [isize; 3],
    /// Elements of storage of the weights by group and output channel.
    pub weight: [isize; 2],
    /// The weights of one output channel, over `[channels, window..]`.
    pub window: Layout,
    /// The weights of one output channel are neighbours.
    pub is_dense: bool,
    /// Both operands are f32.
    pub is_f32: bool,
}

impl Geometry {
    pub fn new(k: &ConvKernel) -> Geometry {
        let (x, weight) = (&k.x.layout, &k.weight.layout);
        let lead = ConvKernel::LEAD;
        let one = |(axis, along): (usize, &breakeven_ir::Sliding)| Axis {
            extent: x.shape[lead + axis],
            count: along.count,
            size: weight.shape[lead + axis],
            stride: along.stride,
            dilation: along.dilation,
            before: along.before as isize,
            step: x.strides[lead + axis],
        };
        let window = Layout {
            shape: weight.shape[2..].iter().copied().collect(),
            offset: 0,
            strides: weight.strides[2..].iter().copied().collect(),
        };
        Geometry {
            n: x.shape[0],
            groups: x.shape[1],
            outs: weight.shape[1],
            channels: x.shape[2],
            axes: three(k.along.iter().enumerate().map(one)),
            x: [x.strides[0], x.strides[1], x.strides[2]],
            weight: [weight.strides[0], weight.strides[1]],
            is_dense: window.is_contiguous(),
            window,
            is_f32: k.x.dtype == DType::F32,
        }
    }

    /// Places of windows in one output channel.
    pub fn places(&self) -> usize {
        self.axes.iter().map(|a| a.count).product()
    }

    /// Elements of a window in one channel.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.size).product()
    }

    /// Terms of a sum.
    pub fn terms(&self) -> usize {
        self.channels * self.taps()
    }

    /// Whether windows are single neighbouring elements of f32 in one line, channels far enough apart in the cache that
    /// many of them can be seen at once.
    pub fn is_steppable(&self) -> bool {
        /// Channels that share a set of the first-level cache, and bytes after which sets repeat closely.
        const SHARED: (usize, usize) = (8, 1024);
        let [outer, middle, last] = &self.axes;
        let is_line = last.is_plain() && last.step == 1 && self.x.iter().all(|step| *step >= 0);
        let is_apart = self.channels <= SHARED.0 || !(4 * self.x[2].unsigned_abs()).is_multiple_of(SHARED.1);
        let fits = u32::try_from(self.channels as isize * self.x[2]).is_ok();
        self.is_f32
            && is_line
            && is_apart
            && fits
            && [outer, middle].iter().all(|axis| axis.is_plain() && axis.count == 1)
    }

    /// Whether `n` elements from place `from` on of every channel of a unit lie within the input, that of the last image.
    pub fn may_step(&self, unit: &Unit, from: usize, n: usize) -> bool {
        let last = |steps: [usize; 2]| steps[0] as isize * self.x[0] + steps[1] as isize * self.x[1];
        let end = last([unit.n, unit.group]) + (from + n) as isize;
        end <= last([self.n - 1, self.groups - 1]) + self.axes[2].extent as isize
    }

    /// Every element of a window in one channel, row-major.
    pub fn window_places(&self) -> impl Iterator<Item = [usize; 3]> + Clone {
        let [a, b, c] = self.axes.map(|axis| axis.size);
        (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k])))
    }
}

/// The axes, those that step as one merged, behind as many as are missing.
fn three(all: impl Iterator<Item = Axis>) -> [Axis; 3] {
    let mut axes: Vec<Axis> = Vec::with_capacity(3);
    for axis in all {
        match axes.last_mut() {
            Some(last) if last.is_plain() && axis.is_plain() && last.step == axis.step * axis.extent as isize => {
                last.extent *= axis.extent;
                *last = Axis { step: axis.step, count: last.extent, ..*last };
            }
            _ => axes.push(axis),
        }
    }
    let missing = 3 - axes.len();
    std::array::from_fn(|axis| axis.checked_sub(missing).map_or(Axis::NONE, |axis| axes[axis]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(extent: usize, step: isize) -> Axis {
        Axis { extent, count: extent, step, ..Axis::NONE }
    }

    #[test]
    fn plain_axes_in_step_are_one() {
        let check = |axes: &[Axis], want: [Axis; 3]| assert_eq!(three(axes.iter().copied()), want);
        check(&[plain(5, 7), plain(7, 1)], [Axis::NONE, Axis::NONE, plain(35, 1)]);
        check(&[plain(5, 8), plain(7, 1)], [Axis::NONE, plain(5, 8), plain(7, 1)]);
        let wide = Axis { size: 3, ..plain(7, 1) };
        check(&[plain(5, 7), wide], [Axis::NONE, plain(5, 7), wide]);
    }
}
