//! Data in and out of tensors.

use std::future::Future;
use std::sync::Arc;

use breakeven_device::{Deadline, HostBytes};
use breakeven_ir::{CallError, DType, Element, Shape, Spec};

use crate::patience::Patience;
use crate::tensor::State;
use crate::value::Value;
use crate::{Engine, Error, Result, Tensor};

impl Engine {
    /// Numbers in row-major order, copied. A wrong count makes a tensor that carries the error.
    #[track_caller]
    pub fn tensor(&self, data: &[f32], shape: impl Into<Shape>) -> Tensor {
        self.from_vec(data.to_vec(), shape)
    }

    /// Takes a vector without copying it.
    #[track_caller]
    pub fn from_vec<T: Element>(&self, data: Vec<T>, shape: impl Into<Shape>) -> Tensor {
        self.from_bytes(HostBytes::from_vec(data), Spec::new(T::DTYPE, shape))
    }

    /// Shares bytes without copying them: little-endian elements in row-major order, bools as 0 or 1.
    #[track_caller]
    pub fn from_bytes(&self, bytes: HostBytes, spec: Spec) -> Tensor {
        let at = std::panic::Location::caller();
        if spec.is_addressable() && bytes.len() as u64 == spec.bytes() {
            self.look_for_work_on(spec.bytes());
            return Tensor::from_value(self, Arc::new(Value::on_host(spec, bytes)));
        }
        let message = format!("{spec} needs {} bytes, {} were given", spec.bytes(), bytes.len());
        Tensor::wrong(self, CallError::new("tensor", message).at(at))
    }

    /// `value` everywhere, without storing it.
    #[track_caller]
    pub fn full(&self, dtype: DType, value: f64, shape: impl Into<Shape>) -> Tensor {
        Tensor::fill(self, dtype, value).broadcast_to(shape)
    }
}

impl Tensor {
    /// The elements in row-major order. Computes them if they are not there, and waits no longer than the engine's
    /// deadline. When a value is kept is told at [`Tensor::read_into`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        // The clock is read for work alone that is not small.
        self.elements_by(|| self.0.engine.patience())
    }

    /// The elements in row-major order, or `Timeout` once the deadline has passed.
    pub fn to_vec_by<T: Element>(&self, deadline: Deadline) -> Result<Vec<T>> {
        self.elements_by(|| Patience::Callers(deadline))
    }

    fn elements_by<T: Element>(&self, patience: impl FnOnce() -> Patience) -> Result<Vec<T>> {
        let spec = self.typed::<T>()?;
        if spec.shape.is_empty() {
            return Ok(Vec::new());
        }
        let engine = &self.0.engine;
        engine.room(spec)?;
        if let Some(all) = engine.vec_small(self) {
            return all;
        }
        let mut all = vec![T::default(); spec.shape.elements()];
        engine.bring(self, &mut all, patience())?;
        Ok(all)
    }

    /// Elements into memory of the caller's, in row-major order.
    ///
    /// A value that nothing else holds, of a graph that was computed before, is computed straight into that memory and not kept,
    /// until one value of that graph is wanted a second time: it is computed again, and they are kept from then on.
    pub fn read_into<T: Element>(&self, out: &mut [T], deadline: Deadline) -> Result<()> {
        let spec = self.check()?;
        let elements = spec.shape.elements();
        if out.len() != elements {
            let message = format!("the tensor has {elements} elements, the memory room for {}", out.len());
            return Err(CallError::new("read_into", message).into());
        }
        self.typed::<T>()?;
        if elements > 0 {
            self.0.engine.room(spec)?;
            return self.0.engine.read_into(self, out, || Patience::Callers(deadline));
        }
        Ok(())
    }

    /// The elements in row-major order, as a `Future`; devices work meanwhile, unless a driver has still to compile what they do: that begins when it
    /// is waited for.
    pub fn read<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + Send + 'static {
        let tensor = self.clone();
        let patience = self.0.engine.patience();
        let started = self.typed::<T>().map(|_| ()).and_then(|()| self.0.engine.start(self, patience));
        async move {
            if let Some(pending) = started? {
                pending.finish(patience).await;
            }
            tensor.elements_by(|| patience)
        }
    }

    /// The only element.
    pub fn item<T: Element>(&self) -> Result<T> {
        let elements = self.typed::<T>()?.shape.elements();
        if elements != 1 {
            return Err(CallError::new("item", format!("the tensor has {elements} elements, not one")).into());
        }
        let mut one = [T::default()];
        self.0.engine.read_into(self, &mut one, || self.0.engine.patience())?;
        Ok(one[0])
    }

    fn typed<T: Element>(&self) -> Result<&Spec> {
        let spec = self.check()?;
        if spec.dtype == T::DTYPE {
            return Ok(spec);
        }
        let message = format!("the tensor holds {}, not {}; cast it first", spec.dtype, T::DTYPE);
        Err(Error::Call(CallError::new("read", message)))
    }

    /// Indices that are known without computing anything: row-major i64.
    pub(crate) fn host_indices(&self) -> Option<Vec<i64>> {
        let State::Value(value) = &*self.0.state() else { return None };
        let bytes = value.host()?.clone();
        let copy = |from: &[u8], to: &mut [u8]| to.copy_from_slice(from);
        match value.spec.dtype {
            DType::I64 => Some(value.elements::<i64>(&bytes, copy)),
            DType::I32 => Some(value.elements::<i32>(&bytes, copy).into_iter().map(i64::from).collect()),
            _ => None,
        }
    }
}
