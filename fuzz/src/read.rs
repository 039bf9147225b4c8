//! The readers as a program uses them: a file that can be read is also run, with little memory and little time.

use std::sync::OnceLock;
use std::time::Duration;

use breakeven::{DType, Engine, Spec, Tensor, Weights};
use breakeven_onnx::{Dim, Model, PortKind, Value};

/// What a run may hold. A file of a few bytes may ask for any amount.
const MEMORY: u64 = 64 << 20;

/// Extents that inputs get where the model leaves them open, and the most elements that are made for one.
const OPEN: usize = 2;
const MOST_ELEMENTS: usize = 1 << 12;

/// One engine for all files: to make one takes longer than to read most of them.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let builder = Engine::builder().gpus(false).no_cache().threads(1).memory_limit(MEMORY);
        builder.deadline(Duration::from_secs(1)).build().expect("a CPU is always there")
    })
}

/// Bytes as a model; if it can be read and has nothing that is missing, it is run.
pub fn onnx(bytes: &[u8]) {
    std::hint::black_box(told(bytes));
}

/// What is wrong with a model or its run, in a sentence; nothing if all went well.
pub fn told(bytes: &[u8]) -> String {
    match Model::from_bytes(bytes.to_vec()) {
        Ok(model) if !model.missing().is_empty() => model.missing().to_string(),
        Ok(model) => run(&model).err().unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

fn run(model: &Model) -> Result<(), String> {
    let values = model.inputs().iter().map(|port| value(&port.kind)).collect::<Result<Vec<Value>, String>>()?;
    let names = model.inputs().iter().map(|port| port.name.as_str());
    let inputs: Vec<(&str, Value)> = names.zip(values).collect();
    // The second run repeats what the first wrote down, where it can.
    (0..2).try_for_each(|_| once(model, &inputs))
}

fn once(model: &Model, inputs: &[(&str, Value)]) -> Result<(), String> {
    let outputs = model.run(engine(), inputs).map_err(|error| error.to_string())?;
    outputs.compute().map_err(|error| error.to_string())?;
    for tensor in outputs.tensors() {
        let spec = tensor.check().map_err(|error| error.to_string())?;
        let bytes = tensor.to_bytes().map_err(|error| error.to_string())?;
        assert_eq!(bytes.len() as u64, spec.bytes(), "{spec}");
    }
    Ok(())
}

/// A small value of this kind.
fn value(kind: &PortKind) -> Result<Value, String> {
    Ok(match kind {
        PortKind::Tensor { dtype, dims } => Value::Tensor(tensor(*dtype, dims.as_deref().unwrap_or_default())?),
        PortKind::Sequence(of) => Value::Sequence(vec![value(of)?, value(of)?]),
        PortKind::Optional(of) => Value::Optional(Some(Box::new(value(of)?))),
        PortKind::Unknown => Value::Tensor(tensor(DType::F32, &[Dim::Any])?),
        PortKind::Other(what) => return Err(format!("{what} cannot be made")),
    })
}

fn tensor(dtype: DType, dims: &[Dim]) -> Result<Tensor, String> {
    let extents: Vec<usize> = dims.iter().map(|dim| if let Dim::Fixed(n) = dim { *n } else { OPEN }).collect();
    let elements = extents.iter().try_fold(1usize, |all, n| all.checked_mul(*n)).filter(|n| *n <= MOST_ELEMENTS);
    let elements = elements.ok_or("too large an input")?;
    let shape = breakeven::Shape::new(&extents).map_err(|error| error.to_string())?;
    // A float of these bytes is a small number; so is an integer, and sometimes it is an index.
    let bytes = (0..elements).flat_map(|i| element(dtype, (i % 5) as u8));
    engine().tensor_from_bytes(Spec::new(dtype, shape), bytes.collect::<Vec<u8>>()).map_err(|error| error.to_string())
}

fn element(dtype: DType, number: u8) -> Vec<u8> {
    match dtype {
        DType::F64 => f64::from(number).to_le_bytes().to_vec(),
        DType::F32 => f32::from(number).to_le_bytes().to_vec(),
        DType::Bool => vec![number & 1],
        _ => {
            let mut bytes = vec![0; dtype.bytes()];
            bytes[0] = number;
            bytes
        }
    }
}

/// Bytes as an array of numpy; what was read is written and read again.
pub fn npy(bytes: &[u8]) {
    let Ok(tensor) = engine().tensor_from_npy(bytes.to_vec()) else { return };
    // Reading an array in the order of columns is a computation and may be refused for want of memory.
    let Ok(written) = tensor.to_npy() else { return };
    let again = engine().tensor_from_npy(written).expect("it was written here");
    assert_eq!(again.check().expect("it was read"), tensor.check().expect("it was written"));
    assert_eq!(again.to_bytes().expect("it lies there"), tensor.to_bytes().expect("it was written"));
}

/// Bytes as weights. They lie in a file in memory, since weights are mapped.
pub fn safetensors(bytes: &[u8]) {
    static PATH: OnceLock<std::path::PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let folder = std::path::Path::new("/dev/shm");
        let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
        folder.join(format!("breakeven-fuzz-{}.safetensors", std::process::id()))
    });
    std::fs::write(path, bytes).expect("a temporary file can be written");
    let weights = Weights::open(engine(), path);
    // What is mapped stays mapped.
    std::fs::remove_file(path).expect("it was written just now");
    match weights {
        Ok(weights) => {
            let tensors = weights.names().map(|name| weights.tensor(name));
            let read = tensors.filter_map(Result::ok).map(|tensor| tensor.to_bytes().expect("it lies in the file"));
            std::hint::black_box(read.map(|bytes| bytes.len()).sum::<usize>());
            std::hint::black_box(weights.tensor("no such name").err());
        }
        Err(error) => drop(std::hint::black_box(error.to_string())),
    }
}
