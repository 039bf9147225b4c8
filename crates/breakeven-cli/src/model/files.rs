//! Inputs from `.npy` and `.npz` files, and outputs to them.

use std::collections::HashMap;
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use anyhow::{Context, bail};
use breakeven::{DType, Engine, Tensor, map_file};
use breakeven_onnx::Model;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Inputs by name. `NAME=FILE.npy`, `FILE.npz`, or `FILE.npy` alone for a model of one input.
pub fn read(given: &[String], model: &Model, host: &Engine) -> anyhow::Result<HashMap<String, Tensor>> {
    let mut inputs = HashMap::new();
    for argument in given {
        if let Some((name, path)) = argument.split_once('=') {
            inputs.insert(name.to_owned(), array(Path::new(path), host)?);
        } else if has_kind(argument, "npz") {
            inputs.extend(archive(Path::new(argument), host)?);
        } else if let [only] = model.inputs() {
            inputs.insert(only.name.clone(), array(Path::new(argument), host)?);
        } else {
            bail!("--input {argument}: say which input it is, as NAME={argument}; the model has {}", names(model));
        }
    }
    match inputs.keys().find(|name| !model.inputs().iter().any(|port| port.name == **name)) {
        Some(name) => bail!("the model has no input '{name}', but {}", names(model)),
        None => Ok(inputs),
    }
}

fn names(model: &Model) -> String {
    let names: Vec<String> = model.inputs().iter().map(|port| format!("'{}'", port.name)).collect();
    names.join(", ")
}

fn has_kind(path: &str, kind: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case(kind))
}

fn array(path: &Path, host: &Engine) -> anyhow::Result<Tensor> {
    let tensor = map_file(path).and_then(|bytes| host.tensor_from_npy(bytes));
    tensor.with_context(|| format!("{} gives no input; numpy.save writes what is read here", path.display()))
}

fn archive(path: &Path, host: &Engine) -> anyhow::Result<HashMap<String, Tensor>> {
    super::archive::arrays(&map_file(path)?, host).with_context(|| path.display().to_string())
}

/// Writes outputs where the arguments say, and gives the names of the files. bf16, which numpy lacks, is written as f32.
pub fn write(targets: &[String], outputs: &[(String, Vec<Tensor>)]) -> anyhow::Result<Vec<String>> {
    let mut wrote = Vec::new();
    for target in targets {
        if let Some((name, path)) = target.split_once('=') {
            let found = outputs.iter().find(|(known, _)| known == name);
            let known: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
            let (_, tensors) = found.with_context(|| format!("the model has no output '{name}', but {known:?}"))?;
            let [tensor] = tensors.as_slice() else {
                bail!("output '{name}' is {} tensors: name a folder", tensors.len())
            };
            wrote.push(save(Path::new(path), &bytes(tensor)?)?);
        } else if has_kind(target, "npz") {
            wrote.push(save_archive(Path::new(target), outputs)?);
        } else {
            fs::create_dir_all(target).with_context(|| format!("cannot make the folder {target}"))?;
            for (name, tensor) in named(outputs) {
                wrote.push(save(&Path::new(target).join(format!("{name}.npy")), &bytes(tensor)?)?);
            }
        }
    }
    Ok(wrote)
}

/// Each tensor under a name that a file may have; those of a sequence are numbered.
fn named(outputs: &[(String, Vec<Tensor>)]) -> impl Iterator<Item = (String, &Tensor)> {
    outputs.iter().flat_map(|(name, tensors)| {
        let plain: String =
            name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
        let plain = if plain.starts_with('.') { format!("_{plain}") } else { plain };
        let many = tensors.len() != 1;
        tensors.iter().enumerate().map(move |(i, t)| (if many { format!("{plain}.{i}") } else { plain.clone() }, t))
    })
}

fn bytes(tensor: &Tensor) -> anyhow::Result<Vec<u8>> {
    let is_bf16 = tensor.check()?.dtype == DType::BF16;
    Ok(if is_bf16 { tensor.cast(DType::F32).to_npy()? } else { tensor.to_npy()? })
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<String> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

fn save_archive(path: &Path, outputs: &[(String, Vec<Tensor>)]) -> anyhow::Result<String> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for (name, tensor) in named(outputs) {
        archive.start_file(format!("{name}.npy"), stored)?;
        archive.write_all(&bytes(tensor)?)?;
    }
    save(path, &archive.finish()?.into_inner())
}
