//! What was made of texts, bounded: where there is too much, what was not asked for the longest goes.

use std::collections::HashMap;

/// What was made of each text. Two texts are never taken for one: the whole text is the key.
#[derive(Debug)]
pub(crate) struct Texts<V> {
    kept: HashMap<String, Kept<V>>,
    most: Most,
    bytes: u64,
    asked: u64,
    let_go: u64,
}

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub texts: usize,
    /// Of all texts together.
    pub bytes: u64,
}

#[derive(Debug)]
struct Kept<V> {
    value: V,
    /// When it was last asked for, by the count of questions.
    asked: u64,
}

impl<V: Clone> Texts<V> {
    pub fn new(most: Most) -> Texts<V> {
        Texts { kept: HashMap::new(), most, bytes: 0, asked: 0, let_go: 0 }
    }

    /// What was made of `text`.
    pub fn get(&mut self, text: &str) -> Option<V> {
        self.asked += 1;
        let kept = self.kept.get_mut(text)?;
        kept.asked = self.asked;
        Some(kept.value.clone())
    }

    /// Keeps what was made of `text`, and gives what goes for it, to be dropped outside of any lock. Nothing goes that `is_held`:
    /// it would stay in memory all the same, and be made once more.
    pub fn keep(&mut self, text: &str, value: V, is_held: impl Fn(&V) -> bool) -> Vec<V> {
        self.asked += 1;
        let kept = Kept { value, asked: self.asked };
        let before = self.kept.insert(text.to_owned(), kept).map(|kept| kept.value);
        if before.is_none() {
            self.bytes += text.len() as u64;
        }
        let mut gone: Vec<V> = before.into_iter().collect();
        while self.is_full() {
            let Some(oldest) = self.oldest(text, &is_held) else { break };
            gone.extend(self.kept.remove(&oldest).map(|kept| kept.value));
            self.bytes -= oldest.len() as u64;
            self.let_go += 1;
        }
        gone
    }

    /// How many are kept.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Bytes of the texts that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many went for others.
    pub fn let_go(&self) -> u64 {
        self.let_go
    }

    fn is_full(&self) -> bool {
        self.kept.len() > self.most.texts || self.bytes > self.most.bytes
    }

    /// What was not asked for the longest, of all that may go for `newest`.
    fn oldest(&self, newest: &str, is_held: impl Fn(&V) -> bool) -> Option<String> {
        let may_go = |(text, kept): &(&String, &Kept<V>)| *text != newest && !is_held(&kept.value);
        let oldest = self.kept.iter().filter(may_go).min_by_key(|(_, kept)| kept.asked);
        oldest.map(|(text, _)| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn texts(texts: usize, bytes: u64) -> Texts<Arc<usize>> {
        Texts::new(Most { texts, bytes })
    }

    fn is_held(value: &Arc<usize>) -> bool {
        Arc::strong_count(value) > 1
    }

    fn keep(texts: &mut Texts<Arc<usize>>, nth: usize) {
        texts.keep(&format!("text {nth:05}"), Arc::new(nth), is_held);
    }

    fn kept(texts: &mut Texts<Arc<usize>>, of: std::ops::Range<usize>) -> Vec<usize> {
        of.filter(|nth| texts.get(&format!("text {nth:05}")).is_some()).collect()
    }

    #[test]
    fn ever_new_texts_stay_bounded() {
        let mut texts = texts(100, u64::MAX);
        for nth in 0..10_000 {
            keep(&mut texts, nth);
            assert!(texts.count() <= 100);
        }
        assert_eq!((texts.count(), texts.let_go(), texts.bytes()), (100, 9_900, 100 * 10));
        assert_eq!(kept(&mut texts, 0..10_000), (9_900..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut texts = texts(100, 35);
        (0..10).for_each(|nth| keep(&mut texts, nth));
        assert_eq!((texts.count(), texts.bytes()), (3, 30));
        texts.keep(&"long".repeat(20), Arc::new(0), is_held);
        assert_eq!((texts.count(), texts.bytes()), (1, 80), "the newest stays, however long it is");
    }

    #[test]
    fn what_was_asked_for_last_stays() {
        let mut texts = texts(3, u64::MAX);
        (0..3).for_each(|nth| keep(&mut texts, nth));
        assert_eq!(kept(&mut texts, 0..1), [0]);
        keep(&mut texts, 3);
        keep(&mut texts, 4);
        assert_eq!(kept(&mut texts, 0..5), [0, 3, 4]);
    }

    #[test]
    fn what_is_held_stays_until_it_is_not() {
        let mut texts = texts(2, u64::MAX);
        let held: Vec<Arc<usize>> = (0..5).map(Arc::new).collect();
        for value in &held {
            texts.keep(&format!("text {value:05}"), value.clone(), is_held);
        }
        assert_eq!(texts.count(), 5);
        drop(held);
        keep(&mut texts, 5);
        assert_eq!(kept(&mut texts, 0..6), [4, 5]);
    }

    #[test]
    fn a_text_that_two_made_is_kept_once() {
        let mut texts = texts(2, u64::MAX);
        assert!(texts.keep("text", Arc::new(1), is_held).is_empty());
        assert_eq!(texts.keep("text", Arc::new(2), is_held), [Arc::new(1)]);
        assert_eq!((texts.count(), texts.bytes(), texts.let_go()), (1, 4, 0));
    }
}
