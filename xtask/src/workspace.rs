//! Where the repository is and which text files it holds.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The repository's root, absolute.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).expect("xtask lies in the repository").to_path_buf()
}

/// A text file of the repository; its path is relative to the root, with `/` between the parts.
#[derive(Debug, Clone)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    /// The crate folder that holds this file: `breakeven-ir` for `crates/breakeven-ir/src/lib.rs`.
    pub fn crate_name(&self) -> Option<&str> {
        match self.path.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, ..] => Some(name),
            ["xtask", ..] => Some("xtask"),
            _ => None,
        }
    }

    /// Whether the file's name ends in `.kind`.
    pub fn is(&self, kind: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == kind)
    }

    /// The file's own name, without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

const KINDS: [&str; 8] = ["rs", "toml", "md", "wgsl", "sh", "yml", "run", "jsonl"];

/// Reads every file that people write by hand; build output and hidden folders are not entered, except those of CI and cargo.
pub fn read(root: &Path) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && is_entered(&entry.file_name().to_string_lossy()) {
                folders.push(path);
            } else if kind.is_file() && is_written_by_hand(&path) {
                files.push(read_one(root, &path)?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_entered(folder: &str) -> bool {
    folder != "target" && (!folder.starts_with('.') || [".ci", ".cargo", ".config"].contains(&folder))
}

fn is_written_by_hand(path: &Path) -> bool {
    let kind = path.extension().or(path.file_name()).unwrap_or_default();
    KINDS.iter().any(|known| kind == *known)
}

fn read_one(root: &Path, path: &Path) -> Result<TextFile> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {} as UTF-8", path.display()))?;
    let parts: Vec<_> = path.strip_prefix(root)?.iter().map(|part| part.to_string_lossy()).collect();
    Ok(TextFile { path: parts.join("/"), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_own_source_and_skips_build_output() {
        let files = read(&root()).expect("the repository is readable");
        assert!(files.iter().any(|file| file.path == "xtask/src/workspace.rs"));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn a_file_knows_its_crate() {
        let at = |path: &str| TextFile { path: path.into(), text: String::new() }.crate_name().map(String::from);
        assert_eq!(at("crates/breakeven-ir/src/lib.rs").as_deref(), Some("breakeven-ir"));
        assert_eq!(at("xtask/src/main.rs").as_deref(), Some("xtask"));
        assert_eq!(at("README.md"), None);
    }
}
