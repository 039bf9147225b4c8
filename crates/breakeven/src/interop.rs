//! Tensors from `ndarray` and back; feature `ndarray`.

use std::panic::Location;

use breakeven_ir::{Element, Shape};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::{Engine, Error, Result, Tensor};

impl Engine {
    /// A tensor with the elements of an array or view of any strides; an array of more axes than a tensor can have gives
    /// a tensor that carries the error.
    ///
    /// ```
    /// let engine = breakeven::Engine::builder().gpus(false).build()?;
    /// let columns = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]].reversed_axes();
    /// let doubled = engine.from_ndarray(&columns) * 2.0;
    /// assert_eq!(doubled.to_ndarray::<f32>()?, (&columns * 2.0).into_dyn());
    /// # Ok::<(), breakeven::Error>(())
    /// ```
    #[track_caller]
    pub fn from_ndarray<T: Element>(&self, array: &ArrayBase<impl Data<Elem = T>, impl Dimension>) -> Tensor {
        match Shape::new(array.shape()) {
            Ok(shape) => self.from_vec(array.iter().copied().collect::<Vec<T>>(), shape),
            Err(error) => Tensor::wrong(self, error.at(Location::caller())),
        }
    }
}

impl Tensor {
    /// The value as an array in row-major order.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let elements = self.to_vec::<T>()?;
        let shape = IxDyn(&self.check()?.shape);
        ArrayD::from_shape_vec(shape, elements).map_err(|error| Error::Placement(error.to_string()))
    }
}
