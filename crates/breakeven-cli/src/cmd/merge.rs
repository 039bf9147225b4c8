//! `breakeven merge`: runs of several machines and backends side by side, never pooled.

use std::path::PathBuf;

use breakeven_study::merge::merge;
use breakeven_study::{Summary, SummarySchema, published};
use serde_json::json;

use super::report::{all, say, summary};

/// Arguments of `merge`.
#[derive(Debug, clap::Args)]
pub struct Merge {
    /// Run folders or summaries.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The tables that others published too, marked as theirs.
    #[arg(long)]
    published: bool,
    /// Folder for the reports of all of them.
    #[arg(long)]
    output: PathBuf,
}

impl Merge {
    /// Set them side by side and write every report.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let mut summaries = self.runs.iter().map(|run| summary(run)).collect::<anyhow::Result<Vec<Summary>>>()?;
        if self.published {
            summaries.push(Summary { schema: SummarySchema {}, runs: published::runs() });
        }
        let merged = merge(summaries)?;
        std::fs::create_dir_all(&self.output)?;
        let files = all(&merged, &self.output)?;
        if as_json {
            println!("{}", json!({ "files": files, "runs": merged.runs.len() }));
        } else {
            say(&merged, &files);
        }
        Ok(())
    }
}
