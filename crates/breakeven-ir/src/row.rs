//! A row of the table: what `maps` says about one elementwise operation.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::{Body, Builder, DType, Inst, MAPS, Term};

/// Which element types a row is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Every type, truth values too.
    Any,
    /// Floats and integers.
    Number,
    /// Floats.
    Float,
    /// Integers.
    Integer,
    /// 32-bit unsigned integers: bits rather than numbers.
    Word,
    /// Truth values.
    Logic,
}

impl Family {
    /// The element types the family has, the most usual first.
    pub fn dtypes(self) -> Vec<DType> {
        let mut all: Vec<DType> = DType::ALL.into_iter().filter(|&d| self.has(d)).collect();
        all.sort_by_key(|&d| !matches!(d, DType::F32 | DType::I32));
        all
    }

    /// True when rows of this family take values of type `dtype`.
    pub fn has(self, dtype: DType) -> bool {
        match self {
            Self::Any => true,
            Self::Number => dtype != DType::Bool,
            Self::Float => dtype.is_float(),
            Self::Integer => dtype.is_integer(),
            Self::Word => dtype == DType::U32,
            Self::Logic => dtype == DType::Bool,
        }
    }
}

/// What an argument or a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value of the type the row runs at.
    V,
    /// A truth value.
    M,
    /// A parameter: one number for all elements, in the type the row runs at.
    P,
}

/// How far a result may lie from the right one: within `ulp` units in the last place, or within `abs`. Denormals may be
/// flushed on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Units in the last place, on a CPU.
    pub ulp: u32,
    /// Units in the last place, on a GPU, whose languages promise less of division and square root.
    pub gpu_ulp: u32,
    /// Absolute, for results whose ULP error has no bound.
    pub abs: f64,
}

impl Tolerance {
    /// Correctly rounded.
    pub const EXACT: Tolerance = Tolerance { ulp: 0, gpu_ulp: 0, abs: 0.0 };

    /// Within `ulp` on a CPU, and twice that on a GPU.
    pub const fn ulp(ulp: u32) -> Tolerance {
        Tolerance { ulp, gpu_ulp: 2 * ulp, abs: 0.0 }
    }

    /// Within `ulp` on a GPU.
    pub const fn gpu(self, ulp: u32) -> Tolerance {
        Tolerance { gpu_ulp: ulp, ..self }
    }

    /// Or within `abs`.
    pub const fn abs(self, abs: f64) -> Tolerance {
        Tolerance { abs, ..self }
    }
}

/// One elementwise operation.
pub struct MapDef {
    /// As users and errors name it.
    pub name: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// Which types it takes.
    pub family: Family,
    /// Arguments in order; parameters come last.
    pub args: &'static [Kind],
    /// Type of the result: `V` or `M`.
    pub out: Kind,
    /// How exact it is at f32.
    pub tolerance: Tolerance,
    /// Writes it down for arguments in order; [`MapDef::body`] does so at a type.
    pub body: for<'a> fn(&[Term<'a>]) -> Term<'a>,
}

impl MapDef {
    /// The row, if an expression can hold it; `where_` is called `where`.
    ///
    /// # Panics
    /// While compiling, where it has more than three arguments, no tensor, or a parameter before a tensor.
    #[must_use]
    pub const fn checked(mut self) -> MapDef {
        assert!(self.args.len() <= 3, "a row has at most three arguments");
        assert!(!self.args.is_empty() && !matches!(self.args[0], Kind::P), "a row takes at least one tensor");
        let mut at = 1;
        while at < self.args.len() {
            let in_order = matches!(self.args[at], Kind::P) || !matches!(self.args[at - 1], Kind::P);
            assert!(in_order, "parameters come last");
            at += 1;
        }
        if let Some((b'_', rest)) = self.name.as_bytes().split_last()
            && let Ok(plain) = std::str::from_utf8(rest)
        {
            self.name = plain;
        }
        self
    }

    /// Tensors it takes; parameters not counted.
    pub fn arity(&self) -> usize {
        self.args.iter().filter(|&&k| k != Kind::P).count()
    }

    /// Parameters it takes.
    pub fn params(&self) -> usize {
        self.args.len() - self.arity()
    }

    /// The row in primitives, for values of type `dtype`.
    pub fn body(&self, dtype: DType) -> Body {
        let builder = Builder::default();
        let (mut args, mut params) = (0.., 0..);
        let mut next = |kind: &Kind| match kind {
            Kind::V => builder.push(Inst::Arg(args.next().expect("endless")), dtype),
            Kind::M => builder.push(Inst::Arg(args.next().expect("endless")), DType::Bool),
            Kind::P => builder.push(Inst::Param(params.next().expect("endless")), dtype),
        };
        let terms: Vec<Term<'_>> = self.args.iter().map(&mut next).collect();
        let result = (self.body)(&terms).id();
        drop(terms);
        builder.finish(result)
    }
}

impl fmt::Debug for MapDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A row by reference. Rows of the same name are one only if they are one row: names are for people.
#[derive(Clone, Copy)]
pub struct Row(pub &'static MapDef);

impl Row {
    /// The row of the table that is called `name`.
    pub fn named(name: &str) -> Option<Row> {
        MAPS.iter().find(|m| m.name == name).map(Row)
    }

    /// Position in [`MAPS`]; `None` for a row from elsewhere.
    pub fn index(self) -> Option<usize> {
        MAPS.iter().position(|m| std::ptr::eq(m, self.0))
    }
}

impl std::ops::Deref for Row {
    type Target = MapDef;
    fn deref(&self) -> &MapDef {
        self.0
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Row {}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A row of your own, in the words of the table: `V` is a value, `M` a truth value, `P` a parameter. It makes the function,
/// which other rows may call, and the [`Row`](crate::Row), which is placed, fused, explained and tested like those of the table.
///
/// A row has at most three arguments, of which at least one is a tensor, and parameters come last.
///
/// ```
/// use breakeven_ir::{DType, Tolerance};
///
/// breakeven_ir::row! {
///     /// The middle between `a` and `b`.
///     static MIDDLE = middle: Float(a: V, b: V) -> V [Tolerance::ulp(1)] = (a + b) * 0.5;
/// }
///
/// assert_eq!(MIDDLE.body(DType::F32).flops(), 2);
/// ```
#[macro_export]
macro_rules! row {
    ($(#[doc = $doc:literal])+ $public:vis static $row:ident = $name:ident: $family:ident($($arg:ident: $kind:ident),+)
        -> $out:ident [$tolerance:expr] = $body:expr;) => {
        $(#[doc = $doc])+
        #[allow(clippy::inline_always, dead_code, reason = "a row must dissolve into what calls it")]
        #[inline(always)]
        $public fn $name<V: $crate::$family>($($arg: $crate::map_type!(V, $kind)),+) -> $crate::map_type!(V, $out) {
            $body
        }

        $(#[doc = $doc])+
        $public static $row: $crate::Row = {
            static ROW: $crate::MapDef = $crate::map_def! {
                $(#[doc = $doc])+ $name: $family($($arg: $kind),+) -> $out [$tolerance] = $name
            };
            $crate::Row(&ROW)
        };
    };
}
