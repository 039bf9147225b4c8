//! Models from arbitrary bytes: right as protobuf, mostly right as graphs, and wrong in the ways that matter.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use prost::Message;

use crate::operators::{self, Operator};
use crate::proto::{
    AttributeProto, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};

/// Element types that the reader has.
const TYPES: [i32; 14] = [1, 7, 1, 6, 9, 2, 3, 10, 11, 13, 12, 16, 4, 5];

/// Extents, counts and axes that are wrong somewhere.
const HOSTILE: [i64; 12] =
    [-1, i64::MIN, i64::MAX, 1 << 31, 1 << 62, (1 << 32) - 1, 65_536, 1 << 20, -2, 1 << 40, 4_096, -9];

/// Texts that operators know.
const TEXTS: [&str; 68] = [
    "constant",
    "reflect",
    "edge",
    "wrap",
    "linear",
    "cubic",
    "nearest",
    "half_pixel",
    "asymmetric",
    "align_corners",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "sum",
    "mean",
    "none",
    "add",
    "mul",
    "max",
    "min",
    "bilinear",
    "bicubic",
    "zeros",
    "border",
    "reflection",
    "LEFT",
    "RIGHT",
    "DCR",
    "CRD",
    "tanh",
    "forward",
    "bidirectional",
    "reverse",
    "floor",
    "ceil",
    "round_prefer_ceil",
    "round_prefer_floor",
    "not_larger",
    "not_smaller",
    "stretch",
    "gated",
    "delta",
    "gated_delta",
    "silu",
    "swish",
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "HardSigmoid",
    "Softplus",
    "ij,jk->ik",
    "ii->i",
    "...ij->...ji",
    "ij->",
    "bij,bjk",
    "i,j->ij",
    "...,...->...",
    "ij,ij->j",
    "iij->j",
    "-> ",
    "i...->...",
    "abcdefghij->a",
];

/// Where operators are that the standard has not settled.
const PREVIEW: &str = "ai.onnx.preview";

/// The deepest nesting of subgraphs that is made on purpose.
const DEEPEST: usize = 3;

/// The file.
pub fn model(bytes: &[u8]) -> Vec<u8> {
    proto(bytes).encode_to_vec()
}

/// The file before it is encoded.
pub fn proto(bytes: &[u8]) -> ModelProto {
    let mut source = Unstructured::new(bytes);
    // Bytes that run out are zeros, so this never fails; nothing is a model too.
    build(&mut source).unwrap_or_default()
}

fn build(from: &mut Unstructured<'_>) -> Result<ModelProto> {
    let version = if from.ratio(7, 8)? { *from.choose(&[21, 13, 18, 11, 9, 8, 7, 10, 24, 23])? } else { 1 };
    let dtype = *from.choose(&TYPES)?;
    let mut graph = Maker { names: Vec::new(), made: 0, dtype, shape: extents(from)? };
    let graph = graph.graph(from, 0)?;
    let opset = |(domain, version): (&str, i64)| OperatorSetIdProto { domain: domain.to_owned(), version };
    let opset_import = [("", version), (PREVIEW, 1)].map(opset).to_vec();
    Ok(ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() })
}

/// Names that are known so far.
struct Maker {
    names: Vec<String>,
    made: usize,
    /// What most tensors of the model have: of tensors that differ in everything, few operators take two.
    dtype: i32,
    shape: Vec<i64>,
}

impl Maker {
    fn name(&mut self) -> String {
        self.made += 1;
        let name = format!("t{}", self.made);
        self.names.push(name.clone());
        name
    }

    /// A name that is known; rarely one that is not, or none.
    fn known(&mut self, from: &mut Unstructured<'_>) -> Result<String> {
        if self.names.is_empty() || from.ratio(1, 32)? {
            return Ok(if from.arbitrary()? { String::new() } else { format!("t{}", self.made + 1) });
        }
        // The newest are used most: chains are more interesting than rows.
        let back = usize::from(from.int_in_range(0..=7u8)?).min(self.names.len() - 1);
        Ok(self.names[self.names.len() - 1 - back].clone())
    }

    /// Element type and shape of one more tensor.
    fn like(&self, from: &mut Unstructured<'_>) -> Result<(i32, Vec<i64>)> {
        let dtype = match from.arbitrary::<u8>()? {
            0..=190 => self.dtype,
            // Text, which the reader lacks.
            255 => 8,
            _ => *from.choose(&TYPES)?,
        };
        Ok((dtype, if from.ratio(1, 2)? { self.shape.clone() } else { extents(from)? }))
    }

    fn port(&mut self, name: String, from: &mut Unstructured<'_>) -> Result<ValueInfoProto> {
        let dim = |n: i64| DimensionProto { value: Some(DimensionValue::Extent(n)) };
        let (elem_type, dims) = self.like(from)?;
        let shape = TensorShapeProto { dim: dims.into_iter().map(dim).collect() };
        let value = TypeValue::Tensor(TensorTypeProto { elem_type, shape: Some(shape) });
        Ok(ValueInfoProto { name, r#type: Some(TypeProto { value: Some(value) }) })
    }

    /// A tensor that mostly holds what its shape says.
    fn tensor(&mut self, name: String, from: &mut Unstructured<'_>) -> Result<TensorProto> {
        // Lists of integers are what axes, shapes, pads and repeats come as.
        let is_list = from.arbitrary()?;
        let (data_type, dims) = match is_list {
            true if from.ratio(1, 4)? => (7, Vec::new()),
            true => (7, vec![from.int_in_range(0..=5)?]),
            false => self.like(from)?,
        };
        filled(TensorProto { dims, data_type, name, ..Default::default() }, from)
    }

    fn graph(&mut self, from: &mut Unstructured<'_>, depth: usize) -> Result<GraphProto> {
        let outer = self.names.len();
        let mut graph = GraphProto::default();
        for _ in 0..from.int_in_range(0..=3u8)? {
            let name = self.name();
            let port = self.port(name, from)?;
            graph.input.push(port);
        }
        for _ in 0..from.int_in_range(0..=3u8)? {
            let name = self.name();
            let tensor = self.tensor(name, from)?;
            graph.initializer.push(tensor);
        }
        let first = self.names.len();
        for _ in 0..from.int_in_range(1..=4u8)? {
            self.node(from, depth, &mut graph)?;
        }
        let mut outputs = self.names[first.min(self.names.len())..].to_vec();
        if from.ratio(1, 16)? {
            outputs.push(self.known(from)?);
        }
        for name in outputs {
            let untyped = ValueInfoProto { name: name.clone(), r#type: None };
            let port = if from.ratio(1, 4)? { self.port(name, from)? } else { untyped };
            graph.output.push(port);
        }
        if depth > 0 {
            self.names.truncate(outer);
        }
        Ok(graph)
    }

    fn node(&mut self, from: &mut Unstructured<'_>, depth: usize, graph: &mut GraphProto) -> Result<()> {
        let operators = operators::all();
        let operator = &operators[usize::from(from.arbitrary::<u16>()?) % operators.len()];
        let domain = if operator.is_preview { PREVIEW } else { "" };
        let mut node = NodeProto { op_type: operator.name.clone(), domain: domain.into(), ..Default::default() };
        for _ in 0..*from.choose(&[3u8, 2, 1, 2, 3, 4, 3, 5, 6, 8, 0, 2, 1, 2, 3, 4])? {
            // Most operators want axes, sizes or scales of their own: a fresh constant at hand.
            if from.ratio(1, 3)? {
                let name = self.name();
                let tensor = self.tensor(name.clone(), from)?;
                graph.initializer.push(tensor);
                node.input.push(name);
            } else {
                node.input.push(self.known(from)?);
            }
        }
        for attribute in &operator.attributes {
            if from.ratio(1, 2)? {
                node.attribute.push(self.attribute(from, attribute, depth)?);
            }
        }
        if from.ratio(1, 64)? {
            node.output.push(self.known(from)?);
        }
        let outputs = if operator_has_many(operator) { from.int_in_range(1..=3u8)? } else { 1 };
        for _ in 0..outputs {
            node.output.push(self.name());
        }
        graph.node.push(node);
        Ok(())
    }

    fn attribute(&mut self, from: &mut Unstructured<'_>, name: &str, depth: usize) -> Result<AttributeProto> {
        let kind = if from.ratio(15, 16)? { kind(name) } else { *from.choose(&[1, 2, 3, 4, 6, 7, 8])? };
        let mut attribute = AttributeProto { name: name.to_owned(), r#type: kind, ..Default::default() };
        match kind {
            1 => attribute.f = float(from)?,
            2 => {
                attribute.i =
                    if name == "to" || name.ends_with("dtype") { i64::from(*from.choose(&TYPES)?) } else { int(from)? }
            }
            3 => attribute.s = text(from)?,
            4 => attribute.t = Some(self.tensor(String::new(), from)?),
            5 if depth < DEEPEST => attribute.g = Some(self.graph(from, depth + 1)?),
            5 => attribute.g = Some(GraphProto::default()),
            6 => attribute.floats = many(from, float)?,
            7 => attribute.ints = many(from, int)?,
            _ => attribute.strings = many(from, text)?,
        }
        Ok(attribute)
    }
}

fn operator_has_many(operator: &Operator) -> bool {
    !["Add", "Relu", "Constant", "Reshape", "Cast"].contains(&operator.name.as_str())
}

/// Names of attributes by the schema's number of their kind; others are integers.
const KINDS: [(i32, &str); 6] = [
    (
        1,
        "alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma height_scale high lambd low max mean min momentum \
         ratio scale seed softcap spatial_scale threshold value_float width_scale",
    ),
    (
        3,
        "activation approximate auto_pad coordinate_transformation_mode direction equation keep_aspect_ratio_policy mode \
         nearest_mode padding_mode reduction round_mode update_rule value_string",
    ),
    (4, "sparse_value value"),
    (5, "body else_branch prob_mod score_mod then_branch"),
    (6, "activation_alpha activation_beta scales value_floats"),
    (8, "activations value_strings"),
];

/// The same of lists of integers.
const LISTS: &str = "axes dilations ends kernel_shape output_padding output_shape paddings pads perm scan_input_axes \
                     scan_input_directions scan_output_axes scan_output_directions shape split starts strides value_ints";

/// The kind that an attribute of this name has, by the schema's number.
fn kind(name: &str) -> i32 {
    let has = |names: &str| names.split(' ').any(|known| known == name);
    let known = KINDS.iter().find(|(_, names)| has(names)).map(|(kind, _)| *kind);
    known.unwrap_or(if has(LISTS) { 7 } else { 2 })
}

fn many<T>(from: &mut Unstructured<'_>, one: impl Fn(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    (0..from.int_in_range(0..=5u8)?).map(|_| one(from)).collect()
}

fn int(from: &mut Unstructured<'_>) -> Result<i64> {
    match from.arbitrary::<u8>()? {
        kind @ 0..=223 => Ok(i64::from(kind % 8) - i64::from(kind > 200) * 4),
        224..=251 => Ok(*from.choose(&HOSTILE)?),
        _ => from.arbitrary(),
    }
}

fn float(from: &mut Unstructured<'_>) -> Result<f32> {
    match from.arbitrary::<u8>()? {
        kind @ 0..=191 => Ok(f32::from(kind % 9) * 0.5 - 1.0),
        192..=239 => Ok(*from.choose(&[f32::NAN, f32::INFINITY, -0.0, 1e30, -1e9, 1e-40, 3e9, f32::MAX])?),
        _ => from.arbitrary(),
    }
}

fn text(from: &mut Unstructured<'_>) -> Result<Bytes> {
    if from.ratio(1, 32)? {
        let length = from.int_in_range(0..=8usize)?;
        return Ok(Bytes::copy_from_slice(from.bytes(length.min(from.len()))?));
    }
    Ok(Bytes::from_static(from.choose(&TEXTS)?.as_bytes()))
}

fn extent(from: &mut Unstructured<'_>) -> Result<i64> {
    match from.arbitrary::<u8>()? {
        kind @ 0..=251 => Ok([1, 2, 3, 2, 4, 1, 5, 0][usize::from(kind % 8)]),
        _ => int(from),
    }
}

fn extents(from: &mut Unstructured<'_>) -> Result<Vec<i64>> {
    let rank = from.int_in_range(0..=4u8)? + if from.ratio(1, 16)? { 4 } else { 0 };
    (0..rank).map(|_| extent(from)).collect()
}

/// The tensor with as many elements as its shape asks for, or rarely with others.
fn filled(mut tensor: TensorProto, from: &mut Unstructured<'_>) -> Result<TensorProto> {
    let count = tensor.dims.iter().try_fold(1i64, |all, n| all.checked_mul(*n)).filter(|n| (0..=512).contains(n));
    let count = if from.ratio(127, 128)? { count.unwrap_or(0) } else { from.int_in_range(0..=9)? };
    for _ in 0..count {
        match tensor.data_type {
            1 => tensor.float_data.push(float(from)?),
            11 => tensor.double_data.push(f64::from(float(from)?)),
            7 => tensor.int64_data.push(int(from)?),
            12 | 13 => tensor.uint64_data.push(int(from)? as u64),
            10 => tensor.int32_data.push(*from.choose(&[0x3c00, 0xc000, 0x7e00, 0, 0x7c00])?),
            16 => tensor.int32_data.push(*from.choose(&[0x3f80, 0xc000, 0x7fc0, 0, 0x7f80])?),
            _ => tensor.int32_data.push(int(from)? as i32),
        }
    }
    Ok(tensor)
}
