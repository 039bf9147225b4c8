//! What the scores of a model say, as the program that the model was made for reads them.

use breakeven::Shape;
use serde::Deserialize;

/// A chance from which on somebody speaks.
const SPEAKS: f32 = 0.5;

/// How scores are read.
#[derive(Debug, Deserialize)]
pub struct Reading {
    #[serde(default)]
    reading: Way,
    /// What each place stands for; its number where nothing is given.
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// They are not scores.
    #[default]
    None,
    /// The best of all.
    Label,
    /// The best of each step; repetitions are one, and 0 separates.
    Signs,
    /// Whether each is high.
    Speech,
}

impl Reading {
    /// The reading of `scores`, empty where they are not scores.
    pub fn read(&self, scores: &[f32], shape: &Shape) -> String {
        match self.reading {
            Way::None => String::new(),
            Way::Label => self.label(best(scores)),
            Way::Speech => scores.iter().map(|&score| if score > SPEAKS { '#' } else { '.' }).collect(),
            Way::Signs => {
                let extents: Vec<usize> = shape.iter().copied().collect();
                let [_, steps, signs] = extents[..] else { return format!("nothing in {shape}") };
                let lines = scores.chunks(steps * signs).map(|line| self.line(line, signs));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn line(&self, scores: &[f32], signs: usize) -> String {
        let mut signs: Vec<usize> = scores.chunks(signs).map(best).collect();
        signs.dedup();
        signs.into_iter().filter(|&sign| sign != 0).map(|sign| self.label(sign)).collect()
    }

    fn label(&self, place: usize) -> String {
        self.labels.get(place).cloned().unwrap_or_else(|| place.to_string())
    }
}

/// Where the largest is; the first of several.
fn best(scores: &[f32]) -> usize {
    (0..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}
