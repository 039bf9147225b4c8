//! Values in files of their own, as the backend tests of ONNX and many models' sample data have them.

use breakeven::Engine;
use bytes::Bytes;
use prost::Message;

use crate::Value;
use crate::external::Files;
use crate::graph::PortKind;
use crate::literal::{Literal, Unreadable};
use crate::proto::{OptionalProto, SequenceProto, TensorProto};

/// The value in `bytes`, on `engine`; `kind` says whether it is a tensor, a sequence or an optional. The error is a sentence.
pub fn read(bytes: Vec<u8>, kind: &PortKind, engine: &Engine) -> Result<Value, String> {
    let bytes = Bytes::from(bytes);
    let broken = |error: prost::DecodeError| format!("is not a value of ONNX: {error}");
    match kind {
        PortKind::Tensor { .. } | PortKind::Unknown => tensor(&TensorProto::decode(bytes).map_err(broken)?, engine),
        PortKind::Sequence(_) => sequence(&SequenceProto::decode(bytes).map_err(broken)?, engine),
        PortKind::Optional(_) => optional(&OptionalProto::decode(bytes).map_err(broken)?, engine),
        PortKind::Other(what) => Err(format!("is {what}, which this library does not have")),
    }
}

fn tensor(proto: &TensorProto, engine: &Engine) -> Result<Value, String> {
    match Literal::read(proto, &mut Files::none()) {
        Ok(literal) => Ok(Value::Tensor(engine.from_bytes(literal.bytes, literal.spec))),
        Err(Unreadable::Type(name)) => Err(format!("has {name}, which this library does not have")),
        Err(Unreadable::Wrong(message)) => Err(format!("is damaged: it {message}")),
    }
}

fn sequence(proto: &SequenceProto, engine: &Engine) -> Result<Value, String> {
    let tensors = proto.tensor_values.iter().map(|t| tensor(t, engine));
    let sequences = proto.sequence_values.iter().map(|s| sequence(s, engine));
    let optionals = proto.optional_values.iter().map(|o| optional(o, engine));
    Ok(Value::Sequence(tensors.chain(sequences).chain(optionals).collect::<Result<_, _>>()?))
}

fn optional(proto: &OptionalProto, engine: &Engine) -> Result<Value, String> {
    let value = match (&proto.tensor_value, &proto.sequence_value, &proto.optional_value) {
        (Some(proto), ..) => Some(tensor(proto, engine)?),
        (_, Some(proto), _) => Some(sequence(proto, engine)?),
        (_, _, Some(proto)) => Some(optional(proto, engine)?),
        _ => None,
    };
    Ok(Value::Optional(value.map(Box::new)))
}
