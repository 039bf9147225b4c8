//! What a run folder begins with.

use breakeven_study::{Environment, Manifest, ManifestSchema};

/// Of a study in which nothing is said of the machine but this.
pub fn manifest(environment: Environment) -> Manifest {
    Manifest {
        schema: ManifestSchema {},
        started: "2026-11-29T00:00:00Z".to_owned(),
        version: "0".to_owned(),
        arguments: vec![],
        seed: 1,
        fingerprint: "0".to_owned(),
        environment,
    }
}
