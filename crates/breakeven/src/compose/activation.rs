//! Activations by name, for operations that are told which to use.

use crate::{Row, Tensor};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x`
    Identity,
    /// `alpha * x + beta`
    Affine(f64, f64),
    /// `max(x, 0)`
    Relu,
    /// `x` where positive, else `slope * x`.
    LeakyRelu(f64),
    /// `x` where it is above the threshold, else 0.
    ThresholdedRelu(f64),
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `clip(slope * x + offset, 0, 1)`
    HardSigmoid(f64, f64),
    /// Hyperbolic tangent.
    Tanh,
    /// `alpha * tanh(beta * x)`
    ScaledTanh(f64, f64),
    /// `x` where positive, else `alpha * (e^x - 1)`.
    Elu(f64),
    /// Any row of one tensor without parameters.
    Row(Row),
}

impl Activation {
    /// The function of every element.
    #[must_use]
    pub fn of(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Identity => x.clone(),
            Activation::Affine(alpha, beta) => x * alpha + beta,
            Activation::Relu => x.relu(),
            Activation::LeakyRelu(slope) => x.leaky_relu(slope),
            Activation::ThresholdedRelu(least) => x.greater(&x.scalar(least)).where_(x, &x.scalar(0.0)),
            Activation::Sigmoid => x.sigmoid(),
            Activation::HardSigmoid(slope, offset) => x.hard_sigmoid(slope, offset),
            Activation::Tanh => x.tanh(),
            Activation::ScaledTanh(alpha, beta) => (x * beta).tanh() * alpha,
            Activation::Elu(alpha) => x.elu(alpha),
            Activation::Row(row) => x.map(row, &[], &[]),
        }
    }
}
