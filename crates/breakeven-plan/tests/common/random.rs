//! Random graphs and data from a seed.

use breakeven_ir::{Combine, DType, Fold, Graph, NodeId, Op, Reduce, RowWise, Scalar, Scan, Shape, Spec, View};

use super::Write;

/// A small counter-based generator: the same numbers everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Dense bytes for an input.
pub fn data(graph: &Graph, id: NodeId) -> Vec<u8> {
    let spec = &graph.node(id).spec;
    let mut random = Random(u64::from(id.0) + 77);
    let mut bytes = vec![0; spec.bytes() as usize];
    for at in 0..spec.shape.elements() {
        let number = if spec.dtype == DType::F32 { random.unit() * 2.0 - 1.0 } else { random.below(3) as f64 };
        Scalar::of(spec.dtype, number).store(spec.dtype, &mut bytes, at);
    }
    bytes
}

/// A graph of about `count` operations, f32, with views, products, folds and several outputs.
pub fn graph(seed: u64, count: usize) -> Graph {
    let mut random = Random(seed);
    let mut w = Write(Graph::new());
    let mut known: Vec<NodeId> = Vec::new();
    for _ in 0..3 {
        let shape: Vec<usize> = (0..random.below(4)).map(|_| 1 + random.below(3)).collect();
        known.push(w.input(&shape));
    }
    for _ in 0..count {
        let next = grow(&mut w, &mut random, &known);
        known.extend(next);
    }
    for _ in 0..=random.below(3) {
        let output = known[known.len() - 1 - random.below(known.len().min(5))];
        w.0.want(output);
    }
    w.0
}

fn grow(w: &mut Write, random: &mut Random, known: &[NodeId]) -> Option<NodeId> {
    // Mostly recent nodes, so that graphs are deep.
    let x = known[known.len() - 1 - random.below(known.len().min(6))];
    let shape = w.0.node(x).spec.shape.clone();
    if shape.elements() > 4096 {
        return None;
    }
    let dims: Vec<usize> = shape.to_vec();
    if w.0.node(x).spec.dtype == DType::Bool {
        return Some(from_mask(w, random, known, x, &shape));
    }
    match random.below(20) {
        19 if !dims.is_empty() => Some(scattered(w, random, known, x, &dims)),
        18 if !dims.is_empty() => {
            let fold = random.pick(&[Fold::Sum, Fold::Max, Fold::Min]);
            let (exclusive, reverse) = (fold == Fold::Sum && random.below(2) == 0, random.below(2) == 0);
            Some(w.op(Op::Scan(Scan { fold, axis: random.below(dims.len()), exclusive, reverse }), &[x]))
        }
        17 if !dims.is_empty() && dims.len() < 5 => Some(windowed(w, random, x, &dims)),
        14 => Some(w.map("is_nan", &[x])),
        15 => {
            let wide = w.op(Op::Cast(DType::F64), &[x]);
            let wide = w.map("square", &[wide]);
            Some(w.op(Op::Cast(DType::F32), &[wide]))
        }
        16 if !dims.is_empty() && random.below(4) == 0 => Some(w.slice(x, random.below(dims.len()), 0, 0, 1)),
        0..=2 => Some(w.map(random.pick(&["neg", "relu", "tanh", "abs"]), &[x])),
        3..=5 => {
            let other = fitting(w, random, known, &shape);
            Some(w.map(random.pick(&["add", "mul", "maximum"]), &[x, other]))
        }
        6 => Some(permuted(w, random, x)),
        7 => Some(w.reshape(x, &reshaped(random, &shape))),
        8 if !dims.is_empty() && !shape.is_empty() => Some(sliced(w, random, x, &dims)),
        9 if dims.len() < 5 => Some(w.broadcast(x, &[&[1 + random.below(3)], dims.as_slice()].concat())),
        10 => reduced(w, random, x, dims.len()),
        11 if !dims.is_empty() => {
            let kind = random.pick(&[RowWise::Softmax, RowWise::LayerNorm { epsilon: 1e-5 }]);
            Some(w.op(Op::RowWise(kind, random.below(dims.len())), &[x]))
        }
        12 if dims.len() >= 2 => Some(product(w, random, x, &dims)),
        13 if !dims.is_empty() => Some(other_shapes(w, random, known, x, &shape)),
        _ => None,
    }
}

fn from_mask(w: &mut Write, random: &mut Random, known: &[NodeId], x: NodeId, shape: &Shape) -> NodeId {
    match random.below(3) {
        0 => w.map("logical_not", &[x]),
        1 => w.op(Op::Cast(DType::F32), &[x]),
        _ => {
            let (one, other) = (fitting(w, random, known, shape), fitting(w, random, known, shape));
            w.map("where", &[x, one, other])
        }
    }
}

fn sliced(w: &mut Write, random: &mut Random, x: NodeId, dims: &[usize]) -> NodeId {
    let axis = random.below(dims.len());
    let count = 1 + random.below(dims[axis]);
    let start = random.below(dims[axis] - count + 1);
    let flip = random.below(2) == 0;
    if flip { w.slice(x, axis, start + count - 1, count, -1) } else { w.slice(x, axis, start, count, 1) }
}

fn scattered(w: &mut Write, random: &mut Random, known: &[NodeId], x: NodeId, dims: &[usize]) -> NodeId {
    let axis = random.below(dims.len());
    let mut shape = dims.to_vec();
    shape[axis] = random.below(4);
    let is_shared = random.below(2) == 0;
    let extent = |a: usize| if a == axis || !is_shared { shape[a] } else { 1 };
    let few: Vec<usize> = (0..dims.len()).map(extent).collect();
    let index = w.0.input(Spec::new(DType::I64, few.as_slice()));
    let index = w.broadcast(index, &shape);
    let updates = fitting(w, random, known, &Shape::from(shape.as_slice()));
    let updates = w.broadcast(updates, &shape);
    w.op(Op::Scatter(axis, random.pick(&Combine::ALL)), &[x, index, updates])
}

fn windowed(w: &mut Write, random: &mut Random, x: NodeId, dims: &[usize]) -> NodeId {
    let axis = random.below(dims.len());
    let (size, apart) = (1 + random.below(3), [1 + random.below(2), 1 + random.below(2)]);
    w.window(x, axis, if dims[axis] > (size - 1) * apart[1] { size } else { 1 }, apart)
}

fn product(w: &mut Write, random: &mut Random, x: NodeId, dims: &[usize]) -> NodeId {
    let columns = [&dims[..dims.len() - 2], &[dims[dims.len() - 1], 1 + random.below(3)]].concat();
    let right = w.input(&columns[columns.len() - 2..]);
    let right = w.broadcast(right, &columns);
    w.op(Op::matmul(), &[x, right])
}

fn reduced(w: &mut Write, random: &mut Random, x: NodeId, rank: usize) -> Option<NodeId> {
    let axes = (0..rank).filter(|_| random.below(2) == 0).collect();
    let fold = random.pick(&[Fold::Sum, Fold::Mean, Fold::Max, Fold::Moments]);
    // There is no largest of nothing.
    let first = w.0.add(Op::Reduce(Reduce { fold, axes }), &[x]).ok()?;
    let second = fold == Fold::Moments && random.below(2) == 0;
    Some(if second { w.op(Op::Output(1), &[first]) } else { first })
}

fn other_shapes(w: &mut Write, random: &mut Random, known: &[NodeId], x: NodeId, shape: &Shape) -> NodeId {
    if random.below(2) == 0 {
        let other = fitting(w, random, known, shape);
        return w.op(Op::Concat(random.below(shape.rank())), &[x, other]);
    }
    let index = w.0.input(Spec::new(DType::I64, [1 + random.below(2)]));
    w.op(Op::Gather(random.below(shape.rank())), &[x, index])
}

fn fits(spec: &Spec, shape: &Shape) -> bool {
    spec.dtype == DType::F32 && spec.shape.broadcast(shape).as_ref() == Some(shape)
}

/// A known node of this shape, or one broadcast to it, or a number.
fn fitting(w: &mut Write, random: &mut Random, known: &[NodeId], shape: &Shape) -> NodeId {
    let fits: Vec<NodeId> = known.iter().copied().filter(|id| fits(&w.0.node(*id).spec, shape)).collect();
    if fits.is_empty() || random.below(4) == 0 {
        return w.fill(random.unit(), shape);
    }
    let other = random.pick(&fits);
    w.broadcast(other, shape)
}

fn permuted(w: &mut Write, random: &mut Random, x: NodeId) -> NodeId {
    let rank = w.0.node(x).spec.shape.rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    (1..rank).for_each(|i| axes.swap(i, random.below(i + 1)));
    w.op(Op::View(View::Permute(axes.as_slice().into())), &[x])
}

/// A random shape of as many elements.
fn reshaped(random: &mut Random, shape: &Shape) -> Vec<usize> {
    let mut dims: Vec<usize> = shape.to_vec();
    match random.below(3) {
        0 => vec![shape.elements()],
        1 if dims.len() >= 2 => {
            let at = random.below(dims.len() - 1);
            let next = dims.remove(at + 1);
            dims[at] *= next;
            dims
        }
        _ if dims.len() < 6 => {
            dims.insert(random.below(dims.len() + 1), 1);
            dims
        }
        _ => dims,
    }
}
