//! Memory that holds generated code: written first, then executable and no longer writable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use memmap2::{Mmap, MmapMut};

/// What one mapping takes at least.
const PAGE: u64 = 4096;

/// How much generated code one device holds, and why it makes none where the system does not let it.
#[derive(Debug, Default)]
pub(crate) struct CodeLedger {
    bytes: AtomicU64,
    limit: u64,
    refused: OnceLock<String>,
    /// What it holds, to be shared: graphs say the same more than once.
    known: Mutex<Vec<Weak<CodeMemory>>>,
}

impl CodeLedger {
    /// None yet, and never more than `limit` bytes.
    pub fn new(limit: u64) -> Arc<CodeLedger> {
        Arc::new(CodeLedger { limit, ..CodeLedger::default() })
    }

    /// Bytes of executable memory that are held now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Why the system gave no executable memory, once it did not.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }
}

/// Executable memory.
#[derive(Debug)]
pub(super) struct CodeMemory {
    mapped: Mmap,
    bytes: u64,
    ledger: Arc<CodeLedger>,
}

impl CodeMemory {
    /// Memory that holds `code`, the same for the same code while somebody has it.
    pub fn of(code: &[u8], ledger: &Arc<CodeLedger>) -> Option<Arc<CodeMemory>> {
        let mut known = ledger.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|memory| memory.strong_count() > 0);
        let same = known.iter().filter_map(Weak::upgrade).find(|memory| memory.mapped[..] == *code);
        if same.is_some() {
            return same;
        }
        let memory = Arc::new(CodeMemory::new(code, ledger)?);
        known.push(Arc::downgrade(&memory));
        Some(memory)
    }

    /// Holds `code`; `None` where the system forbids that or the ledger is full.
    fn new(code: &[u8], ledger: &Arc<CodeLedger>) -> Option<CodeMemory> {
        let bytes = (code.len() as u64).next_multiple_of(PAGE);
        if ledger.refused().is_some() || ledger.bytes() + bytes > ledger.limit {
            return None;
        }
        let map = || -> std::io::Result<Mmap> {
            let mut map = MmapMut::map_anon(code.len())?;
            map.copy_from_slice(code);
            map.make_exec()
        };
        match map() {
            Ok(mapped) => {
                ledger.bytes.fetch_add(bytes, Ordering::Relaxed);
                Some(CodeMemory { mapped, bytes, ledger: ledger.clone() })
            }
            Err(error) => {
                let text = format!("the system gives no executable memory: {error}");
                ledger.refused.get_or_init(|| text);
                None
            }
        }
    }

    /// The first instruction.
    #[inline]
    pub fn start(&self) -> *const u8 {
        self.mapped.as_ptr()
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        self.ledger.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
