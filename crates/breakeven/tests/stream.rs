//! Streams of batches: in order, each in its place, and overlapped.

mod streams;

use std::cell::Cell;
use std::time::Duration;

use breakeven::{CallError, Deadline, Result, Tensor};
use breakeven_device::sim::Fault;
use streams::{BOTH, By, batches, engine, engine_by, next};

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

/// Three batches are begun on it: the first is waited for until the engine's deadline, and the others not at all.
#[test]
fn a_device_that_hangs_is_waited_for_once() {
    let limit = Duration::from_millis(400);
    for (at, by) in [1, 2].into_iter().flat_map(|at| BOTH.map(|by| (at, by))) {
        let (engine, clock) =
            engine_by(&[Fault::HangAt(at)], by, |builder| builder.deadline(Duration::from_millis(400)));
        let begun = clock.now();
        let work = |batch| Ok(engine.from_vec(batch, 3) + 1.0);
        let all: Vec<f32> = engine.stream(batches(6), work).map(|t| t.unwrap().to_vec::<f32>().unwrap()[0]).collect();
        assert_eq!(all, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "hung at submission {at}, {by:?}");
        // A thread of the engine's own waits for what hangs, too: ten seconds at a time, on the same clock.
        let spent = Duration::from_nanos((clock.now().saturating_sub(begun).as_nanos() % 10_000_000_000) as u64);
        assert!((limit..limit.mul_f64(1.9)).contains(&spent), "{spent:?}, hung at submission {at}, {by:?}");
    }
}

/// The caller's deadline is an error in its place, and the batches after it go on.
#[test]
fn a_callers_deadline_ends_one_batch() {
    for by in BOTH {
        let (engine, _) = engine(&[Fault::HangAt(1)], by);
        let work = |batch| Ok(engine.from_vec(batch, 3) + 1.0);
        let stream = engine.stream(batches(4), work).deadline(Duration::from_millis(200));
        let all: Vec<Result<Vec<f32>>> = stream.map(|t| t.and_then(|t| t.to_vec::<f32>())).collect();
        let good: Vec<bool> = all.iter().map(Result::is_ok).collect();
        assert_eq!(good, [false, true, true, true], "{by:?}: {all:?}");
    }
}

#[test]
fn a_depth_that_nobody_said_is_measured_where_another_thread_sends() {
    for by in BOTH {
        let (engine, _) = engine(&[], by);
        let (asked, mut depths) = (Cell::new(0), Vec::new());
        let counted = batches(100).inspect(|_| asked.set(asked.get() + 1));
        let mut stream = engine.stream(counted, |batch| Ok(next(&engine, batch)));
        for i in 0..100 {
            assert_eq!(stream.next().unwrap().unwrap().to_vec::<f32>().unwrap(), [i as f32 + 1.0, 2.0, 0.0], "{by:?}");
            assert!(asked.get() - i <= 4, "{} asked for with result {i}", asked.get());
            depths.push(stream.current_depth());
        }
        assert!(stream.next().is_none());
        assert!(format!("{stream:?}").contains(&format!("0 of {}", depths[99])), "{stream:?}");
        assert!(depths[50..].iter().all(|depth| *depth == depths[99]), "it is settled: {depths:?}");
        depths.dedup();
        let tried: &[usize] = if by == By::Another { &[3, 4, 2] } else { &[3] };
        assert!(depths.starts_with(tried) && depths.len() <= 4, "{by:?}: {depths:?}");
    }
}

#[test]
fn results_stay_in_their_places_while_the_depth_changes() {
    for at in [1, 13, 14, 15, 16, 17, 28, 29, 30, 31, 43, 44, 45] {
        let (engine, _) = engine(&[Fault::LostAt(at)], By::Another);
        let work = |batch: Vec<f32>| match batch[0] as u32 {
            i if i % 7 == 6 => Err(CallError::new("work", "this one is not wanted".to_owned()).into()),
            _ => Ok(engine.from_vec(batch, 3) + 1.0),
        };
        let first = |t: Tensor| t.to_vec::<f32>().unwrap()[0];
        let all: Vec<Option<f32>> = engine.stream(batches(80), work).map(|t| t.ok().map(first)).collect();
        let want: Vec<Option<f32>> = (0..80).map(|i| (i % 7 != 6).then_some(i as f32 + 1.0)).collect();
        assert_eq!(all, want, "lost at submission {at}");
    }
}

#[test]
fn a_stream_may_end_at_any_depth() {
    let (engine, _) = engine(&[], By::Another);
    for count in [1, 14, 15, 16, 28, 29, 30, 42, 43, 44] {
        let results = engine.stream(batches(100), |batch| Ok(next(&engine, batch))).take(count);
        assert!(results.map(Result::unwrap).last().is_some());
        assert_eq!(next(&engine, vec![6.0, 7.0, 8.0]).to_vec::<f32>().unwrap(), [7.0, 8.0, 9.0], "after {count}");
    }
}

/// As above where the depth rises, falls and settles.
#[test]
fn a_callers_deadline_ends_one_batch_while_the_depth_changes() {
    for at in [15, 16, 17, 29, 30, 31, 43, 44, 45] {
        let (engine, _) = engine(&[Fault::HangAt(at)], By::Another);
        let work = |batch| Ok(engine.from_vec(batch, 3) + 1.0);
        let stream = engine.stream(batches(80), work).deadline(Duration::from_millis(200));
        let all: Vec<Option<f32>> = stream.map(|t| t.ok().map(|t| t.to_vec::<f32>().unwrap()[0])).collect();
        let want: Vec<Option<f32>> = (0..80).map(|i| (i + 1 != at).then_some(i as f32 + 1.0)).collect();
        assert_eq!(all, want, "hung at submission {at}");
    }
}
