//! Tensors whose bytes lie in other files of the model's folder.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use breakeven::HostBytes;

use crate::proto::StringStringEntryProto;

/// Files beside a model, each mapped once.
#[derive(Debug)]
pub(crate) struct Files {
    /// The model's folder; none for a model that came without a file.
    folder: Option<PathBuf>,
    mapped: HashMap<String, HostBytes>,
}

impl Files {
    /// Files of the folder that holds the model at `path`.
    pub fn beside(path: &Path) -> Files {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Files { folder: Some(folder.to_owned()), mapped: HashMap::new() }
    }

    /// No files at all.
    pub fn none() -> Files {
        Files { folder: None, mapped: HashMap::new() }
    }

    /// The bytes that `entries` name; without a length, as many as are `needed`.
    pub fn bytes(&mut self, entries: &[StringStringEntryProto], needed: u64) -> Result<HostBytes, String> {
        let entry = |key: &str| entries.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &str| entry(key).map(|text| text.parse::<u64>().map_err(|_| bad(key, text))).transpose();
        let location = entry("location").ok_or("lies in another file and does not name it")?;
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?.unwrap_or(needed));
        let file = self.file(location)?;
        let end = offset.checked_add(length).filter(|&end| end <= file.len() as u64);
        let end = end.ok_or_else(|| {
            format!("lies in '{location}' at {offset}, {length} bytes long; the file has {} bytes", file.len())
        })?;
        Ok(file.slice(offset as usize..end as usize))
    }

    fn file(&mut self, location: &str) -> Result<HostBytes, String> {
        if let Some(file) = self.mapped.get(location) {
            return Ok(file.clone());
        }
        let folder = self.folder.as_ref().ok_or("lies in another file, and the model has no folder")?;
        let path = inside(folder, location)?;
        let file = breakeven::map_file(&path).map_err(|error| format!("lies in another file: {error}"))?;
        self.mapped.insert(location.to_owned(), file.clone());
        Ok(file)
    }
}

fn bad(key: &str, text: &str) -> String {
    format!("lies in another file at a {key} that is not a number: '{text}'")
}

/// The file at `location` below `folder`; links are followed and must stay below it too.
fn inside(folder: &Path, location: &str) -> Result<PathBuf, String> {
    let outside = || format!("lies in '{location}', which is outside the model's folder");
    let relative = Path::new(location);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let problem = |error: std::io::Error| format!("lies in '{location}', which cannot be opened: {error}");
    let root = folder.canonicalize().map_err(problem)?;
    let path = root.join(relative).canonicalize().map_err(problem)?;
    if path.starts_with(&root) { Ok(path) } else { Err(outside()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<StringStringEntryProto> {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto { key: (*key).into(), value: (*value).into() };
        pairs.iter().map(entry).collect()
    }

    #[test]
    fn only_bytes_of_files_inside_the_folder_are_given() {
        let folder = std::env::temp_dir().join(format!("breakeven-onnx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        std::fs::write(folder.join("weights"), [1, 2, 3, 4, 5]).expect("a temporary file");
        let mut files = Files::beside(&folder.join("model.onnx"));
        let part = files.bytes(&entries(&[("location", "weights"), ("offset", "1"), ("length", "3")]), 3);
        assert_eq!(&*part.expect("it is there"), [2, 3, 4]);
        for wrong in [
            &[("location", "weights"), ("offset", "3"), ("length", "3")][..],
            &[("location", "weights"), ("offset", "18446744073709551615")],
            &[("location", "weights"), ("offset", "-1")],
            &[("location", "../weights")],
            &[("location", "/etc/hostname")],
            &[("location", "absent")],
            &[("offset", "0")],
        ] {
            assert!(files.bytes(&entries(wrong), 3).is_err(), "{wrong:?}");
        }
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }
}
