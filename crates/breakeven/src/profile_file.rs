//! The profile on disk: one readable JSON file for each machine, never trusted and never fatal.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use breakeven_plan::Profile;

/// Where the profile of this machine is kept.
#[derive(Clone, Debug)]
pub(crate) struct ProfileFile {
    path: PathBuf,
    fingerprint: String,
}

impl ProfileFile {
    /// In this folder, for the machine of this fingerprint.
    pub fn in_folder(folder: &Path, fingerprint: &str) -> ProfileFile {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = fingerprint.chars().map(plain).collect();
        ProfileFile { path: folder.join(format!("profile-{name}.json")), fingerprint: fingerprint.to_owned() }
    }

    /// What was kept; a file that is damaged or foreign is ignored with a note.
    pub fn load(&self, notes: &mut Vec<String>) -> Option<Profile> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(e) => {
                notes.push(format!("{}: cannot be read ({e}); this machine is measured again", self.path.display()));
                return None;
            }
        };
        let ignored = |e| format!("{}: {e}; it is ignored and this machine is measured again", self.path.display());
        Profile::from_json(&text, &self.fingerprint).map_err(|e| notes.push(ignored(e))).ok()
    }

    /// Replace the file as a whole: a reader sees the old one or the new one, never a half. Two writers do not mix,
    /// since each writes a file of its own first.
    pub fn save(&self, profile: &Profile) -> Result<(), String> {
        let profile = Profile { fingerprint: self.fingerprint.clone(), ..profile.clone() };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let own = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let write = || -> std::io::Result<()> {
            // What drivers compiled lies there too, and is used only where nobody else may write.
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder)?;
            let mut file = fs::File::create(&own)?;
            file.write_all(profile.to_json().as_bytes())?;
            file.sync_all()?;
            fs::rename(&own, &self.path)
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&own);
            format!("{}: the profile could not be kept ({e}); it will be measured again next time", self.path.display())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("breakeven-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_file_cut_at_any_byte_is_ignored_with_a_note() {
        let folder = folder("cut");
        let file = ProfileFile::in_folder(&folder, "cpu x");
        file.save(&Profile::new("cpu x")).unwrap();
        let whole = fs::read(&file.path).unwrap();
        assert_eq!(file.load(&mut Vec::new()), Some(Profile::new("cpu x")));
        for cut in 0..whole.len() {
            fs::write(&file.path, &whole[..cut]).unwrap();
            let mut notes = Vec::new();
            assert_eq!(file.load(&mut notes), None);
            assert_eq!(notes.len(), 1, "cut at {cut}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn many_writers_leave_one_whole_file() {
        let folder = folder("writers");
        let file = ProfileFile::in_folder(&folder, "cpu x");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| file.save(&Profile::new("cpu x")));
            }
        });
        assert_eq!(file.load(&mut Vec::new()), Some(Profile::new("cpu x")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn another_machines_profile_is_not_used() {
        let folder = folder("foreign");
        ProfileFile::in_folder(&folder, "cpu x").save(&Profile::new("")).unwrap();
        let mine = ProfileFile { fingerprint: "cpu y".to_owned(), ..ProfileFile::in_folder(&folder, "cpu x") };
        let mut notes = Vec::new();
        assert_eq!(mine.load(&mut notes), None);
        assert!(notes[0].contains("another machine"), "{notes:?}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_a_note() {
        let error = ProfileFile::in_folder(Path::new("/dev/null/none"), "cpu x").save(&Profile::new("")).unwrap_err();
        assert!(error.contains("could not be kept"), "{error}");
    }
}
