//! Compares a device's bytes with what the kernel may give.

use breakeven_device::Device;
use breakeven_ir::{DType, Expr, Item, Kernel, Layout, Operand, Scalar};

use crate::Case;
use crate::bounds::{Bound, Rules, bounds, zero_has_a_sign};
use crate::case::describe;

/// # Panics
/// At the first element that may not be what it is, and at the first byte that is no element's and was changed.
pub fn compare<B: AsRef<[u8]>>(device: &dyn Device, case: &Case, got: &[B], rules: Rules) {
    let inputs = case.inputs();
    let allowed = bounds(&case.kernel, &inputs, rules);
    let strict = zero_has_a_sign(&case.kernel, rules);
    let before = case.outputs();
    for (n, operand) in case.kernel.outputs().into_iter().enumerate() {
        let (got, before) = (got[n].as_ref(), &before[n]);
        let places = operand.layout.positions();
        assert_eq!(places.len(), allowed[n].len(), "{}: the suite's own bounds", case.name);
        for (element, (at, bound)) in places.zip(&allowed[n]).enumerate() {
            let is_right = is_allowed(operand.dtype, got, at, bound, strict);
            assert!(is_right, "{}", difference(device, case, n, element, got, bound));
        }
        untouched(device, case, operand, got, before);
    }
}

fn is_allowed(dtype: DType, bytes: &[u8], at: usize, bound: &Bound, strict: bool) -> bool {
    let is_truth = dtype != DType::Bool || bytes[at] <= 1;
    is_truth && bound.allows(Scalar::load(dtype, bytes, at), strict)
}

fn difference(device: &dyn Device, case: &Case, n: usize, element: usize, got: &[u8], bound: &Bound) -> String {
    let operand = case.kernel.outputs()[n];
    let at = operand.layout.positions().nth(element).expect("an element has a place");
    let inputs = case.inputs();
    let mut wanted = case.outputs();
    let mut places: Vec<&mut [u8]> = wanted.iter_mut().map(Vec::as_mut_slice).collect();
    case.kernel.reference(&inputs, &mut places);
    let want = Scalar::load(operand.dtype, &wanted[n], at);
    let operands = case.kernel.inputs();
    let same = operands.iter().zip(&inputs).filter(|(o, _)| o.layout.shape == operand.layout.shape);
    let fed: Vec<String> = same
        .filter_map(|(o, b)| {
            let value = Scalar::load(o.dtype, b, o.layout.positions().nth(element)?);
            Some(format!("{} {value:?}", o.dtype))
        })
        .collect();
    format!(
        "{}{} on {}: output {n}, element {element} of {}: got {:?}, want {want:?}, allowed {bound}; inputs there: {}; \
         params {:?}",
        case.name,
        rows(&case.kernel),
        device.info().name,
        describe(&operand.layout),
        Scalar::load(operand.dtype, got, at),
        fed.join(", "),
        case.kernel.params(),
    )
}

/// The rows of a kernel's expressions, where there is more than one.
fn rows(kernel: &Kernel) -> String {
    let exprs: Vec<&Expr> = match kernel {
        Kernel::Map(k) => vec![&k.expr],
        Kernel::Reduce(k) => vec![&k.pre, &k.post],
        Kernel::RowWise(k) => vec![&k.pre, &k.post],
        Kernel::MatMul(k) => vec![&k.post],
        Kernel::Conv(k) => vec![&k.post],
        Kernel::Attention(_)
        | Kernel::Scan(_)
        | Kernel::Gather(_)
        | Kernel::Scatter(_)
        | Kernel::Custom(_)
        | Kernel::Sort(_) => vec![],
    };
    let name = |(item, dtype): &(Item, DType)| match item {
        Item::Row(row, of) => Some(format!("{}{:?}", row.name, &of[..row.args.len()])),
        Item::Cast(of) => Some(format!("cast[{of}] to {dtype}")),
        _ => None,
    };
    let all: Vec<String> = exprs.iter().flat_map(|e| e.items().iter().filter_map(name)).collect();
    if all.len() > 1 { format!(" ({})", all.join(" ")) } else { String::new() }
}

/// What lies between and behind the elements of an output belongs to others.
fn untouched(device: &dyn Device, case: &Case, operand: &Operand, got: &[u8], before: &[u8]) {
    let width = operand.dtype.bytes();
    let mut own = vec![false; got.len()];
    Layout::positions(&operand.layout).for_each(|at| own[at * width..][..width].fill(true));
    let changed = (0..got.len()).find(|&i| !own[i] && got[i] != before[i]);
    assert!(
        changed.is_none(),
        "{} on {}: byte {} of the output's buffer is not an element of {} and was changed",
        case.name,
        device.info().name,
        changed.unwrap_or_default(),
        describe(&operand.layout)
    );
}
