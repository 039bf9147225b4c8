//! What people and programs read of a study. Each report is a pure function of the summary: what is not in the rows is in no report.

pub mod criterion;
mod csv;
mod html;
mod json;
mod markdown;

pub use markdown::times::{AtSize, Taken, taken};

use crate::Summary;

/// A way to show a summary.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Its name on the command line.
    pub name: &'static str,
    /// The file of a run folder that holds it.
    pub file: &'static str,
    /// Its text.
    pub make: fn(&Summary) -> String,
}

/// Every report. A new one is a file beside this one and a line here.
pub const REPORTS: &[Report] = &[
    Report { name: "html", file: "report.html", make: html::make },
    Report { name: "markdown", file: "summary.md", make: markdown::make },
    Report { name: "rows", file: "rows.md", make: markdown::every_row },
    Report { name: "csv", file: "summary.csv", make: csv::make },
    Report { name: "json", file: "summary.json", make: json::make },
];

/// The report called `name`.
pub fn report(name: &str) -> Option<&'static Report> {
    REPORTS.iter().find(|report| report.name == name)
}
