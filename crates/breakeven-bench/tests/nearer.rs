//! Sizes that are added where the faster device changes, as a run shows it so far.

mod written;

use std::ops::Range;
use std::path::PathBuf;

use breakeven_bench::scan::OPERATIONS;
use breakeven_bench::scan::preset::Group;
use breakeven_bench::scan::study::nearer;
use breakeven_study::folder::{Facts, Recorded, RunWriter, read};
use breakeven_study::{Cell, Environment, Mode, Sample, Status};
use written::manifest;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn group(operation: &'static str, sizes: &[usize], modes: &[Mode]) -> Group {
    Group { operation, dtype: "f32".to_owned(), sizes: sizes.to_vec(), modes: modes.to_vec() }
}

/// A run of `group` from host to host, in which an element takes 1 ns on the CPU, and a call on the GPU `gpu_ns` whatever its size.
fn measured(name: &str, group: &Group, gpu_ns: u64) -> Recorded {
    let folder = Folder(std::env::temp_dir().join(format!("breakeven-nearer-{name}-{}", std::process::id())));
    let _ = std::fs::remove_dir_all(&folder.0);
    let mut writer = RunWriter::create(&folder.0, &manifest(Environment::default())).unwrap();
    let operation = OPERATIONS.iter().find(|operation| operation.name == group.operation).unwrap();
    for &size in &group.sizes {
        let elements = operation.elements(size);
        for (device, wall_ns) in [("cpu", elements), ("wgpu:0", gpu_ns)] {
            let (operation, shape, dtype) = (group.operation.to_owned(), operation.shape(size), group.dtype.clone());
            let cell = Cell { operation, elements, shape, dtype, device: device.to_owned(), mode: Mode::Host };
            let id = writer.begin(0, &cell).unwrap();
            let samples: Vec<Sample> = (0..60).map(|index| Sample { index, wall_ns, ..Sample::default() }).collect();
            writer.samples(id, &samples).unwrap();
            writer.finish(0, id, &cell, Facts::of(Status::Ok)).unwrap();
        }
    }
    read(&folder.0).unwrap()
}

/// Two sizes are added to `group` within `around`, and no others.
fn check(name: &str, group: &Group, gpu_ns: u64, around: &Range<usize>) {
    let found = nearer(std::slice::from_ref(group), &measured(name, group, gpu_ns));
    let [near] = &found[..] else { panic!("{found:?}") };
    assert_eq!((near.sizes.len(), &near.modes), (2, &group.modes), "{near:?}");
    assert!(near.sizes.iter().all(|size| around.contains(size) && !group.sizes.contains(size)), "{near:?}");
}

#[test]
fn sizes_are_added_between_those_where_the_faster_device_changes() {
    check("add", &group("add", &[1_000, 10_000, 100_000, 1_000_000], &[Mode::Host]), 200_000, &(100_001..1_000_000));
    // As the operation counts them, and not as elements: the change is at 40,000, which is a side of 200.
    check("matmul", &group("matmul", &[32, 100, 512, 1_024], &[Mode::Host]), 40_000, &(101..512));
}

#[test]
fn nothing_is_added_where_nothing_changes_or_where_it_is_known() {
    let apart = group("add", &[1_000, 10_000, 100_000], &[Mode::Host]);
    assert_eq!(nearer(std::slice::from_ref(&apart), &measured("never", &apart, 1_000_000)), []);
    let close = group("add", &[10_000, 10_900, 11_800], &[Mode::Host]);
    assert_eq!(nearer(std::slice::from_ref(&close), &measured("close", &close, 11_000)), []);
}

/// First calls take an engine or a process each, and no device is chosen by them; other operations have no rows.
#[test]
fn only_groups_that_are_compared_get_more_sizes() {
    let warm = group("add", &[1_000, 1_000_000], &[Mode::Host]);
    let first = group("add", &[1_000, 1_000_000], &[Mode::Cold, Mode::First]);
    let other = group("gelu", &[1_000, 1_000_000], &[Mode::Host]);
    let found = nearer(&[first, warm.clone(), other], &measured("groups", &warm, 30_000));
    assert_eq!(
        found.iter().map(|group| (group.operation, group.modes.clone())).collect::<Vec<_>>(),
        [("add", warm.modes)]
    );
}
