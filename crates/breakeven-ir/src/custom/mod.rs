//! Operations of the user's own: a name, a shape rule, a work estimate, and code for the devices that shall run them.

mod call;
mod wgsl;

pub use call::{CustomInputs, CustomOutputs};
pub use wgsl::{Invocations, Wgsl};

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::{CallError, DType, Spec, Tolerance};

type Rule = dyn Fn(&[&Spec]) -> Result<Vec<Spec>, CallError> + Send + Sync;
type Estimate = dyn Fn(&[&Spec], &[&Spec]) -> u64 + Send + Sync;
type Closure = dyn Fn(&CustomInputs<'_>, &mut CustomOutputs<'_>) + Send + Sync;

/// An operation of your own. It needs code for at least one sort of device, and runs on those alone for which it has some:
/// a closure for the CPU, WGSL for GPUs. Where it has both they must agree, within [`CustomOp::tolerance`].
///
/// Clones are the same operation, and two operations that were made apart are never taken for one, whatever their names. A
/// method that changes a clone makes another operation of it.
///
/// ```
/// use breakeven_ir::{CustomOp, DType, Spec, Wgsl};
///
/// let flip_bits = CustomOp::new("flip_bits", |inputs| Ok(vec![inputs[0].clone()]))
///     .cpu(|inputs, outputs| {
///         for (bits, out) in inputs.get::<u32>(0).iter().zip(outputs.take::<u32>(0)) {
///             *out = bits.reverse_bits();
///         }
///     })
///     .wgsl(Wgsl::for_each_element("return reverseBits(load0(i));"));
/// let spec = Spec::new(DType::U32, [8]);
/// assert_eq!(flip_bits.specs(0, &[&spec]), Ok(vec![spec.clone()]));
/// ```
#[derive(Clone)]
pub struct CustomOp(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    name: &'static str,
    rule: Arc<Rule>,
    params: Vec<DType>,
    flops: Option<Arc<Estimate>>,
    tolerance: Tolerance,
    cpu: Option<Arc<Closure>>,
    wgsl: Option<Wgsl>,
}

impl CustomOp {
    /// An operation that explanations, errors and the profile call `name`. `rule` gives element type and shape of each
    /// output, of which there is at least one, or says why the inputs do not fit.
    pub fn new(
        name: &'static str,
        rule: impl Fn(&[&Spec]) -> Result<Vec<Spec>, CallError> + Send + Sync + 'static,
    ) -> CustomOp {
        let (rule, tolerance) = (Arc::new(rule), Tolerance::EXACT);
        CustomOp(Arc::new(Parts { name, rule, params: Vec::new(), flops: None, tolerance, cpu: None, wgsl: None }))
    }

    /// It takes parameters of these types: numbers that are given with each call and passed as data.
    #[must_use]
    pub fn params(self, dtypes: impl Into<Vec<DType>>) -> CustomOp {
        let dtypes = dtypes.into();
        self.with(|parts| parts.params = dtypes)
    }

    /// How many arithmetic operations it takes for inputs and outputs of these specs; one for each element of its outputs
    /// where nothing is said. The bytes that it moves follow from its inputs and outputs.
    #[must_use]
    pub fn flops(self, estimate: impl Fn(&[&Spec], &[&Spec]) -> u64 + Send + Sync + 'static) -> CustomOp {
        self.with(|parts| parts.flops = Some(Arc::new(estimate)))
    }

    /// How far float results of one device may lie from those of another; not at all where nothing is said.
    #[must_use]
    pub fn within(self, tolerance: Tolerance) -> CustomOp {
        self.with(|parts| parts.tolerance = tolerance)
    }

    /// What the CPU runs, on the thread that reads the result: inputs and outputs lie densely, in row-major order; outputs
    /// are full of zeros. A panic becomes the error of whoever asked for the result.
    #[must_use]
    pub fn cpu(self, run: impl Fn(&CustomInputs<'_>, &mut CustomOutputs<'_>) + Send + Sync + 'static) -> CustomOp {
        self.with(|parts| parts.cpu = Some(Arc::new(run)))
    }

    /// What GPUs run.
    #[must_use]
    pub fn wgsl(self, code: Wgsl) -> CustomOp {
        self.with(|parts| parts.wgsl = Some(code))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> CustomOp {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// As explanations, errors and the profile call it.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Types of its parameters.
    pub fn param_types(&self) -> &[DType] {
        &self.0.params
    }

    /// How far float results of one device may lie from those of another.
    pub fn tolerance(&self) -> Tolerance {
        self.0.tolerance
    }

    /// True when the CPU can run it.
    pub fn has_cpu(&self) -> bool {
        self.0.cpu.is_some()
    }

    /// What GPUs run, where there is something.
    pub fn wgsl_code(&self) -> Option<&Wgsl> {
        self.0.wgsl.as_ref()
    }

    /// Specs of its outputs for these inputs and so many parameters.
    ///
    /// # Errors
    /// What the shape rule says; that it or the work estimate panics; and where tensors without elements meet others.
    pub fn specs(&self, params: usize, inputs: &[&Spec]) -> Result<Vec<Spec>, CallError> {
        let wrong = |message: String| Err(CallError::new(self.name(), message));
        if params != self.0.params.len() {
            return wrong(format!("takes {} parameters, not {params}", self.0.params.len()));
        }
        let ruled = catch_unwind(AssertUnwindSafe(|| (self.0.rule)(inputs)));
        let outputs = ruled.unwrap_or_else(|panic| wrong(format!("its shape rule panicked: {}", said(&*panic))))?;
        let empty = outputs.iter().filter(|spec| spec.shape.is_empty()).count();
        if outputs.is_empty() || outputs.len() > usize::from(u8::MAX) {
            return wrong(format!("its shape rule gives {} outputs; it must give 1 to 255", outputs.len()));
        }
        if empty != 0 && empty != outputs.len() {
            return wrong("either all of its outputs have elements or none has".to_owned());
        }
        if empty == 0 && inputs.iter().any(|spec| spec.shape.is_empty()) {
            return wrong("takes no tensor without elements where its outputs have some".to_owned());
        }
        // Planning asks for the estimate again, where there is nobody to tell of a panic.
        let estimate = || self.count_flops(inputs, &outputs.iter().collect::<Vec<_>>());
        match catch_unwind(AssertUnwindSafe(estimate)) {
            Ok(_) => Ok(outputs),
            Err(panic) => wrong(format!("its work estimate panicked: {}", said(&*panic))),
        }
    }

    /// Arithmetic operations for inputs and outputs of these specs.
    pub fn count_flops(&self, inputs: &[&Spec], outputs: &[&Spec]) -> u64 {
        match &self.0.flops {
            Some(estimate) => estimate(inputs, outputs),
            None => outputs.iter().map(|spec| spec.shape.elements() as u64).sum(),
        }
    }

    /// Runs the closure for the CPU.
    ///
    /// # Errors
    /// What it panicked with, or that there is none.
    pub fn run(&self, inputs: &CustomInputs<'_>, outputs: &mut CustomOutputs<'_>) -> Result<(), String> {
        let run = self.0.cpu.as_ref().ok_or("no CPU closure was given")?;
        catch_unwind(AssertUnwindSafe(|| run(inputs, outputs))).map_err(|panic| said(&*panic))
    }
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

/// Equal only to clones of itself.
impl PartialEq for CustomOp {
    fn eq(&self, other: &CustomOp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CustomOp {}

impl fmt::Debug for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomOp({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruled(rule: fn(&[&Spec]) -> Result<Vec<Spec>, CallError>, inputs: &[&Spec]) -> String {
        CustomOp::new("own", rule).specs(0, inputs).unwrap_err().to_string()
    }

    #[test]
    fn a_rule_that_is_wrong_or_panics_is_an_error_of_the_call() {
        let (four, none) = (Spec::new(DType::F32, [4]), Spec::new(DType::F32, [0]));
        assert_eq!(ruled(|_| Ok(vec![]), &[&four]), "own: its shape rule gives 0 outputs; it must give 1 to 255");
        assert!(ruled(|specs| Ok(vec![specs[1].clone()]), &[&four]).contains("its shape rule panicked: index out of"));
        assert!(ruled(|specs| Ok(vec![specs[0].clone(), specs[1].clone()]), &[&four, &none]).contains("or none has"));
        assert!(ruled(|specs| Ok(vec![specs[1].clone()]), &[&none, &four]).contains("without elements"));
    }

    #[test]
    fn a_changed_clone_is_another_operation() {
        let one = CustomOp::new("own", |specs| Ok(vec![specs[0].clone()]));
        assert_eq!(one, one.clone());
        assert_ne!(one, one.clone().params([DType::U32]));
        assert_ne!(one, CustomOp::new("own", |specs| Ok(vec![specs[0].clone()])));
    }
}
