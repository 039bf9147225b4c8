//! One line of progress, on terminals only.

use std::io::{IsTerminal, Write, stderr};

const WIDTH: usize = 24;

/// A bar on stderr that is wiped when it is dropped.
pub struct Progress {
    what: &'static str,
    steps: usize,
    is_shown: bool,
}

impl Progress {
    pub fn new(what: &'static str, steps: usize) -> Progress {
        Progress { what, steps, is_shown: stderr().is_terminal() }
    }

    /// `done` steps are done; the next is `step`.
    pub fn at(&self, done: usize, step: &str) {
        if self.is_shown {
            let full = done * WIDTH / self.steps.max(1);
            write_out(&format!("\r{} [{:<WIDTH$}] {step}\x1b[K", self.what, "#".repeat(full)));
        }
    }
}

/// A terminal that cannot be written to is no reason to stop.
fn write_out(text: &str) {
    let _ = write!(stderr(), "{text}").and_then(|()| stderr().flush());
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write_out("\r\x1b[K");
        }
    }
}
