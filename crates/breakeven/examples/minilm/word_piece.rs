//! The tokenizer of uncased BERT models: clean and lower the text, split it into words, and words into known pieces.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

const BEGIN: &str = "[CLS]";
const END: &str = "[SEP]";

/// Pieces and their ids.
pub struct WordPiece {
    pieces: HashMap<String, i64>,
    /// Names such as `[MASK]` that stand for themselves wherever they occur.
    special: Vec<(String, i64)>,
    begin: i64,
    end: i64,
    unknown: i64,
    continued: String,
    longest_word: usize,
}

/// The parts of a `tokenizer.json` that this tokenizer needs, and those it must refuse.
#[derive(Deserialize)]
struct File {
    normalizer: Normalizer,
    pre_tokenizer: Kind,
    model: Vocabulary,
    #[serde(default)]
    added_tokens: Vec<Special>,
}

#[derive(Deserialize)]
struct Normalizer {
    r#type: String,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Vocabulary {
    r#type: String,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, i64>,
}

#[derive(Deserialize)]
struct Special {
    id: i64,
    content: String,
}

impl WordPiece {
    /// Reads a `tokenizer.json`, or says why it is not for this tokenizer.
    pub fn parse(json: &[u8]) -> Result<WordPiece, String> {
        let file: File = serde_json::from_slice(json).map_err(|error| format!("is no WordPiece tokenizer: {error}"))?;
        let kinds = [&file.normalizer.r#type, &file.pre_tokenizer.r#type, &file.model.r#type];
        if kinds != ["BertNormalizer", "BertPreTokenizer", "WordPiece"] || !file.normalizer.lowercase {
            return Err("is not the tokenizer of an uncased BERT model".into());
        }
        let id = |piece: &str| file.model.vocab.get(piece).copied().ok_or_else(|| format!("has no piece '{piece}'"));
        Ok(WordPiece {
            begin: id(BEGIN)?,
            end: id(END)?,
            unknown: id(&file.model.unk_token)?,
            special: file
                .added_tokens
                .into_iter()
                .filter(|s| !s.content.is_empty())
                .map(|s| (s.content, s.id))
                .collect(),
            continued: file.model.continuing_subword_prefix,
            longest_word: file.model.max_input_chars_per_word,
            pieces: file.model.vocab,
        })
    }

    /// The smallest and the largest id it gives.
    pub fn id_range(&self) -> RangeInclusive<i64> {
        let ids = || self.pieces.values().chain(self.special.iter().map(|(_, id)| id)).copied();
        ids().min().unwrap_or(0)..=ids().max().unwrap_or(0)
    }

    /// The ids of a text between those of its begin and end; at most `longest` with these.
    pub fn ids(&self, text: &str, longest: usize) -> Vec<i64> {
        let room = longest.saturating_sub(2);
        let mut ids = vec![self.begin];
        let mut rest = text;
        while !rest.is_empty() && ids.len() <= room {
            let (plain, special, after) = self.next_special(rest);
            for word in words(&normalize(plain)) {
                self.add_word(word, &mut ids);
            }
            ids.extend(special);
            rest = after;
        }
        ids.truncate(room + 1);
        ids.push(self.end);
        ids
    }

    /// The text before the first special name, that name's id, and the text after it.
    fn next_special<'a>(&self, text: &'a str) -> (&'a str, Option<i64>, &'a str) {
        let found = self.special.iter().filter_map(|(name, id)| Some((text.find(name)?, name, *id)));
        match found.min_by_key(|(at, name, _)| (*at, std::cmp::Reverse(name.len()))) {
            Some((at, name, id)) => (&text[..at], Some(id), &text[at + name.len()..]),
            None => (text, None, ""),
        }
    }

    /// The longest known piece first, and again after it; a word that cannot be made of pieces is unknown as a whole.
    fn add_word(&self, word: &str, ids: &mut Vec<i64>) {
        let before = ids.len();
        let mut rest = if word.chars().count() > self.longest_word { None } else { Some(word) };
        while let Some(text) = rest.filter(|text| !text.is_empty()) {
            let prefix = if text.len() < word.len() { self.continued.as_str() } else { "" };
            rest = self.first_piece(prefix, text).map(|(id, length)| {
                ids.push(id);
                &text[length..]
            });
        }
        if rest.is_none() {
            ids.truncate(before);
            ids.push(self.unknown);
        }
    }

    /// Id and length of the longest piece that `text` begins with.
    fn first_piece(&self, prefix: &str, text: &str) -> Option<(i64, usize)> {
        let mut piece = format!("{prefix}{text}");
        while piece.len() > prefix.len() {
            if let Some(&id) = self.pieces.get(&piece) {
                return Some((id, piece.len() - prefix.len()));
            }
            piece.pop();
        }
        None
    }
}

/// Lower case without accents or control characters; ideographs become words of their own.
fn normalize(text: &str) -> String {
    let clean: String = text.chars().filter(|&c| !is_noise(c)).flat_map(spaced).collect();
    let bare = clean.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark);
    bare.flat_map(char::to_lowercase).collect()
}

fn is_noise(c: char) -> bool {
    let is_other = c.general_category_group() == GeneralCategoryGroup::Other;
    let is_kept = matches!(c, '\t' | '\n' | '\r') || c.general_category() == GeneralCategory::Unassigned;
    c == '\u{fffd}' || is_other && !is_kept
}

fn spaced(c: char) -> impl Iterator<Item = char> {
    let space = is_ideograph(c).then_some(' ');
    space.into_iter().chain([c]).chain(space)
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

/// Words between white space; each mark of punctuation is a word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split_whitespace() {
        let mut start = 0;
        for (at, mark) in part.match_indices(is_punctuation) {
            words.extend([&part[start..at], mark]);
            start = at + mark.len();
        }
        words.push(&part[start..]);
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> WordPiece {
        let names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "run", "##ning", "##s", "cafe", ",", "東", "京"];
        let vocab: Vec<String> = names.iter().enumerate().map(|(id, name)| format!("\"{name}\":{id}")).collect();
        let json = format!(
            r###"{{"normalizer":{{"type":"BertNormalizer","lowercase":true}},"pre_tokenizer":{{"type":"BertPreTokenizer"}},
            "added_tokens":[{{"id":3,"content":"[SEP]"}}],
            "model":{{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
            "max_input_chars_per_word":12,"vocab":{{{}}}}}}}"###,
            vocab.join(",")
        );
        WordPiece::parse(json.as_bytes()).expect("it is right")
    }

    fn check(text: &str, expected: &[i64]) {
        assert_eq!(tokenizer().ids(text, 256), [&[2], expected, &[3]].concat(), "{text:?}");
    }

    #[test]
    fn words_become_pieces() {
        check("", &[]);
        check("Running, RUNS\trun", &[4, 5, 8, 4, 6, 4]);
        check("Café\u{0}\u{ad}", &[7]);
        check("東京", &[9, 10]);
        check("runx run", &[1, 4]);
        check("runningnings runnings", &[4, 5, 5, 6, 4, 5, 6]);
        check("runningningss", &[1]);
        check("run[SEP]run", &[4, 3, 4]);
    }

    #[test]
    fn long_texts_are_cut_before_their_end() {
        assert_eq!(tokenizer().ids("run running", 4), [2, 4, 4, 3]);
        assert_eq!(tokenizer().ids("run", 2), [2, 3]);
    }

    #[test]
    fn every_id_is_in_its_range() {
        assert_eq!(tokenizer().id_range(), 0..=10);
    }

    #[test]
    fn another_tokenizer_is_refused() {
        let error = |json: &str| WordPiece::parse(json.as_bytes()).err().expect(json);
        assert!(error("{").contains("is no WordPiece tokenizer"));
        assert!(error(r#"{"model":{"type":"BPE"}}"#).contains("is no WordPiece tokenizer"));
    }
}
