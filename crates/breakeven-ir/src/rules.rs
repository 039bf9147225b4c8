//! Shape and dtype rules: what each operation takes and gives. They exist here and nowhere else.

use smallvec::{SmallVec, smallvec};

use crate::{
    CallError, Combine, Convolution, DType, Family, Fold, Kind, Op, Reduce, Row, RowWise, Scan, Shape, Sliding, Sort,
    Spec,
};

/// What an operation gives: nearly always one tensor, for which no memory is asked for.
pub type Specs = SmallVec<[Spec; 1]>;

impl Op {
    /// What the operation gives for inputs of these specs: one entry for each of its outputs.
    pub fn specs(&self, inputs: &[&Spec]) -> Result<Specs, CallError> {
        let named = |e: CallError| if e.operands.is_empty() { e.of(inputs) } else { e };
        let specs = self.ruled(inputs).map_err(named)?;
        for spec in &specs {
            self.addressable(spec).map_err(named)?;
        }
        Ok(specs)
    }

    /// As [`Op::specs`], of output 0 alone.
    pub fn spec(&self, inputs: &[&Spec]) -> Result<Spec, CallError> {
        match self {
            // No wider than its inputs, which are addressable.
            Op::Map(row, params) => map(*row, params.len(), inputs).map_err(|e| e.of(inputs)),
            _ => self.specs(inputs).map(|mut specs| specs.swap_remove(0)),
        }
    }

    fn ruled(&self, inputs: &[&Spec]) -> Result<Specs, CallError> {
        let one = |spec: Result<Spec, CallError>| spec.map(|s| smallvec![s]);
        match self {
            Op::Input | Op::Fill(_) | Op::Output(_) => Err(self.wrong("is not computed from specs alone")),
            Op::Map(row, params) => one(map(*row, params.len(), inputs)),
            Op::Cast(dtype) => one(self.unary(inputs).map(|x| Spec { dtype: *dtype, shape: x.shape.clone() })),
            Op::View(view) => {
                one(self.unary(inputs).and_then(|x| Ok(Spec { dtype: x.dtype, shape: view.shape(&x.shape)? })))
            }
            Op::Reduce(reduce) => self.unary(inputs).and_then(|x| reduced(reduce, x)),
            Op::Scan(scan) => one(self.unary(inputs).and_then(|x| scanned(*scan, x))),
            Op::RowWise(kind, axis) => one(self.unary(inputs).and_then(|x| row_wise(*kind, *axis, x))),
            Op::Sort(sort) => self.unary(inputs).and_then(|x| sorted(*sort, x)),
            Op::MatMul(_) => one(matmul(inputs)),
            Op::MatMulInt => one(matmul_int(inputs)),
            Op::Conv(convolution) => one(conv(convolution, inputs)),
            Op::Attention(_) => one(attention(inputs)),
            Op::Gather(axis) => one(gather(*axis, inputs)),
            Op::Scatter(axis, combine) => one(scatter(*axis, *combine, inputs)),
            Op::Concat(axis) => one(concat(*axis, inputs)),
            Op::Custom(op, params) => op.specs(params.len(), inputs).map(Specs::from_vec),
        }
    }

    /// Extents of several inputs, each of which fits, can multiply to what no memory has.
    fn addressable(&self, spec: &Spec) -> Result<(), CallError> {
        if spec.is_addressable() {
            return Ok(());
        }
        Err(self.wrong(format!("gives {spec}, which has more bytes than memory has addresses")))
    }

    fn wrong(&self, message: impl Into<String>) -> CallError {
        CallError::new(self.name(), message)
    }

    fn unary<'a>(&self, inputs: &[&'a Spec]) -> Result<&'a Spec, CallError> {
        match inputs {
            [x] => Ok(x),
            _ => Err(self.wrong(format!("takes one tensor, not {}", inputs.len()))),
        }
    }
}

fn map(row: Row, params: usize, inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new(row.name, message));
    if inputs.len() != row.arity() || params != row.params() {
        return wrong(format!("takes {} tensors and {} parameters", row.arity(), row.params()));
    }
    let values = || row.args.iter().zip(inputs).filter(|(k, _)| **k == Kind::V).map(|(_, s)| s.dtype);
    let dtype = values().next().unwrap_or(DType::Bool);
    let masks = row.args.iter().zip(inputs).filter(|(k, _)| **k == Kind::M);
    if let Some((_, mask)) = masks.clone().find(|(_, s)| s.dtype != DType::Bool) {
        return wrong(format!("takes a mask of bool, not of {}", mask.dtype));
    }
    if let Some(other) = values().find(|&d| d != dtype) {
        return wrong(format!("takes tensors of one dtype, not {dtype} and {other}; cast one of them"));
    }
    if !row.family.has(dtype) {
        return wrong(undefined(row.family == Family::Float, dtype));
    }
    if inputs.iter().any(|s| s.shape != inputs[0].shape) {
        return wrong("takes tensors of one shape; broadcast them first".to_owned());
    }
    let dtype = if row.out == Kind::M { DType::Bool } else { dtype };
    Ok(Spec { dtype, shape: inputs[0].shape.clone() })
}

/// No float holds every integer, so which one is meant is for the caller to say.
fn undefined(takes_floats: bool, dtype: DType) -> String {
    let hint = if takes_floats { "; it takes floats: cast the tensor to one first, such as f32" } else { "" };
    format!("is not defined for {dtype}{hint}")
}

fn reduced(reduce: &Reduce, x: &Spec) -> Result<Specs, CallError> {
    let fold = reduce.fold;
    let wrong = |message: String| Err(CallError::new(fold.name(), message));
    let Some(dtype) = fold.dtype(x.dtype) else {
        return wrong(undefined(matches!(fold, Fold::Mean | Fold::Moments), x.dtype));
    };
    let ascending = reduce.axes.windows(2).all(|w| w[0] < w[1]);
    if !ascending || reduce.axes.last().is_some_and(|&a| a >= x.shape.rank()) {
        return wrong(format!("axes {:?} must be different axes of {}", reduce.axes.as_slice(), x.shape));
    }
    let folded: usize = reduce.axes.iter().map(|&a| x.shape[a]).product();
    if folded == 0 && matches!(fold, Fold::Max | Fold::Min | Fold::ArgMax | Fold::ArgMin) {
        return wrong("of no elements is not defined".to_owned());
    }
    let keep = |(a, &n): (usize, &usize)| (!reduce.axes.contains(&a)).then_some(n);
    let shape: Shape = x.shape.iter().enumerate().filter_map(keep).collect();
    Ok(smallvec![Spec { dtype, shape }; fold.outputs()])
}

fn scanned(scan: Scan, x: &Spec) -> Result<Spec, CallError> {
    let Some(name) = Scan::name_of(scan.fold) else {
        return Err(CallError::new("scan", format!("there is no running {}", scan.fold.name())));
    };
    if scan.fold.dtype(x.dtype).is_none() {
        return Err(CallError::new(name, format!("is not defined for {}", x.dtype)));
    }
    if scan.axis >= x.shape.rank() {
        return Err(CallError::new(name, format!("axis {} does not exist in {}", scan.axis, x.shape)));
    }
    Ok(x.clone())
}

fn sorted(sort: Sort, x: &Spec) -> Result<Specs, CallError> {
    let wrong = |message: String| Err(CallError::new("sort", message));
    let Some(&extent) = x.shape.get(sort.axis) else {
        return wrong(format!("axis {} does not exist in {}", sort.axis, x.shape));
    };
    let keep = sort.keep.unwrap_or(extent);
    if keep > extent {
        return wrong(format!("{keep} elements are to be kept of an axis of extent {extent}"));
    }
    let shape: Shape = x.shape.iter().enumerate().map(|(a, &n)| if a == sort.axis { keep } else { n }).collect();
    Ok([x.dtype, DType::I64].map(|dtype| Spec { dtype, shape: shape.clone() }).into_iter().collect())
}

fn row_wise(kind: RowWise, axis: usize, x: &Spec) -> Result<Spec, CallError> {
    if !x.dtype.is_float() {
        return Err(CallError::new(kind.name(), undefined(true, x.dtype)));
    }
    if axis >= x.shape.rank() {
        return Err(CallError::new(kind.name(), format!("axis {axis} does not exist in {}", x.shape)));
    }
    Ok(x.clone())
}

fn matmul(inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("matmul", message));
    let [a, b] = inputs else {
        return wrong(format!("takes two tensors, not {}", inputs.len()));
    };
    if a.dtype != b.dtype || a.dtype == DType::Bool {
        return wrong(format!("takes two tensors of one number type, not {} and {}", a.dtype, b.dtype));
    }
    Ok(Spec { dtype: a.dtype, shape: product("matmul", a, b)? })
}

fn matmul_int(inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("matmul_int", message));
    let [a, b] = inputs else {
        return wrong(format!("takes two tensors, not {}", inputs.len()));
    };
    if [a, b].iter().any(|s| !matches!(s.dtype, DType::I8 | DType::U8)) {
        return wrong(format!("takes two tensors of i8 or u8, not {} and {}", a.dtype, b.dtype));
    }
    Ok(Spec { dtype: DType::I32, shape: product("matmul_int", a, b)? })
}

/// The shape of a matrix product.
fn product(operation: &'static str, a: &Spec, b: &Spec) -> Result<Shape, CallError> {
    let wrong = |message: String| Err(CallError::new(operation, message));
    let ([lead_a @ .., m, ka], [lead_b @ .., kb, n]) = (&*a.shape, &*b.shape) else {
        return wrong("takes tensors of rank 2 or more".to_owned());
    };
    if ka != kb {
        return wrong(format!("the inner extents differ: {ka} columns on the left, {kb} rows on the right"));
    }
    if lead_a != lead_b {
        return wrong("the leading extents differ; broadcast them first".to_owned());
    }
    Ok(lead_a.iter().chain([m, n]).copied().collect())
}

fn conv(convolution: &Convolution, inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("conv", message));
    let [x, weight] = inputs else {
        return wrong(format!("takes an input and a weight, not {} tensors", inputs.len()));
    };
    if x.dtype != weight.dtype || x.dtype == DType::Bool {
        return wrong(format!("takes two tensors of one number type, not {} and {}", x.dtype, weight.dtype));
    }
    let Convolution { groups, along } = convolution;
    let rank = along.len() + 2;
    if !(3..=5).contains(&rank) || x.shape.rank() != rank || weight.shape.rank() != rank {
        return wrong("takes an input and a weight of one rank, with one to three spatial axes".to_owned());
    }
    let (x_shape, w) = (&x.shape, &weight.shape);
    let fits = *groups > 0 && w[1].checked_mul(*groups) == Some(x_shape[1]) && w[0].is_multiple_of(*groups);
    if !fits {
        return wrong(format!("{} channels in {groups} groups do not meet a weight of {w}", x_shape[1]));
    }
    if along.iter().any(|a| a.stride == 0 || a.dilation == 0) || w[2..].contains(&0) {
        return wrong("windows, strides and dilations are at least 1".to_owned());
    }
    if let Some((a, size)) = along.iter().zip(&w[2..]).find(|(a, size)| !a.is_countable(**size)) {
        return wrong(format!("a window of {size} by {} is too large, or steps too far", a.dilation));
    }
    let dims: Vec<usize> = [x_shape[0], w[0]].into_iter().chain(along.iter().map(|a| a.count)).collect();
    Ok(Spec { dtype: x.dtype, shape: Shape::new(&dims)? })
}

impl Sliding {
    /// Whether every place that a window of `size` elements sees has a signed number.
    fn is_countable(&self, size: usize) -> bool {
        let reach = (size - 1).checked_mul(self.dilation);
        let last = self.count.saturating_sub(1).checked_mul(self.stride);
        let end = reach.zip(last).and_then(|(reach, last)| reach.checked_add(last)?.checked_add(1));
        [end, Some(self.before)].iter().all(|n| n.is_some_and(|n| isize::try_from(n).is_ok()))
    }
}

fn attention(inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("attention", message));
    let [q, k, v, bias @ ..] = inputs else {
        return wrong(format!("takes queries, keys, values and perhaps a bias, not {} tensors", inputs.len()));
    };
    if !q.dtype.is_float() {
        return wrong(undefined(true, q.dtype));
    }
    if let Some(other) = inputs.iter().find(|other| other.dtype != q.dtype) {
        return wrong(format!("takes tensors of one dtype, not {} and {}; cast one of them", q.dtype, other.dtype));
    }
    let ([lead @ .., l, e], [lead_k @ .., s, e_k], [lead_v @ .., s_v, d]) = (&*q.shape, &*k.shape, &*v.shape) else {
        return wrong("takes tensors of rank 2 or more".to_owned());
    };
    if e != e_k || *e == 0 {
        return wrong(format!("queries of {e} elements do not meet keys of {e_k}"));
    }
    if s != s_v {
        return wrong(format!("there are {s} keys and {s_v} values"));
    }
    let scores: Vec<usize> = lead.iter().chain([l, s]).copied().collect();
    if lead != lead_k || lead != lead_v || bias.iter().any(|bias| *bias.shape != *scores) {
        return wrong("the leading extents differ, or those of the bias; broadcast them first".to_owned());
    }
    match bias.len() {
        0 | 1 => Ok(Spec { dtype: q.dtype, shape: lead.iter().chain([l, d]).copied().collect() }),
        more => wrong(format!("takes one bias, not {more}")),
    }
}

fn gather(axis: usize, inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("gather", message));
    let [source, index] = inputs else {
        return wrong(format!("takes a source and an index, not {} tensors", inputs.len()));
    };
    if !matches!(index.dtype, DType::I64 | DType::I32) {
        return wrong(format!("takes an index of i64 or i32, not {}", index.dtype));
    }
    if axis >= source.shape.rank() {
        return wrong(format!("axis {axis} does not exist in {}", source.shape));
    }
    let dims = [&source.shape[..axis], &index.shape[..], &source.shape[axis + 1..]].concat();
    Ok(Spec { dtype: source.dtype, shape: Shape::new(&dims)? })
}

fn scatter(axis: usize, combine: Combine, inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new(combine.name(), message));
    let [source, index, updates] = inputs else {
        return wrong(format!("takes a source, an index and updates, not {} tensors", inputs.len()));
    };
    if !matches!(index.dtype, DType::I64 | DType::I32) {
        return wrong(format!("takes an index of i64 or i32, not {}", index.dtype));
    }
    if source.dtype != updates.dtype || !combine.has(source.dtype) {
        return wrong(format!("is not defined for a source of {} and updates of {}", source.dtype, updates.dtype));
    }
    if axis >= source.shape.rank() {
        return wrong(format!("axis {axis} does not exist in {}", source.shape));
    }
    if index.shape != updates.shape {
        return wrong("takes an index and updates of one shape".to_owned());
    }
    if index.shape.rank() != source.shape.rank() || index.shape.without(axis) != source.shape.without(axis) {
        return wrong(format!("takes an index that is equal to the source in all axes but {axis}"));
    }
    Ok((*source).clone())
}

fn concat(axis: usize, inputs: &[&Spec]) -> Result<Spec, CallError> {
    let wrong = |message: String| Err(CallError::new("concat", message));
    let Some(first) = inputs.first() else {
        return wrong("takes at least one tensor".to_owned());
    };
    if axis >= first.shape.rank() {
        return wrong(format!("axis {axis} does not exist in {}", first.shape));
    }
    let rest = |s: &Spec| (s.dtype, s.shape.rank(), s.shape.without(axis));
    let same = rest(first);
    if inputs.iter().any(|s| rest(s) != same) {
        return wrong(format!("tensors must have one dtype and be equal in all axes but {axis}"));
    }
    let total = inputs.iter().map(|s| s.shape[axis]).fold(0, usize::saturating_add);
    let dims: Vec<usize> = first.shape.iter().enumerate().map(|(a, &n)| if a == axis { total } else { n }).collect();
    Ok(Spec { dtype: first.dtype, shape: Shape::new(&dims)? })
}
