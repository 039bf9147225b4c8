//! Values that models take and give, and values while a model runs.

use std::sync::{Arc, OnceLock};

use breakeven::{DType, Engine, HostBytes, Tensor};

use crate::host;

/// What a model takes or gives.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A list of values.
    Sequence(Vec<Value>),
    /// A value that may be absent.
    Optional(Option<Box<Value>>),
}

impl Value {
    /// The tensor, unless it is something else.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Optional(Some(value)) => value.tensor(),
            _ => None,
        }
    }

    /// Every tensor in it, in order.
    pub fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Value::Tensor(tensor) => vec![tensor],
            Value::Sequence(values) => values.iter().flat_map(Value::tensors).collect(),
            Value::Optional(value) => value.iter().flat_map(|v| v.tensors()).collect(),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Value {
        Value::Tensor(tensor.clone())
    }
}

/// A value while the model runs.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Computed from the model's inputs.
    Tensor(Tensor),
    /// Known without the elements of any input.
    Constant(Arc<Constant>),
    Sequence(Vec<Item>),
    Optional(Option<Box<Item>>),
}

impl From<Tensor> for Item {
    fn from(tensor: Tensor) -> Item {
        Item::Tensor(tensor)
    }
}

impl Item {
    /// Whether no element of a model's input went into it.
    pub fn is_constant(&self) -> bool {
        match self {
            Item::Tensor(_) => false,
            Item::Constant(_) => true,
            Item::Sequence(items) => items.iter().all(Item::is_constant),
            Item::Optional(item) => item.as_ref().is_none_or(|item| item.is_constant()),
        }
    }

    /// The same value as an input of a subgraph or function: what follows from it there differs from call to call.
    pub fn given(self) -> Item {
        match self {
            Item::Constant(constant) if constant.fixed => Item::Constant(Arc::new(constant.given())),
            Item::Sequence(items) => Item::Sequence(items.into_iter().map(Item::given).collect()),
            Item::Optional(item) => Item::Optional(item.map(|item| Box::new(item.given()))),
            item => item,
        }
    }

    /// Whether it depends on the model alone, not even on the shapes of inputs.
    pub fn is_fixed(&self) -> bool {
        match self {
            Item::Tensor(_) => false,
            Item::Constant(constant) => constant.fixed,
            Item::Sequence(items) => items.iter().all(Item::is_fixed),
            Item::Optional(item) => item.as_ref().is_none_or(|item| item.is_fixed()),
        }
    }
}

/// A tensor of the engine that folds constants, and its twin on the engine that runs the model.
#[derive(Debug)]
pub(crate) struct Constant {
    pub tensor: Tensor,
    /// It depends on the model alone.
    pub fixed: bool,
    /// Bytes that are there already: those of the file.
    bytes: Option<HostBytes>,
    moved: Arc<OnceLock<Tensor>>,
}

impl Constant {
    /// A tensor that was or will be folded.
    pub fn new(tensor: Tensor, fixed: bool) -> Constant {
        Constant { tensor, fixed, bytes: None, moved: Arc::default() }
    }

    /// A tensor of the file.
    pub fn of_file(tensor: Tensor, bytes: HostBytes) -> Constant {
        Constant { bytes: Some(bytes), ..Constant::new(tensor, true) }
    }

    fn given(&self) -> Constant {
        let Constant { tensor, bytes, moved, .. } = self;
        Constant { tensor: tensor.clone(), fixed: false, bytes: bytes.clone(), moved: moved.clone() }
    }

    /// The same elements on `engine`, which is always the same one for this constant.
    pub fn on(&self, engine: &Engine) -> breakeven::Result<Tensor> {
        if let Some(moved) = self.moved.get() {
            return Ok(moved.clone());
        }
        let moved = self.moved_to(engine)?;
        Ok(self.moved.get_or_init(|| moved).clone())
    }

    /// A single number becomes part of the kernels that use it; more is handed over as bytes.
    fn moved_to(&self, engine: &Engine) -> breakeven::Result<Tensor> {
        let spec = self.tensor.check()?.clone();
        if spec.shape.elements() == 1 && !matches!(spec.dtype, DType::Bool) {
            let number = host::floats(&self.tensor)?[0];
            let is_exact = !matches!(spec.dtype, DType::I64 | DType::U64) || number.abs() < 9e15;
            if number.is_finite() && is_exact {
                return Ok(engine.full(spec.dtype, number, spec.shape));
            }
        }
        let bytes = match &self.bytes {
            Some(bytes) => bytes.clone(),
            None => self.tensor.to_bytes()?.into(),
        };
        engine.tensor_from_bytes(spec, bytes)
    }
}
