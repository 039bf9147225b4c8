//! The action that compares two builds in somebody's workflow: its own script, run as a runner would.
#![cfg(unix)]

mod folder;

use std::process::{Command, Output};

use folder::Folder;
use serde_json::Value;

const ACTION: &str = include_str!("../../../.github/actions/compare/action.yml");

/// The lines below the one that is `head`, as long as they are further in, without what they are further in by.
fn below(head: &str) -> Vec<&'static str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut lines = ACTION.lines().skip_while(|line| line.trim() != head);
    let outer = depth(lines.next().unwrap_or_else(|| panic!("there is a line {head}")));
    let lines: Vec<&str> = lines.take_while(|line| line.trim().is_empty() || depth(line) > outer).collect();
    let inner = lines.first().map_or(0, |line| depth(line));
    lines.into_iter().map(|line| line.get(inner..).unwrap_or("")).collect()
}

/// What an input is where a workflow does not say it.
fn default_of(input: &str) -> Option<&'static str> {
    let mut lines = below("inputs:").into_iter().skip_while(|line| *line != format!("{input}:"));
    assert!(lines.next().is_some(), "there is an input {input}");
    let mut of_input = lines.take_while(|line| line.starts_with(' '));
    of_input.find_map(|line| Some(line.trim().strip_prefix("default: ")?.trim_matches('"')))
}

/// A job that uses the action, and the files that its runner gives it.
struct Job {
    folder: Folder,
}

impl Job {
    fn new(name: &str) -> Job {
        let folder = Folder::new(name);
        std::fs::write(folder.path("action.sh"), below("run: |").join("\n")).unwrap();
        Job { folder }
    }

    /// With these inputs, and the others as the action has them.
    fn run(&self, given: &[(&str, &str)]) -> Output {
        for file in ["output", "summary"] {
            std::fs::write(self.folder.path(file), "").unwrap();
        }
        // As a runner calls it: GitHub's `shell: bash`.
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", &self.folder.path("action.sh")]);
        bash.env("GITHUB_OUTPUT", self.folder.path("output")).env("GITHUB_STEP_SUMMARY", self.folder.path("summary"));
        for line in below("env:") {
            let (name, input) = line.split_once(": ${{ inputs.").expect("NAME: ${{ inputs.name }}");
            let input = input.trim_end_matches(" }}");
            let given = given.iter().find(|(name, _)| *name == input).map(|(_, value)| *value);
            bash.env(name, given.or_else(|| default_of(input)).expect("an input without a default is given"));
        }
        bash.output().unwrap()
    }

    /// The output `verdicts`, read as a runner reads it.
    fn verdicts(&self) -> String {
        let output = std::fs::read_to_string(self.folder.path("output")).unwrap();
        let (head, rest) = output.split_once('\n').expect("lines");
        let (name, end) = head.split_once("<<").expect("a value of several lines");
        assert_eq!(name, "verdicts");
        rest.strip_suffix(&format!("{end}\n")).expect("it ends").trim_end().to_owned()
    }

    /// A program that compares as it is told to.
    fn program(&self, code: i32) -> String {
        let [text, path] = ["program.sh", &format!("program-{code}")].map(|name| self.folder.path(name));
        let said = format!("#!/bin/sh\nprintf '{{\\n  \"exit_code\": {code}\\n}}\\n'\nexit {code}\n");
        std::fs::write(&text, said).unwrap();
        // By another process: what this one has open for writing, its children would hold open too, and nothing could run it.
        assert!(Command::new("install").args(["-m", "755", &text, &path]).status().unwrap().success());
        path
    }
}

#[test]
fn a_job_ends_as_the_comparison_does_unless_noise_is_to_pass() {
    let job = Job::new("action-codes");
    for (code, inconclusive, expected) in
        [(0, "fail", 0), (1, "fail", 1), (1, "pass", 1), (3, "fail", 3), (3, "pass", 0), (4, "pass", 4)]
    {
        let program = job.program(code);
        let output = job.run(&[("old", "/old"), ("new", &program), ("inconclusive", inconclusive)]);
        assert_eq!(output.status.code(), Some(expected), "{code} {inconclusive}: {output:?}");
        let is_warned = String::from_utf8_lossy(&output.stdout).contains("::warning::");
        assert_eq!(is_warned, code == 3 && inconclusive == "pass");
        let verdicts: Value = serde_json::from_str(&job.verdicts()).expect("JSON of several lines");
        assert_eq!(verdicts["exit_code"], code);
        assert!(std::fs::read_to_string(job.folder.path("summary")).unwrap().contains("\"exit_code\""));
    }
}

/// The very program takes the arguments that the action gives it, with the inputs as they are by default.
#[test]
fn the_program_understands_the_action() {
    let job = Job::new("action-call");
    let output = job.run(&[("old", "/no/such/program"), ("new", env!("CARGO_BIN_EXE_breakeven"))]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/no/such/program cannot be started"), "{said}");
    assert_eq!((output.status.code(), job.verdicts().as_str()), (Some(2), ""));
}
