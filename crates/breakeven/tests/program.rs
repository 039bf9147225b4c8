//! Programs: computations that are written down once.

use breakeven::{DType, DeviceId, Draft, Engine, Program, Tensor};

const CPU: DeviceId = DeviceId(0);

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().unwrap()
}

/// `x * sqrt(w + 1) + y`, and `x`'s largest.
fn written(engine: &Engine) -> Program {
    let zeros = engine.tensor(&[0.0; 3], [3]);
    let draft = Draft::new(&[&zeros, &zeros]).unwrap();
    let [x, y] = draft.stand_ins() else { panic!("it has two") };
    let w = engine.tensor(&[3.0, 8.0, 15.0], [3]);
    draft.finish(&[&(x * (w + 1.0).sqrt() + y), &x.max(0)]).unwrap()
}

fn arguments(engine: &Engine, at: f32) -> [Tensor; 2] {
    [engine.tensor(&[at, at + 1.0, at + 2.0], [3]), engine.tensor(&[1.0, 2.0, 3.0], [3])]
}

fn want(at: f32) -> Vec<f32> {
    vec![at * 2.0 + 1.0, (at + 1.0) * 3.0 + 2.0, (at + 2.0) * 4.0 + 3.0]
}

#[test]
fn other_arguments_give_other_results_by_the_same_plan() {
    let engine = engine();
    let program = written(&engine);
    let mut plans = Vec::new();
    for at in [0.0, 5.0, -2.0] {
        let [x, y] = arguments(&engine, at);
        let outputs = program.call(&[&x, &y]).unwrap();
        plans.push(engine.run(&[&outputs[0], &outputs[1]]).unwrap().plan);
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), want(at));
        assert_eq!(outputs[1].item::<f32>().unwrap(), at + 2.0);
    }
    assert!(plans.windows(2).all(|pair| std::sync::Arc::ptr_eq(&pair[0], &pair[1])));
}

#[test]
fn what_follows_from_constants_is_computed_once() {
    let engine = engine();
    let program = written(&engine);
    let [x, y] = arguments(&engine, 1.0);
    let outputs = program.call(&[&x, &y]).unwrap();
    let plan = engine.run(&[&outputs[0], &outputs[1]]).unwrap().plan;
    let nodes: usize = plan.decisions.iter().map(|decision| decision.nodes.len()).sum();
    assert_eq!(nodes, 3, "a product, a sum and a maximum: {plan}");
}

#[test]
fn one_output_or_one_among_other_work_is_the_same() {
    let engine = engine();
    let program = written(&engine);
    let call = |at| {
        let [x, y] = arguments(&engine, at);
        program.call(&[&x, &y]).unwrap()
    };
    assert_eq!(call(4.0)[0].to_vec::<f32>().unwrap(), want(4.0));
    assert_eq!(call(4.0)[1].item::<f32>().unwrap(), 6.0);
    assert_eq!((&call(2.0)[1] * 2.0).item::<f32>().unwrap(), 8.0);
    assert_eq!(call(3.0)[0].on(CPU).to_vec::<f32>().unwrap(), want(3.0));
    let pair = call(7.0);
    let text = engine.explain(&[&pair[0], &pair[1]]).unwrap().to_string();
    assert!(text.contains("cpu"), "{text}");
    assert_eq!(pair[0].to_vec::<f32>().unwrap(), want(7.0));
}

#[test]
fn a_frozen_plan_of_one_call_fits_another() {
    let engine = engine();
    let draft = Draft::new(&[&engine.tensor(&[0.0; 3], [3])]).unwrap();
    let y = draft.stand_ins()[0].exp().on(CPU);
    let program = draft.finish(&[&y, &(&y + 1.0).on(CPU)]).unwrap();
    let call = |pin: bool| {
        let outputs = program.call(&[&engine.tensor(&[0.0, 1.0, 2.0], [3])]).unwrap();
        if pin { outputs.iter().map(|t| t.on(CPU)).collect() } else { outputs }
    };
    for pin in [false, true] {
        let (first, second) = (call(pin), call(pin));
        let frozen = engine.run(&[&first[0], &first[1]]).unwrap().plan.freeze();
        engine.run_frozen(&[&second[0], &second[1]], &frozen).unwrap();
        let read = |t: &Tensor| t.to_vec::<f32>().unwrap();
        assert_eq!(read(&first[1]), read(&second[1]));
    }
}

#[test]
fn arguments_may_be_still_to_compute() {
    let engine = engine();
    let program = written(&engine);
    let [x, y] = arguments(&engine, 1.0);
    let outputs = program.call(&[&(&x + 1.0), &y]).unwrap();
    engine.run(&[&outputs[0], &outputs[1]]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), want(2.0));
    let again = program.call(&[&program.call(&[&x, &y]).unwrap()[0], &y]).unwrap();
    let first = want(1.0);
    assert_eq!(again[0].to_vec::<f32>().unwrap(), [first[0] * 2.0 + 1.0, first[1] * 3.0 + 2.0, first[2] * 4.0 + 3.0]);
    assert!(Draft::new(&[&(&x + 1.0)]).is_none());
}

#[test]
fn arguments_and_constants_may_be_outputs() {
    let engine = engine();
    let one = engine.tensor(&[1.0], [1]);
    let draft = Draft::new(&[&one]).unwrap();
    let program = draft.finish(&[&draft.stand_ins()[0], &one, &(&one + &one)]).unwrap();
    let outputs = program.call(&[&engine.tensor(&[4.0], [1])]).unwrap();
    let all: Vec<f32> = outputs.iter().map(|t| t.item().unwrap()).collect();
    assert_eq!(all, [4.0, 1.0, 2.0]);
    let outputs = program.call(&[&engine.tensor(&[5.0], [1])]).unwrap();
    engine.run(&outputs.iter().collect::<Vec<_>>()).unwrap();
    let all: Vec<f32> = outputs.iter().map(|t| t.item().unwrap()).collect();
    assert_eq!(all, [5.0, 1.0, 2.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let engine = engine();
    let program = written(&engine);
    let [x, y] = arguments(&engine, 0.0);
    let error = |arguments: &[&Tensor]| program.call(arguments).unwrap_err().to_string();
    assert!(error(&[&x]).contains("takes 2 arguments, 1 were given"));
    assert!(error(&[&x, &y.cast(DType::F64)]).contains("takes f32[3] as argument 1, not f64[3]"));
    assert!(error(&[&x, &arguments(&crate::engine(), 0.0)[0]]).contains("belongs to another engine"));
    assert!(error(&[&x, &x.matmul(&x.reshape([1, 3]))]).contains("matmul"));
}

#[test]
fn an_index_is_held_against_its_axis_at_each_call() {
    let engine = engine();
    let index = |i: i64| engine.from_vec(vec![i], [1]);
    let draft = Draft::new(&[&index(0)]).unwrap();
    let taken = engine.tensor(&[1.0, 2.0], [2]).gather(0, &draft.stand_ins()[0]);
    let program = draft.finish(&[&taken]).unwrap();
    assert_eq!(program.call(&[&index(1)]).unwrap()[0].item::<f32>().unwrap(), 2.0);
    let error = program.call(&[&index(2)]).unwrap_err().to_string();
    assert!(error.contains("index 2 leaves an axis of extent 2"), "{error}");
}

#[test]
fn what_an_element_follows_from_is_told() {
    let engine = engine();
    let one = engine.tensor(&[1.0], [1]);
    let draft = Draft::new(&[&one, &one, &one]).unwrap();
    let [a, b, c] = draft.stand_ins() else { panic!("it has three") };
    assert_eq!(draft.arguments_of(&(a + &one)).unwrap(), [0]);
    let mut both = draft.arguments_of(&(c * (b + 1.0))).unwrap();
    both.sort_unstable();
    assert_eq!(both, [1, 2]);
    assert!(draft.arguments_of(&(&one + 1.0)).unwrap().is_empty());
}

#[test]
fn a_long_chain_of_calls_is_dropped_and_computed_without_recursion() {
    let engine = engine();
    let one = engine.tensor(&[1.0], [1]);
    let draft = Draft::new(&[&one]).unwrap();
    let program = draft.finish(&[&(&draft.stand_ins()[0] + 1.0)]).unwrap();
    let chain = |calls: usize| (0..calls).fold(one.clone(), |at, _| program.call(&[&at]).unwrap().swap_remove(0));
    assert_eq!(chain(1000).item::<f32>().unwrap(), 1001.0);
    drop(chain(200_000));
}
