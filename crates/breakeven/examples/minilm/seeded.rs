//! Made-up weights, the same on every machine, for when the real ones are not there.

use breakeven::{Engine, Result, Tensor};

use crate::load::Source;

/// Weights of a model with these sizes; each tensor depends on its name alone.
pub struct Seeded {
    pub engine: Engine,
    pub vocabulary: usize,
    pub positions: usize,
    pub width: usize,
    pub inner: usize,
    pub layers: usize,
}

impl Seeded {
    /// The sizes of the real model.
    pub fn full_size(engine: &Engine) -> Seeded {
        Seeded { engine: engine.clone(), vocabulary: 30522, positions: 512, width: 384, inner: 1536, layers: 6 }
    }

    fn shape(&self, name: &str) -> Vec<usize> {
        let is_weight = name.ends_with(".weight");
        let part = name.trim_end_matches(".weight").trim_end_matches(".bias");
        match part.rsplit_once("layer.").map_or(part, |(_, rest)| rest.trim_start_matches(char::is_numeric)) {
            "embeddings.word_embeddings" => vec![self.vocabulary, self.width],
            "embeddings.position_embeddings" => vec![self.positions, self.width],
            "embeddings.token_type_embeddings" => vec![2, self.width],
            part if part.ends_with("LayerNorm") => vec![self.width],
            ".intermediate.dense" if is_weight => vec![self.inner, self.width],
            ".intermediate.dense" => vec![self.inner],
            ".output.dense" if is_weight => vec![self.width, self.inner],
            _ if is_weight => vec![self.width, self.width],
            _ => vec![self.width],
        }
    }
}

impl Source for Seeded {
    fn tensor(&self, name: &str) -> Result<Tensor> {
        let shape = self.shape(name);
        let (middle, spread) = if name.ends_with("LayerNorm.weight") { (1.0, 0.2) } else { (0.0, 0.1) };
        let numbers = uniform(hash(name)).map(|x| middle + spread * x);
        let values = numbers.take(shape.iter().product()).collect::<Vec<f32>>();
        Ok(self.engine.from_vec(values, shape.as_slice()))
    }

    fn layers(&self) -> usize {
        self.layers
    }

    fn name(&self) -> String {
        "seeded weights".into()
    }
}

/// FNV-1a.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Numbers from -1 to 1: `SplitMix64`, whose upper 24 bits fit an f32 exactly.
fn uniform(mut state: u64) -> impl Iterator<Item = f32> {
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
    })
}
