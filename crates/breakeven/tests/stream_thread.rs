//! The thread that sends large batches: there while the stream is, and no longer. A file of its own, since it counts the threads of its process.
#![cfg(target_os = "linux")]

mod streams;

use std::time::{Duration, Instant};

use breakeven::Deadline;
use streams::{BOTH, By, batches, engine, next};

/// Threads of this process that send batches.
fn senders() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    // A thread may end between the two looks.
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter(|task| task.path().is_dir()).map(name).filter(|name| name.trim() == "breakeven-strea").count()
}

#[test]
fn it_is_there_for_large_batches_and_ends_with_the_stream_and_with_the_engine() {
    for by in BOTH {
        let (engine, _) = engine(&[], by);
        let mut stream = engine.stream(batches(9), |batch| Ok(next(&engine, batch))).depth(3);
        assert_eq!(stream.next().unwrap().unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0]);
        let beside = senders();
        // Two batches are on their way.
        drop(stream);
        // The system takes a moment to end a thread.
        let limit = Deadline::after(Duration::from_secs(5));
        while senders() > 0 && !limit.has_passed() {
            std::thread::yield_now();
        }
        assert_eq!((beside, senders()), (usize::from(by == By::Another), 0), "{by:?}");
        assert_eq!(next(&engine, vec![6.0, 7.0, 8.0]).to_vec::<f32>().unwrap(), [7.0, 8.0, 9.0]);
    }
    let (begun, (engine, _)) = (Instant::now(), engine(&[], By::Another));
    let mut stream = engine.stream(batches(9), {
        let engine = engine.clone();
        move |batch| Ok(next(&engine, batch))
    });
    assert!(stream.next().unwrap().is_ok() && senders() == 1);
    drop(engine);
    // The last that holds the engine.
    drop(stream);
    let (engine, _) = streams::engine(&[], By::Another);
    let mut stream = engine.stream(batches(9), |batch| Ok(next(&engine, batch)));
    assert!(stream.next().unwrap().is_ok());
    assert!(engine.close(), "nothing is in a driver");
    drop(stream);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}: nobody waits for a thread that only waits",
        begun.elapsed()
    );
}
