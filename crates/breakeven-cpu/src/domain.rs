//! Domains: the elements a kernel walks over, with as few axes as its operands allow, cut into blocks.

use breakeven_ir::{Layout, MAX_RANK};

/// Elements of one block: temporaries of a block stay in the first-level cache. Reductions fold block by block, so
/// this is also a part of their meaning, alike on every machine.
pub(crate) const BLOCK: usize = 1024;

/// Elements of one row of a tile, where an operand lies across the others: as many as share a few cache lines.
const TILE: usize = 64;

/// How one operand steps through a domain.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    /// Elements between the operand's first element and that of the domain.
    pub start: isize,
    /// Elements from one index to the next, by axis.
    pub steps: [isize; MAX_RANK],
    /// Bytes of one element.
    pub width: usize,
    /// Element `i` of the domain lies `i` elements after the first.
    pub dense: bool,
}

/// Axes of nonzero extent, those that all operands step through alike merged into one.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    dims: Vec<usize>,
    elements: usize,
    chunk: usize,
    /// Blocks end where rows of the last axis end.
    by_row: bool,
    /// Tiles go down the rows before they go along them.
    tiled: bool,
}

/// A run of elements in row-major order, starting at `index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    index: [usize; MAX_RANK],
    /// How many come before it.
    pub start: usize,
    /// How many there are.
    pub n: usize,
    one_row: bool,
}

/// Whether the order of the elements may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row-major, as the shape says.
    Kept,
    /// Whatever lets the first operand be walked forwards.
    Free,
}

impl Domain {
    /// The domain of `operands`, which have one shape, and how each steps through it. Axes `from..to` of the shape count.
    pub fn new(operands: &[(&Layout, usize)], axes: std::ops::Range<usize>, order: Order) -> (Domain, Vec<Axes>) {
        let shape = &operands[0].0.shape;
        let mut dims: Vec<(usize, Vec<isize>)> = axes
            .filter(|&axis| shape[axis] != 1)
            .map(|axis| (shape[axis], operands.iter().map(|(l, _)| l.strides[axis]).collect()))
            .collect();
        let mut starts = vec![0isize; operands.len()];
        if order == Order::Free {
            forwards(&mut dims, &mut starts);
        }
        let dims = merged(dims);
        let elements = dims.iter().map(|(n, _)| n).product();
        let axes: Vec<Axes> = (0..operands.len()).map(|k| steps(&dims, k, starts[k], operands[k].1)).collect();
        let inner = dims.last().map_or(1, |(n, _)| *n);
        let across = axes.iter().any(|a| dims.len() > 1 && !matches!(a.steps[dims.len() - 1], 0 | 1));
        let by_row = inner >= TILE;
        let tiled = by_row && across && order == Order::Free;
        let chunk = if tiled { TILE } else { BLOCK };
        (Domain { dims: dims.into_iter().map(|(n, _)| n).collect(), elements, chunk, by_row, tiled }, axes)
    }

    /// Elements in all.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Elements that `axes` steps from one index of the last axis to the next; 0 where there is none.
    pub fn last_step(&self, axes: &Axes) -> isize {
        self.dims.len().checked_sub(1).map_or(0, |last| axes.steps[last])
    }

    /// True where all elements are one.
    pub fn is_one(&self, axes: &Axes) -> bool {
        axes.steps[..self.dims.len()].iter().all(|&step| step == 0)
    }

    /// True where all elements of a block are one.
    pub fn is_one_in_blocks(&self, axes: &Axes) -> bool {
        self.is_one(axes) || self.by_row && self.last_step(axes) == 0
    }

    /// The same domain with blocks of at most `chunk` elements.
    pub fn with_chunk(mut self, chunk: usize) -> Domain {
        self.chunk = chunk;
        self
    }

    /// How many axes are left.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Extents of the axes that are left.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    fn inner(&self) -> usize {
        self.dims.last().copied().unwrap_or(1)
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        match self.elements {
            0 => 0,
            n if self.by_row => n / self.inner() * self.inner().div_ceil(self.chunk),
            n => n.div_ceil(self.chunk),
        }
    }

    /// Block number `which`.
    pub fn block(&self, which: usize) -> Block {
        let inner = self.inner();
        let (start, n) = if self.by_row {
            let (rows, per_row) = (self.elements / inner, inner.div_ceil(self.chunk));
            let (row, part) =
                if self.tiled { (which % rows, which / rows) } else { (which / per_row, which % per_row) };
            (row * inner + part * self.chunk, self.chunk.min(inner - part * self.chunk))
        } else {
            (which * self.chunk, self.chunk.min(self.elements - which * self.chunk))
        };
        self.run(start, n)
    }

    /// The `n` elements from `start` on.
    pub fn run(&self, start: usize, n: usize) -> Block {
        let (mut index, mut left) = ([0; MAX_RANK], start);
        for axis in (0..self.dims.len()).rev() {
            if axis == 0 {
                index[0] = left;
            } else {
                (index[axis], left) = (left % self.dims[axis], left / self.dims[axis]);
            }
        }
        let last = self.dims.len().saturating_sub(1);
        Block { index, start, n, one_row: index[last] + n <= self.inner() }
    }

    /// Where the first element of a block lies, in elements from the operand's base.
    pub fn place(&self, axes: &Axes, block: &Block) -> isize {
        let steps = (0..self.dims.len()).map(|a| block.index[a] as isize * axes.steps[a]);
        axes.start + steps.sum::<isize>()
    }

    /// Where the block lies without gaps, in elements from the operand's base; `None` when it does not.
    pub fn direct(&self, axes: &Axes, block: &Block) -> Option<isize> {
        if axes.dense {
            return Some(axes.start + block.start as isize);
        }
        let along = self.dims.len().checked_sub(1).map_or(1, |last| axes.steps[last]);
        (block.one_row && (along == 1 || block.n == 1)).then(|| self.place(axes, block))
    }

    /// Calls `each(place, step, n)` for every run of a block within one row of the last axis.
    pub fn runs(&self, axes: &Axes, block: &Block, mut each: impl FnMut(isize, isize, usize)) {
        let Some(last) = self.dims.len().checked_sub(1) else {
            return each(axes.start, 0, block.n);
        };
        let (mut index, mut left) = (block.index, block.n);
        let mut place = self.place(axes, block);
        while left > 0 {
            let n = left.min(self.dims[last] - index[last]);
            each(place, axes.steps[last], n);
            left -= n;
            place -= index[last] as isize * axes.steps[last];
            index[last] = 0;
            for axis in (0..last).rev() {
                index[axis] += 1;
                place += axes.steps[axis];
                if index[axis] < self.dims[axis] {
                    break;
                }
                place -= axes.steps[axis] * index[axis] as isize;
                index[axis] = 0;
            }
        }
    }
}

/// Turns axes so that the first operand steps forwards, its longest steps outermost.
fn forwards(dims: &mut [(usize, Vec<isize>)], starts: &mut [isize]) {
    for (n, strides) in dims.iter_mut().filter(|(n, strides)| *n > 0 && strides[0] < 0) {
        for (start, stride) in starts.iter_mut().zip(strides) {
            *start += (*n as isize - 1) * *stride;
            *stride = -*stride;
        }
    }
    dims.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
}

fn merged(dims: Vec<(usize, Vec<isize>)>) -> Vec<(usize, Vec<isize>)> {
    let mut out: Vec<(usize, Vec<isize>)> = Vec::with_capacity(dims.len());
    for (n, strides) in dims {
        match out.last_mut() {
            Some((m, outer)) if outer.iter().zip(&strides).all(|(&o, &s)| o == s * n as isize) => {
                *m *= n;
                *outer = strides;
            }
            _ => out.push((n, strides)),
        }
    }
    out
}

fn steps(dims: &[(usize, Vec<isize>)], k: usize, start: isize, width: usize) -> Axes {
    let mut steps = [0; MAX_RANK];
    let (mut dense, mut stride) = (true, 1);
    for (axis, (n, strides)) in dims.iter().enumerate().rev() {
        steps[axis] = strides[k];
        dense &= strides[k] == stride;
        stride *= *n as isize;
    }
    Axes { start, steps, width, dense }
}
