//! Bytes of the host: what uploads read and what reads fill.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use breakeven_ir::Element;
use bytemuck::{Pod, Zeroable};

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

    /// The bytes as elements.
    ///
    /// # Panics
    /// When a byte pattern is not valid for `T`: a bool that is neither 0 nor 1.
    pub fn elements<T: Element>(&self) -> &[T] {
        bytemuck::checked::cast_slice(self)
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
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl HostBytes {
    /// All bytes of `owner`, which is kept alive.
    pub fn shared(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> HostBytes {
        let range = 0..(*owner).as_ref().len();
        HostBytes { owner, range }
    }

    /// Takes a vector, without copying.
    pub fn from_vec<T: Element>(elements: Vec<T>) -> HostBytes {
        HostBytes::shared(Arc::new(Elements(elements)))
    }

    /// The same bytes at an address that `alignment`, at most 64, divides: copied only where they lie elsewhere.
    pub fn aligned(self, alignment: usize) -> HostBytes {
        if (self.as_ptr() as usize).is_multiple_of(alignment) {
            return self;
        }
        let mut copy = HostMemory::zeroed(self.len());
        copy.copy_from_slice(&self);
        HostBytes::shared(Arc::new(copy))
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

impl Deref for HostBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
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

/// Where a read puts its bytes. Filled by the device once the bytes have really arrived; a device that says "done"
/// too early leaves it empty.
#[derive(Clone, Debug, Default)]
pub struct ReadCell(Arc<Mutex<Option<HostMemory>>>);

impl ReadCell {
    /// An empty cell.
    pub fn new() -> ReadCell {
        ReadCell::default()
    }

    /// Called by the device when the bytes are there.
    pub fn fill(&self, memory: HostMemory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// The bytes, once they are there.
    pub fn take(&self) -> Option<HostMemory> {
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
        assert_eq!(HostMemory { bytes: 4, ..memory }.elements::<f32>(), [1.5]);
    }
}
