//! What drivers compiled goes to the next device, and files that are damaged, foreign or too long are ignored and said to be.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use breakeven_device::{Backend, Deadline, Device, HostBytes, Lane, ReadCell, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Map, Row};
use breakeven_wgpu::{KeptCounters, KeptPipelines, WgpuBackend, WgpuDevice, WgpuOptions};
use common::alloc;

/// The variable that names the folder to a process of its own.
const FOLDER: &str = "BREAKEVEN_TEST_KEPT";

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

/// What a process of its own did with each adapter and that folder, without what drivers keep by themselves.
fn process(folder: &Path) -> Vec<KeptCounters> {
    let mut command = Command::new(std::env::current_exe().expect("the test has a path"));
    command.args(["--exact", "one_process", "--ignored", "--nocapture"]).env(FOLDER, folder);
    command.envs([("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")]);
    let output = command.output().expect("it runs again");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told.lines().filter_map(|line| line.split_once("kept: ")).map(|(_, numbers)| counted(numbers)).collect()
}

fn told(kept: KeptCounters) -> String {
    let KeptCounters { loaded, loaded_bytes, ignored, saved, saved_bytes, pipelines, making } = kept;
    format!("kept: {loaded} {loaded_bytes} {ignored} {saved} {saved_bytes} {pipelines} {}", making.as_nanos())
}

fn counted(numbers: &str) -> KeptCounters {
    let all: Vec<u64> = numbers.split(' ').map(|number| number.parse().expect("it is a number")).collect();
    let [loaded, loaded_bytes, ignored, saved, saved_bytes, pipelines, making] = all.try_into().expect("seven");
    let making = Duration::from_nanos(making);
    KeptCounters { loaded, loaded_bytes, ignored, saved, saved_bytes, pipelines, making }
}

/// What drivers give for no pipeline at all, with wgpu's own header: software drivers give no more for any number of them, so that
/// nothing tells whether they used it.
const HEADERS: u64 = 1024;

#[test]
fn the_next_process_starts_from_what_the_one_before_compiled() {
    let folder = Folder::new("processes");
    let (first, second) = (process(&folder.0), process(&folder.0));
    assert!(!first.is_empty() && first.len() == second.len() && folder.files().len() == first.len());
    for (first, second) in first.iter().zip(&second) {
        assert_eq!((first.loaded, first.ignored, first.saved), (0, 0, 1));
        assert_eq!((second.loaded, second.loaded_bytes, second.ignored), (1, first.saved_bytes, 0));
        assert!(first.pipelines > 0 && second.pipelines == first.pipelines, "{first:?}, {second:?}");
        // A card's driver takes tens of milliseconds to compile one, and less than one to find it.
        let is_told = first.saved_bytes > HEADERS;
        assert!(!is_told || second.making * 4 < first.making * 3, "{first:?}, {second:?}");
        println!("{:?}, then {:?} from {} bytes", first.making, second.making, second.loaded_bytes);
    }
}

#[test]
#[ignore = "run twice by the test above: cargo test -p breakeven-wgpu --test kept"]
fn one_process() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the test above names it"));
    for index in 0.. {
        let kept = KeptPipelines::in_folder(&folder);
        let backend = WgpuBackend::new(WgpuOptions { kept: Some(kept.clone()), ..WgpuOptions::default() });
        let Some(info) = backend.list().into_iter().nth(index) else { break };
        if info.unusable.is_none() {
            work(&backend.open_device(index).unwrap());
            println!("{}", told(kept.counters()));
        }
    }
}
