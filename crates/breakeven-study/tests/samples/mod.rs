//! Made-up runs for tests, and folders that go away with the test.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod noise;
pub mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use breakeven_study::{Cell, Environment, Manifest, ManifestSchema, Mode, StudyDevice};

/// A folder of this test's own, removed with it.
pub struct Folder(PathBuf);

impl Folder {
    /// A folder that is not there yet.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("breakeven-study-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A cell of f32 values in one dimension.
pub fn cell(operation: &str, elements: u64, device: &str, mode: Mode) -> Cell {
    let (operation, shape) = (operation.into(), elements.to_string());
    Cell { operation, elements, shape, dtype: "f32".into(), device: device.into(), mode }
}

/// A run on a machine with one GPU.
pub fn manifest() -> Manifest {
    let device = StudyDevice {
        name: "vulkan:0".into(),
        device: "NVIDIA H200".into(),
        backend: "vulkan".into(),
        driver: "580.1".into(),
        kind: "discrete".into(),
    };
    Manifest {
        schema: ManifestSchema {},
        started: "2026-11-29T08:00:00Z".into(),
        version: "0.1.0".into(),
        arguments: vec!["scan".into(), "--quick".into()],
        seed: 1,
        fingerprint: "cafe".into(),
        environment: Environment {
            cpu: "a processor".into(),
            cores: 2,
            devices: vec![device],
            ..Environment::default()
        },
    }
}
