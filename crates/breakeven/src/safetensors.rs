//! Weights from a safetensors file, mapped into memory.

mod header;

use std::path::{Path, PathBuf};

use breakeven_device::HostBytes;
use breakeven_ir::{Shape, Spec};

use crate::bytes::{aligned, are_elements};
use crate::{Engine, Error, Result, Tensor, mapped};
use header::Entry;

/// The tensors of a safetensors file.
///
/// The file is mapped, not read: opening it costs its header, and a tensor's bytes come from disk when something first
/// computes with them. On a device that works in the host's memory they are used where they lie.
#[derive(Clone, Debug)]
pub struct Weights {
    engine: Engine,
    path: PathBuf,
    file: HostBytes,
    /// In order of name, checked to lie within `file`.
    entries: std::sync::Arc<[Entry]>,
}

impl Weights {
    /// Maps the file at `path` and checks its header; a damaged file is an [`Error::File`] that says what is wrong.
    ///
    /// While tensors of it live, the file must not be truncated by another program: as with every mapped file, the
    /// system then ends the process that reads the missing part. Replacing the file by renaming another is fine.
    pub fn open(engine: &Engine, path: impl AsRef<Path>) -> Result<Weights> {
        let path = path.as_ref();
        let file = mapped::map_file(path)?;
        let entries = header::read(&file).map_err(|message| Error::file(path, message))?.into();
        Ok(Weights { engine: engine.clone(), path: path.to_owned(), file, entries })
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The tensor called `name`, without copying it; only where the file did not align its elements they are copied.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        let entry = &self.entries[at.map_err(|_| self.problem(self.missing(name)))?];
        let spec = spec(entry).map_err(|message| self.problem(format!("tensor '{name}' {message}")))?;
        let bytes = aligned(self.file.slice(entry.bytes.clone()), spec.dtype);
        if !are_elements(&bytes, spec.dtype) {
            return Err(self.problem(format!("tensor '{name}' holds truth values that are neither 0 nor 1")));
        }
        Ok(self.engine.from_bytes(bytes, spec))
    }

    fn problem(&self, message: String) -> Error {
        Error::file(&self.path, message)
    }

    fn missing(&self, name: &str) -> String {
        let mut near: Vec<&str> = self.names().collect();
        near.sort_by_key(|other| distance(name, other));
        match near.len() {
            0 => format!("has no tensor '{name}': it holds none at all"),
            _ => format!("has no tensor '{name}'; the nearest names are '{}'", near[..near.len().min(3)].join("', '")),
        }
    }
}

/// What the entry holds, or why this library cannot.
fn spec(entry: &Entry) -> std::result::Result<Spec, String> {
    let dtype = header::dtype(&entry.dtype).ok_or_else(|| format!("has elements of type {}", entry.dtype))?;
    let dims: Vec<usize> = entry.shape.iter().map(|&extent| extent as usize).collect();
    let shape = Shape::new(&dims).map_err(|error| format!("has shape {dims:?}: {}", error.message))?;
    Ok(Spec::new(dtype, shape))
}

/// How many bytes must be put in, taken out or replaced to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
