//! Small files that ask for more than there is: each is an error that names the node, and comes soon.

use std::time::{Duration, Instant};

use breakeven::{DType, Engine};
use breakeven_onnx::Model;
use prost::Message;

use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};

fn engine(deadline: Duration) -> Engine {
    let builder = Engine::builder().gpus(false).no_cache().threads(1).memory_limit(16 << 20);
    builder.deadline(deadline).build().expect("a CPU is always there")
}

fn ints(name: &str, values: &[i64]) -> TensorProto {
    let (dims, int64_data) = (vec![values.len() as i64], values.to_vec());
    TensorProto { dims, data_type: 7, int64_data, name: name.into(), ..Default::default() }
}

fn int(name: &str, value: i64) -> TensorProto {
    TensorProto { dims: Vec::new(), ..ints(name, &[value]) }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let (dims, float_data) = (dims.to_vec(), values.to_vec());
    TensorProto { dims, data_type: 1, float_data, name: name.into(), ..Default::default() }
}

fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    let input = inputs.iter().map(ToString::to_string).collect();
    NodeProto { op_type: operator.into(), input, output: vec![output.into()], ..Default::default() }
}

fn port(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), r#type: None }
}

fn graph(initializer: Vec<TensorProto>, node: Vec<NodeProto>) -> GraphProto {
    GraphProto { initializer, node, output: vec![port("y")], ..Default::default() }
}

/// What running a graph without inputs says, which must be soon.
fn told_of(model: &ModelProto, deadline: Duration) -> String {
    let begun = Instant::now();
    let model = Model::from_bytes(model.encode_to_vec()).expect("it can be read");
    let engine = engine(deadline);
    let ran = model.run::<breakeven::Tensor>(&engine, &[]).map_err(|error| error.to_string());
    let read = ran.and_then(|outputs| {
        let tensors = outputs.tensors().into_iter();
        tensors.map(|t| t.to_bytes().map(|bytes| bytes.len()).map_err(|e| e.to_string())).collect::<Result<Vec<_>, _>>()
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    match read {
        Ok(lengths) => format!("{lengths:?} bytes"),
        Err(message) => message,
    }
}

fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 18 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() }
}

#[track_caller]
fn check(graph: GraphProto, expected: &str) {
    let told = told_of(&model(graph), Duration::from_secs(1));
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_shape_that_no_memory_holds_is_out_of_memory() {
    let huge = 1i64 << 33;
    check(graph(vec![ints("s", &[huge])], vec![node("ConstantOfShape", &["s"], "y")]), "out of memory");
    let one = || floats("x", &[1], &[1.0]);
    check(graph(vec![one(), ints("s", &[huge])], vec![node("Expand", &["x", "s"], "y")]), "out of memory");
    check(graph(vec![one(), ints("s", &[huge])], vec![node("Tile", &["x", "s"], "y")]), "out of memory");
    let range = |end| vec![int("a", 0), int("b", end), int("c", 1)];
    check(graph(range(huge), vec![node("Range", &["a", "b", "c"], "y")]), "out of memory");
    check(graph(range(i64::MAX), vec![node("Range", &["a", "b", "c"], "y")]), "out of memory");
    let scaled = |scale| vec![one(), floats("r", &[0], &[]), floats("s", &[1], &[scale])];
    check(graph(scaled(1e9), vec![node("Resize", &["x", "r", "s"], "y")]), "out of memory");
    check(graph(scaled(f32::MAX), vec![node("Resize", &["x", "r", "s"], "y")]), "out of memory");
    check(graph(vec![int("n", huge)], vec![node("HannWindow", &["n"], "y")]), "out of memory");
    check(graph(range(1000), vec![node("Range", &["a", "b", "c"], "y")]), "[8000] bytes");
}

#[test]
fn extents_that_multiply_beyond_addresses_are_named() {
    let (row, column) = (ints("r", &[1, 1 << 21]), ints("c", &[1 << 21, 1]));
    let one = floats("x", &[1, 1], &[1.0]);
    let spread =
        vec![node("Expand", &["x", "r"], "a"), node("Expand", &["x", "c"], "b"), node("MatMul", &["b", "a"], "y")];
    check(graph(vec![one, row, column], spread), "(MatMul, opset 18)");
    let steps = vec![floats("x", &[1, 1, 1], &[1.0])];
    let pool = |kernel: i64| {
        let ints = |name: &str, values: Vec<i64>| AttributeProto {
            name: name.into(),
            ints: values,
            r#type: 7,
            ..Default::default()
        };
        let attribute = vec![ints("kernel_shape", vec![kernel]), ints("pads", vec![kernel - 1; 2])];
        NodeProto { attribute, ..node("MaxPool", &["x"], "y") }
    };
    check(graph(steps.clone(), vec![pool(1 << 20)]), "(MaxPool, opset 18)");
    check(graph(steps.clone(), vec![pool(i64::MAX)]), "(MaxPool, opset 18)");
    check(graph(steps, vec![pool(3)]), "[12] bytes");
}

#[test]
fn an_empty_list_where_a_number_belongs_is_named() {
    let none = || floats("n", &[0], &[]);
    check(graph(vec![none()], vec![node("Range", &["n", "n", "n"], "y")]), "must be one number, not 0");
    check(
        graph(vec![floats("x", &[], &[1.0]), ints("s", &[1, 1, 2, 2])], vec![node("AffineGrid", &["x", "s"], "y")]),
        "(AffineGrid, opset 18)",
    );
}

#[test]
fn a_sequence_without_axes_is_named() {
    let axis = |name: &str, i| AttributeProto { name: name.into(), i, r#type: 2, ..Default::default() };
    let attribute = vec![axis("batch_axis", 0), axis("time_axis", 1)];
    for (dims, values) in [(vec![], vec![1.0]), (vec![1], vec![1.0])] {
        let reverse = NodeProto { attribute: attribute.clone(), ..node("ReverseSequence", &["x", "n"], "y") };
        check(graph(vec![floats("x", &dims, &values), ints("n", &[1])], vec![reverse]), "(ReverseSequence, opset 18)");
    }
}

#[test]
fn attributes_that_multiply_or_lie_far_outside_are_named() {
    let int = |name: &str, i| AttributeProto { name: name.into(), i, r#type: 2, ..Default::default() };
    let with = |attribute, node: NodeProto| NodeProto { attribute, ..node };
    let empty = |dims: &[i64]| vec![floats("x", dims, &[])];
    for (operator, dims) in [("DepthToSpace", [1, 0, 2, 2]), ("SpaceToDepth", [1, 1, 0, 0])] {
        let blocks = with(vec![int("blocksize", 1 << 62)], node(operator, &["x"], "y"));
        check(graph(empty(&dims), vec![blocks]), &format!("({operator}, opset 18)"));
    }
    check(graph(empty(&[1 << 61, 0, 0]), vec![node("Det", &["x"], "y")]), "(Det, opset 18)");
    let along = with(vec![int("axis", 0)], node("Unique", &["x"], "y"));
    check(graph(empty(&[1 << 40, 0]), vec![along]), "(Unique, opset 18)");
}

#[test]
fn an_axis_far_outside_is_no_place_to_broadcast_at() {
    let int = |name: &str, i| AttributeProto { name: name.into(), i, r#type: 2, ..Default::default() };
    let attribute = vec![int("broadcast", 1), int("axis", i64::MIN)];
    let add = NodeProto { attribute, ..node("Add", &["x", "x"], "y") };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 6 }];
    let old = ModelProto { opset_import, ..model(graph(vec![floats("x", &[2], &[1.0, 2.0])], vec![add])) };
    assert!(told_of(&old, Duration::from_secs(20)).contains("does not lie at axis"));
}

#[test]
fn a_loop_without_end_ends_at_the_deadline() {
    let turns = |body: GraphProto| {
        let body = AttributeProto { name: "body".into(), g: Some(body), r#type: 5, ..Default::default() };
        NodeProto { attribute: vec![body], ..node("Loop", &["", "", "x"], "y") }
    };
    let input = vec![port("turn"), port("goes_on"), port("before")];
    let body = |nodes| GraphProto {
        input: input.clone(),
        node: nodes,
        output: vec![port("goes_on"), port("after")],
        ..Default::default()
    };
    let x = || vec![floats("x", &[1], &[1.0])];
    let told = told_of(
        &model(graph(x(), vec![turns(body(vec![node("Add", &["before", "before"], "after")]))])),
        Duration::from_millis(50),
    );
    assert!(told.contains("(Loop, opset 18)") || told.contains("(Add, opset 18)"), "{told}");
}

#[test]
fn functions_that_double_end_at_the_deadline() {
    let function = |level: usize| {
        let inner = format!("f{}", level - 1);
        let call = |input: &str, output: &str| NodeProto { domain: "own".into(), ..node(&inner, &[input], output) };
        let last =
            |input: &str, output: &str| if level == 1 { node("Neg", &[input], output) } else { call(input, output) };
        FunctionProto {
            name: format!("f{level}"),
            domain: "own".into(),
            input: vec!["x".into()],
            output: vec!["z".into()],
            node: vec![last("x", "y"), last("y", "z")],
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 18 }],
            ..Default::default()
        }
    };
    let calls =
        graph(vec![floats("x", &[1], &[1.0])], vec![NodeProto { domain: "own".into(), ..node("f30", &["x"], "y") }]);
    let model = ModelProto { functions: (1..=30).map(function).collect(), ..model(calls) };
    let told = told_of(&model, Duration::from_millis(50));
    assert!(told.contains("(Neg, opset 18)") || told.contains("opset"), "{told}");
    assert!(told.contains("cpu"), "{told}");
}

#[test]
fn sequences_of_sequences_are_refused() {
    let nodes = vec![node("SequenceConstruct", &["x", "x"], "s"), node("SequenceConstruct", &["s", "s"], "y")];
    check(graph(vec![floats("x", &[1], &[1.0])], nodes), "takes tensors");
}

#[test]
fn what_an_engine_may_hold_is_what_its_builder_says() {
    let engine = engine(Duration::from_secs(1));
    assert_eq!(engine.memory_limit(), Some(16 << 20));
    let small = engine.full(DType::F32, 1.0, [1 << 20]);
    assert_eq!((&small + &small).to_vec::<f32>().expect("4 MiB are there").len(), 1 << 20);
    let large = engine.full(DType::F32, 1.0, [1 << 23]);
    let error = (&large + &large).to_vec::<f32>().expect_err("32 MiB are not");
    assert!(error.to_string().contains("out of memory"), "{error}");
}
