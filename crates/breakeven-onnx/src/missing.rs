//! What a model needs and this crate does not have, all of it at once.

use std::fmt;

/// Everything that keeps a model from running here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(Vec<MissingItem>);

/// One thing that is missing, and who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingItem {
    /// What: an operator with its opset, a domain, an element type, an attribute.
    pub what: String,
    /// The first node or tensor that asks for it.
    pub place: String,
    /// How many ask for it.
    pub count: usize,
}

impl Missing {
    /// Nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each thing once, in the order in which the model asks for them.
    pub fn items(&self) -> &[MissingItem] {
        &self.0
    }

    pub(crate) fn add(&mut self, what: impl Into<String>, place: impl Into<String>) {
        let what = what.into();
        match self.0.iter_mut().find(|item| item.what == what) {
            Some(item) => item.count += 1,
            None => self.0.push(MissingItem { what, place: place.into(), count: 1 }),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.0.iter().map(MissingItem::to_string).collect();
        write!(f, "the model needs what is not there yet: {}", items.join("; "))
    }
}

impl fmt::Display for MissingItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.what, self.place)?;
        match self.count {
            1 => f.write_str(")"),
            count => write!(f, " and {} more)", count - 1),
        }
    }
}
