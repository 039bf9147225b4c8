//! Random numbers from a counter: the same stream on every device, and any part of it by itself.

use breakeven_ir::{CallError, DType, Shape};

use crate::{Engine, Tensor};

impl Engine {
    /// Random u32, each of its 32 bits fair and independent: element `i` is the first word of Threefry-2x32-20 of counter
    /// `i` under the key `seed`. At most 2^31 elements.
    #[must_use]
    #[track_caller]
    pub fn random_bits(&self, seed: u64, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        if i32::try_from(shape.elements()).is_err() {
            let message = format!("{shape} has more than 2^31 elements; take parts of it under different seeds");
            return Tensor::wrong(self, CallError::new("random", message));
        }
        let key = |word: u64| f64::from(word as u32);
        let counter = self.ramp(shape.elements()).cast(DType::U32);
        counter.threefry(key(seed), key(seed >> 32)).reshape(shape)
    }

    /// Random f32 in [0, 1), multiples of 2^-24.
    #[must_use]
    #[track_caller]
    pub fn uniform(&self, seed: u64, shape: impl Into<Shape>) -> Tensor {
        unit(&self.random_bits(seed, shape))
    }

    /// Random f32 of mean 0 and variance 1, by Box and Muller's method; none lies beyond 5.8.
    #[must_use]
    #[track_caller]
    pub fn normal(&self, seed: u64, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let Ok(pairs) = Shape::new(&[shape.elements(), 2]) else {
            return self.random_bits(seed, shape);
        };
        let both = unit(&self.random_bits(seed, pairs));
        // 1 - u is never 0.
        let radius = ((1.0 - &both.slice(1, 0..1)).ln() * -2.0).sqrt();
        let turn = (both.slice(1, 1..2) * std::f64::consts::TAU).cos();
        (radius * turn).reshape(shape)
    }
}

/// The upper 24 bits as a fraction.
fn unit(bits: &Tensor) -> Tensor {
    bits.shift_right(&bits.scalar(8.0)).cast(DType::F32) * 2f64.powi(-24)
}
