//! Sentence embeddings: the same text on every device, and where it is cheapest. `model.rs` is the part to read first.
//!
//! `cargo xtask demo` brings the weights and runs this; `cargo run --release --example minilm` runs it with made-up ones.

mod args;
mod batch;
mod check;
mod failure;
mod file;
mod load;
mod model;
mod plain;
mod progress;
mod reference;
mod report;
mod search;
mod seeded;
mod targets;
mod text;
mod timing;
mod tokens;
mod word_piece;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use breakeven::{Deadline, Engine};
use clap::Parser;

use args::Args;
use failure::Failure;
use file::File;
use load::Source;
use model::Model;
use plain::Plain;
use progress::Progress;
use reference::Reference;
use seeded::Seeded;
use targets::Target;
use tokens::Tokenizer;

const SEEDED: &str = "\
model: made-up weights, as no --model was given. The embeddings mean nothing; each device is checked
       against the same computation in plain f64 instead of against the embeddings of the real model.";

/// Lines printed for a query.
const HITS: usize = 5;

/// How long to wait for GPUs to be opened and measured.
const READY: Duration = Duration::from_mins(1);

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("minilm: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let mut reference = Reference::read(args.reference.as_deref())?;
    let lines = args.text.as_deref().map(text::lines).transpose()?;
    let engine = Engine::builder().software(args.software).build()?;
    let demo = Demo::open(&engine, args.model.as_deref(), &mut reference)?;
    let targets = find_devices(&engine)?;
    demo.embed_lines(&lines.unwrap_or_else(|| reference.lines()), &Target::named(&targets, &args.on)?, args)?;
    let errors = demo.check(&reference, &targets)?;
    let table = timing::table(&demo.model, &targets)?;
    println!("\n{}", report::table(&table));
    if args.json {
        println!("{}", report::json(&errors, &table));
    }
    match errors.iter().find(|error| !error.is_within_tolerance()) {
        Some(error) => Err(Failure::Check(format!("the embeddings of {} are wrong", error.target))),
        None => Ok(()),
    }
}

/// Waits until GPUs can be used, and says what there is.
fn find_devices(engine: &Engine) -> Result<Vec<Target>, Failure> {
    engine.ready(Deadline::after(READY))?;
    for device in engine.devices() {
        let problem = device.state.problem().map_or_else(String::new, |why| format!(": not used, {why}"));
        println!("{:<12} {} ({}, {}){problem}", device.name, device.info.name, device.info.backend, device.info.driver);
    }
    for note in engine.notes() {
        println!("note: {note}");
    }
    Ok(Target::all(engine))
}

/// A model and what turns text into its tokens.
struct Demo {
    model: Model,
    tokenizer: Tokenizer,
}

impl Demo {
    /// The model of `folder`; without one, a made-up model, for which the reference is computed anew.
    fn open(engine: &Engine, folder: Option<&Path>, reference: &mut Reference) -> Result<Demo, Failure> {
        let demo = match folder {
            Some(folder) => Demo::real(engine, folder)?,
            None => Demo::seeded(engine)?,
        };
        reference.fits(demo.model.vocabulary(), demo.model.longest())?;
        match folder {
            Some(_) => demo.agrees_with(reference)?,
            None => check::recompute(&Plain::load(&Seeded::full_size(engine))?, reference),
        }
        Ok(demo)
    }

    fn real(engine: &Engine, folder: &Path) -> Result<Demo, Failure> {
        let file = File::open(engine, &folder.join("model.safetensors"))?;
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        println!("model: {} layers from {}", file.layers(), file.name());
        let model = load::load(engine, &file)?;
        tokenizer.fits(model.vocabulary())?;
        Ok(Demo { model, tokenizer })
    }

    fn seeded(engine: &Engine) -> Result<Demo, Failure> {
        println!("{SEEDED}");
        let model = load::load(engine, &Seeded::full_size(engine))?;
        Ok(Demo { tokenizer: Tokenizer::Hashed { vocabulary: model.vocabulary() }, model })
    }

    /// An error unless the reference is one for this model: vectors as wide, and the same tokens.
    fn agrees_with(&self, reference: &Reference) -> Result<(), Failure> {
        let width = self.model.width();
        if let Some(other) = reference.embeddings.iter().find(|vector| vector.len() != width) {
            let message =
                format!("an embedding of the reference has {} elements, the model gives {width}", other.len());
            return Err(Failure::Input(message));
        }
        let differs = |(text, ids): &(&String, &Vec<i64>)| self.tokens(text) != **ids;
        match reference.texts.iter().zip(&reference.token_ids).find(differs) {
            Some((text, _)) => Err(Failure::Check(format!("the tokens of '{text}' differ from the reference"))),
            None => Ok(()),
        }
    }

    fn tokens(&self, text: &str) -> Vec<i64> {
        self.tokenizer.ids(text, self.model.longest())
    }

    /// Embeds the lines on `target` and prints those most like the query, if there is one.
    fn embed_lines(&self, lines: &[String], target: &Target, args: &Args) -> Result<(), Failure> {
        let started = Instant::now();
        let tokens: Vec<Vec<i64>> = lines.iter().map(|line| self.tokens(line)).collect();
        let vectors = target.embed_all(&self.model, &tokens)?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        println!("\nembedded {} lines on {} in {milliseconds:.1} ms", lines.len(), target.name);
        let Some(query) = args.query.as_ref().or(lines.first()) else { return Ok(()) };
        let query_vector = target.embed_all(&self.model, &[self.tokens(query)])?.remove(0);
        println!("most like '{query}':");
        for hit in search::best(&vectors, &query_vector, HITS) {
            println!("  {:.4}  {}", hit.likeness, lines[hit.line].trim());
        }
        Ok(())
    }

    fn check(&self, reference: &Reference, targets: &[Target]) -> Result<Vec<check::Error>, Failure> {
        println!("\nembeddings of the reference texts:");
        let progress = Progress::new("checking", targets.len());
        let one = |(index, target): (usize, &Target)| {
            progress.at(index, &target.name);
            check::check(&self.model, reference, target)
        };
        let errors: Vec<check::Error> = targets.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        drop(progress);
        for error in &errors {
            println!("{}", report::checked(error));
        }
        Ok(errors)
    }
}
