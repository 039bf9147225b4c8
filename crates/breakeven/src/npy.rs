//! Arrays in numpy's format `.npy`, read without trusting a size that the file states, and written.

use breakeven_device::HostBytes;
use breakeven_ir::{CallError, DType, Shape, Spec};

use crate::{Engine, Result, Tensor};

const MAGIC: &[u8] = b"\x93NUMPY";

/// A header is a line of text; numpy pads it to a multiple of this.
const ALIGNMENT: usize = 64;

/// Element types as numpy writes them.
const TYPES: [(&str, DType); 12] = [
    ("<f8", DType::F64),
    ("<f4", DType::F32),
    ("<f2", DType::F16),
    ("<i8", DType::I64),
    ("<i4", DType::I32),
    ("<i2", DType::I16),
    ("|i1", DType::I8),
    ("<u8", DType::U64),
    ("<u4", DType::U32),
    ("<u2", DType::U16),
    ("|u1", DType::U8),
    ("|b1", DType::Bool),
];

impl Engine {
    /// The array in the bytes of a `.npy` file. They are shared where they lie aligned; an array in Fortran's order becomes
    /// a view. What is wrong with the bytes is an error in a sentence.
    pub fn tensor_from_npy(&self, bytes: impl Into<HostBytes>) -> Result<Tensor> {
        let bytes = bytes.into();
        let header = Header::read(&bytes).map_err(|message| CallError::new("npy", message))?;
        let elements = bytes.slice(header.end..bytes.len());
        if !header.by_columns {
            return self.tensor_from_bytes(header.spec, elements);
        }
        let rank = header.spec.shape.rank() as isize;
        let reversed: Shape = header.spec.shape.iter().rev().copied().collect();
        let turned = self.tensor_from_bytes(Spec::new(header.spec.dtype, reversed), elements)?;
        Ok(turned.permute(&(0..rank).rev().collect::<Vec<_>>()))
    }
}

impl Tensor {
    /// The tensor as the bytes of a `.npy` file. bf16, which numpy does not have, is an error.
    pub fn to_npy(&self) -> Result<Vec<u8>> {
        let spec = self.check()?;
        let Some((descr, _)) = TYPES.iter().find(|(_, dtype)| *dtype == spec.dtype) else {
            return Err(CallError::new("npy", format!("numpy has no {}; cast it to f32 first", spec.dtype)).into());
        };
        let dims = spec.shape.iter().fold(String::new(), |text, n| text + &n.to_string() + ",");
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
        let before = MAGIC.len() + 4;
        let end = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
        text.extend(std::iter::repeat_n(' ', end - before - text.len() - 1));
        text.push('\n');
        let length = u16::try_from(text.len()).expect("a shape has at most eight extents").to_le_bytes();
        Ok([MAGIC, &[1, 0], &length, text.as_bytes(), &self.to_bytes()?].concat())
    }
}

/// What a file says of its elements.
#[derive(Debug)]
struct Header {
    spec: Spec,
    by_columns: bool,
    /// Where the elements begin.
    end: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> std::result::Result<Header, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("the bytes are no array of numpy: they do not begin as one")?;
        let short = || "the file ends within its header".to_owned();
        let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        let (length, rest) = match version[0] {
            1 => rest.split_first_chunk().map(|(n, rest)| (u16::from_le_bytes(*n) as usize, rest)),
            2 | 3 => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
            other => return Err(format!("version {other} of the format is not known")),
        }
        .ok_or_else(short)?;
        let text = std::str::from_utf8(rest.get(..length).ok_or_else(short)?).map_err(|_| "the header is no text")?;
        let end = bytes.len() - rest.len() + length;
        let dtype = dtype(value(text, "descr")?)?;
        let by_columns = match value(text, "fortran_order")? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => return Err("the header does not say in which order the elements lie".to_owned()),
        };
        let shape = shape(value(text, "shape")?)?;
        let needed = shape.elements().checked_mul(dtype.bytes());
        let (spec, given) = (Spec::new(dtype, shape), bytes.len() - end);
        if needed != Some(given) {
            let needed = needed.map_or("more than memory has addresses for".to_owned(), |n| format!("{n} bytes"));
            return Err(format!("{spec} needs {needed}, the file has {given} bytes"));
        }
        Ok(Header { spec, by_columns, end })
    }
}

/// What stands behind `key` in the header.
fn value<'a>(text: &'a str, key: &str) -> std::result::Result<&'a str, String> {
    let quoted = |quote: char| text.split_once(&format!("{quote}{key}{quote}")).map(|(_, rest)| rest);
    let rest = quoted('\'').or_else(|| quoted('"')).and_then(|rest| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| format!("the header has no '{key}'"))
}

fn dtype(text: &str) -> std::result::Result<DType, String> {
    let unknown = || "the elements are records or objects, not numbers".to_owned();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"')).ok_or_else(unknown)?;
    let name = text[1..].split(quote).next().unwrap_or_default();
    if let Some(kind) = name.strip_prefix('>') {
        return Err(format!("the elements are big-endian ('{name}'); save them with astype('<{kind}')"));
    }
    // One byte has no order, whatever the file says.
    let same = |known: &str| name == known || (known.starts_with('|') && name.get(1..) == known.get(1..));
    let found = TYPES.iter().find(|(known, _)| same(known));
    found.map(|(_, dtype)| *dtype).ok_or_else(|| format!("the elements are of type '{name}', which is not known here"))
}

fn shape(text: &str) -> std::result::Result<Shape, String> {
    let bad = || "the shape in the header is not a tuple of numbers".to_owned();
    let inner = text.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(bad)?.0;
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    let dims = parts
        .map(|part| part.parse::<usize>().map_err(|_| bad()))
        .collect::<std::result::Result<Vec<usize>, String>>()?;
    Shape::new(&dims).map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), elements].concat()
    }

    fn engine() -> Engine {
        Engine::builder().gpus(false).no_cache().build().expect("a CPU is always there")
    }

    #[test]
    fn what_is_written_is_read() {
        let engine = engine();
        let check = |tensor: Tensor| {
            let bytes = tensor.to_npy().expect("numpy has the type");
            let back = engine.tensor_from_npy(bytes.clone()).expect("it was written here");
            assert_eq!(back.spec(), tensor.spec());
            assert_eq!(back.to_bytes().expect("it is there"), tensor.to_bytes().expect("it is there"));
            assert_eq!((bytes.len() - tensor.spec().bytes() as usize) % ALIGNMENT, 0);
        };
        check(engine.tensor(&[1.0, f32::NAN, -0.0], [3, 1]));
        check(engine.from_vec(vec![true, false], 2));
        check(engine.from_vec(vec![i64::MIN], ()));
        check(engine.from_vec(Vec::<u8>::new(), [0, 4]));
    }

    #[test]
    fn columns_become_a_view() {
        let header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n";
        let elements: Vec<u8> = [1i32, 4, 2, 5, 3, 6].iter().flat_map(|n| n.to_le_bytes()).collect();
        let tensor = engine().tensor_from_npy(file(header, &elements)).expect("well formed");
        assert_eq!(tensor.to_vec::<i32>().expect("it is there"), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn wrong_bytes_are_sentences() {
        let check = |bytes: &[u8], expected: &str| {
            let message = Header::read(bytes).expect_err(expected);
            assert!(message.contains(expected), "{message}");
        };
        let header =
            |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}");
        check(b"PK\x03\x04", "no array of numpy");
        check(MAGIC, "ends within its header");
        check(b"\x93NUMPY\x01\x00\xff\xff{", "ends within its header");
        check(b"\x93NUMPY\x09\x00", "version 9");
        check(&file(&header("'<f4'", "(2,)"), &[0; 4]), "f32[2] needs 8 bytes, the file has 4 bytes");
        check(&file(&header("'<f4'", "(9223372036854775807,)"), &[]), "more than memory has addresses for");
        check(&file(&header("'<f4'", "(99999999999999999999,)"), &[]), "not a tuple of numbers");
        check(&file(&header("'>f4'", "()"), &[0; 4]), "big-endian");
        check(&file(&header("[('a', '<f4')]", "()"), &[]), "records or objects");
        check(&file("{'descr': '<f4'}", &[]), "has no 'fortran_order'");
    }
}
