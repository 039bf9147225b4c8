//! `manifest.json`: where, when and how a run was made.

use serde::{Deserialize, Serialize};

use crate::schema::ManifestSchema;

/// What has to be known of a run before its numbers mean anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Kind and version of the file.
    pub schema: ManifestSchema,
    /// When it began, as RFC 3339 has it; "not dated" for a published report without a date.
    pub started: String,
    /// The version of breakeven.
    pub version: String,
    /// The command line after the program's name.
    pub arguments: Vec<String>,
    /// From which all random choices follow.
    pub seed: u64,
    /// Of all that must be the same before two runs may be compared, in hexadecimal.
    pub fingerprint: String,
    /// The machine.
    pub environment: Environment,
}

/// Who went on with a run, and when: a run that was interrupted is several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// When, as RFC 3339 has it.
    pub started: String,
    /// The version of breakeven.
    pub version: String,
    /// The command line after the program's name.
    pub arguments: Vec<String>,
}

impl Manifest {
    /// Who writes by this manifest.
    pub fn opening(&self) -> Opening {
        let Manifest { started, version, arguments, .. } = self.clone();
        Opening { started, version, arguments }
    }
}

/// The machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor as it calls itself.
    pub cpu: String,
    /// Its cores that may be used.
    pub cores: u32,
    /// Threads that the engine used.
    pub threads: u32,
    /// The instructions that the kernels used: "avx512".
    pub isa: String,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// The operating system.
    pub os: String,
    /// Its kernel's version.
    pub kernel: String,
    /// The policy by which the processor's clock is set, where the system tells.
    pub governor: Option<String>,
    /// Whether the machine is a virtual one, where that can be known.
    #[serde(rename = "virtual")]
    pub is_virtual: Option<bool>,
    /// Every device that took part.
    pub devices: Vec<StudyDevice>,
}

/// A device that took part in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyDevice {
    /// Its name in cells: "vulkan:0".
    pub name: String,
    /// What it is: "NVIDIA H200".
    pub device: String,
    /// The interface through which it is reached.
    pub backend: String,
    /// The version of its driver.
    pub driver: String,
    /// One of "discrete", "integrated", "software", "cpu".
    pub kind: String,
}
