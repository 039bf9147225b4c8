//! A file's length and SHA-256: what tells a whole download from a broken one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

/// A file that is known in advance.
pub struct Known {
    pub name: &'static str,
    pub bytes: u64,
    /// In lower-case hexadecimal.
    pub sha256: &'static str,
}

impl Known {
    /// Whether `folder` holds exactly this file.
    pub fn is_intact_in(&self, folder: &Path) -> bool {
        let path = folder.join(self.name);
        let has_length = path.metadata().is_ok_and(|metadata| metadata.len() == self.bytes);
        has_length && File::open(path).is_ok_and(|mut file| self.copy(&mut file, &mut io::sink()).is_ok())
    }

    /// Copies this file; an error if what came is something else. Never writes more than its length.
    pub fn copy(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut hash = Sha256::new();
        let mut block = vec![0; 1 << 18];
        let mut left = self.bytes;
        loop {
            let got = from.read(&mut block)?;
            if got == 0 {
                break;
            }
            left = left.checked_sub(got as u64).ok_or_else(|| self.differs("is longer than it should be"))?;
            hash.update(&block[..got]);
            to.write_all(&block[..got])?;
        }
        let hex = format!("{:x}", hash.finalize());
        if left > 0 || hex != self.sha256 {
            return Err(self.differs("is not the published file"));
        }
        Ok(())
    }

    fn differs(&self, how: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} {how}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: Known =
        Known { name: "abc.txt", bytes: 3, sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" };

    #[test]
    fn only_the_very_same_bytes_pass() {
        let copy = |text: &str| {
            let mut written = Vec::new();
            ABC.copy(&mut text.as_bytes(), &mut written).map(|()| written)
        };
        assert_eq!(copy("abc").expect("intact"), b"abc");
        for broken in ["", "ab", "abd", "abcd"] {
            assert!(copy(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_file_on_disk_is_checked_whole() {
        let folder = std::env::temp_dir().join(format!("breakeven-digest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        assert!(!ABC.is_intact_in(&folder), "missing");
        for (text, is_intact) in [("ab", false), ("abd", false), ("abc", true)] {
            std::fs::write(folder.join(ABC.name), text).expect("writable");
            assert_eq!(ABC.is_intact_in(&folder), is_intact, "{text}");
        }
        std::fs::remove_dir_all(folder).expect("removable");
    }
}
