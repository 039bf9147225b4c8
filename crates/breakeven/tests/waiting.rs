//! Collected cases about waiting for a GPU, on the software adapters.

mod adapters;
mod sim;

use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use adapters::{GPU, Handing, engines, known, long_work, ramp, resident_bytes, swiftshader};
use breakeven::{Deadline, DeviceError, DeviceId, DeviceState, Engine, Error, Tensor};
use breakeven_device::{Backend, DeviceKind};
use breakeven_wgpu::{WgpuBackend, WgpuOptions};

const MB: usize = 1 << 20;

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(5))
}

/// Case S01: a lone read hangs, because nothing polls the device.
#[test]
fn s01_a_lone_read_comes_back() {
    for engine in engines() {
        let y = engine.tensor(&[1.0, 2.0, 3.0], [3]).relu().on(GPU);
        assert_eq!(y.to_vec_by::<f32>(Deadline::after(Duration::from_secs(10))).unwrap(), [1.0, 2.0, 3.0]);
    }
}

/// Case S02: a wait ends early and what is read is not there yet; or it does not end at its deadline.
#[test]
fn s02_a_deadline_is_kept_and_the_same_work_is_right_without_one() {
    let (engine, device) = swiftshader();
    let y = long_work(&engine);
    // Compiles it, so that the device is at it when the deadline passes.
    engine.explain(&[&y]).unwrap();
    let start = Instant::now();
    let error = y.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
    let waited = start.elapsed();
    assert!(matches!(error, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{error}");
    assert!(waited >= Duration::from_millis(200) && waited < Duration::from_millis(800), "{waited:?}");
    assert!(matches!(engine.devices()[1].state, DeviceState::Suspect(_)));
    let small = (engine.tensor(&[1.0], [1]) + 1.0).to_vec::<f32>().unwrap();
    assert_eq!(small, [2.0], "the process is usable");
    engine.ready(soon()).unwrap();
    assert_eq!((&engine.devices()[1].state, engine.devices()[1].memory.unwrap().pending), (&DeviceState::Ready, 0));
    let got = y.to_vec_by::<f32>(soon()).unwrap();
    let want = y.on(DeviceId::HOST).to_vec::<f32>().unwrap();
    let wrong = got.iter().zip(&want).position(|(g, w)| (g - w).abs() > 1e-4 * w.abs().max(1.0));
    assert_eq!(wrong, None);
    assert!(device.counters().submits > 0);
}

fn two_reads(engine: &Engine, is_reversed: bool) {
    let x = engine.tensor(&[0.1, 0.9], [2]);
    let place = x.argmax(0).on(GPU).read::<i64>();
    let share = x.softmax(-1).on(GPU).read::<f32>();
    let (place, share) = if is_reversed {
        let share = pollster::block_on(share).unwrap();
        (pollster::block_on(place).unwrap(), share)
    } else {
        (pollster::block_on(place).unwrap(), pollster::block_on(share).unwrap())
    };
    assert_eq!(place, [1]);
    assert!((share[0] - 0.310_025_5).abs() < 1e-6 && (share[1] - 0.689_974_5).abs() < 1e-6, "{share:?}");
}

/// Case S07: two reads in flight share memory.
#[test]
fn s07_two_reads_in_flight() {
    for engine in engines() {
        (0..100).for_each(|i| two_reads(&engine, i % 2 == 1));
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p breakeven --test waiting -- --ignored s07"]
fn s07_two_reads_in_flight_a_thousand_times() {
    for engine in engines() {
        (0..2000).for_each(|i| two_reads(&engine, i % 2 == 1));
    }
}

fn uploads(engine: &Engine, count: usize) {
    let one = |i: usize| {
        let x = engine.from_vec(vec![i as f32; MB / 4], [MB / 4]);
        engine.run(&[&(x + 1.0).on(GPU)]).unwrap();
    };
    (0..20).for_each(one);
    let before = resident_bytes();
    (20..count).for_each(one);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 256 * MB as u64, "{grown} bytes more are held after {count} uploads");
}

/// Case S09: uploads without a read pile up in the host's memory.
#[test]
fn s09_a_loop_of_uploads_stays_within_its_budget() {
    for engine in engines().into_iter().chain([sim::engine(&[]).0]) {
        uploads(&engine, 500);
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p breakeven --test waiting -- --ignored s09"]
fn s09_ten_thousand_uploads_stay_within_their_budget() {
    for engine in engines() {
        uploads(&engine, 10_000);
    }
}

/// What is there already and only named for a device is not brought there before something is computed of it.
#[test]
fn tensors_that_are_only_named_for_a_device_take_none_of_its_memory() {
    for engine in engines().into_iter().chain([sim::engine(&[]).0]) {
        let mut kept = VecDeque::new();
        for i in 0..2000 {
            let x = engine.from_vec(vec![i as f32; MB / 4], [MB / 4]).on(GPU);
            let report = engine.run_by(&[&x], soon()).unwrap();
            assert_eq!(report.plan.counts.moved_bytes, 0);
            kept.push_back(x);
            kept.drain(..kept.len().saturating_sub(4));
        }
        let memory = engine.devices()[1].memory.unwrap();
        assert_eq!((memory.pool.live_bytes, memory.pending), (0, 0));
        assert_eq!((&kept[0] + &kept[3]).on(GPU).to_vec_by::<f32>(soon()).unwrap(), vec![1996.0 + 1999.0; MB / 4]);
    }
}

#[test]
fn eight_threads_read_back_at_once() {
    for engine in engines() {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let engine = &engine;
                scope.spawn(move || {
                    for turn in 0..10 {
                        let from = thread * 100 + turn;
                        let y = (ramp(engine, MB / 4, from) * 2.0).on(GPU);
                        engine.run(&[&y]).unwrap();
                        let got = y.to_vec::<f32>().unwrap();
                        let wrong = got.iter().enumerate().find(|(i, g)| **g != ((i + from) % 1000) as f32 * 2.0);
                        assert_eq!(wrong, None, "thread {thread}, turn {turn}");
                    }
                });
            }
        });
    }
}

/// Whoever waits for a device holds nothing that others need.
#[test]
fn nobody_waits_for_who_waits() {
    let (engine, _) = swiftshader();
    let y = long_work(&engine);
    engine.explain(&[&y]).unwrap();
    let (ended, has_ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let read = y.to_vec_by::<f32>(soon()).map(|all| all.len());
            ended.send(read).unwrap();
        });
        let mut turns = 0;
        while has_ended.try_recv().is_err() {
            assert_eq!(ramp(&engine, 3, turns % 900).to_vec::<f32>().unwrap()[0], (turns % 900) as f32);
            assert_eq!((ramp(&engine, 3, 1) + 1.0).sum(0).item::<f32>().unwrap(), 9.0);
            assert_eq!(engine.devices().len(), 2);
            turns += 1;
        }
        assert!(turns > 10, "{turns} turns while another thread waited");
    });
}

fn steps(engine: &Engine, count: usize) {
    let weight = engine.from_vec((0..256).map(|i| (i % 5) as f32 * 0.1).collect(), [16, 16]);
    let mut state = engine.from_vec(vec![0.5f32; 16], [1, 16]);
    let mut step = |_| {
        state = (state.matmul(&weight) + 0.25).tanh().on(GPU);
        engine.run(&[&state]).unwrap();
    };
    let memory = || engine.devices()[1].memory.unwrap().pool;
    (0..200).for_each(&mut step);
    let (before, pool) = (resident_bytes(), memory().peak_bytes);
    (200..count).for_each(&mut step);
    assert_eq!(memory().peak_bytes, pool, "memory of the device grows");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 * MB as u64, "{grown} bytes more are held after {count} steps");
    assert!(state.to_vec::<f32>().unwrap().iter().all(|x| x.is_finite()));
}

fn small_memory() -> Vec<Engine> {
    let backend = WgpuBackend::new(WgpuOptions::default());
    let engine = |index: usize| {
        let builder = Engine::builder().gpus(false).no_cache().recovery_bytes(64 << 10);
        builder.device(backend.open(index).unwrap()).build().unwrap()
    };
    backend.software_adapters().into_iter().map(engine).collect()
}

#[test]
fn a_thousand_steps_take_no_more_memory() {
    for engine in small_memory() {
        steps(&engine, 1000);
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p breakeven --test waiting -- --ignored steps"]
fn ten_thousand_steps_take_no_more_memory() {
    for engine in small_memory() {
        steps(&engine, 10_000);
    }
}

/// A real driver: what was lost is opened again, and what was there is computed again.
#[test]
fn a_lost_adapter_is_opened_again() {
    for backend in Handing::all() {
        let builder = Engine::builder().gpus(false).software(true).no_cache().backend(backend.clone());
        let engine = builder.profile(known(&*backend, sim::rates(1e9))).build().unwrap();
        engine.ready(soon()).unwrap();
        let y = (ramp(&engine, 100, 1) + 1.0).on(GPU);
        engine.run(&[&y]).unwrap();
        backend.opened()[0].destroy();
        let elsewhere = |y: &Tensor| (y * 2.0).on(DeviceId::HOST).to_vec::<f32>();
        assert!(elsewhere(&y).is_err(), "it was to be computed there, and nowhere else");
        engine.ready(soon()).unwrap();
        assert_eq!(elsewhere(&y).unwrap()[..3], [4.0, 6.0, 8.0]);
        let gpu = engine.devices().swap_remove(1);
        assert_eq!((gpu.state, gpu.reopened), (DeviceState::Ready, 1));
        let again = (&y * 3.0).on(GPU).to_vec::<f32>().unwrap();
        assert_eq!(again[..3], [6.0, 9.0, 12.0]);
        assert!(backend.opened()[1].counters().submits > 0);
    }
}

/// The figure is for docs/performance.md; the bound only finds a lock that is held while somebody computes.
#[test]
#[ignore = "needs a quiet machine: cargo test --release -p breakeven --test waiting -- --ignored --nocapture scale"]
fn threads_that_share_an_engine_scale() {
    let engine = Engine::builder().gpus(false).no_cache().threads(1).build().unwrap();
    let rates = rates_of_threads(&engine, DeviceId::HOST);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cores < 2 || rates[1] > 1.3 * rates[0], "{rates:?}");
}

/// The same on a GPU, for which each of them waits: by others' waiting nobody is held up.
#[test]
#[ignore = "needs a quiet machine: cargo test --release -p breakeven --test waiting -- --ignored --nocapture scale"]
fn threads_that_share_a_gpu_scale() {
    let engine = Engine::builder().software(true).no_cache().build().unwrap();
    engine.ready(soon()).unwrap();
    for device in engine.devices().iter().filter(|d| d.id != DeviceId::HOST && d.state == DeviceState::Ready) {
        println!("{} ({})", device.name, device.info.name);
        let rates = rates_of_threads(&engine, device.id);
        // A software adapter computes with all cores already.
        assert!(device.info.kind == DeviceKind::Software || rates[1] > 1.2 * rates[0], "{rates:?}");
    }
}

/// Graphs a second that 1, 2, 4 and 8 threads compute, and read, each on its own data.
fn rates_of_threads(engine: &Engine, device: DeviceId) -> [f64; 4] {
    let rate = |threads: usize| {
        let started = Instant::now();
        let work = |_| {
            let x = ramp(engine, 4096, 1);
            let want = x.to_vec::<f32>().unwrap()[4095].mul_add(2.0, 1.0).tanh();
            for _ in 0..2000 {
                let got = (&x * 2.0 + 1.0).tanh().on(device).to_vec::<f32>().unwrap();
                assert!((got[4095] - want).abs() < 1e-6, "{} for {want}", got[4095]);
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|i| drop(scope.spawn(move || work(i)))));
        (threads * 2000) as f64 / started.elapsed().as_secs_f64()
    };
    rate(1);
    [1, 2, 4, 8].map(|threads| {
        let rate = rate(threads);
        println!("{threads} threads: {rate:.0} graphs a second");
        rate
    })
}
