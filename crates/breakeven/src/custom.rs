//! Custom operations: applied to tensors, compiled ahead, and measured.

use std::panic::Location;
use std::time::Duration;

use breakeven_device::{Deadline, HostBytes};
use breakeven_ir::{CallError, Custom, CustomOp, Kernel, Layout, Op, Operand, Spec};

use crate::{Engine, Error, Result, Tensor, calibrate};

impl Tensor {
    /// A custom operation of this tensor, `others` and `params`: one tensor for each of its outputs.
    ///
    /// ```
    /// use breakeven::{CustomOp, Engine, Spec, Wgsl};
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let halves = CustomOp::new("halves", |inputs| {
    ///     let half = Spec::new(inputs[0].dtype, [inputs[0].shape.elements() / 2]);
    ///     Ok(vec![half.clone(), half])
    /// })
    /// .cpu(|inputs, outputs| {
    ///     let (x, first) = (inputs.get::<f32>(0), outputs.take::<f32>(0));
    ///     first.copy_from_slice(&x[..first.len()]);
    ///     let second = outputs.take::<f32>(1);
    ///     second.copy_from_slice(&x[second.len()..]);
    /// })
    /// .wgsl(Wgsl::counted(
    ///     "store0(i, load0(i)); store1(i, load0(i + output0_len()));",
    ///     |_, outputs| outputs[0].shape.elements() as u64,
    /// ));
    ///
    /// let x = Engine::detect()?.tensor(&[1.0, 2.0, 3.0, 4.0], [4]);
    /// let [first, second] = x.custom(&halves, &[], &[]);
    /// assert_eq!((first + second).to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn custom<const N: usize>(&self, op: &CustomOp, others: &[&Tensor], params: &[f64]) -> [Tensor; N] {
        let at = Location::caller();
        let inputs: Vec<&Tensor> = [self].into_iter().chain(others.iter().copied()).collect();
        let first = Tensor::apply(Op::Custom(op.clone(), params.into()), &inputs, at);
        let specs = inputs.iter().map(|t| t.0.spec.as_ref().ok()).collect::<Option<Vec<&Spec>>>();
        let given = specs.and_then(|specs| op.specs(params.len(), &specs).ok()).map(|specs| specs.len());
        let first = match given {
            Some(given) if given != N => {
                let message = format!("gives {given} outputs, and {N} were asked for");
                Tensor::wrong(&self.0.engine, CallError::new(op.name(), message).at(at))
            }
            _ => first,
        };
        std::array::from_fn(|index| match index {
            0 => first.clone(),
            _ if first.0.spec.is_err() => first.clone(),
            _ => Tensor::apply(Op::Output(index as u8), &[&first], at),
        })
    }
}

/// A call of a custom operation that it is measured by.
#[derive(Clone, Copy, Debug)]
pub struct Example<'a> {
    /// Its inputs, whose values matter where they decide how much there is to do.
    pub inputs: &'a [&'a Tensor],
    /// Its parameters.
    pub params: &'a [f64],
}

impl Engine {
    /// Measures a custom operation on every open device that can run it, at the sizes of `examples`, which should span those
    /// that are wanted later. From then on it is placed by its own times, which the profile keeps under its name; until then it
    /// is priced as if it were elementwise.
    ///
    /// # Errors
    /// When an example is a wrong call, or a device fails.
    pub fn calibrate_custom(&self, op: &CustomOp, examples: &[Example<'_>]) -> Result<()> {
        let launches = examples.iter().map(|example| launch(op, example)).collect::<Result<Vec<_>>>()?;
        self.0.devices.look();
        let snapshot = self.0.devices.snapshot();
        for id in snapshot.ids() {
            let Some(device) = snapshot.device(id) else { continue };
            if launches.iter().any(|(kernel, _)| device.supports(kernel).is_err()) {
                continue;
            }
            let mut profile = snapshot.entry(id).profile.clone();
            let failed = |source| Error::Device { device: snapshot.entry(id).name.clone(), source };
            let curves = calibrate::measure_custom(&device, profile.dispatch, &launches).map_err(failed)?;
            profile.customs.insert(op.name().to_owned(), curves);
            self.0.devices.measured(id, profile);
        }
        // A search that has not ended keeps everything itself when it ends.
        let is_complete = self.0.devices.wait(Deadline::after(Duration::ZERO)).is_ok();
        if let Some(Err(why)) = self.0.file.as_ref().filter(|_| is_complete).map(|f| f.save(&self.profile())) {
            self.0.devices.note(why);
        }
        Ok(())
    }
}

/// What an example runs, and what that reads.
fn launch(op: &CustomOp, example: &Example<'_>) -> Result<(Kernel, Vec<HostBytes>)> {
    let specs = example.inputs.iter().map(|t| t.check().cloned()).collect::<Result<Vec<Spec>>>()?;
    let outputs = op.specs(example.params.len(), &specs.iter().collect::<Vec<_>>())?;
    let bytes = example.inputs.iter().map(|t| t.to_bytes().map(HostBytes::from_vec)).collect::<Result<_>>()?;
    Ok((Kernel::Custom(dense(op, &specs, &outputs, example.params)), bytes))
}

/// Compiles the WGSL of a custom operation for inputs of these specs, without a GPU, so that a mistake in it is found where
/// the operation is made. Planning finds it too: it then says so and leaves the GPU out.
///
/// # Errors
/// What is wrong with the call or the code, naming the operation; that it has no WGSL.
pub fn compile_wgsl(op: &CustomOp, inputs: &[Spec], params: &[f64]) -> Result<()> {
    let outputs = op.specs(params.len(), &inputs.iter().collect::<Vec<_>>())?;
    let wrong = |why: breakeven_ir::Unsupported| CallError::new(op.name(), why.0);
    Ok(breakeven_wgpu::compile_custom(&dense(op, inputs, &outputs, params)).map_err(wrong)?)
}

/// The kernel over operands that lie densely.
fn dense(op: &CustomOp, inputs: &[Spec], outputs: &[Spec], params: &[f64]) -> Custom {
    let operands = |specs: &[Spec]| -> Vec<Operand> {
        specs.iter().map(|spec| Operand::new(spec.dtype, Layout::dense(spec.shape.clone()))).collect()
    };
    Custom { op: op.clone(), params: params.to_vec(), inputs: operands(inputs), outs: operands(outputs) }
}
