//! What a program pays before its first result: system calls, libraries, and no search for GPUs that nobody needs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use breakeven::{Deadline, DeviceId, Engine};

/// System calls from the start of the process to its first result, an empty Rust program's 62 included.
const CALLS: usize = 138;
/// Parts of names of libraries that only a GPU needs.
const GRAPHICS: [&str; 7] = ["libvulkan", "libcuda", "libGL", "libEGL", "libnvidia", "icd.d", "/dev/dri"];

fn engine() -> Engine {
    Engine::builder().no_cache().build().expect("the CPU opens")
}

fn waits(engine: &Engine) -> bool {
    engine.notes().iter().any(|note| note.contains("not looked for yet"))
}

/// A driver that is still loading when the process ends may crash it.
fn settle(engine: &Engine) {
    engine.ready(Deadline::after(Duration::from_mins(5))).expect("the search ends");
    assert!(!waits(engine));
}

#[test]
fn small_work_on_the_cpu_begins_no_search_and_says_so() {
    let engine = engine();
    for _ in 0..1000 {
        let x = engine.tensor(&[0.5; 1000], [1000]);
        assert_eq!((&x + 1.0).on(DeviceId::HOST).sum(0).item::<f32>().expect("it runs"), 1500.0);
        assert_eq!((&x + 2.0).to_vec::<f32>().expect("it runs")[999], 2.5);
    }
    assert!(waits(&engine) && format!("{engine:?}").contains("cpu") && waits(&engine));
    let plan = engine.explain(&[&(engine.tensor(&[1.0], [1]) + 1.0)]).expect("it is planned");
    assert!(plan.to_string().contains("note: GPUs were not looked for yet"), "{plan}");
    settle(&engine);
    let plan = engine.explain(&[&(engine.tensor(&[1.0], [1]) + 1.0)]).expect("it is planned");
    assert!(plan.remarks.is_empty(), "{plan}");
}

/// What begins a search, in words and as a call.
type Reason = (&'static str, fn(&Engine));

#[test]
fn whoever_needs_a_gpu_begins_the_search() {
    let reasons: [Reason; 6] = [
        ("the devices are listed", |engine| drop(engine.devices())),
        ("one is asked for", |engine| drop(engine.device(DeviceId(1)))),
        ("work is pinned to one", |engine| drop(engine.tensor(&[1.0], [1]).on(DeviceId(1)))),
        ("much data comes in", |engine| drop(engine.from_vec(vec![0u8; 8 << 20], [8 << 20]))),
        ("the work is large", |engine| drop(engine.full(breakeven::DType::F32, 1.0, [1 << 22]).sum(0).item::<f32>())),
        ("large work is explained", |engine| {
            drop(engine.explain(&[&engine.full(breakeven::DType::F32, 1.0, [1 << 22]).sum(0)]));
        }),
    ];
    for (why, reason) in reasons {
        let engine = engine();
        assert!(waits(&engine), "before {why}");
        reason(&engine);
        assert!(!waits(&engine), "{why}");
        settle(&engine);
    }
}

#[test]
fn an_engine_without_gpus_has_nothing_to_say_about_them() {
    let engine = Engine::builder().gpus(false).no_cache().build().expect("the CPU opens");
    assert!(!waits(&engine));
    assert!(engine.explain(&[&(engine.tensor(&[1.0], [1]) + 1.0)]).expect("it is planned").remarks.is_empty());
}

/// The example `start`, which is built with the tests.
fn example() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    let folder = own.parent().and_then(|deps| deps.parent()).expect("tests lie in deps");
    let example = folder.join("examples/start");
    assert!(example.exists(), "{} is missing: cargo build -p breakeven --example start", example.display());
    example
}

/// One line for each system call.
fn traced() -> Vec<String> {
    let file = std::env::temp_dir().join(format!("breakeven-start-{}", std::process::id()));
    let mut strace = Command::new("strace");
    // Cargo names folders of libraries, which the loader would look through.
    strace.env_remove("LD_LIBRARY_PATH").args(["-f", "-qq", "-o"]).arg(&file).arg(example());
    let status = strace.status().expect("strace is there: apt-get install strace");
    assert!(status.success(), "strace ended with {status}");
    let lines = std::fs::read_to_string(&file).expect("strace wrote it").lines().map(str::to_owned).collect();
    std::fs::remove_file(file).expect("it was there");
    lines
}

#[test]
#[cfg(target_os = "linux")]
fn the_first_result_takes_few_system_calls_and_no_graphics_library() {
    let lines = traced();
    let is_told = |line: &String| line.contains("write(1, \"first result");
    let calls = lines.iter().position(is_told).expect("the example tells its time");
    assert!(calls <= CALLS, "{calls} system calls:\n{}", lines.join("\n"));
    let graphics = lines.iter().find(|line| GRAPHICS.iter().any(|name| line.contains(name)));
    assert_eq!(graphics, None);
    assert!(!lines.iter().any(|line| line.contains("clone")), "a thread was started:\n{}", lines.join("\n"));
}

/// The measured time is under a millisecond; this bound only finds a start that waits for something.
#[test]
fn the_first_result_waits_for_nothing() {
    let told = || {
        let output = Command::new(example()).output().expect("the example runs");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let ms = text.strip_prefix("first result after ").and_then(|rest| rest.strip_suffix(" ms\n"));
        ms.and_then(|ms| ms.parse::<f64>().ok()).unwrap_or_else(|| panic!("the example said: {text}"))
    };
    let quickest = (0..10).map(|_| told()).fold(f64::INFINITY, f64::min);
    assert!(quickest < 15.0, "{quickest} ms");
}
