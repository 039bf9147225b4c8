//! Tensors written in files: each form of `TensorProto`, its sizes checked before anything is believed.

use breakeven::{DType, Element, HostBytes, Shape, Spec, bf16, f16};
use bytes::Bytes;

use crate::external::Files;
use crate::proto::TensorProto;

/// What every element type and every device is content with.
const ALIGNMENT: usize = 8;

/// Elements of a tensor that a file holds.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub spec: Spec,
    pub bytes: HostBytes,
}

/// Why a tensor of a file is not there.
#[derive(Clone, Debug)]
pub(crate) enum Unreadable {
    /// The file is right, and this library has no such element type.
    Type(String),
    /// The file contradicts itself.
    Wrong(String),
}

impl Literal {
    /// The tensor that `proto` describes; parts that lie in other files come from `files`.
    pub fn read(proto: &TensorProto, files: &mut Files) -> Result<Literal, Unreadable> {
        let dtype = dtype(proto.data_type).map_err(Unreadable::Type)?;
        let spec = Spec::new(dtype, shape(&proto.dims).map_err(Unreadable::Wrong)?);
        if spec.shape.elements().checked_mul(dtype.bytes()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Unreadable::Wrong(format!("of {spec} has more bytes than memory has addresses")));
        }
        let bytes = match (proto.data_location, &proto.raw_data) {
            (1, _) => files.bytes(&proto.external_data, spec.bytes()).and_then(|bytes| checked(&spec, bytes)),
            (_, Some(raw)) => checked(&spec, HostBytes::constant(Owned(raw.clone()))),
            (_, None) => typed(proto, &spec),
        };
        let wrong = |message| Unreadable::Wrong(format!("of {spec} {message}"));
        Ok(Literal { bytes: bytes.map_err(wrong)?, spec })
    }

    /// Elements given in code.
    pub fn of<T: Element>(elements: Vec<T>, shape: impl Into<Shape>) -> Literal {
        Literal { spec: Spec::new(T::DTYPE, shape), bytes: HostBytes::from_vec(elements) }
    }
}

/// Bytes that the protobuf reader shares with the mapped file.
struct Owned(Bytes);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Extents from a file.
pub(crate) fn shape(dims: &[i64]) -> Result<Shape, String> {
    let extents: Option<Vec<usize>> = dims.iter().map(|&n| usize::try_from(n).ok()).collect();
    let extents = extents.ok_or_else(|| format!("has the shape {dims:?}, with a negative extent"))?;
    Shape::new(&extents).map_err(|error| format!("has the shape {dims:?}: {}", error.message))
}

/// The element type with this number in the schema, or the name of one that this library does not have.
pub(crate) fn dtype(number: i32) -> Result<DType, String> {
    const OTHERS: [(i32, &str); 17] = [
        (0, "undefined"),
        (8, "string"),
        (14, "complex64"),
        (15, "complex128"),
        (17, "float8e4m3fn"),
        (18, "float8e4m3fnuz"),
        (19, "float8e5m2"),
        (20, "float8e5m2fnuz"),
        (21, "uint4"),
        (22, "int4"),
        (23, "float4e2m1"),
        (24, "float8e8m0"),
        (25, "uint2"),
        (26, "int2"),
        (27, "float6e2m3"),
        (28, "float6e3m2"),
        (29, "an element type newer than this library"),
    ];
    Ok(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::BF16,
        other => {
            let name = OTHERS.iter().find(|(n, _)| *n == other).map_or("of an unknown number", |(_, name)| name);
            return Err(format!("element type {name}"));
        }
    })
}

/// Bytes of exactly the size that the shape needs, aligned, and valid as elements.
fn checked(spec: &Spec, bytes: HostBytes) -> Result<HostBytes, String> {
    if bytes.len() as u64 != spec.bytes() {
        return Err(format!("needs {} bytes, the file gives {}", spec.bytes(), bytes.len()));
    }
    if spec.dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        return Err("holds truth values that are neither 0 nor 1".to_owned());
    }
    Ok(bytes.aligned(ALIGNMENT))
}

/// Elements from the field that the schema has for the type.
fn typed(proto: &TensorProto, spec: &Spec) -> Result<HostBytes, String> {
    let ints = &proto.int32_data;
    let narrow = |count: usize| counted(count, spec);
    let bytes = match spec.dtype {
        DType::F32 => counted(proto.float_data.len(), spec).map(|()| HostBytes::from_vec(proto.float_data.clone()))?,
        DType::F64 => {
            counted(proto.double_data.len(), spec).map(|()| HostBytes::from_vec(proto.double_data.clone()))?
        }
        DType::I64 => counted(proto.int64_data.len(), spec).map(|()| HostBytes::from_vec(proto.int64_data.clone()))?,
        DType::U64 => {
            counted(proto.uint64_data.len(), spec).map(|()| HostBytes::from_vec(proto.uint64_data.clone()))?
        }
        DType::U32 => each(&proto.uint64_data, narrow, |n| n as u32)?,
        DType::I32 => each(ints, narrow, |n| n)?,
        DType::I16 => each(ints, narrow, |n| n as i16)?,
        DType::I8 => each(ints, narrow, |n| n as i8)?,
        DType::U16 => each(ints, narrow, |n| n as u16)?,
        DType::U8 => each(ints, narrow, |n| n as u8)?,
        DType::Bool => each(ints, narrow, |n| n != 0)?,
        DType::F16 => each(ints, narrow, |n| f16::from_bits(n as u16))?,
        DType::BF16 => each(ints, narrow, |n| bf16::from_bits(n as u16))?,
    };
    Ok(bytes.aligned(ALIGNMENT))
}

fn each<S: Copy, T: Element>(
    from: &[S],
    counted: impl Fn(usize) -> Result<(), String>,
    convert: impl Fn(S) -> T,
) -> Result<HostBytes, String> {
    counted(from.len()).map(|()| HostBytes::from_vec(from.iter().map(|&n| convert(n)).collect()))
}

fn counted(count: usize, spec: &Spec) -> Result<(), String> {
    let elements = spec.shape.elements();
    (count == elements).then_some(()).ok_or_else(|| format!("needs {elements} elements, the file gives {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(proto: &TensorProto) -> Result<Literal, Unreadable> {
        Literal::read(proto, &mut Files::none())
    }

    #[test]
    fn halves_lie_in_the_integer_field() {
        let proto =
            TensorProto { dims: vec![2], data_type: 10, int32_data: vec![0x3c00, 0xc000], ..Default::default() };
        let literal = read(&proto).expect("well formed");
        assert_eq!(literal.spec, Spec::new(DType::F16, [2]));
        assert_eq!(&*literal.bytes, [0x00, 0x3c, 0x00, 0xc0]);
    }

    #[test]
    fn a_size_that_lies_is_refused() {
        let raw = |dims: Vec<i64>| TensorProto {
            dims,
            data_type: 1,
            raw_data: Some(Bytes::from_static(&[0; 4])),
            ..Default::default()
        };
        assert!(read(&raw(vec![1])).is_ok());
        for dims in [vec![2], vec![-1], vec![i64::MAX], vec![i64::MAX, i64::MAX], vec![0], vec![1; 9]] {
            assert!(matches!(read(&raw(dims.clone())), Err(Unreadable::Wrong(_))), "{dims:?}");
        }
        let huge = TensorProto { dims: vec![1 << 60], data_type: 7, ..Default::default() };
        assert!(matches!(read(&huge), Err(Unreadable::Wrong(_))));
    }

    #[test]
    fn a_type_that_we_lack_is_named() {
        let proto = TensorProto { data_type: 17, ..Default::default() };
        let Err(Unreadable::Type(name)) = read(&proto) else { panic!("float8 is not there") };
        assert_eq!(name, "element type float8e4m3fn");
    }
}
