//! WGSL for a custom operation: the body of one function, and the functions that it may call.

use std::fmt;
use std::sync::Arc;

use crate::Spec;

type Count = dyn Fn(&[&Spec], &[&Spec]) -> u64 + Send + Sync;

/// WGSL code: the body of a function of `i: u32`, the number of the invocation. It may call, with `N` counted from 0:
///
/// | function | gives |
/// |---|---|
/// | `loadN(e)` | element `e` of input `N`, counted in row-major order; 0 past the end |
/// | `storeN(e, value)` | writes element `e` of output `N`; nothing past the end |
/// | `inputN_len()`, `outputN_len()` | how many elements there are |
/// | `inputN_extent(axis)`, `outputN_extent(axis)` | the extent of an axis; 1 where there is none |
/// | `paramN()` | a parameter, in its type |
///
/// Elements are `f32`, `i32`, `u32` or `bool` as their type says: floats of 16 bits are `f32`, rounded when they are stored;
/// narrow integers are `i32` or `u32`, cut to their width when they are stored; what has 64 bits is `vec2<u32>`, the low word
/// first. Layout and offset of a tensor are no concern of the code. Invocations run in any order, do
/// not see each other, and share no barriers.
#[derive(Clone)]
pub struct Wgsl {
    body: String,
    functions: String,
    count: Invocations,
    stores_all: bool,
}

/// How often the body runs, and what it gives.
#[derive(Clone)]
pub enum Invocations {
    /// Once for each element of the only output, which it returns.
    EachElement,
    /// So often for inputs and outputs of these specs. Outputs hold 0 where nothing is stored.
    Counted(Arc<Count>),
}

impl Wgsl {
    /// A body that returns element `i` of the only output.
    pub fn for_each_element(body: impl Into<String>) -> Wgsl {
        Wgsl { body: body.into(), functions: String::new(), count: Invocations::EachElement, stores_all: true }
    }

    /// A body that runs `count(inputs, outputs)` times and stores what it computes. Two invocations must not store to one
    /// element.
    pub fn counted(body: impl Into<String>, count: impl Fn(&[&Spec], &[&Spec]) -> u64 + Send + Sync + 'static) -> Wgsl {
        Wgsl {
            body: body.into(),
            functions: String::new(),
            count: Invocations::Counted(Arc::new(count)),
            stores_all: false,
        }
    }

    /// Promises that every element of every output is stored, so that nobody need clear them first. Where that does not hold,
    /// the elements that are left out can be anything.
    #[must_use]
    pub fn storing_all(mut self) -> Wgsl {
        self.stores_all = true;
        self
    }

    /// Functions, constants and structures that the body uses.
    #[must_use]
    pub fn with_functions(mut self, text: impl Into<String>) -> Wgsl {
        self.functions += &text.into();
        self.functions.push('\n');
        self
    }

    /// The body.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// What the body uses.
    pub fn functions(&self) -> &str {
        &self.functions
    }

    /// True where outputs need not be cleared.
    pub fn stores_all(&self) -> bool {
        self.stores_all
    }

    /// How often the body runs.
    pub fn invocations(&self) -> &Invocations {
        &self.count
    }
}

impl fmt::Debug for Wgsl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.functions, self.body)
    }
}

impl fmt::Debug for Invocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Invocations::EachElement) { "EachElement" } else { "Counted" })
    }
}
