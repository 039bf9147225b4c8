//! Data in and out of tensors.

use std::future::Future;
use std::sync::Arc;

use breakeven_device::{Deadline, HostBytes};
use breakeven_ir::{CallError, DType, Element, Shape, Spec};

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
    /// deadline.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let spec = self.typed::<T>()?;
        self.0.engine.room(spec)?;
        match self.0.engine.read_small(self) {
            Some(read) => read.map(|(value, bytes)| value.elements(&bytes)),
            None => self.to_vec_by(self.0.engine.deadline()),
        }
    }

    /// The elements in row-major order, or `Timeout` once the deadline has passed.
    pub fn to_vec_by<T: Element>(&self, deadline: Deadline) -> Result<Vec<T>> {
        let spec = self.typed::<T>()?;
        if spec.shape.is_empty() {
            return Ok(Vec::new());
        }
        self.0.engine.room(spec)?;
        let (value, bytes) = self.0.engine.read(self, deadline)?;
        Ok(value.elements(&bytes))
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
            return self.0.engine.read_into(self, out, deadline);
        }
        Ok(())
    }

    /// The elements in row-major order, as a `Future`; devices work meanwhile.
    pub fn read<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + Send + 'static {
        let tensor = self.clone();
        let deadline = self.0.engine.deadline();
        let started = self.typed::<T>().map(|_| ()).and_then(|()| self.0.engine.start(self, deadline));
        async move {
            if let Some(pending) = started? {
                pending.finish().await;
            }
            tensor.to_vec_by(deadline)
        }
    }

    /// The only element.
    pub fn item<T: Element>(&self) -> Result<T> {
        let all = self.to_vec::<T>()?;
        match all.as_slice() {
            [one] => Ok(*one),
            _ => Err(CallError::new("item", format!("the tensor has {} elements, not one", all.len())).into()),
        }
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
        let bytes = value.copies().host.clone()?;
        match value.spec.dtype {
            DType::I64 => Some(value.elements::<i64>(&bytes)),
            DType::I32 => Some(value.elements::<i32>(&bytes).into_iter().map(i64::from).collect()),
            _ => None,
        }
    }
}
