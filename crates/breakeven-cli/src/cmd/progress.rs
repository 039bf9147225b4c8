//! What a user sees while something is measured: a line on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that says what is waited for, and moves.
pub fn waiting(what: &'static str, as_json: bool) -> ProgressBar {
    let line = ProgressBar::with_draw_target(None, target(as_json));
    line.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is right"));
    line.set_message(what);
    line.enable_steady_tick(Duration::from_millis(200));
    line
}

/// A line that counts so many steps, whose `noun` it says: "3 of 5 operations, ...".
pub fn line(steps: u64, noun: &str, as_json: bool) -> ProgressBar {
    let line = ProgressBar::with_draw_target(Some(steps), target(as_json));
    let style = ProgressStyle::with_template(&format!("{{pos}} of {{len}} {noun}, {{wide_msg}}"));
    line.set_style(style.expect("the template is right"));
    line
}

/// Nothing is shown where the output is for programs.
fn target(as_json: bool) -> ProgressDrawTarget {
    if as_json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}
