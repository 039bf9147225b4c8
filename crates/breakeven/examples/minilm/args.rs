//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Sentence embeddings with a small BERT model, computed where it is cheapest: checked against a reference on every device of
/// this machine, then timed. Exit code 1: a check failed; 2: the input is wrong.
#[derive(Parser)]
#[command(name = "minilm")]
pub struct Args {
    /// Folder with model.safetensors and tokenizer.json; without it, made-up weights of the same shapes
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,

    /// Embed the lines of this file instead of the texts of the reference
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,

    /// Print the lines most like this text; the first line when not given
    #[arg(long, value_name = "TEXT")]
    pub query: Option<String>,

    /// Texts and the embeddings they must have, in the form of tests/data/minilm.json
    #[arg(long, value_name = "FILE")]
    pub reference: Option<PathBuf>,

    /// Embed the lines on this device (cpu, or a name from the list it prints) instead of where it is cheapest
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub on: String,

    /// Also check GPU drivers that compute on the CPU, with the four shortest texts only: they are slow
    #[arg(long)]
    pub software: bool,

    /// End with one line of JSON
    #[arg(long)]
    pub json: bool,
}
