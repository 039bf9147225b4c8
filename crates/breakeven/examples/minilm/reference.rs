//! Texts with the embeddings they must have.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

const COMMITTED: &str = include_str!("../../tests/data/minilm.json");

/// Texts, their tokens, and their embeddings computed elsewhere in f64.
#[derive(Deserialize)]
pub struct Reference {
    pub texts: Vec<String>,
    pub token_ids: Vec<Vec<i64>>,
    #[serde(rename = "embeddings_f64")]
    pub embeddings: Vec<Vec<f64>>,
}

impl Reference {
    /// The file at `path`, else the one that comes with this example.
    pub fn read(path: Option<&Path>) -> Result<Reference, Failure> {
        let Some(path) = path else { return Reference::parse(COMMITTED).map_err(Failure::Input) };
        let problem = |what: String| Failure::Input(format!("{}: {what}", path.display()));
        let bytes = fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| problem(format!("is not UTF-8: {error}")))?;
        Reference::parse(&text).map_err(problem)
    }

    fn parse(text: &str) -> Result<Reference, String> {
        let reference: Reference = serde_json::from_str(text).map_err(|error| format!("is no reference: {error}"))?;
        let Reference { texts, token_ids, embeddings } = &reference;
        let counts = [texts.len(), token_ids.len(), embeddings.len()];
        if counts != [texts.len().max(1); 3] {
            return Err(format!("has {} texts, {} lists of tokens and {} embeddings", counts[0], counts[1], counts[2]));
        }
        if let Some(index) = token_ids.iter().position(Vec::is_empty) {
            return Err(format!("text {index} has no tokens"));
        }
        Ok(reference)
    }

    /// The texts that hold more than white space.
    pub fn lines(&self) -> Vec<String> {
        self.texts.iter().filter(|text| !text.trim().is_empty()).cloned().collect()
    }

    /// An error unless a model of this vocabulary that takes texts of `longest` tokens can embed the texts.
    pub fn fits(&self, vocabulary: usize, longest: usize) -> Result<(), Failure> {
        let known = 0..vocabulary as i64;
        let is_fine = |ids: &Vec<i64>| ids.len() <= longest && ids.iter().all(|id| known.contains(id));
        match self.token_ids.iter().position(|ids| !is_fine(ids)) {
            Some(index) => {
                Err(Failure::Input(format!("the tokens of text {index} of the reference do not fit the model")))
            }
            None => Ok(()),
        }
    }

    /// Indices of the `count` texts of fewest tokens.
    pub fn shortest(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.texts.len()).collect();
        order.sort_by_key(|&index| self.token_ids[index].len());
        order.truncate(count);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_reference_is_whole() {
        let reference = Reference::read(None).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!((reference.texts.len(), reference.embeddings[0].len()), (16, 384));
        assert_eq!(reference.shortest(1), [3]);
    }

    #[test]
    fn a_wrong_reference_is_one_sentence() {
        let check = |text: &str, expected: &str| {
            let message = Reference::parse(text).err().expect(text);
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        };
        check("", "is no reference");
        check(r#"{"texts": ["a"], "token_ids": [[1]]}"#, "embeddings_f64");
        check(r#"{"texts": ["a"], "token_ids": [[1]], "embeddings_f64": []}"#, "1 texts, 1 lists of tokens and 0 emb");
        check(r#"{"texts": [], "token_ids": [], "embeddings_f64": []}"#, "0 texts");
        check(r#"{"texts": ["a"], "token_ids": [[]], "embeddings_f64": [[1.0]]}"#, "no tokens");
        check(r#"{"texts": ["a"], "token_ids": [[1]], "embeddings_f64": [[NaN]]}"#, "is no reference");
    }
}
