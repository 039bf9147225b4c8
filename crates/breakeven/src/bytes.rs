//! Tensors from bytes and to bytes, whatever their element type: what files of other formats hold.

use std::sync::Arc;

use breakeven_device::HostBytes;
use breakeven_ir::{CallError, DType, Spec};

use crate::value::Value;
use crate::{Engine, Result, Tensor};

impl Engine {
    /// A tensor of little-endian elements in row-major order, as a `.npy` file or an ONNX initialiser stores them. The
    /// bytes are copied only where they do not lie aligned to their element type.
    ///
    /// A wrong number of bytes, and truth values other than 0 and 1, are errors.
    ///
    /// ```
    /// use breakeven::{DType, Engine, Spec};
    ///
    /// let engine = Engine::builder().gpus(false).build()?;
    /// let halves = engine.tensor_from_bytes(Spec::new(DType::F16, [2]), vec![0x00u8, 0x3c, 0x00, 0xc0])?;
    /// assert_eq!(halves.cast(DType::F32).to_vec::<f32>()?, [1.0, -2.0]);
    /// assert_eq!(halves.to_bytes()?, [0x00, 0x3c, 0x00, 0xc0]);
    /// # Ok::<(), breakeven::Error>(())
    /// ```
    pub fn tensor_from_bytes(&self, spec: Spec, bytes: impl Into<HostBytes>) -> Result<Tensor> {
        let bytes = bytes.into();
        let wrong = |message: String| Err(CallError::new("tensor_from_bytes", message).into());
        if !spec.is_addressable() || bytes.len() as u64 != spec.bytes() {
            return wrong(format!("{spec} needs {} bytes, {} were given", spec.bytes(), bytes.len()));
        }
        if !are_elements(&bytes, spec.dtype) {
            return wrong(format!("{spec} was given truth values that are neither 0 nor 1"));
        }
        let bytes = aligned(bytes, spec.dtype);
        Ok(Tensor::from_value(self, Arc::new(Value::on_host(spec, bytes))))
    }
}

impl Tensor {
    /// The elements as little-endian bytes in row-major order, without padding, for any element type. Computes them if
    /// they are not there, and waits no longer than the engine's deadline.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let spec = self.check()?;
        if spec.shape.is_empty() {
            return Ok(Vec::new());
        }
        self.0.engine.room(spec)?;
        let (value, bytes) = self.0.engine.read(self, self.0.engine.patience())?;
        Ok(value.dense_bytes(&bytes))
    }

    /// As [`Tensor::to_bytes`] (little-endian, row-major order, no padding), in the memory where they lie: nothing is copied that lies in
    /// order. Of a value that a GPU computed this is the memory that the GPU wrote, from 64 KiB on, and that it gets back when nobody holds
    /// it any more.
    ///
    /// # Errors
    /// What was wrong with the call that wrote this tensor down, and what kept it from being computed.
    pub fn host_bytes(&self) -> Result<HostBytes> {
        let spec = self.check()?;
        if spec.shape.is_empty() {
            return Ok(HostBytes::from_vec(Vec::<u8>::new()));
        }
        self.0.engine.room(spec)?;
        let (value, bytes) = self.0.engine.read(self, self.0.engine.patience())?;
        Ok(value.dense_host(&bytes))
    }
}

/// True when every element is one that `dtype` has: a bool is 0 or 1.
pub(crate) fn are_elements(bytes: &[u8], dtype: DType) -> bool {
    dtype != DType::Bool || bytes.iter().all(|&byte| byte <= 1)
}

/// What devices that work in the host's memory ask for at least.
const LEAST_ALIGNMENT: usize = 4;

/// The same bytes where elements of `dtype` may be read in place.
pub(crate) fn aligned(bytes: HostBytes, dtype: DType) -> HostBytes {
    bytes.aligned(dtype.bytes().max(LEAST_ALIGNMENT))
}
