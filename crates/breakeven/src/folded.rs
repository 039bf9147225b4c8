//! Folds of rows that one call writes down: one node, which becomes two when somebody has to look at its parts.

use std::panic::Location;

use breakeven_ir::{CallError, Fold, Op, Params, Reduce, Row, Spec};
use smallvec::smallvec;

use crate::maps::fit;
use crate::reduce::Axes;
use crate::tensor::{Inputs, Node, State, given};
use crate::{Engine, Tensor};

/// A fold of a row over `inputs`. No tensor stands for the row's result, so nobody else can ask for it.
#[derive(Clone)]
pub(crate) struct Folded {
    pub row: Row,
    pub params: Params,
    pub reduce: Reduce,
    pub inputs: Inputs,
}

impl Tensor {
    /// The fold, over axes, of a row without parameters over this tensor and `others`: what `row`, then `fold` would give.
    pub(crate) fn folded(
        &self,
        row: Row,
        others: &[&Tensor],
        (fold, axes): (Fold, &Axes),
        at: &'static Location<'static>,
    ) -> Tensor {
        let mut inputs: Inputs = smallvec![self.clone()];
        inputs.extend(others.iter().map(|&t| t.clone()));
        fit(row, &mut inputs, at);
        let engine = self.0.engine.clone();
        let params = Params::new();
        let reduce = mapped(row, &params, &inputs, &engine).and_then(|spec| reduced(fold, axes, &spec));
        match reduce {
            Ok((reduce, spec)) => {
                let state = State::Folded(Folded { row, params, reduce, inputs });
                Node::tensor(engine, Ok(spec), None, state)
            }
            Err(error) => Tensor::wrong(&engine, error.at(at)),
        }
    }
}

/// What the row gives.
fn mapped(row: Row, params: &Params, inputs: &[Tensor], engine: &Engine) -> Result<Spec, CallError> {
    Op::Map(row, params.clone()).spec(&given(inputs, engine, row.name)?)
}

/// A fold of `spec`, and what it gives.
fn reduced(fold: Fold, axes: &Axes, spec: &Spec) -> Result<(Reduce, Spec), CallError> {
    let axes = axes.of(fold.name(), spec.shape.rank()).map_err(|error| error.of(&[spec]))?;
    let reduce = Reduce { fold, axes };
    let folded = Op::Reduce(reduce.clone()).spec(&[spec])?;
    Ok((reduce, folded))
}

impl Node {
    /// From now on a tensor of its own stands for the row that it folds.
    pub(crate) fn unfold(&self) {
        let mut state = self.state();
        let State::Folded(Folded { row, params, reduce, inputs }) = &*state else { return };
        let spec = mapped(*row, params, inputs, &self.engine).expect("it was right when it was written down");
        let row = State::Recipe(Op::Map(*row, params.clone()), inputs.clone());
        let row = Node::tensor(self.engine.clone(), Ok(spec), None, row);
        *state = State::Recipe(Op::Reduce(reduce.clone()), smallvec![row]);
    }
}
