//! Child processes: started with a task, listened to line by line, and ended when they are late.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::task::{Line, Task};

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It did all it was asked for.
    Done,
    /// It said why it could not go on.
    Refused(String),
    /// It ended by itself: an exit code or a signal.
    Crashed(String),
    /// It said nothing for too long, and was ended.
    Hung(Duration),
    /// The run is to stop, and it was ended.
    Stopped,
}

/// How long a child may be silent, and whether the run goes on.
pub struct Watch<'a> {
    /// Longest silence.
    pub silence: Duration,
    /// Whether somebody asked to stop.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Runs `program` with these arguments, gives it the task, and hands every line to `hear` as it comes.
pub fn run(
    program: &Path,
    arguments: &[String],
    task: &Task,
    watch: &Watch<'_>,
    hear: &mut dyn FnMut(Line),
) -> std::io::Result<Ending> {
    let mut child = start(program, arguments)?;
    // Open until the child has ended: by its end a child knows that nobody waits for it any more.
    let mut stdin = child.stdin.take();
    // A child that ends without reading says more by how it ended.
    let _ = stdin.as_mut().map(|stdin| stdin.write_all(&given(task)));
    let (lines, errors) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let ending = follow(&mut child, &lines, watch, hear)?;
    drop(stdin);
    Ok(match ending {
        Ending::Crashed(how) => crashed(how, &rest(&errors)),
        other => other,
    })
}

/// Of Windows: interrupts of the terminal are not for it.
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;

/// Starts a child whose three streams are pipes.
pub fn start(program: &Path, arguments: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // An interrupt of the terminal is for the parent, which then ends the child and leaves the run readable.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NEW_PROCESS_GROUP);
    command.spawn()
}

/// Ends this process, a child, once its parent is gone, which holds its standard input open and has nothing more to write: left alone it would
/// measure beside the run that goes on. Not on Windows: a driver that looks at the standard input while it opens would wait for whoever reads there.
pub fn end_with_parent() {
    #[cfg(not(windows))]
    std::thread::spawn(|| {
        // However it ends, nobody is there.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // Drivers may hang when a process ends while they work.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            std::process::abort();
        });
        std::process::exit(i32::from(REFUSED));
    });
}

/// The line that a child is given first.
pub fn given(task: &Task) -> Vec<u8> {
    let mut line = serde_json::to_vec(task).expect("a task is plain data");
    line.push(b'\n');
    line
}

/// Lines of a pipe, read by a thread that ends with it: a silent child must not hold up the parent.
pub fn listen(pipe: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
    }
    lines
}

fn follow(
    child: &mut Child,
    lines: &mpsc::Receiver<String>,
    watch: &Watch<'_>,
    hear: &mut dyn FnMut(Line),
) -> std::io::Result<Ending> {
    let mut heard = Instant::now();
    loop {
        if (watch.stopped)() {
            return end(child, Ending::Stopped);
        }
        // Short waits, since a request to stop comes from elsewhere.
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                heard = Instant::now();
                match serde_json::from_str(&line) {
                    Ok(line) => hear(line),
                    Err(e) => hear(Line::Note { text: format!("a child said what is not understood ({e}): {line}") }),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return gone(child, watch),
            Err(RecvTimeoutError::Timeout) if heard.elapsed() > watch.silence => {
                return end(child, Ending::Hung(heard.elapsed()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// How a child ended that says nothing more. Drivers may hang when a process ends.
fn gone(child: &mut Child, watch: &Watch<'_>) -> std::io::Result<Ending> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(ending(status)),
            None if (watch.stopped)() => return end(child, Ending::Stopped),
            None if begun.elapsed() > watch.silence => return end(child, Ending::Hung(begun.elapsed())),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// What is still to be read of a pipe whose writer has ended. Whoever holds it open after that is not waited for.
pub fn rest(lines: &mpsc::Receiver<String>) -> Vec<String> {
    std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(1)).ok()).collect()
}

/// Ends this very child, and no other.
fn end(child: &mut Child, how: Ending) -> std::io::Result<Ending> {
    // It may have ended meanwhile.
    let _ = child.kill();
    child.wait()?;
    Ok(how)
}

/// The exit code of a child that wrote its reason to its standard error.
pub const REFUSED: u8 = 2;

fn ending(status: ExitStatus) -> Ending {
    match status.code() {
        Some(0) => Ending::Done,
        _ => Ending::Crashed(status.to_string()),
    }
}

/// How `breakeven` begins the line in which it says why it ends.
const SPEAKER: &str = "breakeven: ";

/// Why a child ended, in its own words: the last line that says something, without the name that whoever repeats it puts before it.
pub fn reason(said: &[String]) -> Option<&str> {
    let last = said.iter().rev().find(|line| !line.trim().is_empty())?;
    Some(last.strip_prefix(SPEAKER).unwrap_or(last))
}

fn crashed(how: String, said: &[String]) -> Ending {
    match reason(said) {
        Some(why) if how.ends_with(&format!(": {REFUSED}")) => Ending::Refused(why.to_owned()),
        Some(why) => Ending::Crashed(format!("{how}; it said: {why}")),
        None => Ending::Crashed(how),
    }
}
