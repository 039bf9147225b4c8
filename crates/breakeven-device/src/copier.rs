//! Copying bytes of the host, with the threads of whoever owns some.

use std::fmt;
use std::sync::Arc;

use crate::Device;

/// How a device copies between the host's memory and its own: with the caller's thread, or as it was told by whoever knows which
/// threads may be used.
#[derive(Clone, Default)]
pub struct Copier(Option<Arc<Copy>>);

type Copy = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

impl Copier {
    /// By `copy`, which is given as many bytes on both sides, writes all of the second and reads none of them: they may lie
    /// where reading is slow.
    pub fn new(copy: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static) -> Copier {
        Copier(Some(Arc::new(copy)))
    }

    /// By [`Device::copy_on_host`] of `device`.
    pub fn of(device: Arc<dyn Device>) -> Copier {
        Copier::new(move |from, to| device.copy_on_host(from, to))
    }

    /// Copies `from` to `to`.
    ///
    /// # Panics
    /// When there are not as many bytes on both sides.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "as many bytes on both sides");
        match &self.0 {
            Some(copy) => copy(from, to),
            None => to.copy_from_slice(from),
        }
    }
}

/// The same threads.
impl PartialEq for Copier {
    fn eq(&self, other: &Copier) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl Eq for Copier {}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Copier(given)" } else { "Copier(the caller's thread)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copier_is_itself_alone() {
        let given = Copier::new(|from, to| to.iter_mut().zip(from).for_each(|(to, from)| *to = from + 1));
        assert_eq!(given, given.clone());
        assert_ne!(given, Copier::default());
        assert_ne!(given, Copier::new(|from, to| to.copy_from_slice(from)));
        let mut to = [0; 2];
        given.copy(&[1, 2], &mut to);
        assert_eq!(to, [2, 3]);
        Copier::default().copy(&[1, 2], &mut to);
        assert_eq!(to, [1, 2]);
    }
}
