//! Arrays from an `.npz` file: a zip archive of `.npy` files.

use std::collections::HashMap;
use std::io::{Cursor, Read};

use anyhow::Context;
use breakeven::{Engine, Tensor};
use zip::ZipArchive;

/// The arrays of the archive in `bytes`, by name. The sizes that it states are limits, not promises.
pub fn arrays(bytes: &[u8], host: &Engine) -> anyhow::Result<HashMap<String, Tensor>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let mut arrays = HashMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name().trim_end_matches(".npy").to_owned();
        let (stated, mut elements) = (entry.size(), Vec::new());
        entry.by_ref().take(stated).read_to_end(&mut elements)?;
        let tensor = host.tensor_from_npy(elements);
        arrays.insert(name.clone(), tensor.with_context(|| format!("array '{name}'"))?);
    }
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = include_bytes!("../../../../fuzz/seeds/npz/two.npz");

    fn host() -> Engine {
        Engine::builder().gpus(false).no_cache().threads(1).build().expect("a CPU is always there")
    }

    #[test]
    fn arrays_have_their_names() {
        let arrays = arrays(TWO, &host()).expect("it is right");
        assert_eq!(arrays["a"].to_vec::<f32>().expect("it is there"), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(arrays["b"].to_vec::<u8>().expect("it is there"), [0; 300]);
    }

    #[test]
    fn damaged_archives_are_refused_or_read() {
        let host = host();
        for length in 0..TWO.len() {
            assert!(arrays(&TWO[..length], &host).is_err(), "cut to {length}");
        }
        for (at, value) in (0..TWO.len()).flat_map(|at| [0, 0x7f, 0xff].map(|value| (at, value))) {
            let mut changed = TWO.to_vec();
            changed[at] = value;
            drop(arrays(&changed, &host));
        }
    }
}
