//! Case T01: a tensor that one thread replaces while others read it.

mod adapters;

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use adapters::{GPU, engines};
use breakeven::{DeviceId, Engine, Tensor};

/// A value of which every element is the same, so that a torn one is found.
fn value(engine: &Engine, i: usize, device: DeviceId) -> Tensor {
    (engine.from_vec(vec![(i % 1000) as f32; 64], [64]) + 1.0).on(device)
}

fn swap_while_read(engine: &Engine, device: DeviceId, turns: usize) {
    let shared = RwLock::new(value(engine, 0, device));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let tensor = shared.read().unwrap().clone();
                    let sum = tensor.sum(0).item::<f32>().unwrap();
                    assert!(sum % 64.0 == 0.0 && sum >= 64.0, "{sum} is the sum of no value that was written");
                }
            });
        }
        for i in 1..=turns {
            let next = value(engine, i, device);
            *shared.write().unwrap() = next;
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn t01_a_tensor_is_replaced_while_others_read_it() {
    let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
    swap_while_read(&engine, DeviceId::HOST, 10_000);
    for engine in engines() {
        swap_while_read(&engine, GPU, 300);
    }
}
