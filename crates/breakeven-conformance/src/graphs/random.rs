//! Random graphs and data from a seed.

use breakeven_ir::{
    Combine, Convolution, DType, Fold, Graph, Kind, MAPS, NodeId, Op, RowWise, Scalar, Scan, Shape, Sliding, Sort, Spec,
};

use super::Write;
use crate::data::Random;

/// What sort of operations a graph has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Bounded operations that do not amplify rounding, so that the end values can be compared.
    Smooth,
    /// Any row, comparisons and places of maxima included: rounding upstream may change everything downstream.
    Any,
}

/// Whether a device runs the last node of a graph.
pub type Runs<'a> = &'a dyn Fn(&Graph) -> bool;

const SMOOTH: [&str; 8] = ["neg", "relu", "tanh", "abs", "sigmoid", "gelu", "sin", "softplus"];
const SMOOTH_OF_TWO: [&str; 4] = ["add", "sub", "maximum", "minimum"];

/// A graph of about `count` operations with views, products, folds, concats and several outputs. `index` is the type of
/// its indices.
pub fn graph(seed: u64, count: usize, nature: Nature, index: DType) -> Graph {
    let mut grow = Grow::new(seed, nature, index, &[DType::F32]);
    for _ in 0..count {
        let more = grow.step();
        grow.known.extend(more);
    }
    grow.finish()
}

/// As `graph` of any nature, over tensors of all `dtypes`, with casts between them; a node that the device does not run is
/// left out.
pub fn typed(seed: u64, count: usize, dtypes: &[DType], runs: Runs<'_>) -> Graph {
    let index = if dtypes.contains(&DType::I64) { DType::I64 } else { DType::I32 };
    let mut grow = Grow::new(seed, Nature::Any, index, dtypes);
    for _ in 0..count {
        let before = grow.w.0.clone();
        let Some(more) = grow.step() else { continue };
        if runs(&wanting(&grow.w.0, more)) {
            grow.known.push(more);
        } else {
            grow.w.0 = before;
        }
    }
    grow.finish()
}

fn wanting(graph: &Graph, id: NodeId) -> Graph {
    let mut graph = graph.clone();
    graph.want(id);
    graph
}

impl Grow {
    fn new(seed: u64, nature: Nature, index: DType, dtypes: &[DType]) -> Grow {
        let (w, random) = (Write::default(), Random::new(seed));
        let mut grow = Grow { w, random, nature, index, dtypes: dtypes.to_vec(), known: Vec::new() };
        for _ in 0..3 {
            let rank = grow.random.below(4);
            let shape: Vec<usize> = (0..rank).map(|_| *grow.random.pick(&[1, 2, 3, 5, 7])).collect();
            let dtype = *grow.random.pick(dtypes);
            let input = grow.w.0.input(Spec::new(dtype, shape.as_slice()));
            grow.known.push(input);
        }
        grow
    }

    fn finish(mut self) -> Graph {
        let grow = &mut self;
        let outputs = 1 + grow.random.below(3);
        for _ in 0..outputs {
            let near = grow.random.below(grow.known.len().min(5));
            let output = grow.known[grow.known.len() - 1 - near];
            grow.w.0.want(output);
        }
        self.w.0
    }
}

/// Dense bytes for an input: floats in -2..2, integers that serve as indices too, truth values.
pub fn data(graph: &Graph, id: NodeId) -> Vec<u8> {
    let spec = &graph.node(id).spec;
    let mut random = Random::new(u64::from(id.0) + 77);
    let mut bytes = vec![0; spec.bytes() as usize];
    for at in 0..spec.shape.elements() {
        let may_be_index = spec.shape.rank() == 1 && spec.shape.elements() <= 3;
        let number = match spec.dtype {
            d if d.is_float() => 4.0 * random.unit() - 2.0,
            d if may_be_index || d == DType::Bool => random.below(2) as f64 - 1.0,
            _ => random.below(200) as f64 - 100.0,
        };
        Scalar::of(spec.dtype, number).store(spec.dtype, &mut bytes, at);
    }
    bytes
}

struct Grow {
    w: Write,
    random: Random,
    nature: Nature,
    index: DType,
    /// Element types of inputs and casts.
    dtypes: Vec<DType>,
    /// Nodes so far.
    known: Vec<NodeId>,
}

impl Grow {
    /// Mostly on recent nodes, so that graphs are deep.
    fn step(&mut self) -> Option<NodeId> {
        let near = self.random.below(self.known.len().min(6));
        let x = self.known[self.known.len() - 1 - near];
        let dims: Vec<usize> = self.w.0.node(x).spec.shape.to_vec();
        if dims.iter().product::<usize>() > 5000 {
            return None;
        }
        let dtype = self.w.0.node(x).spec.dtype;
        match self.random.below(21) {
            0 | 1 if self.dtypes.len() > 1 => {
                let to = *self.random.pick(&self.dtypes);
                (to != dtype).then(|| self.w.op(Op::Cast(to), &[x]))
            }
            0..6 if self.nature == Nature::Any => Some(self.any_row(x)),
            0..3 => Some(self.w.map(SMOOTH[self.random.below(SMOOTH.len())], &[x])),
            3..6 => {
                let other = self.fitting(x);
                Some(self.w.map(SMOOTH_OF_TWO[self.random.below(SMOOTH_OF_TWO.len())], &[x, other]))
            }
            6 if dtype.is_float() => Some(self.bounded_product(x)),
            7..10 => Some(self.looked_at(x, &dims)),
            10 => Some(self.folded(x, &dims)),
            16 if !dims.is_empty() && dtype != DType::Bool => Some(self.scanned(x, &dims)),
            17 if !dims.is_empty() && !dims.contains(&0) => Some(self.scattered(x, &dims)),
            18 if !dims.is_empty() && self.nature == Nature::Any => Some(self.sorted(x, &dims)),
            19 if dims.len() >= 2 && [DType::I8, DType::U8].contains(&dtype) => Some(self.byte_matmul(x, &dims)),
            20 if (3..=5).contains(&dims.len()) && dtype != DType::Bool => Some(self.convolved(x, &dims)),
            11 | 12 if !dims.is_empty() && dtype.is_float() => Some(self.row_wise(x, dims.len())),
            13 if dims.len() >= 2 && dtype != DType::Bool => Some(self.matmul(x, &dims)),
            14 if !dims.is_empty() => Some(self.joined(x, dims.len())),
            15 if !dims.is_empty() && !dims.contains(&0) => {
                let picks = 1 + self.random.below(3);
                let index = self.w.0.input(Spec::new(self.index, [picks]));
                Some(self.w.op(Op::Gather(self.random.below(dims.len())), &[x, index]))
            }
            _ => None,
        }
    }

    /// Any row over the type of `x`; one that gives truth values chooses between two tensors.
    fn any_row(&mut self, x: NodeId) -> NodeId {
        let dtype = self.w.0.node(x).spec.dtype;
        let rows: Vec<_> = MAPS.iter().filter(|m| m.family.has(dtype)).collect();
        let row = *self.random.pick(&rows);
        let mut inputs = Vec::new();
        for kind in &row.args[..row.arity()] {
            let other = if inputs.is_empty() { x } else { self.fitting(x) };
            let is_mask = *kind == Kind::M && dtype != DType::Bool;
            inputs.push(if is_mask { self.w.map("less", &[x, other]) } else { other });
        }
        let params: Vec<f64> = (0..row.params()).map(|i| 0.5 + i as f64).collect();
        let made = self.w.map_with(row.name, &params, &inputs);
        if row.out == Kind::M && dtype != DType::Bool {
            let other = self.fitting(x);
            return self.w.map("where", &[made, x, other]);
        }
        made
    }

    /// A known node of this shape, or one broadcast to it, or a number.
    fn fitting(&mut self, x: NodeId) -> NodeId {
        let shape = self.w.0.node(x).spec.shape.clone();
        let dtype = self.w.0.node(x).spec.dtype;
        let fits = |id: &&NodeId| {
            let spec = &self.w.0.node(**id).spec;
            spec.dtype == dtype && spec.shape.broadcast(&shape).as_ref() == Some(&shape)
        };
        let fitting: Vec<NodeId> = self.known.iter().filter(fits).copied().collect();
        if fitting.is_empty() || self.random.below(4) == 0 {
            let number = self.random.unit();
            return self.w.0.fill(dtype, if dtype.is_float() { number } else { (3.0 * number).floor() });
        }
        *self.random.pick(&fitting)
    }

    fn bounded_product(&mut self, x: NodeId) -> NodeId {
        let other = self.fitting(x);
        let product = self.w.map("mul", &[x, other]);
        self.w.map("tanh", &[product])
    }

    fn looked_at(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        match self.random.below(5) {
            4 if dims.iter().all(|&n| n > 0) && !dims.is_empty() && dims.len() < 6 => self.windowed(x, dims),
            0 => {
                let mut axes: Vec<usize> = (0..dims.len()).collect();
                (1..dims.len()).for_each(|i| axes.swap(i, self.random.below(i + 1)));
                self.w.permute(x, &axes)
            }
            1 => {
                let to = self.reshaped(dims);
                self.w.reshape(x, &to)
            }
            2 if !dims.is_empty() => {
                let axis = self.random.below(dims.len());
                let count = (1 + self.random.below(dims[axis].max(1))).min(dims[axis]);
                let start = self.random.below(dims[axis] - count + 1);
                let back = count > 0 && self.random.below(2) == 0;
                let (start, step) = if back { (start + count - 1, -1) } else { (start, 1) };
                self.w.slice(x, axis, start, count, step)
            }
            _ if dims.len() < 5 => {
                let to = [&[1 + self.random.below(3)], dims].concat();
                self.w.broadcast(x, &to)
            }
            _ => x,
        }
    }

    /// Windows that often overlap, along an axis that has at least one.
    fn windowed(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let axis = self.random.below(dims.len());
        let dilation = 1 + self.random.below(2);
        let size = 1 + self.random.below(dims[axis].div_ceil(dilation).clamp(1, 3));
        let step = 1 + self.random.below(3);
        self.w.window(x, axis, size, [step, dilation])
    }

    fn reshaped(&mut self, dims: &[usize]) -> Vec<usize> {
        let mut dims = dims.to_vec();
        match self.random.below(3) {
            0 => vec![dims.iter().product()],
            1 if dims.len() >= 2 => {
                let at = self.random.below(dims.len() - 1);
                let next = dims.remove(at + 1);
                dims[at] *= next;
                dims
            }
            _ => {
                if dims.len() < 6 {
                    dims.insert(self.random.below(dims.len() + 1), 1);
                }
                dims
            }
        }
    }

    fn folded(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let dtype = self.w.0.node(x).spec.dtype;
        let axes: Vec<usize> = (0..dims.len()).filter(|_| self.random.below(2) == 0).collect();
        let all = if self.dtypes.len() > 1 {
            vec![Fold::Sum, Fold::Prod, Fold::Max, Fold::Min, Fold::ArgMax, Fold::ArgMin, Fold::All, Fold::Any]
        } else {
            vec![Fold::Sum, Fold::Mean, Fold::Max, Fold::Min, Fold::Moments]
        };
        // Nothing has no greatest element.
        let is_extreme = |fold: &Fold| matches!(fold, Fold::Max | Fold::Min | Fold::ArgMax | Fold::ArgMin);
        let is_defined = |fold: &Fold| fold.dtype(dtype).is_some() && !(is_extreme(fold) && dims.contains(&0));
        let all: Vec<Fold> = all.into_iter().filter(is_defined).collect();
        let fold = *self.random.pick(&all);
        let fold = if self.nature == Nature::Smooth && fold == Fold::Sum { Fold::Mean } else { fold };
        let first = self.w.reduce(fold, x, &axes);
        let second = fold == Fold::Moments && self.random.below(2) == 0;
        if second { self.w.op(Op::Output(1), &[first]) } else { first }
    }

    /// Some updates, or none; sums of a few are halved.
    fn scattered(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let axis = self.random.below(dims.len());
        let is_shared = self.random.below(2) == 0;
        let mut shape = dims.to_vec();
        shape[axis] = self.random.below(4);
        let few: Vec<usize> =
            shape.iter().enumerate().map(|(a, &n)| if a != axis && is_shared { 1 } else { n }).collect();
        let index = self.w.0.input(Spec::new(self.index, few.as_slice()));
        let index = self.w.broadcast(index, &shape);
        let dtype = self.w.0.node(x).spec.dtype;
        let updates = self.w.0.input(Spec::new(dtype, shape.as_slice()));
        let bounded = [Combine::Set, Combine::Add, Combine::Max, Combine::Min];
        let defined: Vec<Combine> = bounded.into_iter().filter(|combine| combine.has(dtype)).collect();
        let combine = *self.random.pick(&defined);
        let made = self.w.op(Op::Scatter(axis, combine), &[x, index, updates]);
        if combine != Combine::Add || !dtype.is_float() {
            return made;
        }
        let half = self.number_beside(x, 0.5);
        self.w.map("mul", &[made, half])
    }

    /// Sums are divided by their number of terms, so that they stay bounded. An extreme of nothing would be infinite.
    fn scanned(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let fold = *self.random.pick(&[Fold::Sum, Fold::Max, Fold::Min]);
        let axis = self.random.below(dims.len());
        let (exclusive, reverse) = (fold == Fold::Sum && self.random.below(2) == 0, self.random.below(2) == 0);
        let made = self.w.op(Op::Scan(Scan { fold, axis, exclusive, reverse }), &[x]);
        if fold != Fold::Sum || !self.w.0.node(x).spec.dtype.is_float() {
            return made;
        }
        let scale = self.number_beside(x, 1.0 / dims[axis].max(1) as f64);
        self.w.map("mul", &[made, scale])
    }

    /// The first of a row in order, or where they lay; equal elements stay as they lay.
    fn sorted(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let axis = self.random.below(dims.len());
        let keep = (self.random.below(2) == 0).then(|| self.random.below(dims[axis] + 1));
        let descending = self.random.below(2) == 0;
        let made = self.w.op(Op::Sort(Sort { axis, descending, keep }), &[x]);
        let places = self.dtypes.contains(&DType::I64) && self.random.below(2) == 0;
        if places { self.w.op(Op::Output(1), &[made]) } else { made }
    }

    /// Of bytes, added up exactly.
    fn byte_matmul(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let (lead, inner) = (&dims[..dims.len() - 2], dims[dims.len() - 1]);
        let columns = *self.random.pick(&[1, 2, 5, 17]);
        let dtype = *self.random.pick(&[DType::I8, DType::U8]);
        let right = self.w.0.input(Spec::new(dtype, [inner, columns]));
        let right = self.w.broadcast(right, &[lead, &[inner, columns]].concat());
        self.w.op(Op::MatMulInt, &[x, right])
    }

    fn row_wise(&mut self, x: NodeId, rank: usize) -> NodeId {
        let epsilon = if self.nature == Nature::Smooth { 0.1 } else { 1e-5 };
        let kinds =
            [RowWise::Softmax, RowWise::LogSoftmax, RowWise::LayerNorm { epsilon }, RowWise::RmsNorm { epsilon }];
        let kind = *self.random.pick(&kinds);
        self.w.op(Op::RowWise(kind, self.random.below(rank)), &[x])
    }

    /// By a fresh matrix, divided by the number of terms; sometimes with a bias and gelu, as layers have.
    fn matmul(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let (lead, inner) = (&dims[..dims.len() - 2], dims[dims.len() - 1]);
        let columns = *self.random.pick(&[1, 2, 5]);
        let dtype = self.w.0.node(x).spec.dtype;
        let right = self.w.0.input(Spec::new(dtype, [inner, columns]));
        let right = self.w.broadcast(right, &[lead, &[inner, columns]].concat());
        let product = self.w.op(Op::matmul(), &[x, right]);
        if !dtype.is_float() {
            return product;
        }
        let scale = self.number_beside(x, 1.0 / inner.max(1) as f64);
        let scaled = self.w.map("mul", &[product, scale]);
        if self.random.below(2) == 0 {
            return scaled;
        }
        let bias = self.w.0.input(Spec::new(dtype, [columns]));
        let sum = self.w.map("add", &[scaled, bias]);
        self.w.map("gelu", &[sum])
    }

    /// By fresh weights, divided by the number of terms; windows may stand beside the input. Channels that divide by two
    /// may be in two groups.
    fn convolved(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let dtype = self.w.0.node(x).spec.dtype;
        let groups = if dims[1].is_multiple_of(2) { 1 + self.random.below(2) } else { 1 };
        let (channels, outs) = (dims[1] / groups, groups * (1 + self.random.below(3)));
        let size: Vec<usize> = dims[2..].iter().map(|_| 1 + self.random.below(3)).collect();
        let along = dims[2..].iter().map(|&extent| Sliding {
            stride: 1 + self.random.below(2),
            dilation: 1 + self.random.below(2),
            before: self.random.below(3),
            count: 1 + self.random.below(extent.max(1)),
        });
        let convolution = Convolution { groups, along: along.collect() };
        let weight = self.w.0.input(Spec::new(dtype, [&[outs, channels], &size[..]].concat().as_slice()));
        let made = self.w.op(Op::Conv(convolution), &[x, weight]);
        if !dtype.is_float() {
            return made;
        }
        let terms = channels * size.iter().product::<usize>();
        let scale = self.number_beside(x, 1.0 / terms.max(1) as f64);
        self.w.map("mul", &[made, scale])
    }

    /// A number of the type of `x`.
    fn number_beside(&mut self, x: NodeId, value: f64) -> NodeId {
        let dtype = self.w.0.node(x).spec.dtype;
        self.w.0.fill(dtype, value)
    }

    fn joined(&mut self, x: NodeId, rank: usize) -> NodeId {
        let shape: Shape = self.w.0.node(x).spec.shape.clone();
        let other = self.fitting(x);
        let other = self.w.broadcast(other, &shape);
        self.w.op(Op::Concat(self.random.below(rank)), &[x, other])
    }
}
