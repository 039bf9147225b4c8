//! What drivers compiled, kept from one process to the next: given to a device when it is opened, written when it is closed or when
//! that is asked for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::errors::{Verdict, guarded, lock, panic_text};
use crate::kept_file::KeptFile;

/// A folder for what drivers compiled, one file for each adapter with its driver. Clones are the same one.
#[derive(Clone)]
pub struct KeptPipelines(Arc<Kept>);

struct Kept {
    folder: PathBuf,
    most_bytes: u64,
    /// Counts writes, whose temporary files have names of their own.
    nth: AtomicU64,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    counters: KeptCounters,
    notes: Vec<String>,
    open: Vec<Weak<DriverCache>>,
}

/// What became of what was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCounters {
    /// Files that were given to a driver, which may have found them of no use.
    pub loaded: u64,
    /// Their bytes.
    pub loaded_bytes: u64,
    /// Files that were not used, for reasons that the notes give.
    pub ignored: u64,
    /// Files written.
    pub saved: u64,
    /// Bytes of the last one.
    pub saved_bytes: u64,
    /// Pipelines that were made with what was kept, if anything was.
    pub pipelines: u64,
    /// How long making them took, all threads together.
    pub making: Duration,
}

/// Bytes that a file may have: what drivers give for the kernels of many models is a tenth of that.
const MOST_BYTES: u64 = 64 << 20;

impl KeptPipelines {
    /// In this folder, which is made when something is kept.
    pub fn in_folder(folder: impl Into<PathBuf>) -> KeptPipelines {
        KeptPipelines::bounded(folder, MOST_BYTES)
    }

    /// The same with files of so many bytes at most: what is longer is begun anew.
    pub fn bounded(folder: impl Into<PathBuf>, most_bytes: u64) -> KeptPipelines {
        KeptPipelines(Arc::new(Kept {
            folder: folder.into(),
            most_bytes,
            nth: AtomicU64::new(0),
            said: Mutex::default(),
        }))
    }

    /// What was done so far.
    pub fn counters(&self) -> KeptCounters {
        lock(&self.0.said).counters
    }

    /// What was ignored or could not be kept, in words.
    pub fn notes(&self) -> Vec<String> {
        lock(&self.0.said).notes.clone()
    }

    /// Writes what open devices compiled since it was last written. Each device does so when it is closed, too.
    pub fn save(&self) {
        let open: Vec<Arc<DriverCache>> = lock(&self.0.said).open.iter().filter_map(Weak::upgrade).collect();
        for cache in open {
            cache.save();
        }
    }

    /// The cache of a device that was just opened; none where its driver has none, which no file is given to then.
    pub(crate) fn open(
        &self,
        device: &wgpu::Device,
        instance: &wgpu::Instance,
        info: &wgpu::AdapterInfo,
        verdict: &Verdict,
    ) -> Option<Arc<DriverCache>> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let file = KeptFile::new(&self.0.folder, &key(info)?);
        let data = file.load(self.0.most_bytes).unwrap_or_else(|why| self.ignore(why));
        // SAFETY: the bytes are those that `get_data` returned on this adapter with this driver: the file says of which they are, how
        // long they are and what they sum up to. On Unix a file or folder of another user, or that others may write to, is refused; elsewhere the user's
        // cache folder is trusted to be theirs, as the system makes it. wgpu and the driver then look at headers of
        // their own, and begin anew where these do not fit.
        let make = || unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: None,
                data: data.as_deref(),
                fallback: true,
            })
        };
        let cache = match guarded(device, verdict, make) {
            Ok(cache) => cache,
            Err(error) => return self.ignore(format!("{}: its driver keeps no pipelines: {error}", info.name)),
        };
        let opened = DriverCache {
            cache,
            _instance: instance.clone(),
            verdict: verdict.clone(),
            file,
            new: AtomicU64::new(0),
            all: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            kept: self.clone(),
        };
        let opened = Arc::new(opened);
        let mut said = lock(&self.0.said);
        said.counters.loaded += u64::from(data.is_some());
        said.counters.loaded_bytes += data.map_or(0, |data| data.len() as u64);
        said.open.retain(|open| open.strong_count() > 0);
        said.open.push(Arc::downgrade(&opened));
        Some(opened)
    }

    fn ignore<T>(&self, why: String) -> Option<T> {
        let mut said = lock(&self.0.said);
        said.counters.ignored += 1;
        said.notes.push(why);
        None
    }
}

/// Adapter and driver in words; none where wgpu keeps nothing of it.
fn key(info: &wgpu::AdapterInfo) -> Option<String> {
    let wgpu::AdapterInfo { name, driver, driver_info, backend, .. } = info;
    let (own, bits) = (env!("CARGO_PKG_VERSION"), usize::BITS);
    let wgpus = wgpu::util::pipeline_cache_key(info)?;
    Some(format!("{wgpus}; {name}; {backend:?}; {driver} {driver_info}; breakeven-wgpu {own}; {bits} bits"))
}

/// What one driver compiled for one device.
pub(crate) struct DriverCache {
    cache: wgpu::PipelineCache,
    /// Some drivers crash when their instance goes before their devices, which the cache holds.
    _instance: wgpu::Instance,
    verdict: Verdict,
    file: KeptFile,
    /// Pipelines made since it was last written.
    new: AtomicU64,
    /// Pipelines made since it was opened.
    all: AtomicU64,
    /// It holds more than may be kept, and gets no more: drivers let nothing go of what they were given.
    is_full: AtomicBool,
    kept: KeptPipelines,
}

/// After how many pipelines a driver is asked how much it holds, which it copies to answer.
const LOOKED_AT: u64 = 64;

impl DriverCache {
    /// Makes a pipeline with it, unless it is full, and counts that.
    pub fn make<T>(cache: Option<&DriverCache>, make: impl FnOnce(Option<&wgpu::PipelineCache>) -> T) -> T {
        let start = Instant::now();
        let cache = cache.filter(|cache| !cache.is_full.load(Relaxed));
        let made = make(cache.map(|cache| &cache.cache));
        if let Some(cache) = cache {
            cache.new.fetch_add(1, Relaxed);
            if (cache.all.fetch_add(1, Relaxed) + 1).is_multiple_of(LOOKED_AT) {
                cache.look();
            }
            let mut said = lock(&cache.kept.0.said);
            said.counters.pipelines += 1;
            said.counters.making += start.elapsed();
        }
        made
    }

    /// Whether it is full by now.
    fn look(&self) {
        let most = self.kept.0.most_bytes;
        // A driver that panics says so again when it is written.
        let data = catch_unwind(AssertUnwindSafe(|| self.cache.get_data())).ok().flatten();
        let length = data.map_or(0, |data| data.len() as u64);
        if length > most && !self.is_full.swap(true, Relaxed) {
            self.note(format!("what was compiled takes {length} bytes, over {most}: it gets no longer"));
        }
    }

    /// Writes it down, where there is something new and the device is not lost.
    pub fn save(&self) {
        if self.verdict.check().is_err() || self.new.swap(0, Relaxed) == 0 {
            return;
        }
        let kept = &self.kept.0;
        let data = match catch_unwind(AssertUnwindSafe(|| self.cache.get_data())) {
            Ok(Some(data)) => data,
            Ok(None) => return,
            Err(panic) => return self.note(format!("what was compiled could not be kept: {}", panic_text(&*panic))),
        };
        if data.len() as u64 > kept.most_bytes {
            self.file.remove();
            let (length, most) = (data.len(), kept.most_bytes);
            return self
                .note(format!("what was compiled takes {length} bytes, over {most}, and is kept anew next time"));
        }
        let saved = self.file.save(&data, kept.nth.fetch_add(1, Relaxed));
        let mut said = lock(&kept.said);
        match saved {
            Ok(()) => {
                said.counters.saved += 1;
                said.counters.saved_bytes = data.len() as u64;
            }
            Err(why) => said.notes.push(why),
        }
    }

    fn note(&self, note: String) {
        lock(&self.kept.0.said).notes.push(note);
    }
}

/// The same folder, kept by the same.
impl PartialEq for KeptPipelines {
    fn eq(&self, other: &KeptPipelines) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeptPipelines {}

impl fmt::Debug for KeptPipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptPipelines({})", self.0.folder.display())
    }
}

impl fmt::Debug for DriverCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverCache({:?})", self.file)
    }
}
