//! What drivers compiled goes to the next device, and files that are damaged, foreign or too long are ignored and said to be.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breakeven_device::{Deadline, Device, HostBytes, Lane, ReadCell, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Map, Row};
use breakeven_wgpu::{KeptCounters, KeptPipelines, WgpuBackend, WgpuDevice, WgpuOptions};
use common::alloc;

/// A folder of its own for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("breakeven-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn files(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(&self.0).into_iter().flatten();
        found.map(|entry| entry.expect("it can be looked at").path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(kept: &KeptPipelines) -> Vec<WgpuDevice> {
    let backend = WgpuBackend::new(WgpuOptions { kept: Some(kept.clone()), ..WgpuOptions::default() });
    backend.software_adapters().into_iter().map(|index| backend.open_device(index).unwrap()).collect()
}

/// What the device makes of 1 to 4.
fn work(device: &WgpuDevice) {
    let kernel = Kernel::Map(Map::dense(Expr::row(Row::named("square").unwrap(), DType::F32), vec![], 4));
    let launch = Launch { kernel, inputs: vec![0], outputs: vec![0], workspace: None };
    let steps = vec![
        SegmentStep::Upload { upload: 0, slot: 0 },
        SegmentStep::Launch(Box::new(launch)),
        SegmentStep::Download { slot: 0, bytes: 16, read: 0 },
    ];
    let (work, read) = (device.prepare(&Segment { steps }).unwrap(), ReadCell::new());
    let binding = breakeven_device::Binding {
        buffers: vec![alloc(device, 16)],
        uploads: vec![HostBytes::from_vec(vec![1f32, 2.0, 3.0, 4.0])],
        reads: vec![read.clone()],
        ..breakeven_device::Binding::default()
    };
    let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
    device.wait(ticket, Deadline::after(Duration::from_mins(5))).unwrap();
    assert_eq!(read.take().unwrap().elements::<f32>(), [1.0, 4.0, 9.0, 16.0]);
}

/// Opens all devices of that folder, works on them and closes them.
fn pass(folder: &Path) -> (KeptCounters, Vec<String>) {
    let kept = KeptPipelines::in_folder(folder);
    open(&kept).iter().for_each(work);
    (kept.counters(), kept.notes())
}

#[test]
fn the_next_device_starts_from_what_the_one_before_compiled() {
    let folder = Folder::new("next");
    let (first, notes) = pass(&folder.0);
    assert_eq!((first.loaded, first.ignored, notes), (0, 0, vec![]));
    let files = folder.files().len() as u64;
    assert!(files > 0 && first.saved == files && first.pipelines >= files && first.saved_bytes > 0, "{first:?}");
    let (second, notes) = pass(&folder.0);
    assert_eq!((second.loaded, second.ignored, notes), (files, 0, vec![]));
    assert!(second.loaded_bytes > 0 && folder.files().len() as u64 == files, "{second:?}");
}

#[test]
fn what_is_open_is_written_when_that_is_asked_for_and_only_what_is_new() {
    let folder = Folder::new("asked");
    let kept = KeptPipelines::in_folder(&folder.0);
    let devices = open(&kept);
    kept.save();
    assert_eq!((kept.counters().saved, folder.files().len()), (0, 0));
    devices.iter().for_each(work);
    kept.save();
    let saved = kept.counters().saved;
    assert!(saved > 0 && saved == folder.files().len() as u64);
    devices.iter().for_each(work);
    kept.save();
    drop(devices);
    assert_eq!(kept.counters().saved, saved);
}

/// What becomes of a file's bytes.
type Damage = fn(&[u8]) -> Vec<u8>;

#[test]
fn damaged_and_foreign_files_are_ignored_and_replaced() {
    let folder = Folder::new("damaged");
    pass(&folder.0);
    let whole: Vec<(PathBuf, Vec<u8>)> =
        folder.files().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let damage: [(&str, Damage); 5] = [
        ("empty", |_| Vec::new()),
        ("cut", |bytes| bytes[..bytes.len() - 1].to_vec()),
        ("garbage", |bytes| (0..bytes.len()).map(|i| (i * 31) as u8).collect()),
        ("one bit", |bytes| [&bytes[..bytes.len() - 1], &[bytes[bytes.len() - 1] ^ 1]].concat()),
        ("of another driver", |bytes| bytes.to_ascii_uppercase()),
    ];
    for (name, damage) in damage {
        for (path, bytes) in &whole {
            fs::write(path, damage(bytes)).unwrap();
        }
        let (counters, notes) = pass(&folder.0);
        let count = whole.len();
        assert_eq!((counters.loaded, counters.ignored, notes.len()), (0, count as u64, count), "{name}: {notes:?}");
        assert!(notes.iter().all(|note| note.contains("it is ignored")), "{notes:?}");
        assert_eq!(pass(&folder.0).0.loaded, count as u64, "after {name}, what is kept is whole again");
    }
}

#[test]
fn what_is_too_long_is_not_kept() {
    let folder = Folder::new("long");
    let kept = KeptPipelines::bounded(&folder.0, 1);
    open(&kept).iter().for_each(work);
    let notes = kept.notes();
    assert!(folder.files().is_empty() && kept.counters().saved == 0, "{:?}", kept.counters());
    assert!(!notes.is_empty() && notes.iter().all(|note| note.contains("is kept anew next time")), "{notes:?}");
}

#[test]
fn nothing_is_written_where_nothing_is_to_be_kept() {
    let folder = Folder::new("nothing");
    let backend = WgpuBackend::new(WgpuOptions::default());
    backend.software_adapters().into_iter().for_each(|index| work(&backend.open_device(index).unwrap()));
    assert!(folder.files().is_empty());
    // A folder that cannot be made is a note.
    let (counters, notes) = pass(Path::new("/dev/null/none"));
    assert!(counters.saved == 0 && notes.iter().any(|note| note.contains("could not be kept")), "{notes:?}");
}
