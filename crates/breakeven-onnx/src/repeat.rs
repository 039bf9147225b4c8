//! Runs that are repeated as a whole: nodes are walked once for inputs of certain shapes, and not again.
//!
//! A run may be repeated where nothing but the shapes of inputs and the elements of single numbers (a flag, a rate) decided the
//! way through the graph; those numbers must be the same then. Where more decided it, nodes are walked in every run.

use std::collections::BTreeSet;

use breakeven::{DeviceId, Draft, Spec, Tensor};

use crate::Value;
use crate::store::{Kept, Store};

/// What a run is given, where all of it is tensors.
pub(crate) struct Repeat<'r> {
    inputs: Vec<&'r Tensor>,
    specs: &'r [Spec],
    device: Option<DeviceId>,
    store: &'r Store,
}

impl<'r> Repeat<'r> {
    /// A run on `device` alone, if one is named; none where an input is no tensor.
    pub fn of(
        inputs: &'r [Value],
        specs: &'r [Spec],
        device: Option<DeviceId>,
        store: &'r Store,
    ) -> Option<Repeat<'r>> {
        let inputs = inputs.iter().map(tensor).collect::<Option<_>>()?;
        Some(Repeat { inputs, specs, device, store })
    }

    /// The outputs, if an earlier run was kept that does the same. An input that the program does not take is left to the
    /// nodes, which say what is wrong with it.
    pub fn recall(&self) -> Option<Vec<Tensor>> {
        self.store.program(self.specs, self.device, &self.inputs)?.call(&self.inputs).ok()
    }

    /// What the nodes are walked with, to be kept.
    pub fn draft(&self) -> Option<Draft> {
        Draft::new(&self.inputs)
    }

    /// Keeps what was written down, and gives the outputs through it; none where it cannot be repeated. An error of what is
    /// computed ahead comes again when the outputs are computed, and is told there.
    pub fn keep<'v>(
        &self,
        draft: &Draft,
        deciding: &BTreeSet<usize>,
        outputs: impl Iterator<Item = &'v Value>,
    ) -> Option<Vec<Tensor>> {
        let decided = |&index: &usize| {
            let input = self.inputs[index];
            (input.check().ok()?.shape.elements() == 1).then(|| Some((index, input.to_bytes().ok()?))).flatten()
        };
        let deciding = deciding.iter().map(decided).collect::<Option<_>>()?;
        let outputs: Vec<&Tensor> = outputs.map(tensor).collect::<Option<_>>()?;
        let program = draft.finish(&outputs).ok()?;
        let outputs = program.call(&self.inputs).ok()?;
        self.store.keep_program(Kept { specs: self.specs.to_vec(), device: self.device, deciding, program });
        Some(outputs)
    }
}

/// The tensor of a value that is one, not perhaps one.
fn tensor(value: &Value) -> Option<&Tensor> {
    if let Value::Tensor(tensor) = value { Some(tensor) } else { None }
}

#[cfg(test)]
mod tests {
    use breakeven::Engine;

    use super::*;
    use crate::proto::{AttributeProto, GraphProto};
    use crate::sample::{bytes, node, port, typed, weights, with_graph};
    use crate::{Model, RunOptions};

    const BOOL: i32 = 9;
    const I64: i32 = 7;

    fn engine() -> Engine {
        Engine::builder().gpus(false).no_cache().build().expect("a CPU is always there")
    }

    fn model(graph: GraphProto) -> Model {
        Model::from_bytes(bytes(graph)).expect("well formed")
    }

    /// The first output, from one run.
    fn run(model: &Model, engine: &Engine, inputs: &[(&str, Tensor)]) -> Vec<f32> {
        let outputs = model.run_with(engine, inputs, RunOptions::default()).expect("it fits");
        let (_, value) = outputs.iter().next().expect("it has an output");
        value.tensor().expect("a tensor").to_vec().expect("the CPU computes it")
    }

    /// `flag ? x + x : x * x`
    fn branch() -> GraphProto {
        let way = |operator| GraphProto {
            node: vec![node(operator, &["x", "x"], "way")],
            output: vec![port("way", 1)],
            ..Default::default()
        };
        let branch = with_graph(node("If", &["flag"], "y"), "then_branch", way("Add"));
        GraphProto {
            node: vec![with_graph(branch, "else_branch", way("Mul"))],
            input: vec![port("x", 1), typed("flag", BOOL, 0)],
            output: vec![port("y", 1)],
            ..Default::default()
        }
    }

    #[test]
    fn a_flag_takes_its_way_in_each_run() {
        let (engine, model) = (engine(), model(branch()));
        for (at, flag) in [true, true, false, true, false, false].into_iter().enumerate() {
            let x = at as f32 + 3.0;
            let inputs = [("x", engine.tensor(&[x], [1])), ("flag", engine.from_vec(vec![flag], ()))];
            assert_eq!(run(&model, &engine, &inputs), [if flag { x + x } else { x * x }]);
        }
        assert_eq!(model.programs(&engine), 2, "one for each value of the flag");
    }

    #[test]
    fn a_way_that_data_decided_is_not_kept() {
        let condition = vec![
            node("ReduceMax", &["x"], "largest"),
            node("Greater", &["largest", "bound"], "many"),
            node("Squeeze", &["many"], "flag"),
        ];
        let mut graph = branch();
        graph.node.splice(0..0, condition);
        graph.input.pop();
        graph.initializer.push(weights("bound", &[], &[5.0]));
        let (engine, model) = (engine(), model(graph));
        for x in [[1.0, 2.0], [7.0, 1.0], [3.0, 4.0]] {
            let want = if x[0] > 5.0 { x.map(|x| x + x) } else { x.map(|x| x * x) };
            assert_eq!(run(&model, &engine, &[("x", engine.tensor(&x, [2]))]), want);
        }
        assert_eq!(model.programs(&engine), 0);
    }

    #[test]
    fn shapes_that_data_decided_are_not_kept() {
        let graph = GraphProto {
            node: vec![node("NonZero", &["x"], "places"), node("Shape", &["places"], "shape")],
            input: vec![port("x", 1)],
            output: vec![typed("shape", I64, 1)],
            ..Default::default()
        };
        let (engine, model) = (engine(), model(graph));
        for (x, count) in [([1.0, 2.0, 0.0], 2), ([0.0, 0.0, 1.0], 1), ([1.0, 1.0, 1.0], 3)] {
            let outputs = model.run(&engine, &[("x", engine.tensor(&x, [3]))]).expect("it fits");
            let shape = outputs.tensor("shape").expect("a tensor").to_vec::<i64>();
            assert_eq!(shape.expect("the CPU computes it"), [1, count]);
        }
    }

    #[test]
    fn random_numbers_differ_from_run_to_run() {
        let graph = GraphProto {
            node: vec![node("RandomNormalLike", &["x"], "noise"), node("Add", &["x", "noise"], "y")],
            input: vec![port("x", 1)],
            output: vec![port("y", 1)],
            ..Default::default()
        };
        let (engine, model) = (engine(), model(graph));
        let all: Vec<_> = (0..3).map(|_| run(&model, &engine, &[("x", engine.tensor(&[0.0; 8], [8]))])).collect();
        assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
    }

    #[test]
    fn a_loop_that_ends_by_data_counts_anew() {
        // Doubles x until it is at least 100.
        let body = GraphProto {
            node: vec![
                node("Add", &["state", "state"], "twice"),
                node("Less", &["twice", "bound"], "few"),
                node("Squeeze", &["few"], "on"),
            ],
            input: vec![typed("turn", I64, 0), typed("was_on", BOOL, 0), port("state", 1)],
            output: vec![typed("on", BOOL, 0), port("twice", 1)],
            ..Default::default()
        };
        let graph = GraphProto {
            node: vec![with_graph(node("Loop", &["", "", "x"], "y"), "body", body)],
            initializer: vec![weights("bound", &[], &[100.0])],
            input: vec![port("x", 1)],
            output: vec![port("y", 1)],
            ..Default::default()
        };
        let (engine, model) = (engine(), model(graph));
        for (x, y) in [(60.0, 120.0), (30.0, 120.0), (1.0, 128.0), (60.0, 120.0)] {
            assert_eq!(run(&model, &engine, &[("x", engine.tensor(&[x], [1]))]), [y]);
        }
    }

    #[test]
    fn an_index_out_of_range_is_refused_in_later_runs_too() {
        let axis = AttributeProto { name: "axis".into(), r#type: 2, ..Default::default() };
        let mut gather = node("Gather", &["w", "index"], "y");
        gather.attribute.push(axis);
        let graph = GraphProto {
            node: vec![gather],
            initializer: vec![weights("w", &[3], &[1.0, 2.0, 3.0])],
            input: vec![typed("index", I64, 1)],
            output: vec![port("y", 1)],
            ..Default::default()
        };
        let (engine, model) = (engine(), model(graph));
        let index = |i: i64| [("index", engine.from_vec(vec![i], [1]))];
        assert_eq!(run(&model, &engine, &index(2)), [3.0]);
        assert_eq!(run(&model, &engine, &index(-3)), [1.0]);
        let error = model.run(&engine, &index(3)).expect_err("it is out of range").to_string();
        assert!(error.starts_with("node 'y' (Gather, opset 17)"), "{error}");
        assert_eq!(model.programs(&engine), 1);
    }

    #[test]
    fn an_output_given_back_as_an_input_is_an_input() {
        let graph = GraphProto {
            node: vec![node("Identity", &["w"], "kept"), node("Add", &["x", "kept"], "y")],
            initializer: vec![weights("w", &[1], &[5.0])],
            input: vec![port("x", 1)],
            output: vec![port("y", 1), port("kept", 1)],
            ..Default::default()
        };
        let (engine, model) = (engine(), model(graph));
        let first = model.run(&engine, &[("x", engine.tensor(&[1.0], [1]))]).expect("it fits");
        let kept = first.tensor("kept").expect("a tensor");
        first.compute().expect("the CPU computes it");
        assert_eq!(run(&model, &engine, &[("x", kept.clone())]), [10.0]);
        assert_eq!(run(&model, &engine, &[("x", engine.tensor(&[2.0], [1]))]), [7.0]);
    }
}
