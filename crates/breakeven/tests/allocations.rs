//! What repeated work asks of the allocator: a program nothing, a single operation a known number of blocks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use breakeven::{DeviceId, Draft, Engine, Tensor};

struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Blocks that this thread asks for while `work` runs, once it has run a few times.
fn asked(mut work: impl FnMut()) -> usize {
    (0..4).for_each(|_| work());
    let before = ASKED.get();
    work();
    ASKED.get() - before
}

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU opens")
}

#[test]
fn a_program_asks_for_nothing() {
    let engine = engine();
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (x, w) = (engine.tensor(&data, [1000]), engine.tensor(&data, [1000]));
    let draft = Draft::new(&[&x]).expect("its value is there");
    let program = draft.finish(&[&(&draft.stand_ins()[0] + &w)]).expect("it is written");
    // The first call plans.
    let planned = program.call(&[&x]).expect("it fits")[0].to_vec::<f32>().expect("it runs");
    let mut out = vec![0f32; 1000];
    let deadline = engine.deadline();
    let count = asked(|| program.run_into(&[&x], &mut [&mut out], deadline).expect("it runs"));
    assert_eq!((count, &out), (0, &planned));
}

#[test]
fn one_operation_asks_for_few_blocks() {
    let engine = engine();
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (a, b) = (engine.tensor(&data, [1000]), engine.tensor(&data, [1000]));
    let mut out = vec![0f32; 1000];
    let deadline = engine.deadline();
    let count = asked(|| (&a + &b).read_into(&mut out, deadline).expect("it runs"));
    assert!(count <= 1, "{count} blocks besides its node");
    assert_eq!(out[7], 14.0);
    let count = asked(|| drop(engine.run(&[&(&a + &b)]).expect("it runs")));
    // Its node, the device's buffer and the value.
    assert!(count <= 3, "{count} blocks");
    let count = asked(|| drop((&a + &b).to_vec::<f32>().expect("it runs")));
    assert!(count <= 2, "{count} blocks: its node and the vector");
    let count = asked(|| _ = a.sum(..).item::<f32>().expect("it runs"));
    assert!(count <= 1, "{count} blocks besides its node");
    let count = asked(|| _ = a.dot(&b).item::<f32>().expect("it runs"));
    assert!(count <= 1, "{count} blocks besides its node");
}

#[test]
fn what_is_asked_for_on_the_host_goes_as_short_a_way() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0; 1000], [1000]), engine.tensor(&[2.0; 1000], [1000]));
    let mut out = vec![0f32; 1000];
    let here = |t: Tensor| t.on(DeviceId::HOST);
    let mut read = |t: Tensor| t.read_into(&mut out, engine.deadline()).expect("it runs");
    // Planned once each; neither plan stands for the other.
    read(&a + &b);
    read(here(&a + &b));
    let [free, named] = [asked(|| read(&a + &b)), asked(|| read(here(&a + &b)))];
    assert!(named <= free + 1, "{named} blocks, {free} where no device is named: one is for the name");
    // A part that is named differently is not the same graph.
    assert_eq!(here(here(&a + &b) * &a).to_vec::<f32>().expect("it runs")[7], 3.0);
    let missing = (&a + &b).on(DeviceId(9));
    assert!((&missing * &a).to_vec::<f32>().is_err() && here(&missing * &a).to_vec::<f32>().is_err());
}

#[test]
fn a_fold_of_a_row_is_the_same_written_as_one_and_as_two() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0, -2.0, 3.0], [3]), engine.tensor(&[3.0, 4.0, 0.5], [3]));
    let read = |tensor: Tensor| tensor.item::<f32>().expect("it runs");
    let blocks = [asked(|| _ = read(a.dot(&b))), asked(|| _ = read((&a * &b).sum(..)))];
    assert!(blocks[0] < blocks[1], "{blocks:?}");
    for _ in 0..3 {
        let (one, two) = (a.dot(&b), (&a * &b).sum(..));
        assert_eq!((read(one.clone()), read(two), read(&one + &one)), (-3.5, -3.5, -7.0));
        // What is folded is another row, another fold, or folded otherwise.
        assert_eq!((read((&a + &b).sum(..)), read((&a * &b).max(..)), read(a.norm(..))), (9.5, 3.0, 14f32.sqrt()));
        assert_eq!((read((&a * &a).sum(..)), read(a.dot(&a)), read(b.dot(&a))), (14.0, 14.0, -3.5));
        // It takes what is still to be computed, which others take too.
        let sum = &a + &b;
        assert_eq!((read(sum.dot(&a)), read(sum.dot(&sum)), read(sum.sum(..))), (10.5, 32.25, 9.5));
        assert_eq!(read(a.dot(&b) + (&a * &b).max(..)), -0.5);
    }
}

#[test]
fn what_was_read_and_not_kept_is_computed_again_and_kept() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0, -2.0], [2]), engine.tensor(&[3.0, 4.0], [2]));
    let deadline = engine.deadline();
    let mut out = [0f32; 2];
    for _ in 0..3 {
        let sum = &a + &b;
        for _ in 0..3 {
            out.fill(0.0);
            sum.read_into(&mut out, deadline).expect("it runs");
            assert_eq!(out, [4.0, 2.0]);
        }
        let twice = &sum + &sum;
        sum.read_into(&mut out, deadline).expect("it runs");
        assert_eq!((out, twice.to_vec::<f32>().expect("it runs")), ([4.0, 2.0], vec![8.0, 4.0]));
        drop(engine.run(&[&(&sum * &b)]).expect("it runs"));
        let product = &sum * &b;
        let report = engine.run(&[&product]).expect("it runs");
        assert_eq!((report.devices_used(), report.submissions.len()), (vec!["cpu"], 1));
        assert_eq!(product.to_vec::<f32>().expect("it is there"), [12.0, 8.0]);
    }
}

#[test]
fn threads_that_read_tensors_of_one_graph_do_not_wait_for_each_other_forever() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0, -2.0], [2]), engine.tensor(&[3.0, 4.0], [2]));
    drop((&(&a + &b) * &a).to_vec::<f32>().expect("it runs"));
    for _ in 0..200 {
        let sum = &a + &b;
        let (left, right) = (&sum * &a, &sum * &b);
        std::thread::scope(|scope| {
            let reads = [&left, &right, &sum, &left].map(|t| scope.spawn(|| t.to_vec::<f32>().expect("it runs")));
            let all = reads.map(|read| read.join().expect("it ends"));
            assert_eq!(all, [vec![4.0, -4.0], vec![12.0, 8.0], vec![4.0, 2.0], vec![4.0, -4.0]]);
        });
    }
}

#[test]
fn a_graph_found_again_is_the_same_graph() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0, -2.0], [2]), engine.tensor(&[3.0, 4.0], [2]));
    let read = |t: Tensor| t.to_vec::<f32>().expect("it runs");
    for _ in 0..3 {
        assert_eq!(read(&a - &b), [-2.0, -6.0]);
        assert_eq!(read(&b - &a), [2.0, 6.0]);
        assert_eq!(read(&a - &a), [0.0, 0.0]);
        assert_eq!(read(&a - &b.neg()), [4.0, 2.0]);
        assert_eq!(read((&a + &b) * (&a - &b)), [-8.0, -12.0]);
        assert_eq!(read((&a + &b) * (&b + &a)), [16.0, 4.0]);
        assert_eq!(read(a.clip(0.0, 3.0)), [1.0, 0.0]);
        assert_eq!(read(a.clip(-1.0, 3.0)), [1.0, -1.0]);
        assert_eq!(read(&b / 0.0), [f32::INFINITY; 2]);
        assert_eq!(read(&b / -0.0), [f32::NEG_INFINITY; 2]);
        for (epsilon, want) in [(0.0, 1.0), (6.75, 0.5)] {
            assert_eq!(read(a.layer_norm(None, None, epsilon)), [want, -want]);
        }
        let sum = &a + &b;
        assert_eq!((read(sum.clone()), read(&sum * &b)), (vec![4.0, 2.0], vec![12.0, 8.0]));
    }
}
