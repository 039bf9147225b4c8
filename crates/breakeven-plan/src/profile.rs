//! Profiles: what has been measured on one machine. All tuned numbers live here.

use std::collections::BTreeMap;

use breakeven_ir::Class;
use serde::{Deserialize, Serialize};

use crate::{ClassCurves, Cost, Curve};

/// How much a profile is to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Priors of a class of devices; nothing was measured.
    #[default]
    Builtin,
    /// Measured in a few seconds.
    Quick,
    /// Measured by a full calibration.
    Full,
    /// Corrected by real runs.
    Learned,
}

impl Trust {
    /// By how much a plan over several devices must be predicted better than the best single device, as a share.
    pub fn margin(self) -> f64 {
        match self {
            Trust::Builtin | Trust::Quick => 0.10,
            Trust::Full | Trust::Learned => 0.03,
        }
    }

    /// As explanations name it.
    pub fn name(self) -> &'static str {
        match self {
            Trust::Builtin => "builtin",
            Trust::Quick => "quick",
            Trust::Full => "full",
            Trust::Learned => "learned",
        }
    }
}

/// What has been measured on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// Adapter or CPU model.
    pub name: String,
    /// Backend and driver version, with which numbers change.
    pub driver: String,
    /// How far to believe it.
    pub trust: Trust,
    /// Handing over one batch of work, with what the engine takes for a call.
    pub submit: Cost,
    /// Each launch within a batch.
    pub dispatch: Cost,
    /// Waiting for a batch and mapping its result.
    pub sync: Cost,
    /// Host to device, seconds against bytes; not used where the device works in the host's memory.
    pub upload: Curve,
    /// Device to host.
    pub download: Curve,
    /// Kernels by the name of their class; a class that is missing is unmeasured.
    pub classes: BTreeMap<String, ClassCurves>,
    /// Custom operations by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub customs: BTreeMap<String, ClassCurves>,
    /// Numbers that its kernels are tuned by, as the device measured them; it has defaults for those that are missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tuning: BTreeMap<String, f64>,
}

impl DeviceProfile {
    /// Curves of a class, where it was measured. A custom operation that was not is taken for a map.
    pub fn class(&self, class: Class) -> Option<&ClassCurves> {
        match class {
            Class::Custom(name) => self.customs.get(name).or_else(|| self.class(Class::Map)),
            _ => self.classes.get(class_name(class)),
        }
    }

    /// False for a custom operation that is taken for a map.
    pub fn is_measured(&self, class: Class) -> bool {
        match class {
            Class::Custom(name) => self.customs.contains_key(name),
            _ => self.class(class).is_some(),
        }
    }
}

/// Everything measured on one machine; one JSON file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of the file's form.
    pub schema: u32,
    /// CPU model, instruction sets, cores, and version of the engine: another fingerprint, another machine.
    pub fingerprint: String,
    /// The host's CPU first.
    pub devices: Vec<DeviceProfile>,
}

/// Why a profile cannot be used; none of these is fatal.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is truncated, or not a profile.
    #[error("the profile cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It was written by another version.
    #[error("the profile has schema {found}, but this version reads schema {}", Profile::SCHEMA)]
    Schema {
        /// What the file says.
        found: u32,
    },
    /// It describes another machine.
    #[error("the profile was measured on another machine: {found}")]
    Foreign {
        /// What the file says.
        found: String,
    },
}

impl Profile {
    /// The version this code reads and writes.
    pub const SCHEMA: u32 = 3;

    /// Nothing measured yet on the machine of this fingerprint.
    pub fn new(fingerprint: impl Into<String>) -> Profile {
        Profile { schema: Profile::SCHEMA, fingerprint: fingerprint.into(), devices: Vec::new() }
    }

    /// Read from JSON, for the machine of this fingerprint.
    pub fn from_json(text: &str, fingerprint: &str) -> Result<Profile, ProfileError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
            fingerprint: String,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != Profile::SCHEMA {
            return Err(ProfileError::Schema { found: head.schema });
        }
        if head.fingerprint != fingerprint {
            return Err(ProfileError::Foreign { found: head.fingerprint });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// As readable JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a profile is numbers and names")
    }
}

/// Name of a class in profiles; custom operations stand apart from the others.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Map => "map",
        Class::Reduce => "reduce",
        Class::Scan => "scan",
        Class::RowWise => "row_wise",
        Class::Sort => "sort",
        Class::MatMul => "matmul",
        Class::MatMulBf16 => "matmul_bf16",
        Class::MatMulF16 => "matmul_f16",
        Class::MatMulInt => "matmul_int",
        Class::Conv => "conv",
        Class::Attention => "attention",
        Class::Gather => "gather",
        Class::Scatter => "scatter",
        Class::Custom(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, Knot};

    #[test]
    fn a_profile_comes_back_from_its_file_and_a_damaged_one_does_not() {
        let mut profile = Profile::new("cpu x");
        let memory = Curve::new(vec![Knot::new(1e3, 1e-6), Knot::new(1e6, 1e-4)]).unwrap();
        let classes =
            BTreeMap::from([(class_name(Class::Map).to_owned(), ClassCurves { memory, ..Default::default() })]);
        profile.devices.push(DeviceProfile { name: "cpu".into(), trust: Trust::Quick, classes, ..Default::default() });
        let text = profile.to_json();
        assert_eq!(Profile::from_json(&text, "cpu x").unwrap(), profile);
        assert!(matches!(Profile::from_json(&text, "cpu y"), Err(ProfileError::Foreign { .. })));
        assert!(matches!(Profile::from_json(&text[..text.len() / 2], "cpu x"), Err(ProfileError::Unreadable(_))));
        assert!(!text.contains("tuning"), "a file without it is one that earlier versions wrote");
        profile.devices[0].tuning.insert("part_ns".to_owned(), 1500.0);
        assert_eq!(Profile::from_json(&profile.to_json(), "cpu x").unwrap(), profile);
        for other in [Profile::SCHEMA - 1, Profile::SCHEMA + 1] {
            let text = Profile { schema: other, ..profile.clone() }.to_json();
            assert!(
                matches!(Profile::from_json(&text, "cpu x"), Err(ProfileError::Schema { found }) if found == other)
            );
        }
    }
}
