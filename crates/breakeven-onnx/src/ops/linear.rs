//! Contractions by index, determinants and reinterpreted bits.

use breakeven::{Spec, Tensor, einsum};

use super::{Operator, one, shape};
use crate::call::{Call, Result};
use crate::error::wrong;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("BitCast", &["to"], bit_cast),
    one("Det", &[], determinant),
    one("Einsum", &["equation"], |c| {
        let tensors = c.tensors()?;
        if tensors.is_empty() {
            return wrong("takes at least one tensor");
        }
        Ok(einsum(c.text("equation", "")?, &tensors.iter().collect::<Vec<_>>()))
    }),
];

/// The same bits as another type of the same width; they pass through the host.
fn bit_cast(call: &Call<'_>) -> Result<Tensor> {
    let Some(dtype) = call.dtype("to")? else { return wrong("does not say as which type") };
    let spec = call.spec(0)?;
    if dtype.bytes() != spec.dtype.bytes() {
        return wrong(format!("{spec} has elements of another width than {dtype}"));
    }
    let bytes = call.readable(call.item(0)?)?.to_bytes()?;
    Ok(call.engine().tensor_from_bytes(Spec::new(dtype, spec.shape), bytes)?)
}

/// By elimination in f64, on the host.
fn determinant(call: &Call<'_>) -> Result<Tensor> {
    let spec = call.spec(0)?;
    let (&[ref lead @ .., rows, columns], all) = (&spec.shape[..], call.floats(0)?) else {
        return wrong(format!("takes matrices, not {spec}"));
    };
    if rows != columns {
        return wrong(format!("takes square matrices, not {spec}"));
    }
    let count = shape(lead)?.elements();
    call.room(count, size_of::<f64>())?;
    let one = |i: usize| eliminated(all[i * rows * rows..][..rows * rows].to_vec(), rows);
    Ok(call.made((0..count).map(one).collect::<Vec<f64>>(), shape(lead)?).cast(spec.dtype))
}

fn eliminated(mut a: Vec<f64>, n: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..n {
        let largest = (column..n).max_by(|&i, &j| a[i * n + column].abs().total_cmp(&a[j * n + column].abs()));
        let Some(pivot) = largest.filter(|&i| a[i * n + column] != 0.0) else { return 0.0 };
        if pivot != column {
            (0..n).for_each(|k| a.swap(pivot * n + k, column * n + k));
            product = -product;
        }
        product *= a[column * n + column];
        for row in column + 1..n {
            let factor = a[row * n + column] / a[column * n + column];
            for k in column..n {
                a[row * n + k] -= factor * a[column * n + k];
            }
        }
    }
    product
}
