//! What a driver compiled, as a file: what it is of, how long it is, and a sum over it, so that nothing else is ever given to a driver.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// First bytes of every such file.
const MAGIC: &[u8; 8] = b"BRKPIPE1";
/// How the names of such files begin and end.
const NAME: (&str, &str) = ("pipelines-", ".bin");
/// Files of earlier drivers and other adapters that are left: the newest.
const FILES: usize = 8;

/// A file of one adapter with one driver.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    /// Adapter and driver, in words; also in the file.
    key: String,
}

/// Why a file is not used.
type Why = String;

impl KeptFile {
    /// In `folder`, of the adapter and driver that `key` names.
    pub fn new(folder: &Path, key: &str) -> KeptFile {
        let name = format!("{}{:016x}{}", NAME.0, sum(key.as_bytes()), NAME.1);
        KeptFile { path: folder.join(name), key: key.to_owned() }
    }

    /// What was kept, if that is whole, of this adapter and driver, and of at most so many bytes; none where there is no file.
    pub fn load(&self, most: u64) -> Result<Option<Vec<u8>>, Why> {
        let used = self.read(most).and_then(|bytes| bytes.map(|bytes| Ok(self.payload(&bytes)?.to_vec())).transpose());
        used.map_err(|why| format!("{}: {why}; it is ignored", self.path.display()))
    }

    fn read(&self, most: u64) -> Result<Option<Vec<u8>>, Why> {
        let cannot = |e: io::Error| format!("it cannot be read ({e})");
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(cannot(e)),
        };
        let about = file.metadata().map_err(cannot)?;
        // Of the file that was opened, whatever has its name by now.
        let shared = shared(&self.path, &about).map_or_else(|| self.folder_is_shared(), |why| Ok(Some(why)));
        if let Some(why) = shared.map_err(cannot)? {
            return Err(why);
        }
        let length = about.len();
        if length > most.saturating_add(self.header().len() as u64) {
            return Err(format!("it has {length} bytes, and {most} are kept at most"));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(length).read_to_end(&mut bytes).map_err(cannot)?;
        Ok(Some(bytes))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Why its folder is not this user's alone, where it is not.
    fn folder_is_shared(&self) -> io::Result<Option<Why>> {
        let folder = self.folder();
        Ok(shared(folder, &fs::metadata(folder)?))
    }

    /// What comes before the bytes, but for their length and sum.
    fn header(&self) -> Vec<u8> {
        let key = self.key.as_bytes();
        [MAGIC, &(key.len() as u64).to_le_bytes()[..], key].concat()
    }

    fn payload<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Why> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it does not hold pipelines, or is of another version")?;
        let rest = rest.strip_prefix(&self.header()[MAGIC.len()..]).ok_or("it is of another adapter or driver")?;
        let (numbers, payload) = rest.split_at_checked(16).ok_or("it ends early")?;
        let number = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().expect("there are eight of them"));
        if payload.len() as u64 != number(0) {
            return Err(format!("it should hold {} bytes and holds {}", number(0), payload.len()));
        }
        if sum(payload) != number(8) {
            return Err("its bytes are not those that were written".to_owned());
        }
        Ok(payload)
    }

    /// Replaces the file as a whole: a reader sees the old one or the new one. Two writers do not mix.
    pub fn save(&self, payload: &[u8], nth: u64) -> Result<(), Why> {
        let folder = self.folder();
        let own = self.path.with_extension(format!("{}-{nth}.tmp", std::process::id()));
        let numbers = [(payload.len() as u64).to_le_bytes(), sum(payload).to_le_bytes()].concat();
        let write = || -> io::Result<()> {
            private_folder(folder)?;
            // Whoever else owns it could put links where a file is written.
            self.folder_is_shared()?.map_or(Ok(()), |why| Err(io::Error::other(why)))?;
            let mut file = private(&own)?;
            file.write_all(&self.header())?;
            file.write_all(&numbers)?;
            file.write_all(payload)?;
            drop(file);
            fs::rename(&own, &self.path)
        };
        let written = write().map_err(|e| {
            let _ = fs::remove_file(&own);
            format!("{}: what the driver compiled could not be kept ({e})", self.path.display())
        });
        if written.is_ok() {
            // Others' files that cannot be looked at are left alone.
            let _ = tidy(folder, &self.path);
        }
        written
    }

    /// The file is not wanted any more.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the oldest files of this kind beside `own` where there are too many.
fn tidy(folder: &Path, own: &Path) -> io::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(NAME.0) && name.ends_with(NAME.1) && entry.path() != own {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort_unstable();
    let many = (found.len() + 1).saturating_sub(FILES);
    found.into_iter().take(many).try_for_each(|(_, path)| fs::remove_file(path))
}

/// A folder that is made, if it has to be, so that others may not write to it, whatever new files usually allow.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A new file that others cannot read or write, and that is not behind a link.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // One that a process with the same number left behind.
    let _ = fs::remove_file(path);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Why a file or folder is not this user's alone, where it is not.
#[cfg(unix)]
fn shared(path: &Path, about: &fs::Metadata) -> Option<Why> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: it has no conditions and cannot fail.
    let own = unsafe { libc::geteuid() };
    why_shared((about.uid(), about.mode()), own).map(|why| format!("{} {why}", path.display()))
}

/// Elsewhere the system makes folders for caches so that they are the user's.
#[cfg(not(unix))]
fn shared(_: &Path, _: &fs::Metadata) -> Option<Why> {
    None
}

/// Why what has this owner and these permissions is not to be trusted by user `own`. The system's administrator may do everything
/// anyhow.
#[cfg(unix)]
fn why_shared((owner, mode): (u32, u32), own: u32) -> Option<Why> {
    if owner != own && owner != 0 {
        return Some(format!("belongs to user {owner}, and this is user {own}"));
    }
    (mode & 0o022 != 0).then(|| "may be written by others".to_owned())
}

/// A sum that tells damage, by words of eight bytes; it does not tell malice.
fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    };
    let mut words = bytes.chunks_exact(8);
    let whole = words.by_ref().fold(bytes.len() as u64, |sum, word| {
        mix(sum, u64::from_le_bytes(word.try_into().expect("there are eight of them")))
    });
    words.remainder().iter().fold(whole, |sum, byte| mix(sum, u64::from(*byte) | 0x100))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("breakeven-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn payload() -> Vec<u8> {
        (0..1003u32).map(|i| ((i * i) >> 3) as u8).collect()
    }

    #[test]
    fn what_was_saved_is_loaded_and_no_file_is_none() {
        let folder = folder("kept-whole");
        let file = KeptFile::new(&folder, "a card, driver 1");
        assert_eq!(file.load(MOST), Ok(None));
        file.save(&payload(), 0).unwrap();
        assert_eq!(file.load(MOST), Ok(Some(payload())));
        file.save(&[], 1).unwrap();
        assert_eq!(file.load(MOST), Ok(Some(Vec::new())));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing temporary is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_is_not_used() {
        let folder = folder("kept-cut");
        let file = KeptFile::new(&folder, "a card, driver 1");
        file.save(&payload(), 0).unwrap();
        let whole = fs::read(&file.path).unwrap();
        let with = |bytes: &[u8]| {
            fs::write(&file.path, bytes).unwrap();
            file.load(MOST)
        };
        for cut in 0..whole.len() {
            assert!(with(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(with(&damaged).is_err(), "byte {at}");
        }
        assert!(with(&[&whole[..], b"x"].concat()).is_err());
        assert!(with(b"garbage").is_err_and(|why| why.contains("does not hold pipelines")));
        assert_eq!(with(&whole), Ok(Some(payload())));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn another_drivers_file_is_not_used() {
        let folder = folder("kept-foreign");
        let (mine, other) = (KeptFile::new(&folder, "a card, driver 2"), KeptFile::new(&folder, "a card, driver 1"));
        other.save(&payload(), 0).unwrap();
        fs::copy(&other.path, &mine.path).unwrap();
        assert!(mine.load(MOST).is_err_and(|why| why.contains("another adapter or driver")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_are_bounded_in_length_and_number() {
        let folder = folder("kept-many");
        for driver in 0..12 {
            KeptFile::new(&folder, &format!("driver {driver}")).save(&payload(), driver).unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), FILES);
        assert!(KeptFile::new(&folder, "driver 11").load(1002).is_err_and(|why| why.contains("kept at most")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("kept-shared");
        let file = KeptFile::new(&folder, "a card");
        file.save(&payload(), 0).unwrap();
        for path in [&file.path, &folder] {
            let before = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(before.mode() | 0o002)).unwrap();
            assert!(file.load(MOST).is_err_and(|why| why.contains("written by others")), "{}", path.display());
            let saved = file.save(&payload(), 1);
            assert_eq!(saved.is_err_and(|why| why.contains("written by others")), path == &folder);
            fs::set_permissions(path, before).unwrap();
        }
        assert_eq!(file.load(MOST), Ok(Some(payload())));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_another_user_owns_is_not_used() {
        let check = |owner, mode, own, is_shared: bool| {
            assert_eq!(why_shared((owner, mode), own).is_some(), is_shared, "{owner} {mode:o} {own}");
        };
        check(1000, 0o600, 1000, false);
        check(0, 0o755, 1000, false);
        check(1001, 0o600, 1000, true);
        check(1000, 0o600, 0, true);
        check(1000, 0o620, 1000, true);
        check(0, 0o777, 1000, true);
    }

    /// Only an administrator can give files away; who is none has the test above.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_was_given_away_is_neither_read_nor_written() {
        let folder = folder("kept-given");
        let file = KeptFile::new(&folder, "a card");
        file.save(&payload(), 0).unwrap();
        for path in [&file.path, &folder] {
            if std::os::unix::fs::chown(path, Some(65_534), None).is_err() {
                continue;
            }
            assert!(file.load(MOST).is_err_and(|why| why.contains("belongs to user 65534")), "{}", path.display());
            let saved = file.save(&payload(), 1);
            assert_eq!(saved.is_err_and(|why| why.contains("belongs to user")), path == &folder);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = folder("kept-link");
        let file = KeptFile::new(&folder, "a card");
        file.save(&payload(), 0).unwrap();
        let victim = folder.join("victim");
        fs::write(&victim, "mine").unwrap();
        let own = file.path.with_extension(format!("{}-1.tmp", std::process::id()));
        std::os::unix::fs::symlink(&victim, &own).unwrap();
        file.save(&payload(), 1).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert_eq!(file.load(MOST), Ok(Some(payload())));
        fs::remove_dir_all(folder).unwrap();
    }
}
