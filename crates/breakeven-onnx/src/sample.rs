//! Small models for tests.

use prost::Message;

use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};

/// A node with one output, of the standard domain.
pub(crate) fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: operator.into(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        ..Default::default()
    }
}

/// The node with a graph as an attribute.
pub(crate) fn with_graph(mut node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), g: Some(graph), r#type: 5, ..Default::default() });
    node
}

/// An input or output of f32 with any extents.
pub(crate) fn port(name: &str, rank: usize) -> ValueInfoProto {
    typed(name, 1, rank)
}

/// An input or output of the element type with this number, with any extents.
pub(crate) fn typed(name: &str, elem_type: i32, rank: usize) -> ValueInfoProto {
    let shape = TensorShapeProto { dim: vec![crate::proto::DimensionProto::default(); rank] };
    let tensor = TensorTypeProto { elem_type, shape: Some(shape) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) }
}

/// An initialiser of f32.
pub(crate) fn weights(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let (dims, float_data) = (dims.to_vec(), values.to_vec());
    TensorProto { name: name.into(), dims, data_type: 1, float_data, ..Default::default() }
}

/// The file of a model at opset 17.
pub(crate) fn bytes(graph: GraphProto) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { graph: Some(graph), opset_import, ..Default::default() }.encode_to_vec()
}
