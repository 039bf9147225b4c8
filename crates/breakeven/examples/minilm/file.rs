//! Weights from a safetensors file.

use std::path::Path;

use breakeven::{Engine, Result, Tensor, Weights};

use crate::load::Source;

/// A safetensors file.
pub struct File {
    weights: Weights,
    path: String,
}

impl File {
    /// Maps the file at `path`.
    pub fn open(engine: &Engine, path: &Path) -> Result<File> {
        Ok(File { weights: Weights::open(engine, path)?, path: path.display().to_string() })
    }
}

impl Source for File {
    fn tensor(&self, name: &str) -> Result<Tensor> {
        self.weights.tensor(name)
    }

    fn layers(&self) -> usize {
        let numbers = self.weights.names().filter_map(|name| name.strip_prefix("encoder.layer.")?.split('.').next());
        numbers.filter_map(|number| number.parse::<usize>().ok()).max().map_or(0, |last| last + 1)
    }

    fn name(&self) -> String {
        self.path.clone()
    }
}
