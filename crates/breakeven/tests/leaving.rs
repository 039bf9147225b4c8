//! Collected cases about how a process ends after it used software Vulkan, and what it does where there is none.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The example `leave`, which is built with the tests.
fn example() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    let folder = own.parent().and_then(|deps| deps.parent()).expect("tests lie in deps");
    let example = folder.join("examples/leave");
    assert!(example.exists(), "{} is missing: cargo build -p breakeven --example leave", example.display());
    example
}

fn ends_cleanly(times: usize) {
    // What is measured is kept, so that it is measured once.
    let folder = std::env::temp_dir().join(format!("breakeven-leave-{}", std::process::id()));
    let leave = |how| -> Output { Command::new(example()).arg(how).arg(&folder).output().expect("the example runs") };
    for turn in 0..times {
        for (how, code) in [("return", 0), ("exit", 0), ("panic", 101)] {
            let output = leave(how);
            let told = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(code), "{how}, turn {turn}: {told}{:?}", output.stderr);
            assert!(!told.starts_with("1 devices"), "no adapter was there: {told}");
        }
    }
    std::fs::remove_dir_all(folder).expect("measurements were kept there");
}

/// Case T04: the process crashes at its end, after all results were right.
#[test]
fn t04_a_process_ends_as_it_should() {
    ends_cleanly(1);
}

#[test]
#[ignore = "takes ten minutes: cargo test -p breakeven --test leaving -- --ignored"]
fn t04_a_process_ends_as_it_should_two_hundred_times() {
    ends_cleanly(67);
}

/// Case D03: no adapter, and a panic.
#[test]
fn d03_without_a_driver_everything_runs_on_the_cpu() {
    let mut command = Command::new(example());
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "__EGL_VENDOR_LIBRARY_FILENAMES"] {
        command.env(variable, "/nonexistent");
    }
    let output = command.output().expect("the example runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.starts_with("1 devices") && told.contains("note: no GPU was found"), "{told}");
}

/// Threads of this process that look for GPUs, or see to the end of one; the system keeps 15 letters of their name.
#[cfg(target_os = "linux")]
fn searches() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux tells of threads");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| ["breakeven-searc", "breakeven-watch"].contains(&name.trim())).count()
}

/// NVIDIA's driver goes down with the process, and takes a program along that has a thread in it.
#[cfg(target_os = "linux")]
#[test]
fn an_engine_that_goes_takes_its_search_along() {
    let mut seen = 0;
    for (milliseconds, is_closed) in [(0, false), (0, true), (20, false), (100, true), (100, false), (400, true)] {
        let engine = breakeven::Engine::builder().software(true).no_cache().build().unwrap();
        assert!(engine.devices().len() < 3, "the search has begun, and takes longer than this");
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        seen += searches();
        let begun = std::time::Instant::now();
        // Who cannot drop it, as in a static, closes it.
        let kept = is_closed.then(|| engine.clone());
        assert!(kept.iter().all(breakeven::Engine::close));
        drop(engine);
        // The system may list a thread for a moment after it has ended.
        while searches() > 0 && begun.elapsed().as_secs() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(searches(), 0, "after {milliseconds} ms");
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        let goes_on = kept.is_none_or(|engine| (engine.tensor(&[1.0], [1]) + 1.0).to_vec::<f32>().is_ok());
        assert!(goes_on, "an engine that was closed has its CPU");
    }
    assert!(seen > 0, "no search was met");
}
