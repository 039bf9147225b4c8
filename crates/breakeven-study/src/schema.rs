//! Names and versions of the files and of what is printed for programs: a reader takes its own major version and refuses every other.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::StudyError;

/// A kind of file and its major version, written as "breakeven.summary/1". Fields may be added within a major version; readers ignore fields
/// that they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema<const KIND: usize> {}

const KINDS: [&str; 5] = [
    "breakeven.summary/1",
    "breakeven.manifest/1",
    "breakeven.events/1",
    "breakeven.rules/1",
    "breakeven.comparison/1",
];

/// The schema of `summary.json`.
pub type SummarySchema = Schema<0>;
/// The schema of `manifest.json`.
pub type ManifestSchema = Schema<1>;
/// The schema of `events.jsonl` and of the `samples.csv` beside it.
pub type EventsSchema = Schema<2>;
/// The schema of what `compare --json` prints.
pub type ComparisonSchema = Schema<4>;

impl<const KIND: usize> Schema<KIND> {
    /// The text that files of this kind and version carry.
    pub const ID: &str = KINDS[KIND];

    /// Accepts `found` if this program reads it.
    pub fn check(found: &str) -> Result<Self, StudyError> {
        let refused = || StudyError::Schema { found: found.into(), wanted: Self::ID.into() };
        // A minor version ("/1.2") only adds fields.
        let is_ours = found == Self::ID || found.strip_prefix(Self::ID).is_some_and(|rest| rest.starts_with('.'));
        is_ours.then_some(Schema {}).ok_or_else(refused)
    }
}

impl<const KIND: usize> Serialize for Schema<KIND> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::ID)
    }
}

impl<'de, const KIND: usize> Deserialize<'de> for Schema<KIND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        Schema::check(&found).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_major_versions_and_kinds_are_refused_with_what_to_do() {
        for found in ["breakeven.summary/2", "breakeven.summary/10", "breakeven.manifest/1", "criterion/1", ""] {
            let why = SummarySchema::check(found).unwrap_err().to_string();
            assert!(why.contains("'breakeven.summary/1'") && why.contains("measure again"), "{why}");
        }
    }

    #[test]
    fn minor_versions_are_read() {
        for found in ["breakeven.summary/1", "breakeven.summary/1.3"] {
            assert!(SummarySchema::check(found).is_ok());
        }
    }
}
