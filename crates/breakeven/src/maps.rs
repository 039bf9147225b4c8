//! Elementwise operations: one method for each row of the table, broadcasting and promoting its tensors.

use std::panic::Location;

use breakeven_ir::{DType, Kind, MAPS, Op, Params, Row, Shape, View, for_each_map};

use crate::Tensor;
use crate::tensor::Inputs;

/// The type that an argument of a row has as a method's argument.
macro_rules! argument {
    (V) => {
        &Tensor
    };
    (M) => {
        &Tensor
    };
    (P) => {
        f64
    };
}

/// Puts an argument where it belongs.
macro_rules! place {
    (V, $arg:ident, $tensors:ident, $params:ident) => {
        $tensors.push($arg.clone())
    };
    (M, $arg:ident, $tensors:ident, $params:ident) => {
        $tensors.push($arg.clone())
    };
    (P, $arg:ident, $tensors:ident, $params:ident) => {
        $params.push($arg)
    };
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+
        $name:ident: $family:ident($first:ident: $kind:ident $(, $arg:ident: $more:ident)*) -> $out:ident [$tolerance:expr] = $body:expr;)+) => {
        /// Elementwise operations. Tensors are broadcast against each other, and promoted to [`DType::common`]: an integer
        /// with a float takes the float's type, two integers the wider type. Operations that are defined for floats alone do
        /// not promote integers, since no float holds them all: cast first. `div` of integers is the quotient towards zero.
        #[allow(clippy::should_implement_trait, reason = "the operators exist too, and call these")]
        impl Tensor {
            $($(#[doc = $doc])+
            #[must_use]
            #[track_caller]
            pub fn $name(&self $(, $arg: argument!($more))*) -> Tensor {
                const ROW: usize = position(stringify!($name));
                #[allow(unused_mut, reason = "most rows have no parameters")]
                let (mut tensors, mut params) = (Inputs::new(), Params::new());
                tensors.push(self.clone());
                $(place!($more, $arg, tensors, params);)*
                map(row(ROW), tensors, params, Location::caller())
            })+
        }
    };
}
for_each_map!(methods);

/// Where the table has the row `name`, which may have an underscore behind it.
pub(crate) const fn position(name: &str) -> usize {
    let name = name.as_bytes();
    let mut at = 0;
    while at < MAPS.len() {
        let row = MAPS[at].name.as_bytes();
        let has_mark = name.len() == row.len() + 1 && name[row.len()] == b'_';
        let mut same = 0;
        while same < row.len() && same < name.len() && row[same] == name[same] {
            same += 1;
        }
        if same == row.len() && (same == name.len() || has_mark) {
            return at;
        }
        at += 1;
    }
    panic!("methods are generated from the table")
}

/// The row of the table at `position`. Not made by a `const fn`: a constant of another crate may have a copy of the table, and a row is
/// known by where it lies.
pub(crate) fn row(position: usize) -> Row {
    Row(&MAPS[position])
}

/// Applies a row to tensors that may still differ in shape and type.
fn map(row: Row, mut tensors: Inputs, params: Params, at: &'static Location<'static>) -> Tensor {
    fit(row, &mut tensors, at);
    Tensor::apply_to(Op::Map(row, params), tensors, at)
}

/// Makes tensors what a row takes: of one shape and type.
pub(crate) fn fit(row: Row, tensors: &mut [Tensor], at: &'static Location<'static>) {
    promote(row, tensors, at);
    spread(tensors, at);
}

/// Casts the values (not the masks) of a row to their common type.
fn promote(row: Row, tensors: &mut [Tensor], at: &'static Location<'static>) {
    let is_value = |i: usize| row.args.get(i) == Some(&Kind::V);
    let mut common: Option<DType> = None;
    for (_, tensor) in tensors.iter().enumerate().filter(|(i, _)| is_value(*i)) {
        let Ok(spec) = &tensor.0.spec else { return };
        common = Some(common.map_or(spec.dtype, |dtype| dtype.common(spec.dtype)));
    }
    let Some(dtype) = common else { return };
    for (_, tensor) in tensors.iter_mut().enumerate().filter(|(i, _)| is_value(*i)) {
        if tensor.0.spec.as_ref().is_ok_and(|spec| spec.dtype != dtype) {
            *tensor = tensor.cast_at(dtype, at);
        }
    }
}

/// Broadcasts tensors against each other; tensors that do not fit are left as they are, for the rules to name.
fn spread(tensors: &mut [Tensor], at: &'static Location<'static>) {
    let Some(Ok(first)) = tensors.first().map(|t| &t.0.spec) else { return };
    let is_alike = |t: &Tensor| t.0.spec.as_ref().is_ok_and(|s| s.shape == first.shape);
    if tensors.iter().all(is_alike) {
        return;
    }
    let shape = |t: &Tensor| t.0.spec.as_ref().ok().map(|s| s.shape.clone());
    let joined = tensors.iter().map(shape).reduce(|a, b| a?.broadcast(&b?)).flatten();
    let Some(shape) = joined else { return };
    for tensor in tensors {
        *tensor = tensor.broadcast_at(&shape, at);
    }
}

/// As [`spread`], for a list that is given away.
pub(crate) fn broadcast(mut tensors: Vec<Tensor>, at: &'static Location<'static>) -> Vec<Tensor> {
    spread(&mut tensors, at);
    tensors
}

impl Tensor {
    /// A row of your own, made by [`row!`](crate::row), of this tensor, `others` and `params`, in the order of its arguments.
    /// Tensors are broadcast and promoted as for the operations above.
    ///
    /// ```
    /// use breakeven::{Engine, Tolerance};
    ///
    /// breakeven::row! {
    ///     /// `x` wrapped into `0..round`.
    ///     static WRAP = wrap: Float(x: V, round: P) -> V [Tolerance::ulp(2)] = x - (x / round).floor() * round;
    /// }
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let angles = Engine::detect()?.tensor(&[-90.0, 45.0, 450.0], [3]);
    /// let wrapped: Vec<f32> = angles.map(WRAP, &[], &[360.0]).to_vec()?;
    /// assert_eq!(wrapped, [270.0, 45.0, 90.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn map(&self, row: Row, others: &[&Tensor], params: &[f64]) -> Tensor {
        let tensors = [self].into_iter().chain(others.iter().copied()).cloned().collect();
        map(row, tensors, params.into(), Location::caller())
    }

    /// Each element as another type: saturating from float to integer, NaN to 0, anything but 0 to true.
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        self.cast_at(dtype, Location::caller())
    }

    pub(crate) fn cast_at(&self, dtype: DType, at: &'static Location<'static>) -> Tensor {
        let same = self.0.spec.as_ref().is_ok_and(|s| s.dtype == dtype);
        if same { self.clone() } else { Tensor::apply(Op::Cast(dtype), &[self], at) }
    }

    pub(crate) fn broadcast_at(&self, shape: &Shape, at: &'static Location<'static>) -> Tensor {
        let same = self.0.spec.as_ref().is_ok_and(|s| s.shape == *shape);
        if same { self.clone() } else { Tensor::apply(Op::View(View::Broadcast(shape.clone())), &[self], at) }
    }
}
