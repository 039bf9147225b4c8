//! Activation functions.

use breakeven::{DType, Tensor};

use super::{Operator, one};
use crate::call::{Call, Result};
use crate::error::wrong;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("Celu", &["alpha"], |c| Ok(c.tensor(0)?.celu(c.float("alpha", 1.0)?))),
    one("Elu", &["alpha"], |c| Ok(c.tensor(0)?.elu(c.float("alpha", 1.0)?))),
    one("Gelu", &["approximate"], gelu),
    one("HardSigmoid", &["alpha", "beta"], |c| {
        Ok(c.tensor(0)?.hard_sigmoid(c.float("alpha", 0.2)?, c.float("beta", 0.5)?))
    }),
    one("HardSwish", &[], |c| Ok(c.tensor(0)?.hard_swish())),
    one("LeakyRelu", &["alpha"], |c| Ok(c.tensor(0)?.leaky_relu(c.float("alpha", 0.01)?))),
    one("Mish", &[], |c| Ok(c.tensor(0)?.mish())),
    one("PRelu", &[], p_relu),
    one("Relu", &[], |c| Ok(c.tensor(0)?.relu())),
    one("Selu", &["alpha", "gamma"], selu),
    one("Shrink", &["bias", "lambd"], shrink),
    one("Sigmoid", &[], |c| Ok(c.tensor(0)?.sigmoid())),
    one("Softplus", &[], |c| Ok(c.tensor(0)?.softplus())),
    one("Softsign", &[], |c| Ok(c.tensor(0)?.softsign())),
    one("SwiGLU", &["alpha"], |c| Ok(swish(&c.tensor(0)?, c.float("alpha", 1.0)?) * c.tensor(1)?)),
    one("Swish", &["alpha"], |c| Ok(swish(&c.tensor(0)?, c.float("alpha", 1.0)?))),
    one("ThresholdedRelu", &["alpha"], thresholded_relu),
];

/// `x * sigmoid(alpha * x)`
fn swish(x: &Tensor, alpha: f64) -> Tensor {
    if alpha == 1.0 { x.silu() } else { x * (x * alpha).sigmoid() }
}

fn gelu(call: &Call<'_>) -> Result<Tensor> {
    match call.text("approximate", "none")? {
        "none" => Ok(call.tensor(0)?.gelu()),
        "tanh" => Ok(call.tensor(0)?.gelu_tanh()),
        other => wrong(format!("is approximated by none or tanh, not '{other}'")),
    }
}

/// Before opset 7 a slope for each channel stands at axis 1.
fn p_relu(call: &Call<'_>) -> Result<Tensor> {
    let (x, mut slope) = (call.tensor(0)?, call.tensor(1)?);
    let (rank, given) = (x.check()?.shape.rank(), &slope.check()?.shape);
    if call.opset() < 7 && given.rank() == 1 && rank > 2 && given[0] == x.shape()[1] {
        let dims: Vec<usize> = [&given[..], &vec![1; rank - 2]].concat();
        slope = slope.reshape(super::shape(&dims)?);
    }
    Ok(x.less(&x.scalar(0.0)).where_(&(&x * slope), &x))
}

fn selu(call: &Call<'_>) -> Result<Tensor> {
    let (alpha, gamma) = (call.float("alpha", 1.673_263_2)?, call.float("gamma", 1.050_701)?);
    Ok(call.tensor(0)?.elu(alpha) * gamma)
}

/// Towards 0 by the bias, and 0 within the bound.
fn shrink(call: &Call<'_>) -> Result<Tensor> {
    let (x, bias, bound) = (call.tensor(0)?, call.float("bias", 0.0)?, call.float("lambd", 0.5)?);
    let dtype = x.check()?.dtype;
    let over = if dtype.is_float() { x.clone() } else { x.cast(DType::F32) };
    let (below, above) = (over.less(&over.scalar(-bound)), over.greater(&over.scalar(bound)));
    let rest = above.where_(&(&over - bias), &over.scalar(0.0));
    Ok(below.where_(&(&over + bias), &rest).cast(dtype))
}

fn thresholded_relu(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let bound = x.scalar(call.float("alpha", 1.0)?);
    Ok(x.greater(&bound).where_(&x, &x.scalar(0.0)))
}
