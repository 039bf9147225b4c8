//! Engines and tensors from the outside.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{
    Attention, Combine, DType, Deadline, DeviceId, Engine, Error, Fold, Precision, Scan, Tensor, concat, stack,
};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().unwrap()
}

fn check(tensor: &Tensor, shape: &[usize], want: &[f32]) {
    assert_eq!(&tensor.shape()[..], shape);
    let got = tensor.to_vec::<f32>().unwrap();
    let close = |(g, w): (&f32, &f32)| g == w || (g - w).abs() <= 1e-6 * w.abs().max(1.0) || (g.is_nan() && w.is_nan());
    assert!(got.len() == want.len() && got.iter().zip(want).all(close), "got {got:?}, want {want:?}");
}

fn count(engine: &Engine, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    engine.from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), shape)
}

#[test]
fn operators_take_tensors_and_scalars_on_both_sides() {
    let e = engine();
    let x = count(&e, &[3]);
    check(&((&x * 2.0).relu() + 1), &[3], &[1.0, 3.0, 5.0]);
    check(&(1.0 - &x), &[3], &[1.0, 0.0, -1.0]);
    check(&(-&x / 2.0), &[3], &[0.0, -0.5, -1.0]);
    check(&(&x + &x.reshape([3, 1])), &[3, 3], &[0.0, 1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 3.0, 4.0]);
}

#[test]
fn views_read_right() {
    let e = engine();
    let x = count(&e, &[2, 3]);
    check(&x.t(), &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check(&x.flip(-1), &[2, 3], &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    check(&x.slice(1, 1..), &[2, 2], &[1.0, 2.0, 4.0, 5.0]);
    check(&x.t().reshape([6]), &[6], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check(&(x.unsqueeze(0).broadcast_to([2, 2, 3]) + 0.0).sum(0), &[2, 3], &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    check(&concat(&[&x, &x.flip(0)], 0), &[4, 3], &[0., 1., 2., 3., 4., 5., 3., 4., 5., 0., 1., 2.]);
    check(&stack(&[&x, &x], -1).slice(2, 0..1).squeeze(2), &[2, 3], &[0., 1., 2., 3., 4., 5.]);
    let parts = x.split(1, &[1, 2]);
    check(&parts[1], &[2, 2], &[1.0, 2.0, 4.0, 5.0]);
}

#[test]
fn windows_pool_and_convolve() {
    let e = engine();
    let x = count(&e, &[1, 4, 5]);
    let windows = x.window(1, 2, 2, 1).window(2, 3, 1, 2);
    check(&windows, &[1, 2, 1, 2, 3], &[0., 2., 4., 5., 7., 9., 10., 12., 14., 15., 17., 19.]);
    check(&windows.max([-2, -1]), &[1, 2, 1], &[9.0, 19.0]);
    let filter = e.tensor(&[1.0, 0.0, -1.0, 0.5, 0.0, 0.5], [2, 3]);
    check(&(&windows * &filter).sum([-2, -1]), &[1, 2, 1], &[3.0, 13.0]);
    check(&windows.reshape([2, 6]).matmul(&filter.reshape([6, 1])), &[2, 1], &[3.0, 13.0]);
    check(&x.window(-1, 6, 1, 1), &[1, 4, 0, 6], &[]);
    let wrong = x.window(1, 0, 1, 1).to_vec::<f32>().unwrap_err();
    assert!(wrong.to_string().contains("must be at least 1"), "{wrong}");
}

#[test]
fn reductions_take_any_axes() {
    let e = engine();
    let x = count(&e, &[2, 3, 2]);
    check(&x.sum([0, 2]), &[3], &[14.0, 22.0, 30.0]);
    check(&x.mean(..), &[], &[5.5]);
    check(&x.max(1), &[2, 2], &[4.0, 5.0, 10.0, 11.0]);
    assert_eq!(x.argmax(1).to_vec::<i64>().unwrap(), [2, 2, 2, 2]);
    let (var, mean) = count(&e, &[2, 2]).var_mean(-1);
    check(&var, &[2], &[0.25, 0.25]);
    check(&mean, &[2], &[0.5, 2.5]);
    check(&x.logsumexp(..), &[], &[11.458_678]);
    check(&e.full(DType::F32, f64::NEG_INFINITY, [2]).logsumexp(0), &[], &[f32::NEG_INFINITY]);
}

#[test]
fn running_folds_go_both_ways() {
    let e = engine();
    let x = e.tensor(&[3.0, 1.0, 2.0, -1.0, f32::NAN, 5.0], [2, 3]);
    check(&x.cumsum(-1), &[2, 3], &[3.0, 4.0, 6.0, -1.0, f32::NAN, f32::NAN]);
    check(&x.cumsum(0), &[2, 3], &[3.0, 1.0, 2.0, 2.0, f32::NAN, 7.0]);
    check(&x.cummax(1), &[2, 3], &[3.0, 3.0, 3.0, -1.0, f32::NAN, f32::NAN]);
    check(&x.cummin(1).slice(0, ..1), &[1, 3], &[3.0, 1.0, 1.0]);
    check(&x.cumprod(1).slice(0, ..1), &[1, 3], &[3.0, 3.0, 6.0]);
    let from_the_end = |fold, exclusive| x.scan(1, Scan { fold, exclusive, reverse: true });
    check(&from_the_end(Fold::Sum, true), &[2, 3], &[3.0, 2.0, 0.0, f32::NAN, 5.0, 0.0]);
    check(&from_the_end(Fold::Sum, false).slice(0, ..1), &[1, 3], &[6.0, 3.0, 2.0]);
    let bytes = e.from_vec(vec![200u8, 100, 7], [3]);
    assert_eq!(bytes.cumsum(0).to_vec::<u8>().unwrap(), [200, 44, 51]);
    assert_eq!(bytes.scan(0, Scan { exclusive: true, ..Scan::of(Fold::Min) }).to_vec::<u8>().unwrap(), [255, 200, 100]);
    let wrong = x.scan(0, Scan::of(Fold::Mean)).to_vec::<f32>().unwrap_err();
    assert!(wrong.to_string().contains("no running mean"), "{wrong}");
}

#[test]
fn updates_are_placed_by_index() {
    let e = engine();
    let x = count(&e, &[3, 2]);
    let index = e.from_vec(vec![2i64, 0, -1, 0], [2, 2]);
    let updates = e.tensor(&[10.0, 20.0, 30.0, 40.0], [2, 2]);
    check(&x.scatter(0, &index, &updates), &[3, 2], &[0.0, 40.0, 2.0, 3.0, 30.0, 5.0]);
    check(&x.scatter_add(0, &index, &updates), &[3, 2], &[0.0, 61.0, 2.0, 3.0, 44.0, 5.0]);
    check(&x.scatter_with(0, &index, &updates, Combine::Max), &[3, 2], &[0.0, 40.0, 2.0, 3.0, 30.0, 5.0]);
    let fewer = (index.slice(1, ..1), updates.slice(1, ..1));
    check(&x.scatter(0, &fewer.0, &fewer.1), &[3, 2], &[0.0, 1.0, 2.0, 3.0, 30.0, 5.0]);
    check(&x.scatter(0, &index.slice(0, ..0), &updates.slice(0, ..0)), &[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let outside = x.scatter(0, &e.from_vec(vec![3i32, 0], [1, 2]), &updates.slice(0, ..1)).to_vec::<f32>().unwrap_err();
    assert!(outside.to_string().contains("index 3 leaves"), "{outside}");
    // What is computed is not known on the host.
    let computed = &e.from_vec(vec![3i32, 0], [1, 2]) + 0;
    check(&x.scatter(0, &computed, &updates.slice(0, ..1)), &[3, 2], &[0.0, 20.0, 2.0, 3.0, 4.0, 5.0]);
    let wrong = x.scatter(0, &index, &updates.slice(0, ..1)).to_vec::<f32>().unwrap_err();
    assert!(wrong.to_string().contains("one shape"), "{wrong}");
}

#[test]
fn elements_and_slices_are_picked_and_placed_by_several_indices() {
    let e = engine();
    let x = count(&e, &[3, 2]);
    let index = e.from_vec(vec![2i64, 0, -1, 1], [2, 2]);
    check(&x.take_along(0, &index), &[2, 2], &[4.0, 1.0, 4.0, 3.0]);
    check(&x.take_along(1, &index.slice(0, 1..).slice(1, ..1)), &[1, 1], &[1.0]);
    let computed = &e.from_vec(vec![5i64, 1], [1, 2]) + 0;
    check(&x.take_along(0, &computed), &[1, 2], &[f32::NAN, 3.0]);
    let places = &e.from_vec(vec![2i64, 0, -1, 1, 0, 2], [3, 2]) + 0;
    check(&x.gather_nd(&places), &[3], &[4.0, 5.0, f32::NAN]);
    check(&x.gather_nd(&e.from_vec(vec![1i32, -3], [2, 1])), &[2, 2], &[2.0, 3.0, 0.0, 1.0]);
    let updates = e.tensor(&[10.0, 20.0, 30.0], [3]);
    check(&x.scatter_nd(&places, &updates, Combine::Add), &[3, 2], &[0.0, 1.0, 2.0, 3.0, 14.0, 25.0]);
    let rows = e.from_vec(vec![1i32, 1, 7], [3, 1]);
    let slices = count(&e, &[3, 2]);
    check(&x.scatter_nd(&(&rows + 0), &slices, Combine::Set), &[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    check(&x.scatter_nd(&(&rows + 0), &slices, Combine::Add), &[3, 2], &[0.0, 1.0, 4.0, 7.0, 4.0, 5.0]);
}

#[test]
fn contractions_broadcast_and_take_vectors() {
    let e = engine();
    let (a, v) = (count(&e, &[2, 3]), count(&e, &[3]));
    check(&a.matmul(&v), &[2], &[5.0, 14.0]);
    check(&v.matmul(&v), &[], &[5.0]);
    check(&a.linear(&count(&e, &[1, 3]), Some(&e.tensor(&[1.0], [1]))), &[2, 1], &[6.0, 15.0]);
    check(&count(&e, &[2, 1, 2, 2]).matmul(&count(&e, &[2, 2])).sum([-1, -2]), &[2, 1], &[22.0, 70.0]);
}

#[test]
fn attention_of_a_masked_row_is_zero() {
    let e = engine();
    let x = count(&e, &[2, 2]);
    let mask = e.from_vec(vec![true, false, false, false], [2, 2]);
    check(&x.attention(&x, &x, Some(&mask)), &[2, 2], &[0.0, 1.0, 0.0, 0.0]);
    let added = mask.where_(&x.scalar(0.0), &x.scalar(f64::NEG_INFINITY));
    check(&x.attention(&x, &x, Some(&added)), &[2, 2], &[0.0, 1.0, 0.0, 0.0]);
}

/// With keys that are all alike, a query sees the mean of the values that it may see.
#[test]
fn attention_sees_what_it_may() {
    for e in [engine(), Engine::builder().gpus(false).no_cache().precision(Precision::Medium).build().unwrap()] {
        let (q, k, v) = (count(&e, &[2, 3, 2]), e.full(DType::F32, 1.0, [4, 2]), count(&e, &[4, 1]));
        check(&q.attention(&k, &v, None), &[2, 3, 1], &[1.5; 6]);
        let causal = Attention { causal: true, ..Attention::default() };
        check(&q.attention_with(&k, &v, causal).slice(0, ..1), &[1, 3, 1], &[0.0, 0.5, 1.0]);
        let cached = Attention { past: 1, ..causal };
        check(&q.attention_with(&k, &v, cached).slice(0, ..1), &[1, 3, 1], &[0.5, 1.0, 1.5]);
        let mask = e.from_vec(vec![false, true, true, false], [4]);
        check(&q.attention(&k, &v, Some(&mask)), &[2, 3, 1], &[1.5; 6]);
        let both = Attention { mask: Some(&mask), ..causal };
        check(&q.attention_with(&k, &v, both).slice(0, ..1), &[1, 3, 1], &[0.0, 1.0, 1.5]);
        let far = Attention { scale: Some(1e4), ..Attention::default() };
        check(&q.attention_with(&count(&e, &[4, 2]), &v, far).slice(1, 1..), &[2, 2, 1], &[3.0; 4]);
        assert!(q.attention(&k, &count(&e, &[3, 1]), None).check().is_err());
        assert!(q.cast(DType::I32).attention(&k, &v, None).check().is_err());
    }
}

#[test]
fn types_promote_as_written_down() {
    let e = engine();
    let (i, f) = (e.from_vec(vec![1i64, 2], [2]), e.from_vec(vec![0.5f32, 1.5], [2]));
    check(&(&i + &f), &[2], &[1.5, 3.5]);
    assert_eq!((&i + 1).to_vec::<i64>().unwrap(), [2, 3]);
    assert_eq!((&i * 1.5).dtype(), DType::F32);
    assert_eq!(i.less(&f.scalar(1.5)).dtype(), DType::Bool);
    let mask = f.greater(&f.scalar(1.0));
    check(&mask.where_(&f, &f.scalar(0.0)), &[2], &[0.0, 1.5]);
}

#[test]
fn a_wrong_call_is_carried_to_the_first_use_with_its_line() {
    let e = engine();
    let (a, b) = (count(&e, &[2, 3]), count(&e, &[4, 5]));
    let line = line!() + 1;
    let wrong = a.matmul(&b);
    let chained = (wrong.relu() + 1.0).softmax(-1);
    for tensor in [&wrong, &chained] {
        let error = tensor.check().unwrap_err().to_string();
        assert!(error.contains("matmul(f32[2, 3], f32[4, 5])"), "{error}");
        assert!(error.contains(&format!("engine.rs:{line}")), "{error}");
    }
    assert!(matches!(chained.to_vec::<f32>(), Err(Error::Call(_))));
    assert!(e.tensor(&[1.0], [2]).check().is_err());
    assert!(a.gather(0, &e.from_vec(vec![2i64], [1])).check().is_err());
    assert!(a.to_vec::<i64>().is_err());
}

#[test]
fn empty_and_scalar_tensors_work() {
    let e = engine();
    let none = e.from_vec(Vec::<f32>::new(), [0, 3]);
    assert_eq!(none.relu().to_vec::<f32>().unwrap(), [] as [f32; 0]);
    check(&none.sum(0), &[3], &[0.0; 3]);
    check(&none.prod(..), &[], &[1.0]);
    check(&none.mean(..), &[], &[f32::NAN]);
    assert!(none.max(0).check().is_err());
    check(&none.matmul(&count(&e, &[3, 2])).sum(0), &[2], &[0.0; 2]);
    check(&(e.full(DType::F32, 2.0, ()) * 3.0), &[], &[6.0]);
}

#[test]
fn a_deep_chain_is_evaluated_and_dropped_without_a_stack() {
    let e = engine();
    let mut x = e.tensor(&[1.0, 2.0], [2]);
    for _ in 0..100_000 {
        x = x.sin();
    }
    assert!(x.to_vec::<f32>().unwrap().iter().all(|v| v.is_finite()));
    let halves = (0..10_000).fold(e.tensor(&[1.0, 2.0], [2]), |x, _| (&x + &x) * 0.5);
    check(&halves, &[2], &[1.0, 2.0]);
    // One that is an input twice, or many times, is held by nobody else for all that.
    let links: [fn(&Tensor) -> Tensor; 4] =
        [Tensor::sin, |y| y + y, |y| y + y.dot(y), |y| concat(&[y; 6], 0).slice(0, 0..2)];
    for (at, link) in links.into_iter().enumerate() {
        let mut y = e.tensor(&[1.0, 2.0], [2]);
        for _ in 0..if at < 2 { 1_000_000 } else { 100_000 } {
            y = link(&y);
        }
        drop(y);
    }
}

#[test]
fn an_engine_is_shared_by_threads_and_several_live_side_by_side() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Engine>();
    shareable::<Tensor>();
    let engines = [Arc::new(engine()), Arc::new(engine())];
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let e = engines[thread % 2].clone();
            scope.spawn(move || {
                let x = count(&e, &[64, 64]);
                for _ in 0..20 {
                    let y = x.matmul(&x).sum(..).to_vec::<f32>().unwrap();
                    let want: f64 = (0..64).map(|k| 64.0 * f64::from(2016 + k) * f64::from(4096 * k + 2016)).sum();
                    assert!((f64::from(y[0]) - want).abs() / want < 1e-6, "{y:?}, want {want}");
                }
            });
        }
    });
    let mixed = count(&engines[0], &[2]) + count(&engines[1], &[2]);
    assert!(mixed.check().unwrap_err().to_string().contains("different engines"));
}

#[test]
fn no_home_no_gpu_and_a_corrupt_profile_work_and_are_noted() {
    let folder = std::env::temp_dir().join(format!("breakeven-engine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let built = || Engine::builder().gpus(false).cache_folder(&folder).build().unwrap();
    check(&(count(&built(), &[2]) + 1.0), &[2], &[1.0, 2.0]);
    let name = std::fs::read_dir(&folder).unwrap().next();
    assert!(name.is_none(), "an engine without GPUs measures nothing and keeps nothing");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_cpu_tunes_itself_without_a_gpu_too_and_the_next_engine_knows() {
    let folder = |k: u32| std::env::temp_dir().join(format!("breakeven-tuned-{}-{k}", std::process::id()));
    let tuning = |engine: &Engine| engine.profile().devices[0].tuning.clone();
    // On a machine so busy that no thread comes in time nothing is measured.
    let tuned = (0..20).any(|k| {
        let engine = Engine::builder().threads(2).cache_folder(folder(k)).build().unwrap();
        engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
        let next = Engine::builder().threads(2).gpus(false).cache_folder(folder(k)).build().unwrap();
        assert_eq!(tuning(&next), tuning(&engine));
        std::fs::remove_dir_all(folder(k)).unwrap();
        tuning(&engine).contains_key("part_ns")
    });
    assert!(tuned, "nothing is measured on this machine");
}

#[test]
fn a_frozen_plan_gives_the_same_bits() {
    let e = engine();
    let x = count(&e, &[50, 30]) * 0.01;
    let y = || x.matmul(&x.t()).softmax(-1).sum(0);
    let first = y();
    let frozen = e.explain(&[&first]).unwrap().freeze();
    let bits = |t: &Tensor| t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let want = bits(&first);
    let again = y();
    e.run_frozen(&[&again], &frozen).unwrap();
    assert_eq!(bits(&again), want);
    let other = x.matmul(&x.t()).softmax(-1).sum(1);
    let refused = e.run_frozen(&[&other], &frozen).unwrap_err().to_string();
    assert!(refused.contains("made from another graph"), "{refused}");
}

#[test]
fn a_loop_that_never_reads_keeps_nothing_between() {
    let e = engine();
    let mut w = e.from_vec(vec![1.0f32; 1 << 18], [1 << 18]);
    for _ in 0..10_000 {
        w = &w - &(&w * 0.1);
    }
    let last = w.to_vec::<f32>().unwrap()[(1 << 18) - 1];
    assert!((0.0..1e-30).contains(&last), "0.9^10000 is next to nothing: {last}");
    let held = e.devices()[0].memory.unwrap().pool.peak_bytes;
    assert!(held <= 16 << 20, "1 MiB of state took {held} bytes");
}

#[test]
fn memory_of_a_steady_loop_is_flat() {
    let e = engine();
    let mut a = e.from_vec(vec![0.0f32; 1 << 20], [1 << 20]);
    let mut after_warm_up = 0;
    for step in 0..300 {
        a = &a + 1.0;
        e.run(&[&a]).unwrap();
        if step == 20 {
            after_warm_up = e.devices()[0].memory.unwrap().pool.peak_bytes;
        }
    }
    assert_eq!(a.to_vec::<f32>().unwrap()[0], 300.0);
    assert_eq!(e.devices()[0].memory.unwrap().pool.peak_bytes, after_warm_up);
}

#[test]
fn a_frozen_plan_does_not_stand_for_work_that_is_pinned() {
    let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
    let work = || (engine.tensor(&[1.0f32, 2.0], [2]) + 1.0).on(DeviceId::HOST);
    let frozen = engine.explain(&[&work()]).unwrap().freeze();
    let reason = |report: breakeven::Report| report.plan.decisions[0].reason.code();
    assert_eq!(reason(engine.run_frozen(&[&work()], &frozen).unwrap()), "frozen");
    assert_eq!(reason(engine.run(&[&work()]).unwrap()), "pinned");
}
