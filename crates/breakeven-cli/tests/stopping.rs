//! Studies that are killed, stopped, gone on with, and whose program is replaced meanwhile.

mod calls;
mod folder;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use calls::{cells, code, command, run, scan, text};
use folder::Folder;

#[test]
fn a_parent_that_is_killed_loses_no_finished_row_and_the_run_goes_on() {
    let folder = Folder::new("killed");
    let out = folder.path("run");
    let mut child =
        command(&scan(&out, &["--seconds", "8"])).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let finished = || {
        std::fs::read_to_string(Path::new(&out).join("events.jsonl")).map_or(0, |t| t.matches("\"finished\"").count())
    };
    let begun = Instant::now();
    while finished() == 0 {
        assert!(begun.elapsed() < Duration::from_mins(2), "no row in two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = finished();
    let output = run(&["report", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(cells(&out).len() >= kept && kept > 0);
    let output = run(&["scan", "--resume", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let page = std::fs::read_to_string(Path::new(&out).join("summary.md")).unwrap();
    assert!(page.contains(&format!("`scan --resume {out}`")), "who went on is told: {page}");
    assert_eq!(cells(&out).len(), 4);
    assert!(cells(&out).iter().all(|(_, _, status)| status == "ok"));
}

/// Whether these processes end by themselves, within a time in which a run that goes on could be begun.
#[cfg(target_os = "linux")]
fn gone(processes: &[String]) {
    let is_there = |id: &String| {
        // One that ended and that nobody asked about is a zombie.
        let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    };
    assert!(!processes.is_empty(), "something measured");
    let begun = Instant::now();
    while processes.iter().any(is_there) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{processes:?} measure for nobody");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// It rests for a minute before each call, and says nothing meanwhile by which it would notice that nobody listens.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_measures_ends_with_the_one_that_began_it() {
    let folder = Folder::new("orphan");
    let out = folder.path("run");
    let rests = [
        "scan",
        "--only",
        "relu",
        "--sizes",
        "1000..1000",
        "--device",
        "cpu",
        "--mode",
        "idle-60000",
        "--output",
        &out,
    ];
    let mut child = command(&rests).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    // The machine was looked at, by another process.
    while !Path::new(&out).join("events.jsonl").exists() || children(child.id()).is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(2), "no process measures");
        std::thread::sleep(Duration::from_millis(20));
    }
    let measuring = children(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    gone(&measuring);
}

/// The processes that the process `id` started and that are there.
#[cfg(target_os = "linux")]
fn children(id: u32) -> Vec<String> {
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_request_to_end_ends_the_child_too_and_keeps_what_is_finished() {
    let folder = Folder::new("terminated");
    let out = folder.path("run");
    let child =
        command(&scan(&out, &["--seconds", "30"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !Path::new(&out).join("events.jsonl").exists() || children(child.id()).is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(2), "no process measures");
        std::thread::sleep(Duration::from_millis(20));
    }
    let measuring = children(child.id());
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));
    assert!(measuring.iter().all(|id| !Path::new("/proc").join(id).exists()), "{measuring:?}");
    let report = run(&["report", &out]);
    assert_eq!(code(&report), 0, "{}", text(&report));
    assert!(!text(&report).contains("inf%"), "{}", text(&report));
    let resumed = run(&["scan", "--resume", &out]);
    assert_eq!(code(&resumed), 0, "{}", text(&resumed));
    assert_eq!(cells(&out).len(), 4);
}

/// Whoever installs or builds another version meanwhile replaces the file that the study runs from.
#[cfg(target_os = "linux")]
#[test]
fn a_study_whose_program_is_replaced_meanwhile_goes_on_as_what_it_is() {
    let folder = Folder::new("replaced");
    let [out, program] = ["run", "breakeven"].map(|name| folder.path(name));
    // By another process: what this one has open for writing, its children would hold open too, and nothing could run it.
    assert!(Command::new("cp").args([env!("CARGO_BIN_EXE_breakeven"), &program]).status().unwrap().success());
    let mut study = Command::new(&program);
    study.args(scan(&out, &[])).env("BREAKEVEN_CACHE", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
    let study = study.spawn().unwrap();
    let begun = Instant::now();
    // Two operations are two processes: the second one is begun after this.
    while !Path::new(&out).join("events.jsonl").exists() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "no program").unwrap();
    let output = study.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(cells(&out).len() == 4 && cells(&out).iter().all(|(_, _, status)| status == "ok"), "{:?}", cells(&out));
}

/// Before the machine is known there is no run yet: nothing is wrong, and there is nothing to go on with.
#[cfg(unix)]
#[test]
fn an_interrupt_before_anything_is_measured_is_no_wrong_call() {
    let folder = Folder::new("early");
    let out = folder.path("run");
    let child =
        command(&scan(&out, &["--seconds", "30"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // The process that looks at the machine is there, and interrupts are seen.
    #[cfg(target_os = "linux")]
    while children(child.id()).is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(2), "nothing looks at the machine");
        std::thread::sleep(Duration::from_millis(1));
    }
    #[cfg(not(target_os = "linux"))]
    std::thread::sleep(Duration::from_millis(20));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("breakeven: stopped"), "{}", text(&output));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_readable_run() {
    let folder = Folder::new("interrupt");
    let out = folder.path("run");
    let child =
        command(&scan(&out, &["--seconds", "30"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !Path::new(&out).join("events.jsonl").exists() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));
    assert_eq!(code(&run(&["report", &out])), 0);
}

/// A terminal interrupts every process of the study at once, and shows no line that was begun afterwards.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_from_a_terminal_leaves_a_run_and_a_clean_terminal() {
    use std::io::Write;
    let folder = Folder::new("terminal");
    let out = folder.path("run");
    // In the shell's place: a shell that waits is interrupted too, and some then end with a code of their own.
    let line = format!("exec {} {}", env!("CARGO_BIN_EXE_breakeven"), scan(&out, &["--seconds", "30"]).join(" "));
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .env("BREAKEVEN_CACHE", "off")
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = terminal.spawn().expect("`script`, of util-linux, gives it a terminal");
    let begun = Instant::now();
    while !std::fs::read_to_string(Path::new(&out).join("events.jsonl")).is_ok_and(|t| t.contains("\"finished\"")) {
        assert!(begun.elapsed() < Duration::from_mins(2), "no row in two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    let shown = text(&output);
    assert_eq!(code(&output), 3, "{shown:?}");
    assert!(shown.contains("--resume") && shown.contains(" s left: "), "{shown:?}");
    let [drawn, cleared] = [" of 2 operations", "\x1b[2K"].map(|what| shown.rfind(what));
    assert!(drawn.is_some() && drawn < cleared, "the progress line is still there: {shown:?}");
    assert!(
        shown.ends_with('\n') && shown.matches("\x1b[?25l").count() <= shown.matches("\x1b[?25h").count(),
        "{shown:?}"
    );
    let report = run(&["report", &out]);
    assert_eq!(code(&report), 0, "{}", text(&report));
    assert!(!cells(&out).is_empty());
}

/// It says how far it came, and nothing measures on.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_a_comparison_and_its_processes() {
    let program = env!("CARGO_BIN_EXE_breakeven");
    let arguments = ["compare", "--bin", program, "--bin", program, "--only", "relu", "--pairs", "100"];
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let both = loop {
        let both = children(child.id());
        if both.len() == 2 {
            break both;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "no two processes take turns");
        std::thread::sleep(Duration::from_millis(5));
    };
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("stopped after 0 of "), "{}", text(&output));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    gone(&both);
}
