//! The rows of the table, run over lanes.

use breakeven_ir::{Float, Number};

/// A row from one float to one float, over many of them.
pub type Block<V> = fn(&[V], &mut [V]);

macro_rules! operand {
    (M, $x:expr) => {{
        let x = $x;
        !Number::eq(x, x.lit(0.0))
    }};
    ($kind:ident, $x:expr) => {
        $x
    };
}

macro_rules! result {
    (M, $one:expr, $mask:expr) => {{
        let one = $one;
        <V as Number>::pick($mask, one.lit(1.0), one.lit(0.0))
    }};
    (V, $one:expr, $value:expr) => {
        $value
    };
}

macro_rules! apply {
    (Integer $name:ident ($($kind:ident),+) $out:ident $args:ident) => { None };
    (Word $name:ident ($($kind:ident),+) $out:ident $args:ident) => { None };
    (Logic $name:ident ($($kind:ident),+) $out:ident $args:ident) => { None };
    ($family:ident $name:ident ($($kind:ident),+) $out:ident $args:ident) => {{
        let mut next = $args.iter().copied();
        Some(result!($out, $args[0],
            breakeven_ir::maps::rows::$name($(operand!($kind, next.next().expect("as many as the row takes"))),+)))
    }};
}

macro_rules! unary {
    (Integer $name:ident (V) V) => {
        None
    };
    ($family:ident $name:ident (V) V) => {
        Some(|xs: &[V], out: &mut [V]| {
            for (out, x) in out.iter_mut().zip(xs) {
                *out = breakeven_ir::maps::rows::$name(*x);
            }
        })
    };
    ($($other:tt)*) => {
        None
    };
}

macro_rules! table {
    ($($(#[doc = $doc:literal])+
        $name:ident: $family:ident($($arg:ident: $kind:ident),+) -> $out:ident [$tolerance:expr] = $body:expr;)+) => {
        /// The row called `name` (as in `maps`, with its trailing `_`), if it has a meaning for floats; truth values
        /// are 0 and 1.
        pub fn call<V: Float>(name: &str, args: &[V]) -> Option<V> {
            match name {
                $(stringify!($name) => apply!($family $name ($($kind),+) $out args),)+
                _ => None,
            }
        }

        /// Rows from one float to one float.
        pub fn unary_rows<V: Float>() -> Vec<(&'static str, Block<V>)> {
            let all: Vec<(&'static str, Option<Block<V>>)> =
                vec![$((stringify!($name), unary!($family $name ($($kind),+) $out))),+];
            all.into_iter().filter_map(|(name, f)| Some((name, f?))).collect()
        }
    };
}
breakeven_ir::for_each_map!(table);
