//! From the messages of a file to graphs that can run; collects what is missing.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::Missing;
use crate::attribute::{Attribute, Attributes};
use crate::external::Files;
use crate::graph::{Action, Dim, Function, Graph, Initialiser, Node, Port, PortKind};
use crate::literal::{Literal, Unreadable, dtype};
use crate::ops;
use crate::proto::{
    AttributeProto, DimensionValue, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};

/// The newest opset whose operators were looked at.
pub(crate) const NEWEST_OPSET: i64 = 28;

/// Functions that call functions; more is no model but an attack.
const DEEPEST_CALLS: usize = 32;

/// A model that was read.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub graph: Graph,
    pub missing: Missing,
    pub opsets: Opsets,
    pub producer: String,
}

/// Opset of each domain; the standard one is called "".
pub(crate) type Opsets = HashMap<String, i64>;

/// The model in `bytes`, or what is wrong with the file.
pub(crate) fn parse(bytes: Bytes, files: Files) -> Result<Parsed, String> {
    let proto = ModelProto::decode(bytes).map_err(|error| format!("is not an ONNX model: {error}"))?;
    let graph = proto.graph.as_ref().ok_or("is an ONNX model without a graph")?;
    let mut reader = Reader {
        files,
        sources: &proto.functions,
        functions: HashMap::new(),
        calls: Vec::new(),
        missing: Missing::default(),
        next_id: 0,
    };
    let opsets = opsets(&proto.opset_import);
    reader.check_opsets(&opsets);
    let graph = reader.graph(graph, &opsets)?;
    reader.check_ports("input", &graph.inputs);
    reader.check_ports("output", &graph.outputs);
    Ok(Parsed { graph, missing: reader.missing, opsets, producer: proto.producer_name })
}

fn opsets(imports: &[OperatorSetIdProto]) -> Opsets {
    imports.iter().map(|import| (domain(&import.domain).to_owned(), import.version)).collect()
}

/// The standard domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

struct Reader<'p> {
    files: Files,
    sources: &'p [FunctionProto],
    functions: HashMap<usize, Arc<Function>>,
    /// Functions that are being read: a function must not call itself.
    calls: Vec<usize>,
    missing: Missing,
    next_id: u32,
}

impl Reader<'_> {
    fn check_opsets(&mut self, opsets: &Opsets) {
        if let Some(newer) = opsets.get("").filter(|&&version| version > NEWEST_OPSET) {
            self.missing.add(format!("opset {newer}"), format!("opsets up to {NEWEST_OPSET} are known"));
        }
    }

    fn check_ports(&mut self, which: &str, ports: &[Port]) {
        for port in ports {
            if let Some(what) = lacking(&port.kind) {
                self.missing.add(what, format!("{which} '{}'", port.name));
            }
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn graph(&mut self, proto: &GraphProto, opsets: &Opsets) -> Result<Graph, String> {
        let mut initialisers = Vec::new();
        for tensor in &proto.initializer {
            if let Some(literal) = self.literal(tensor, &format!("initialiser '{}'", tensor.name))? {
                initialisers.push(Initialiser { id: self.id(), name: tensor.name.clone(), literal });
            }
        }
        for sparse in &proto.sparse_initializer {
            let name = sparse.values.as_ref().map_or("", |values| &values.name);
            self.missing.add("sparse initialisers", format!("initialiser '{name}'"));
        }
        Ok(Graph {
            inputs: proto.input.iter().map(port).collect(),
            outputs: proto.output.iter().map(port).collect(),
            initialisers,
            nodes: self.nodes(&proto.node, opsets)?,
        })
    }

    fn nodes(&mut self, protos: &[NodeProto], opsets: &Opsets) -> Result<Vec<Node>, String> {
        protos.iter().map(|proto| self.node(proto, opsets)).collect()
    }

    fn node(&mut self, proto: &NodeProto, opsets: &Opsets) -> Result<Node, String> {
        let domain = domain(&proto.domain);
        let mut node = Node {
            id: self.id(),
            name: proto.name.clone(),
            operator: if domain.is_empty() { proto.op_type.clone() } else { format!("{domain}.{}", proto.op_type) },
            opset: opsets.get(domain).copied().unwrap_or(1),
            inputs: proto.input.clone(),
            outputs: proto.output.clone(),
            attributes: HashMap::new(),
            action: Action::Missing,
        };
        node.action = self.action(proto, &node)?;
        node.attributes = self.attributes(&proto.attribute, &node.describe(), opsets)?;
        if let Action::Operator(operator) = node.action {
            for name in node.attributes.keys().filter(|name| !operator.attributes.contains(&name.as_str())) {
                let what = format!("attribute '{name}' of operator {} (opset {})", node.operator, node.opset);
                self.missing.add(what, node.label());
            }
        }
        Ok(node)
    }

    fn action(&mut self, proto: &NodeProto, node: &Node) -> Result<Action, String> {
        if let Some(operator) = ops::find(domain(&proto.domain), &proto.op_type) {
            return Ok(Action::Operator(operator));
        }
        let same = |f: &FunctionProto| {
            f.name == proto.op_type && domain(&f.domain) == domain(&proto.domain) && f.overload == proto.overload
        };
        if let Some(index) = self.sources.iter().position(same) {
            return self.function(index).map(Action::Function);
        }
        self.missing.add(format!("operator {} (opset {})", node.operator, node.opset), node.label());
        Ok(Action::Missing)
    }

    fn function(&mut self, index: usize) -> Result<Arc<Function>, String> {
        if let Some(function) = self.functions.get(&index) {
            return Ok(function.clone());
        }
        let sources = self.sources;
        let proto = &sources[index];
        if self.calls.contains(&index) || self.calls.len() >= DEEPEST_CALLS {
            return Err(format!("has a function '{}' that calls itself, or calls too deep", proto.name));
        }
        self.calls.push(index);
        let opsets = opsets(&proto.opset_import);
        self.check_opsets(&opsets);
        let function = Arc::new(Function {
            inputs: proto.input.clone(),
            defaults: self.attributes(&proto.attribute_proto, &format!("function '{}'", proto.name), &opsets)?,
            outputs: proto.output.clone(),
            nodes: self.nodes(&proto.node, &opsets)?,
        });
        self.calls.pop();
        self.functions.insert(index, function.clone());
        Ok(function)
    }

    fn attributes(&mut self, protos: &[AttributeProto], owner: &str, opsets: &Opsets) -> Result<Attributes, String> {
        let mut attributes = HashMap::new();
        for proto in protos {
            if let Some(value) = self.attribute(proto, owner, opsets)? {
                attributes.insert(proto.name.clone(), value);
            }
        }
        Ok(attributes)
    }

    fn attribute(&mut self, proto: &AttributeProto, owner: &str, opsets: &Opsets) -> Result<Option<Attribute>, String> {
        if !proto.ref_attr_name.is_empty() {
            return Ok(Some(Attribute::Reference(proto.ref_attr_name.clone())));
        }
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let empty = || format!("has an attribute '{}' of {owner} without the value it promises", proto.name);
        Ok(Some(match kind(proto) {
            1 => Attribute::Float(proto.f),
            2 => Attribute::Int(proto.i),
            3 => Attribute::Text(text(&proto.s)),
            4 => match self.literal(proto.t.as_ref().ok_or_else(empty)?, owner)? {
                Some(literal) => Attribute::Tensor(literal),
                None => return Ok(None),
            },
            5 => Attribute::Graph(Arc::new(self.graph(proto.g.as_ref().ok_or_else(empty)?, opsets)?)),
            6 => Attribute::Floats(proto.floats.clone()),
            7 => Attribute::Ints(proto.ints.clone()),
            8 => Attribute::Texts(proto.strings.iter().map(text).collect()),
            13 => Attribute::Type,
            _ => {
                self.missing.add(format!("attributes of the kind of '{}'", proto.name), owner);
                return Ok(None);
            }
        }))
    }

    /// The tensor, or nothing after listing what it needs.
    fn literal(&mut self, proto: &TensorProto, place: &str) -> Result<Option<Literal>, String> {
        match Literal::read(proto, &mut self.files) {
            Ok(literal) => Ok(Some(literal)),
            Err(Unreadable::Wrong(message)) => Err(format!("has a tensor that is damaged: {place} {message}")),
            Err(Unreadable::Type(name)) => {
                self.missing.add(name, place);
                Ok(None)
            }
        }
    }
}

/// Old files do not say which kind an attribute is: the field that is filled tells.
fn kind(proto: &AttributeProto) -> i32 {
    match proto.r#type {
        0 if proto.t.is_some() => 4,
        0 if proto.g.is_some() => 5,
        0 if !proto.floats.is_empty() => 6,
        0 if !proto.ints.is_empty() => 7,
        0 if !proto.strings.is_empty() => 8,
        0 if !proto.s.is_empty() => 3,
        0 if proto.f != 0.0 => 1,
        0 => 2,
        kind => kind,
    }
}

fn port(proto: &ValueInfoProto) -> Port {
    Port { name: proto.name.clone(), kind: port_kind(proto.r#type.as_ref()) }
}

fn port_kind(proto: Option<&TypeProto>) -> PortKind {
    match proto.and_then(|t| t.value.as_ref()) {
        Some(TypeValue::Tensor(tensor)) => tensor_kind(tensor),
        Some(TypeValue::Sequence(of)) => PortKind::Sequence(Box::new(port_kind(of.elem_type.as_deref()))),
        Some(TypeValue::Optional(of)) => PortKind::Optional(Box::new(port_kind(of.elem_type.as_deref()))),
        Some(TypeValue::Map(_)) => PortKind::Other("a map".to_owned()),
        Some(TypeValue::SparseTensor(_)) => PortKind::Other("a sparse tensor".to_owned()),
        None => PortKind::Unknown,
    }
}

/// What of a port this library does not have.
fn lacking(kind: &PortKind) -> Option<&str> {
    match kind {
        PortKind::Other(what) => Some(what),
        PortKind::Sequence(of) | PortKind::Optional(of) => lacking(of),
        PortKind::Tensor { .. } | PortKind::Unknown => None,
    }
}

fn tensor_kind(proto: &TensorTypeProto) -> PortKind {
    let dtype = match dtype(proto.elem_type) {
        Ok(dtype) => dtype,
        Err(name) => return PortKind::Other(format!("a tensor of {name}")),
    };
    let dim = |value: &Option<DimensionValue>| match value {
        Some(DimensionValue::Extent(extent)) => usize::try_from(*extent).map_or(Dim::Any, Dim::Fixed),
        Some(DimensionValue::Symbol(name)) if !name.is_empty() => Dim::Named(name.clone()),
        _ => Dim::Any,
    };
    let dims = proto.shape.as_ref().map(|shape| shape.dim.iter().map(|d| dim(&d.value)).collect());
    PortKind::Tensor { dtype, dims }
}
