//! What repeated work asks of the allocator: a program nothing, a single operation a known number of blocks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use breakeven::{Draft, Engine};

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
    // Its node, the rule's answer, the device's buffer, its export, the value and the list of its places.
    assert!(count <= 6, "{count} blocks");
    assert_eq!(out[7], 14.0);
}

#[test]
fn a_graph_found_again_is_the_same_graph() {
    let engine = engine();
    let (a, b) = (engine.tensor(&[1.0, -2.0], [2]), engine.tensor(&[3.0, 4.0], [2]));
    let read = |t: breakeven::Tensor| t.to_vec::<f32>().expect("it runs");
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
        let sum = &a + &b;
        assert_eq!((read(sum.clone()), read(&sum * &b)), (vec![4.0, 2.0], vec![12.0, 8.0]));
    }
}
