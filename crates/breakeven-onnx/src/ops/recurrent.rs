//! Recurrent networks: one or both directions of what the tensor library runs one at a time.

use breakeven::{Activation, Gru, Lstm, Rnn, Row, Sequence, Tensor, stack};

use super::{Operator, WRITTEN_DOWN, many};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

const SHARED: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "layout",
    "output_sequence",
];
const LSTM: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
    "layout",
    "output_sequence",
];
const GRU: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "layout",
    "linear_before_reset",
    "output_sequence",
];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[many("GRU", GRU, gru), many("LSTM", LSTM, lstm), many("RNN", SHARED, rnn)];

/// Inputs that all three have, with the steps on axis 0.
struct Layer {
    x: Tensor,
    input: Tensor,
    recurrent: Tensor,
    bias: Option<Tensor>,
    lengths: Option<Tensor>,
    hidden: Option<Tensor>,
    clip: Option<f64>,
    /// Which directions there are: true from the end.
    reverse: Vec<bool>,
    activations: Vec<Activation>,
    /// The batch comes before the steps.
    batch_first: bool,
}

/// What one direction gave: all hidden states, then the last states.
struct Direction {
    all: Tensor,
    last: Vec<Tensor>,
}

impl Layer {
    fn of(call: &Call<'_>, defaults: &[&str]) -> Result<Layer> {
        let batch_first = call.flag("layout", false)?;
        let turned = |t: Tensor| if batch_first { t.transpose(0, 1) } else { t };
        let reverse = match call.text("direction", "forward")? {
            "forward" => vec![false],
            "reverse" => vec![true],
            "bidirectional" => vec![false, true],
            other => return wrong(format!("has no direction '{other}'")),
        };
        let clip = call.float("clip", 0.0)?;
        let x = turned(call.tensor(0)?);
        call.room(x.check()?.shape.first().copied().unwrap_or(0), WRITTEN_DOWN)?;
        Ok(Layer {
            x,
            input: call.tensor(1)?,
            recurrent: call.tensor(2)?,
            bias: call.optional(3)?,
            lengths: call.optional(4)?,
            hidden: call.optional(5)?.map(turned),
            clip: (clip > 0.0).then_some(clip),
            activations: activations(call, defaults, reverse.len())?,
            reverse,
            batch_first,
        })
    }

    /// Both halves of the bias of direction `d`, of the input and of the recurrence.
    fn biases(&self, d: usize) -> Result<Option<(Tensor, Tensor)>> {
        let Some(bias) = &self.bias else { return Ok(None) };
        let half = bias.check()?.shape.get(1).copied().unwrap_or(0) / 2;
        let both = part(bias, d)?.split(0, &[half, half]);
        Ok(Some((both[0].clone(), both[1].clone())))
    }

    /// Runs `one` for each direction and joins what they gave.
    fn run(&self, one: impl Fn(usize, &Sequence<'_>) -> Result<Direction>) -> Result<Vec<Item>> {
        let mut directions = Vec::new();
        for (d, &reverse) in self.reverse.iter().enumerate() {
            let hidden = self.hidden.as_ref().map(|h| part(h, d)).transpose()?;
            let how = Sequence { hidden: hidden.as_ref(), reverse, clip: self.clip, lengths: self.lengths.as_ref() };
            directions.push(one(d, &how)?);
        }
        let all: Vec<&Tensor> = directions.iter().map(|d| &d.all).collect();
        let all = stack(&all, 1);
        let y = if self.batch_first { all.permute(&[2, 0, 1, 3]) } else { all };
        let mut outputs = vec![Item::Tensor(y)];
        for state in 0..directions[0].last.len() {
            let last: Vec<&Tensor> = directions.iter().map(|d| &d.last[state]).collect();
            let last = stack(&last, 0);
            outputs.push(Item::Tensor(if self.batch_first { last.transpose(0, 1) } else { last }));
        }
        Ok(outputs)
    }
}

/// What belongs to direction `d`.
fn part(t: &Tensor, d: usize) -> Result<Tensor> {
    let count = t.check()?.shape.first().copied().unwrap_or(0);
    if d >= count {
        return wrong(format!("{} has no part for direction {d}", t.check()?));
    }
    Ok(t.slice(0, d..=d).squeeze(0))
}

/// The functions that the node names for each direction, with their numbers.
fn activations(call: &Call<'_>, defaults: &[&str], directions: usize) -> Result<Vec<Activation>> {
    let given = call.texts("activations")?;
    let names: Vec<&str> = match given {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => defaults.repeat(directions),
    };
    if names.len() != defaults.len() * directions {
        return wrong(format!("names {} activations for {directions} directions", names.len()));
    }
    let mut alphas = call.float_list("activation_alpha")?.unwrap_or_default().iter().map(|&a| f64::from(a));
    let mut betas = call.float_list("activation_beta")?.unwrap_or_default().iter().map(|&b| f64::from(b));
    let mut alpha = |default: f64| alphas.next().unwrap_or(default);
    let mut beta = |default: f64| betas.next().unwrap_or(default);
    let mut all = Vec::new();
    for name in names {
        all.push(match name.to_ascii_lowercase().as_str() {
            "affine" => Activation::Affine(alpha(1.0), beta(0.0)),
            "relu" => Activation::Relu,
            "leakyrelu" => Activation::LeakyRelu(alpha(0.01)),
            "thresholdedrelu" => Activation::ThresholdedRelu(alpha(1.0)),
            "sigmoid" => Activation::Sigmoid,
            "hardsigmoid" => Activation::HardSigmoid(alpha(0.2), beta(0.5)),
            "tanh" => Activation::Tanh,
            "scaledtanh" => Activation::ScaledTanh(alpha(1.0), beta(1.0)),
            "elu" => Activation::Elu(alpha(1.0)),
            other => match Row::named(other).filter(|row| row.arity() == 1 && row.params() == 0) {
                Some(row) => Activation::Row(row),
                None => return unsupported(format!("the activation '{other}'")),
            },
        });
    }
    Ok(all)
}

fn lstm(call: &Call<'_>) -> Result<Vec<Item>> {
    let layer = Layer::of(call, &["Sigmoid", "Tanh", "Tanh"])?;
    let cells = call.optional(6)?.map(|c| if layer.batch_first { c.transpose(0, 1) } else { c });
    let peepholes = call.optional(7)?;
    let couples_forget = call.flag("input_forget", false)?;
    layer.run(|d, how| {
        let bias = layer.biases(d)?.map(|(a, b)| a + b);
        let (cell, peephole) =
            (cells.as_ref().map(|c| part(c, d)).transpose()?, peepholes.as_ref().map(|p| part(p, d)).transpose()?);
        let a = &layer.activations[3 * d..];
        let weights = Lstm {
            input: &part(&layer.input, d)?,
            recurrent: &part(&layer.recurrent, d)?,
            bias: bias.as_ref(),
            peephole: peephole.as_ref(),
            cell: cell.as_ref(),
            activations: [a[0], a[1], a[2]],
            couples_forget,
        };
        let (all, hidden, cell) = layer.x.lstm(&weights, how)?;
        Ok(Direction { all, last: vec![hidden, cell] })
    })
}

fn gru(call: &Call<'_>) -> Result<Vec<Item>> {
    let layer = Layer::of(call, &["Sigmoid", "Tanh"])?;
    let resets_after = call.flag("linear_before_reset", false)?;
    layer.run(|d, how| {
        let bias = layer.biases(d)?;
        let a = &layer.activations[2 * d..];
        let weights = Gru {
            input: &part(&layer.input, d)?,
            recurrent: &part(&layer.recurrent, d)?,
            bias: bias.as_ref().map(|(a, b)| (a, b)),
            activations: [a[0], a[1]],
            resets_after,
        };
        let (all, hidden) = layer.x.gru(&weights, how)?;
        Ok(Direction { all, last: vec![hidden] })
    })
}

fn rnn(call: &Call<'_>) -> Result<Vec<Item>> {
    let layer = Layer::of(call, &["Tanh"])?;
    layer.run(|d, how| {
        let bias = layer.biases(d)?.map(|(a, b)| a + b);
        let (input, recurrent) = (part(&layer.input, d)?, part(&layer.recurrent, d)?);
        let activation = layer.activations[d];
        let weights = Rnn { input: &input, recurrent: &recurrent, bias: bias.as_ref(), activation };
        let (all, hidden) = layer.x.rnn(&weights, how)?;
        Ok(Direction { all, last: vec![hidden] })
    })
}
