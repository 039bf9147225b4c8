//! Streams of batches: in order, each in its place, and overlapped.

mod sim;

use std::sync::Arc;
use std::time::Duration;

use breakeven::{CallError, Deadline, Device, Engine, Result, Tensor};
use breakeven_device::sim::{Fault, SimClock, SimDevice, SimOptions, SimSpeed};
use sim::{GPU, rates};

/// A device that takes 100 us to compute and 100 us for each copy of a batch.
fn speed() -> SimSpeed {
    SimSpeed {
        per_submit: Duration::from_micros(1),
        per_launch: Duration::from_micros(100),
        per_wait: Duration::ZERO,
        flops_per_second: 1e18,
        bytes_per_second: 1e18,
        link_latency: Duration::from_micros(100),
        link_bytes_per_second: 1e18,
    }
}

/// Who sends the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The thread that reads the results.
    Reader,
    /// A thread beside it, since waking that takes less than any batch.
    Another,
}

const BOTH: [By; 2] = [By::Reader, By::Another];

fn engine(faults: &[Fault], by: By) -> (Engine, SimClock) {
    let clock = SimClock::new();
    let options = SimOptions { faults: faults.to_vec(), ..SimOptions::new("sim", speed()) };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options, &clock));
    let mut cpu = rates(1.0);
    if by == By::Another {
        cpu.tuning.insert("wake_ns".to_owned(), 1e-9);
    }
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(cpu);
    (builder.measured_device(device, rates(1e18)).build().unwrap(), clock)
}

fn batches(count: usize) -> impl Iterator<Item = Vec<f32>> {
    (0..count).map(|i| vec![i as f32, 1.0, -1.0])
}

/// `x + 1` of a batch on the device.
fn next(engine: &Engine, batch: Vec<f32>) -> Tensor {
    (engine.from_vec(batch, 3) + 1.0).on(GPU)
}

#[test]
fn results_come_in_the_order_of_the_batches_at_any_depth() {
    for (depth, by) in [1, 2, 3, 100].into_iter().flat_map(|depth| BOTH.map(|by| (depth, by))) {
        let (engine, _) = engine(&[], by);
        let stream = engine.stream(batches(7), |batch| Ok(next(&engine, batch))).depth(depth);
        assert_eq!(stream.size_hint(), (7, Some(7)));
        let all: Vec<Vec<f32>> = stream.map(|t| t.and_then(|t| t.to_vec()).unwrap()).collect();
        let want: Vec<Vec<f32>> = (0..7).map(|i| vec![i as f32 + 1.0, 2.0, 0.0]).collect();
        assert_eq!(all, want, "depth {depth}, {by:?}");
    }
}

#[test]
fn no_batches_give_no_results_and_none_is_asked_for_ahead_of_the_first() {
    let (engine, _) = engine(&[], By::Reader);
    let mut asked = 0;
    let mut stream = engine.stream(std::iter::empty::<Vec<f32>>(), |batch| Ok(next(&engine, batch)));
    assert!(stream.next().is_none());
    let counted = batches(5).inspect(|_| asked += 1);
    let mut stream = engine.stream(counted, |batch| Ok(next(&engine, batch))).depth(2);
    stream.next().unwrap().unwrap();
    drop(stream);
    assert_eq!(asked, 2, "as many as may be on their way");
}

#[test]
fn a_batch_that_fails_is_an_error_in_its_place() {
    BOTH.into_iter().for_each(fails_in_its_place);
}

fn fails_in_its_place(by: By) {
    let (engine, _) = engine(&[], by);
    let work = |batch: Vec<f32>| match batch[0] as u32 {
        1 => Err(CallError::new("work", "this one is not wanted".to_owned()).into()),
        2 => Ok(next(&engine, batch).reshape([5])),
        _ => Ok(next(&engine, batch)),
    };
    let all: Vec<Result<Tensor>> = engine.stream(batches(4), work).collect();
    let good: Vec<bool> = all.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, false, true]);
    assert!(all[1].as_ref().unwrap_err().to_string().contains("not wanted"));
    assert!(all[2].as_ref().unwrap_err().to_string().contains("reshape"));
}

#[test]
fn a_device_that_is_lost_on_the_way_is_planned_around() {
    for (at, by) in (1..=6).flat_map(|at| BOTH.map(|by| (at, by))) {
        let (engine, _) = engine(&[Fault::LostAt(at)], by);
        let work = |batch| Ok(engine.from_vec(batch, 3) + 1.0);
        let all: Vec<f32> = engine.stream(batches(6), work).map(|t| t.unwrap().to_vec::<f32>().unwrap()[0]).collect();
        assert_eq!(all, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "lost at submission {at}, {by:?}");
    }
}

/// The device's clock after eight batches, when the host takes 100 us for each result.
fn spent(depth: usize) -> Duration {
    let (engine, clock) = engine(&[], By::Reader);
    engine.ready(Deadline::after(Duration::from_secs(5))).unwrap();
    let begun = clock.now();
    for result in engine.stream(batches(8), |batch| Ok(next(&engine, batch))).depth(depth) {
        result.unwrap();
        clock.advance(Duration::from_micros(100));
    }
    clock.now().saturating_sub(begun)
}

#[test]
fn the_device_works_while_results_are_used() {
    let (alone, overlapped) = (spent(1), spent(2));
    assert!(overlapped.mul_f64(1.2) < alone, "{overlapped:?} beside {alone:?} one by one");
}

/// Threads of this process that send batches.
#[cfg(target_os = "linux")]
fn senders() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    // A thread may end between the two looks.
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter(|task| task.path().is_dir()).map(name).filter(|name| name.trim() == "breakeven-strea").count()
}

/// Alone in this process, as every test of the suite's runner is.
#[test]
#[cfg(target_os = "linux")]
fn large_batches_are_sent_beside_the_reader_and_the_thread_ends_with_the_stream() {
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
}
