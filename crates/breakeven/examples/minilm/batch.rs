//! Texts of different lengths as one rectangle of tokens.

/// Token ids padded to the longest text, and which of them are real.
pub struct Batch {
    /// `[texts, length]`; padding is id 0.
    pub ids: Vec<i64>,
    /// `[texts, length]`; true for real tokens.
    pub mask: Vec<bool>,
    pub texts: usize,
    pub length: usize,
}

impl Batch {
    /// At least one text, each of at least one token.
    pub fn new<T: AsRef<[i64]>>(texts: &[T]) -> Batch {
        let texts: Vec<&[i64]> = texts.iter().map(T::as_ref).collect();
        let length = texts.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let padded = |ids: &&[i64]| (0..length).map(|at| ids.get(at).copied()).collect::<Vec<_>>();
        let tokens: Vec<Option<i64>> = texts.iter().flat_map(padded).collect();
        Batch {
            ids: tokens.iter().map(|token| token.unwrap_or(0)).collect(),
            mask: tokens.iter().map(Option::is_some).collect(),
            texts: texts.len(),
            length,
        }
    }
}

/// Texts per batch: enough to keep a device busy, few enough to keep their memory small.
const TEXTS: usize = 32;

/// Groups of texts of similar length, as indices, so that little of a batch is padding.
pub fn by_length<T: AsRef<[i64]>>(texts: &[T]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&index| texts[index].as_ref().len());
    order.chunks(TEXTS).map(<[usize]>::to_vec).collect()
}
