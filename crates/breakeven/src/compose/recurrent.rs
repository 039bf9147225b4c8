//! Recurrent networks, one direction at a time: the steps are unrolled, so the whole sequence is planned as one graph.

use std::panic::Location;

use breakeven_ir::{CallError, DType};

use super::{Activation, need};
use crate::{Result, Tensor, stack};

/// What all recurrent networks are told.
#[derive(Clone, Debug, Default)]
pub struct Sequence<'a> {
    /// Hidden state before the first step, `[batch, hidden]`; zeros where not given.
    pub hidden: Option<&'a Tensor>,
    /// Whether the sequence is read from its end.
    pub reverse: bool,
    /// Bound on what enters an activation.
    pub clip: Option<f64>,
    /// Steps of each sample, i32 or i64 of `[batch]`; results of later steps are 0.
    pub lengths: Option<&'a Tensor>,
}

/// Weights of a long short-term memory; gates lie in the order input, output, forget, cell.
#[derive(Clone, Debug)]
pub struct Lstm<'a> {
    /// `[4 * hidden, input]`
    pub input: &'a Tensor,
    /// `[4 * hidden, hidden]`
    pub recurrent: &'a Tensor,
    /// `[4 * hidden]`, the sum of both biases where there are two.
    pub bias: Option<&'a Tensor>,
    /// Weights from the cell to the input, output and forget gates, `[3 * hidden]`.
    pub peephole: Option<&'a Tensor>,
    /// Cell state before the first step, `[batch, hidden]`; zeros where not given.
    pub cell: Option<&'a Tensor>,
    /// Of the gates, of what enters the cell, and of the cell: sigmoid, tanh and tanh as a rule.
    pub activations: [Activation; 3],
    /// Whether the forget gate is one minus the input gate.
    pub couples_forget: bool,
}

/// Weights of a gated recurrent unit; gates lie in the order update, reset, hidden.
#[derive(Clone, Debug)]
pub struct Gru<'a> {
    /// `[3 * hidden, input]`
    pub input: &'a Tensor,
    /// `[3 * hidden, hidden]`
    pub recurrent: &'a Tensor,
    /// Biases of the input and of the recurrence, each `[3 * hidden]`.
    pub bias: Option<(&'a Tensor, &'a Tensor)>,
    /// Of the gates and of the hidden state: sigmoid and tanh as a rule.
    pub activations: [Activation; 2],
    /// Whether the recurrence is multiplied before the reset gate is applied, as cuDNN and torch do.
    pub resets_after: bool,
}

/// Weights of a simple recurrent network.
#[derive(Clone, Debug)]
pub struct Rnn<'a> {
    /// `[hidden, input]`
    pub input: &'a Tensor,
    /// `[hidden, hidden]`
    pub recurrent: &'a Tensor,
    /// `[hidden]`, the sum of both biases where there are two.
    pub bias: Option<&'a Tensor>,
    /// Of the hidden state: tanh as a rule.
    pub activation: Activation,
}

impl Tensor {
    /// Hidden states of all steps `[steps, batch, hidden]`, and the last hidden and cell state, for `[steps, batch, input]`.
    #[track_caller]
    pub fn lstm(&self, weights: &Lstm<'_>, how: &Sequence<'_>) -> Result<(Tensor, Tensor, Tensor)> {
        let run = Run::new("lstm", self, [weights.input, weights.recurrent], 4, how)?;
        let given = weights.bias.map_or_else(|| run.given.clone(), |bias| &run.given + bias);
        let peephole = weights.peephole.map(|p| p.split(-1, &[run.hidden; 3]));
        let [gate, entry, exit] = weights.activations;
        let zero = run.zeros();
        let states = [how.hidden.unwrap_or(&zero).clone(), weights.cell.unwrap_or(&zero).clone()];
        let (all, [hidden, cell]) = run.steps(&given, states, |x, [hidden, cell]| {
            let sums = x + hidden.matmul(&weights.recurrent.t());
            let parts = sums.split(-1, &[run.hidden; 4]);
            let peek = |part: &Tensor, at: usize, cell: &Tensor| {
                peephole.as_ref().map_or(part.clone(), |p| part + &p[at] * cell)
            };
            let input = gate.of(&run.clipped(&peek(&parts[0], 0, cell)));
            let forget =
                if weights.couples_forget { 1.0 - &input } else { gate.of(&run.clipped(&peek(&parts[2], 2, cell))) };
            let cell = forget * cell + &input * entry.of(&run.clipped(&parts[3]));
            let output = gate.of(&run.clipped(&peek(&parts[1], 1, &cell)));
            [output * exit.of(&cell), cell]
        });
        Ok((all, hidden, cell))
    }

    /// Hidden states of all steps `[steps, batch, hidden]`, and the last one, for `[steps, batch, input]`.
    #[track_caller]
    pub fn gru(&self, weights: &Gru<'_>, how: &Sequence<'_>) -> Result<(Tensor, Tensor)> {
        let run = Run::new("gru", self, [weights.input, weights.recurrent], 3, how)?;
        let n = run.hidden;
        let given = weights.bias.map_or_else(|| run.given.clone(), |(bias, _)| &run.given + bias);
        let matrices = weights.recurrent.split(0, &[2 * n, n]);
        let biases = weights.bias.map(|(_, bias)| bias.split(0, &[2 * n, n]));
        let times = |x: &Tensor, part: usize| {
            let product = x.matmul(&matrices[part].t());
            biases.as_ref().map_or_else(|| product.clone(), |bias| &product + &bias[part])
        };
        let [gate, entry] = weights.activations;
        let (all, [hidden]) = run.steps(&given, [how.hidden.unwrap_or(&run.zeros()).clone()], |x, [hidden]| {
            let parts = x.split(-1, &[2 * n, n]);
            let gates = gate.of(&run.clipped(&(&parts[0] + times(hidden, 0)))).split(-1, &[n, n]);
            let (update, reset) = (&gates[0], &gates[1]);
            let seen = if weights.resets_after { reset * times(hidden, 1) } else { times(&(reset * hidden), 1) };
            let new = entry.of(&run.clipped(&(&parts[1] + seen)));
            [(1.0 - update) * new + update * hidden]
        });
        Ok((all, hidden))
    }

    /// Hidden states of all steps `[steps, batch, hidden]`, and the last one, for `[steps, batch, input]`.
    #[track_caller]
    pub fn rnn(&self, weights: &Rnn<'_>, how: &Sequence<'_>) -> Result<(Tensor, Tensor)> {
        let run = Run::new("rnn", self, [weights.input, weights.recurrent], 1, how)?;
        let given = weights.bias.map_or_else(|| run.given.clone(), |bias| &run.given + bias);
        let (all, [hidden]) = run.steps(&given, [how.hidden.unwrap_or(&run.zeros()).clone()], |x, [hidden]| {
            [weights.activation.of(&run.clipped(&(x + hidden.matmul(&weights.recurrent.t()))))]
        });
        Ok((all, hidden))
    }
}

/// A sequence being read.
struct Run<'a> {
    how: &'a Sequence<'a>,
    /// Input times input weights, all steps at once.
    given: Tensor,
    batch: usize,
    hidden: usize,
}

impl<'a> Run<'a> {
    #[track_caller]
    fn new(
        operation: &'static str,
        x: &Tensor,
        [input, recurrent]: [&Tensor; 2],
        gates: usize,
        how: &'a Sequence<'a>,
    ) -> Result<Run<'a>> {
        let at = Location::caller();
        let shapes = (x.check()?, input.check()?, recurrent.check()?);
        let (x_shape, w, r) = (&shapes.0.shape, &shapes.1.shape, &shapes.2.shape);
        let hidden = r.get(1).copied().unwrap_or(0);
        let fits = x_shape.rank() == 3
            && r[..] == [hidden.saturating_mul(gates), hidden]
            && w[..] == [hidden.saturating_mul(gates), x_shape[2]]
            && x_shape[0] > 0;
        let text = || format!("takes [steps, batch, input], [{gates} * hidden, input] and [{gates} * hidden, hidden]");
        let error = |e: CallError| e.of(&[shapes.0, shapes.1, shapes.2]).at(at);
        need(fits, operation, text).map_err(error)?;
        let given = x.matmul(&input.t());
        given.check()?;
        Ok(Run { how, given, batch: x_shape[1], hidden })
    }

    fn zeros(&self) -> Tensor {
        self.given.engine().full(self.given.dtype(), 0.0, [self.batch, self.hidden])
    }

    fn clipped(&self, x: &Tensor) -> Tensor {
        self.how.clip.map_or_else(|| x.clone(), |most| x.clip(-most, most))
    }

    /// Goes through the steps; gives the first state after each of them, and all states after the last.
    fn steps<const N: usize>(
        &self,
        given: &Tensor,
        mut states: [Tensor; N],
        next: impl Fn(&Tensor, &[Tensor; N]) -> [Tensor; N],
    ) -> (Tensor, [Tensor; N]) {
        let Ok(spec) = given.check() else { return (given.clone(), states) };
        let count = spec.shape[0];
        let lengths = self.how.lengths.map(|n| n.cast(DType::I32).unsqueeze(-1));
        let mut all = vec![None; count];
        for turn in 0..count {
            let step = if self.how.reverse { count - 1 - turn } else { turn };
            let new = next(&given.slice(0, step..=step).squeeze(0), &states);
            let alive = lengths.as_ref().map(|n| n.greater(&n.scalar(step as f64)));
            let shown = alive.as_ref().map_or_else(|| new[0].clone(), |a| a.where_(&new[0], &new[0].scalar(0.0)));
            all[step] = Some(shown);
            states = match &alive {
                None => new,
                Some(alive) => std::array::from_fn(|i| alive.where_(&new[i], &states[i])),
            };
        }
        let all: Vec<Tensor> = all.into_iter().flatten().collect();
        (stack(&all.iter().collect::<Vec<_>>(), 0), states)
    }
}
