//! Copying bytes of the host, with the threads of whoever owns some.

use std::fmt;
use std::sync::Arc;

use crate::Device;

/// How a device copies between the host's memory and its own: with the caller's thread, or as it was told by whoever knows which
/// threads may be used.
#[derive(Clone, Default)]
pub struct Copier(Option<Arc<Ways>>);

type Copy = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

struct Ways {
    copy: Box<Copy>,
    beside: Box<Copy>,
}

impl Copier {
    /// By `copy`, which is given as many bytes on both sides, writes all of the second and reads none of them: they may lie
    /// where reading is slow.
    pub fn new(copy: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static) -> Copier {
        let copy = Arc::new(copy);
        let beside = copy.clone();
        Copier(Some(Arc::new(Ways {
            copy: Box::new(move |a, b| copy(a, b)),
            beside: Box::new(move |a, b| beside(a, b)),
        })))
    }

    /// By [`Device::copy_on_host`] and [`Device::copy_beside`] of `device`.
    pub fn of(device: Arc<dyn Device>) -> Copier {
        let other = device.clone();
        let copy = Box::new(move |from: &[u8], to: &mut [u8]| device.copy_on_host(from, to));
        let beside = Box::new(move |from: &[u8], to: &mut [u8]| other.copy_beside(from, to));
        Copier(Some(Arc::new(Ways { copy, beside })))
    }

    /// Copies `from` to `to`.
    ///
    /// # Panics
    /// When there are not as many bytes on both sides.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        self.by(|ways| &ways.copy, from, to);
    }

    /// As [`Copier::copy`], beside what the threads of the host compute meanwhile.
    ///
    /// # Panics
    /// When there are not as many bytes on both sides.
    pub fn copy_beside(&self, from: &[u8], to: &mut [u8]) {
        self.by(|ways| &ways.beside, from, to);
    }

    fn by(&self, way: fn(&Ways) -> &Copy, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "as many bytes on both sides");
        match &self.0 {
            Some(ways) => way(ways)(from, to),
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
