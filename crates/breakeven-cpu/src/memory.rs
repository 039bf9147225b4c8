//! Memory of the CPU device: aligned blocks from a pool, and host bytes taken in place.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use breakeven_device::{
    Buffer, Derived, DeviceError, HostBytes, Kept, Pool, PoolClass, PoolCounters, Result, size_class,
};

use crate::CpuOptions;
use crate::kept::Keeper;

/// Where every block starts: one cache line, the longest register.
const ALIGN: usize = 64;

/// Memory straight from the allocator.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is memory and nothing else; who may touch it when is decided by `CpuMemory`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: u64) -> Option<Block> {
        let layout = Layout::from_size_align(usize::try_from(bytes).ok()?, ALIGN).ok()?;
        // SAFETY: a size class is never 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Block { start, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The device's pool.
#[derive(Clone)]
pub(crate) struct Store(Arc<Vault>);

struct Vault {
    pool: Mutex<Pool<Block>>,
    born: Instant,
    poison: bool,
    /// The most that may be live and waiting together.
    limit: u64,
    /// Packed copies, which are given up where room is short.
    keeper: Keeper,
}

impl Store {
    /// Memory as the options say; poisoned memory is full of ones (NaN) whenever it is given out.
    pub fn new(options: &CpuOptions) -> Store {
        let pool = Mutex::new(Pool::new(options.tuning.pool_bytes, options.tuning.pool_age));
        let (poison, limit) = (options.poison, options.memory_limit());
        let keeper = Keeper::new(options.tuning.kept_bytes);
        Store(Arc::new(Vault { pool, born: Instant::now(), poison, limit, keeper }))
    }

    /// The most it may hold, where that is known.
    pub fn budget(&self) -> Option<u64> {
        (self.0.limit != u64::MAX).then_some(self.0.limit)
    }

    fn pool(&self) -> MutexGuard<'_, Pool<Block>> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for at least `bytes`, with books of its own.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer> {
        Ok(Buffer::new(self.memory(bytes)?, bytes))
    }

    /// Memory for at least `bytes`.
    pub fn memory(&self, bytes: u64) -> Result<CpuMemory> {
        // Beyond half of the address space, not even the size class can be reckoned.
        if bytes > isize::MAX as u64 / 2 {
            return Err(DeviceError::OutOfMemory { wanted: bytes, left: None });
        }
        let waiting = self.pool().take(bytes);
        let block = match waiting {
            Some(block) => block,
            None => self.make(bytes)?,
        };
        if self.0.poison {
            // SAFETY: the block is new to its holder, and as long as its layout says.
            unsafe { block.start.as_ptr().write_bytes(0xFF, block.layout.size()) };
        }
        let home = Home::Pool { block: Some(block), store: self.clone(), bytes };
        Ok(CpuMemory::new(home))
    }

    /// Memory for at least `bytes` that nobody has to make room for.
    pub fn memory_to_spare(&self, bytes: u64) -> Option<CpuMemory> {
        (self.left() >= size_class(bytes)).then(|| self.memory(bytes).ok()).flatten()
    }

    /// Who keeps packed copies.
    pub fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }

    /// Tells this store from others, which never get the same number.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn make(&self, bytes: u64) -> Result<Block> {
        let class = size_class(bytes);
        if self.left() < class {
            self.trim_pool(Duration::ZERO);
        }
        if self.left() < class {
            self.trim(Duration::ZERO);
        }
        let left = self.left();
        if left < class {
            return Err(DeviceError::OutOfMemory { wanted: bytes, left: Some(left) });
        }
        let block = Block::new(class).or_else(|| {
            self.trim(Duration::ZERO);
            Block::new(class)
        });
        let block = block.ok_or(DeviceError::OutOfMemory { wanted: bytes, left: None })?;
        self.pool().made(bytes);
        Ok(block)
    }

    /// Bytes that may still be taken from the allocator.
    fn left(&self) -> u64 {
        let counters = self.pool().counters();
        self.0.limit.saturating_sub(counters.live_bytes + counters.pooled_bytes)
    }

    /// Gives back what has waited for `age`, and packed copies that were not used for so long.
    pub fn trim(&self, age: Duration) {
        self.0.keeper.give_up(self.now(), age);
        self.trim_pool(age);
    }

    fn trim_pool(&self, age: Duration) {
        let old = self.now().checked_sub(age).map(|before| self.pool().trim(before + Duration::from_nanos(1)));
        drop(old);
    }

    /// Time since the device was opened.
    pub fn now(&self) -> Duration {
        self.0.born.elapsed()
    }

    /// The pool by size class.
    pub fn classes(&self) -> Vec<PoolClass> {
        self.pool().classes()
    }

    /// What the pool did and holds.
    pub fn counters(&self) -> PoolCounters {
        self.pool().counters()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({:?})", self.counters())
    }
}

/// What a [`Buffer`] of this device is made of.
pub(crate) struct CpuMemory {
    home: Home,
    /// Readers in the low bits; [`WRITER`] while somebody writes.
    users: AtomicUsize,
    /// What was made of its bytes since they were written.
    derived: Derived,
}

const WRITER: usize = 1 << (usize::BITS - 1);

enum Home {
    Pool { block: Option<Block>, store: Store, bytes: u64 },
    Host(HostBytes),
}

impl CpuMemory {
    /// Host bytes in place, read-only.
    pub fn host(bytes: HostBytes) -> CpuMemory {
        CpuMemory::new(Home::Host(bytes))
    }

    fn new(home: Home) -> CpuMemory {
        CpuMemory { home, users: AtomicUsize::new(0), derived: Derived::default() }
    }

    pub fn bytes(&self) -> usize {
        match &self.home {
            Home::Pool { block, .. } => block.as_ref().map_or(0, |b| b.layout.size()),
            Home::Host(bytes) => bytes.len(),
        }
    }

    pub fn start(&self) -> *mut u8 {
        match &self.home {
            Home::Pool { block, .. } => block.as_ref().map_or(std::ptr::null_mut(), |b| b.start.as_ptr()),
            Home::Host(bytes) => bytes.as_ptr().cast_mut(),
        }
    }

    /// It is the device's, not the host's.
    pub fn is_pooled(&self) -> bool {
        matches!(self.home, Home::Pool { .. })
    }

    /// Reserves it for reading. Fails where somebody is writing.
    pub fn hold_to_read(&self) -> Result<Hold<'_>> {
        // Counted before it is looked at; the hold of a reader that is turned away uncounts it.
        let is_written = self.users.fetch_add(1, Ordering::Acquire) & WRITER != 0;
        let hold = Hold { memory: self, is_written: false };
        if is_written { Err(in_use("read while it is written")) } else { Ok(hold) }
    }

    /// Reserves it for writing. Fails where somebody uses it, or it is the host's.
    pub fn hold_to_write(&self) -> Result<Hold<'_>> {
        if !self.is_pooled() {
            return Err(read_only());
        }
        let held = self.users.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed);
        let hold = |_| Hold { memory: self, is_written: true };
        held.map(hold).map_err(|_| in_use("written while it is in use, or after it was exported"))
    }

    /// Its bytes change: nothing that was made of them holds any longer.
    pub fn forget_derived(&self) {
        self.derived.clear();
    }

    /// What was made of its bytes, and where among the bytes that this is kept with they start; `None` where it may change.
    pub fn derived(&self) -> Option<(&Derived, usize)> {
        match &self.home {
            Home::Pool { .. } => Some((&self.derived, 0)),
            Home::Host(bytes) => bytes.derived(),
        }
    }

    /// Gives it out, to be read by everybody for good.
    pub fn keep(mut self) -> Kept {
        // Frozen while nobody else knows of it.
        *self.users.get_mut() += 1;
        let bytes = self.asked() as u64;
        let memory = Arc::new(self);
        // SAFETY: it is frozen.
        let host = HostBytes::shared(unsafe { exported(memory.clone()) });
        Kept { buffer: Buffer::of(memory, bytes), host }
    }

    /// Marks it as read for good, and gives its bytes.
    pub fn freeze(&self) -> Result<()> {
        // A reader that never lets go.
        self.hold_to_read().map(std::mem::forget)
    }

    /// All bytes that its holder asked for.
    ///
    /// # Safety
    /// It must be frozen.
    unsafe fn frozen(&self) -> &[u8] {
        // SAFETY: nobody writes frozen memory, which holds so many bytes.
        unsafe { std::slice::from_raw_parts(self.start(), self.asked()) }
    }

    /// Bytes that its holder asked for.
    fn asked(&self) -> usize {
        match &self.home {
            Home::Pool { bytes, .. } => (*bytes as usize).min(self.bytes()),
            Home::Host(_) => self.bytes(),
        }
    }
}

/// Memory that is reserved for reading or for writing until this is dropped. Nothing else reserves memory or gives it up, so that
/// nobody gives up what another reserved, or otherwise than it was reserved.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    memory: &'a CpuMemory,
    is_written: bool,
}

impl<'a> Hold<'a> {
    /// What it reserves.
    pub fn memory(&self) -> &'a CpuMemory {
        self.memory
    }

    /// It may be written.
    pub fn is_written(&self) -> bool {
        self.is_written
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_written {
            // Readers that were turned away may still be counted.
            self.memory.users.fetch_and(!WRITER, Ordering::Release);
        } else {
            self.memory.users.fetch_sub(1, Ordering::Release);
        }
    }
}

pub(crate) fn read_only() -> DeviceError {
    DeviceError::Driver("host bytes that were imported or lent to be read cannot be written".to_owned())
}

pub(crate) fn in_use(how: &str) -> DeviceError {
    DeviceError::Driver(format!("a buffer was {how}: another submission uses it, and nothing orders the two"))
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        if let Home::Pool { block, store, bytes } = &mut self.home
            && let Some(block) = block.take()
        {
            let now = store.now();
            let surplus = store.pool().put(*bytes, block, now);
            drop(surplus);
        }
    }
}

impl fmt::Debug for CpuMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuMemory({} bytes)", self.bytes())
    }
}

/// Frozen memory, whose bytes the host reads in place.
#[repr(transparent)]
struct Exported(CpuMemory);

impl AsRef<[u8]> for Exported {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `export` makes this of frozen memory alone.
        unsafe { self.0.frozen() }
    }
}

/// The buffer's bytes in place; from now on nobody can write them.
pub(crate) fn export(buffer: &Buffer) -> Option<HostBytes> {
    let memory: Arc<CpuMemory> = buffer.shared()?;
    memory.freeze().ok()?;
    // SAFETY: it is frozen.
    Some(HostBytes::shared(unsafe { exported(memory) }))
}

/// The same memory to be read by everybody, without a block of its own.
///
/// # Safety
/// It must be frozen.
unsafe fn exported(memory: Arc<CpuMemory>) -> Arc<Exported> {
    // SAFETY: the two types are laid out alike, one being transparent around the other.
    unsafe { Arc::from_raw(Arc::into_raw(memory).cast::<Exported>()) }
}
