//! What drivers compiled is kept beside the profile: the next engine starts from it, and nobody is harmed by what is wrong there.

mod sim;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use breakeven::{Deadline, DeviceId, DeviceProfile, DeviceState, Engine, EngineBuilder, KeptCounters, Profile};
use breakeven_device::Backend;
use breakeven_wgpu::{WgpuBackend, WgpuOptions};

/// Every adapter as if it had been measured.
fn known() -> Profile {
    let adapters = WgpuBackend::new(WgpuOptions::default()).list();
    let profile =
        |info: breakeven::DeviceInfo| DeviceProfile { name: info.name, driver: info.driver, ..sim::unbeatable() };
    Profile { devices: adapters.into_iter().map(profile).collect(), ..Profile::new("") }
}

/// Works on every adapter, and closes the engine; what was kept before that, and what the engine has to say.
fn pass(builder: EngineBuilder) -> (Option<KeptCounters>, Vec<String>) {
    let engine = builder.software(true).profile(known()).cpu_profile(sim::hopeless()).build().unwrap();
    engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
    let devices = engine.devices();
    let gpus = devices.iter().filter(|d| d.id != DeviceId::HOST && d.state == DeviceState::Ready);
    let worked = gpus.map(|gpu| (engine.tensor(&[1.0, 2.0], [2]).square() + 1.0).on(gpu.id).to_vec::<f32>().unwrap());
    let worked: Vec<Vec<f32>> = worked.collect();
    assert!(!worked.is_empty() && worked.iter().all(|got| *got == [2.0, 5.0]), "{worked:?}, {devices:#?}");
    (engine.kept_pipelines(), engine.notes())
}

fn pipelines(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    found.filter(|path| path.extension().is_some_and(|end| end == "bin")).collect()
}

#[test]
fn the_next_engine_starts_from_what_drivers_compiled_for_the_first() {
    let folder = std::env::temp_dir().join(format!("breakeven-engines-kept-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let again = || pass(Engine::builder().cache_folder(&folder));
    let (first, _) = again();
    assert_eq!(first.map(|kept| (kept.loaded, kept.ignored)), Some((0, 0)));
    let files = pipelines(&folder);
    assert!(!files.is_empty(), "they are written when devices are closed");
    let count = files.len() as u64;
    let (second, notes) = again();
    assert_eq!(second.map(|kept| (kept.loaded, kept.ignored)), Some((count, 0)));
    assert!(!notes.iter().any(|note| note.contains("it is ignored")), "{notes:?}");
    for file in &files {
        fs::write(file, "not what a driver compiled").unwrap();
    }
    let (third, notes) = again();
    assert_eq!(third.map(|kept| (kept.loaded, kept.ignored)), Some((0, count)));
    let told = notes.iter().filter(|note| note.contains("does not hold pipelines") && note.contains("it is ignored"));
    assert_eq!(told.count() as u64, count, "{notes:?}");
    assert_eq!(again().0.map(|kept| kept.loaded), Some(count), "what is kept is whole again");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be_kept() {
    assert_eq!(pass(Engine::builder().no_cache()).0, None);
}

/// The variable that names the folder to a process of its own.
const FOLDER: &str = "BREAKEVEN_TEST_KEPT";

/// How many files a process of its own found in that folder, and how many of them it ignored.
fn process(folder: &Path) -> (u64, u64) {
    let mut command = Command::new(std::env::current_exe().expect("the test has a path"));
    command.args(["--exact", "one_process", "--ignored", "--nocapture"]).env(FOLDER, folder);
    let output = command.output().expect("it runs again");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let counts = told.lines().find_map(|line| line.split_once("kept: ")?.1.split_once(' '));
    let (loaded, ignored) = counts.unwrap_or_else(|| panic!("it says nothing of what it found: {told}"));
    (loaded.parse().expect("it is a number"), ignored.parse().expect("it is a number"))
}

#[test]
fn the_next_process_starts_from_what_drivers_compiled_for_the_first() {
    let folder = std::env::temp_dir().join(format!("breakeven-processes-kept-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(process(&folder), (0, 0));
    let count = pipelines(&folder).len() as u64;
    assert!(count > 0, "they are written when the process ends");
    assert_eq!(process(&folder), (count, 0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "run twice by the test above: cargo test -p breakeven --test kept"]
fn one_process() {
    let folder = std::env::var_os(FOLDER).expect("the test above names it");
    let (kept, notes) = pass(Engine::builder().cache_folder(folder));
    let kept = kept.expect("a folder was named");
    println!("kept: {} {}", kept.loaded, kept.ignored);
    assert!(!notes.iter().any(|note| note.contains("it is ignored")), "{notes:?}");
}
