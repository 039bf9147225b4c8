//! Bytes of the host: what uploads read and what reads fill.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use breakeven_ir::Element;
use bytemuck::{Pod, Zeroable};

use crate::Derived;

/// One cache line; storage made of lines is aligned for every SIMD width.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes aligned to 64 and padded to a multiple of 64.
#[derive(Clone)]
pub struct HostMemory {
    lines: Vec<Line>,
    bytes: usize,
}

impl HostMemory {
    /// Zeroed bytes.
    pub fn zeroed(bytes: usize) -> HostMemory {
        HostMemory { lines: bytemuck::zeroed_vec(bytes.div_ceil(64)), bytes }
    }

    /// The same bytes once more.
    pub fn copy_of(bytes: &[u8]) -> HostMemory {
        let mut copy = HostMemory::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }

    /// All bytes with the padding behind them.
    pub fn padded_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}

impl Deref for HostMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

impl AsRef<[u8]> for HostMemory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.bytes)
    }
}

/// Read-only bytes of the host, shared: a vector that was given away, a mapped file, a part of either.
#[derive(Clone)]
pub struct HostBytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    /// Its bytes may change between two looks at them.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Constant(Arc<dyn Constant>),
}

/// Bytes that stay as they are, and what was made of them.
trait Constant: Send + Sync {
    fn bytes(&self) -> &[u8];
    fn derived(&self) -> &Derived;
}

struct Kept<T> {
    owner: T,
    derived: Derived,
}

impl<T: AsRef<[u8]> + Send + Sync> Constant for Kept<T> {
    fn bytes(&self) -> &[u8] {
        self.owner.as_ref()
    }

    fn derived(&self) -> &Derived {
        &self.derived
    }
}

impl HostBytes {
    /// All bytes of `owner`, which is kept alive. Its bytes are looked at anew each time: where they never change,
    /// [`HostBytes::constant`] lets devices keep what they made of them.
    pub fn shared(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> HostBytes {
        let range = 0..(*owner).as_ref().len();
        HostBytes { owner: Owner::Shared(owner), range }
    }

    /// All bytes of `owner`, which gives the same ones whenever it is asked, or need not be asked again: a result may rest on
    /// what they were when they were looked at first.
    pub fn constant(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> HostBytes {
        let range = 0..owner.as_ref().len();
        HostBytes { owner: Owner::Constant(Arc::new(Kept { owner, derived: Derived::default() })), range }
    }

    /// What devices made of these bytes and of those around them, and where in there these start; `None` where they may change.
    pub fn derived(&self) -> Option<(&Derived, usize)> {
        match &self.owner {
            Owner::Shared(_) => None,
            Owner::Constant(kept) => Some((kept.derived(), self.range.start)),
        }
    }

    /// Takes a vector, without copying.
    pub fn from_vec<T: Element>(elements: Vec<T>) -> HostBytes {
        HostBytes::constant(Elements(elements))
    }

    /// The same bytes at an address that `alignment`, at most 64, divides: copied only where they lie elsewhere.
    pub fn aligned(self, alignment: usize) -> HostBytes {
        if (self.as_ptr() as usize).is_multiple_of(alignment) {
            return self;
        }
        HostMemory::copy_of(&self).into()
    }

    /// The bytes as elements.
    ///
    /// # Panics
    /// When a byte pattern is not valid for `T`: a bool that is neither 0 nor 1; and when they do not lie where a `T` may,
    /// which bytes that a device read always do.
    pub fn elements<T: Element>(&self) -> &[T] {
        bytemuck::checked::cast_slice(self)
    }

    /// A part of these bytes.
    ///
    /// # Panics
    /// When the range leaves them.
    pub fn slice(&self, range: Range<usize>) -> HostBytes {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} leaves {} bytes", self.len());
        let start = self.range.start;
        HostBytes { owner: self.owner.clone(), range: start + range.start..start + range.end }
    }
}

impl<T: Element> From<Vec<T>> for HostBytes {
    fn from(elements: Vec<T>) -> HostBytes {
        HostBytes::from_vec(elements)
    }
}

impl From<HostMemory> for HostBytes {
    fn from(memory: HostMemory) -> HostBytes {
        HostBytes::constant(memory)
    }
}

impl Deref for HostBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let all = match &self.owner {
            Owner::Shared(owner) => (**owner).as_ref(),
            Owner::Constant(kept) => kept.bytes(),
        };
        &all[self.range.clone()]
    }
}

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes({} bytes)", self.len())
    }
}

struct Elements<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Where a read puts its bytes, aligned for every element type. Filled by the device once the bytes have really arrived, with
/// memory of their own or with the place where it wrote them; a device that says "done" too early leaves it empty.
#[derive(Clone, Debug, Default)]
pub struct ReadCell(Arc<Mutex<Option<HostBytes>>>);

impl ReadCell {
    /// An empty cell.
    pub fn new() -> ReadCell {
        ReadCell::default()
    }

    /// Called by the device when the bytes are there.
    pub fn fill(&self, bytes: impl Into<HostBytes>) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(bytes.into());
        // Memory may belong to a device, which has locks of its own.
        drop(before);
    }

    /// The bytes, once they are there.
    pub fn take(&self) -> Option<HostBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_taken_without_a_copy() {
        let data = vec![1.0f32, 2.0];
        let place = data.as_ptr().cast::<u8>();
        let bytes = HostBytes::from_vec(data);
        assert_eq!(bytes.as_ptr(), place);
        assert_eq!(&*bytes.slice(4..8), 2.0f32.to_le_bytes());
    }

    #[test]
    fn only_bytes_that_never_change_keep_what_was_made_of_them() {
        let owned = HostBytes::from_vec(vec![1u8, 2, 3]);
        let (part, start) = (owned.slice(1..2), |bytes: &HostBytes| bytes.derived().map(|(_, start)| start));
        assert_eq!((start(&owned), start(&part), start(&owned.clone().aligned(64))), (Some(0), Some(1), Some(0)));
        let (all, _) = owned.derived().expect("a vector that was given away");
        all.find(|_: &u8| true, || 7);
        assert_eq!(*part.derived().expect("the same bytes").0.find(|_: &u8| true, || 8), 7);
        let shared = HostBytes::shared(Arc::new(vec![1u8]));
        assert_eq!((start(&shared), &*shared), (None, &[1u8][..]));
    }

    #[test]
    fn bytes_are_copied_only_where_they_lie_askew() {
        let bytes = HostBytes::from_vec(vec![1u32, 2]);
        assert_eq!(bytes.clone().aligned(4).as_ptr(), bytes.as_ptr());
        let odd = bytes.slice(1..6);
        let even = odd.clone().aligned(4);
        assert_eq!((&*even, even.as_ptr() as usize % 4), (&*odd, 0));
    }

    #[test]
    fn host_memory_is_aligned_and_padded() {
        let mut memory = HostMemory::zeroed(10);
        memory[..4].copy_from_slice(&1.5f32.to_le_bytes());
        assert_eq!(memory.as_ptr() as usize % 64, 0);
        assert_eq!((memory.len(), memory.padded_mut().len()), (10, 64));
        assert_eq!(HostBytes::from(HostMemory { bytes: 4, ..memory }).elements::<f32>(), [1.5]);
    }
}
