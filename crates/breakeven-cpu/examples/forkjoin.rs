//! What it costs to share a job among threads and have it back: our team beside rayon, hot and after a millisecond of rest.
//!
//! `cargo run --release -p breakeven-cpu --example forkjoin [threads]`
//!
//! Contestants take turns. A job has one part for each thread: a few microseconds of arithmetic, or nothing at all. Every
//! part writes a number that is checked; told is what the job takes longer than one of its parts does alone.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use breakeven_cpu::{Team, Tuning};
use rayon_core::{ThreadPool, ThreadPoolBuilder, join};

const HOT: usize = 20_000;
const RESTED: usize = 500;
/// Steps of one part, each of which waits for the one before.
const STEPS: [u64; 2] = [0, 5000];
const REST: Duration = Duration::from_millis(1);
/// Calls of one contestant before the next one's turn: the first few wake its threads.
const TURN: usize = 200;

type Work<'a> = &'a (dyn Fn(usize) + Sync);
type Contestant<'a> = (&'static str, Box<dyn Fn(usize, Work<'_>) + 'a>);

fn main() {
    let asked = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let threads = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let team = Team::new(threads, Tuning::default().spins);
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("the pool starts");
    let contestants: [Contestant<'_>; 3] = [
        ("serial", Box::new(|parts, work| (0..parts).for_each(work))),
        ("team", Box::new(|parts, work| team.run(parts, work))),
        ("rayon, from outside", Box::new(|parts, work| pool.install(|| halves(0, parts, work)))),
    ];
    for steps in STEPS {
        compare(&Job { steps, slots: (0..threads).map(|_| Slot::default()).collect() }, &contestants, &pool);
    }
}

fn compare(job: &Job, contestants: &[Contestant<'_>], pool: &ThreadPool) {
    let threads = job.slots.len();
    let alone = job.alone();
    println!("{threads} threads, one part each; microseconds beyond the {:.2} of a part", alone * 1e6);
    println!("{:28} {:>8} {:>8} {:>8}", "", "p50", "p95", "p99");
    let mut hot: Vec<Vec<f64>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..HOT / TURN {
        for ((_, run), times) in contestants.iter().zip(&mut hot) {
            let _warm: f64 = (0..TURN / 4).map(|_| job.time(threads, run)).sum();
            times.extend((0..TURN).map(|_| job.time(threads, run)));
        }
    }
    for ((name, _), times) in contestants.iter().zip(hot) {
        report(name, "hot", alone, times);
    }
    report("rayon, from inside", "hot", alone, inside(job, pool));
    for (name, run) in contestants {
        let rested = || {
            std::thread::sleep(REST);
            job.time(threads, run)
        };
        report(name, "rested", alone, (0..RESTED).map(|_| rested()).collect());
    }
}

/// Rayon as it is where all of a program runs in its pool.
fn inside(job: &Job, pool: &ThreadPool) -> Vec<f64> {
    let run = |parts: usize, work: Work<'_>| halves(0, parts, work);
    pool.install(|| (0..HOT).map(|_| job.time(job.slots.len(), &run)).collect())
}

fn halves(from: usize, to: usize, work: Work<'_>) {
    if to - from <= 1 {
        return (from..to).for_each(work);
    }
    let middle = from.midpoint(to);
    join(|| halves(from, middle, work), || halves(middle, to, work));
}

/// Where a part writes, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

struct Job {
    steps: u64,
    slots: Vec<Slot>,
}

impl Job {
    /// Seconds until the first `parts` were done, which are checked.
    fn time(&self, parts: usize, run: &dyn Fn(usize, Work<'_>)) -> f64 {
        self.slots.iter().for_each(|slot| slot.0.store(0, Ordering::Relaxed));
        let started = Instant::now();
        run(parts, &|part| {
            self.slots[part].0.fetch_add(self.part(part as u64), Ordering::Relaxed);
        });
        let elapsed = started.elapsed();
        let is_done = |(part, slot): (usize, &Slot)| slot.0.load(Ordering::Relaxed) == part as u64 + 1;
        assert!(self.slots[..parts].iter().enumerate().all(is_done), "a part was left out or done twice");
        elapsed.as_secs_f64()
    }

    /// Some arithmetic, and the number that the part writes.
    fn part(&self, part: u64) -> u64 {
        // Within a register: through memory, as a black box in each step would have it, a step takes 1 ns or 3 by chance.
        let step = |x: u64, _| x.rotate_left(5).wrapping_mul(6_364_136_223_846_793_005) ^ 1;
        black_box((0..black_box(self.steps)).fold(part, step));
        part + 1
    }

    /// Seconds that one part takes by itself.
    fn alone(&self) -> f64 {
        let mut times: Vec<f64> = (0..2000).map(|_| self.time(1, &|_, work| work(0))).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

fn report(name: &str, how: &str, alone: f64, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| (times[((times.len() - 1) as f64 * share) as usize] - alone) * 1e6;
    println!("{:28} {:8.2} {:8.2} {:8.2}", format!("{name}, {how}"), at(0.5), at(0.95), at(0.99));
}
