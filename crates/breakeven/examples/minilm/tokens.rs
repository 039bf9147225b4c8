//! Texts to token ids.

use std::path::Path;

use crate::failure::Failure;
use crate::seeded::hash;
use crate::word_piece::WordPiece;

/// Tokens that one text may have, as this model was trained to be used; what comes after is cut off.
const TRUNCATION: usize = 256;

/// How texts become tokens.
pub enum Tokenizer {
    /// As the real model does.
    WordPiece(Box<WordPiece>),
    /// One id for each word, made up like the seeded weights.
    Hashed {
        /// Ids there are.
        vocabulary: usize,
    },
}

impl Tokenizer {
    /// The `tokenizer.json` at `path`.
    pub fn open(path: &Path) -> Result<Tokenizer, Failure> {
        let problem = |what: String| Failure::Input(format!("{}: {what}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
        WordPiece::parse(&bytes).map(|w| Tokenizer::WordPiece(Box::new(w))).map_err(problem)
    }

    /// An error unless a model of this vocabulary knows every token.
    pub fn fits(&self, known: usize) -> Result<(), Failure> {
        let ids = match self {
            Tokenizer::WordPiece(word_piece) => word_piece.id_range(),
            Tokenizer::Hashed { vocabulary } => 0..=*vocabulary as i64 - 1,
        };
        if *ids.start() >= 0 && *ids.end() < known as i64 {
            return Ok(());
        }
        let (start, end) = ids.into_inner();
        Err(Failure::Input(format!("the tokenizer has ids from {start} to {end}, but the model knows {known} tokens")))
    }

    /// The ids of `text`, no more than `longest`.
    pub fn ids(&self, text: &str, longest: usize) -> Vec<i64> {
        let longest = longest.min(TRUNCATION);
        match self {
            Tokenizer::WordPiece(word_piece) => word_piece.ids(text, longest),
            Tokenizer::Hashed { vocabulary } => hashed(text, *vocabulary as u64).take(longest).collect(),
        }
    }
}

/// Id 1 stands at the beginning, so that an empty text has a token too.
fn hashed(text: &str, vocabulary: u64) -> impl Iterator<Item = i64> {
    let ids = text.split_whitespace().map(move |word| (hash(&word.to_lowercase()) % vocabulary) as i64);
    std::iter::once(1).chain(ids)
}
