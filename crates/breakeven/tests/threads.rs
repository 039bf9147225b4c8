//! An engine called from many threads of somebody else's pool at once.

use std::sync::mpsc::channel;
use std::time::Duration;

use breakeven::{Draft, Engine, Tensor};

fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn square(engine: &Engine, n: usize, step: usize) -> Tensor {
    engine.from_vec((0..n * n).map(|i| ((i * step) % 5) as f32).collect::<Vec<_>>(), [n, n])
}

/// Products, long maps and one program, each from 64 tasks of a pool whose threads are all busy.
#[test]
fn t06_tasks_of_a_rayon_pool_share_an_engine() {
    let (ended, has_ended) = channel();
    // On a thread of its own, so that a deadlock is a failure and not a hang.
    std::thread::spawn(move || {
        let engine = Engine::builder().gpus(false).no_cache().threads(4).build().expect("the CPU opens");
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(4).build().expect("the pool starts");
        let (a, b) = (square(&engine, 128, 3), square(&engine, 128, 7));
        let want: Vec<f32> = a.matmul(&b).to_vec().expect("it runs");
        let draft = Draft::new(&[&a, &b]).expect("their values are there");
        let [x, y] = draft.stand_ins() else { unreachable!("two were given") };
        let program = draft.finish(&[&(x.matmul(y).relu() + 1.0)]).expect("it is written");
        let before = threads();
        let task = || {
            assert_eq!(a.matmul(&b).to_vec::<f32>().expect("it runs"), want);
            let long = (engine.full(breakeven::DType::F32, 2.0, [1 << 20]) * 3.0).sum(0);
            assert_eq!(long.item::<f32>().expect("it runs"), 6.0 * 1048576.0);
            let got = program.call(&[&a, &b]).expect("it fits")[0].to_vec::<f32>().expect("it runs");
            assert_eq!((got[0], got[16383]), (want[0] + 1.0, want[16383] + 1.0));
        };
        pool.scope(|scope| (0..64).for_each(|_| scope.spawn(move |_| rayon_core::join(task, task).0)));
        assert!(threads() <= before, "{} threads became {}", before, threads());
        ended.send(()).expect("the test waits");
    });
    has_ended.recv_timeout(Duration::from_mins(2)).expect("64 tasks end, or say why not");
}
