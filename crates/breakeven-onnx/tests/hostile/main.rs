//! Files from somebody who wants this library to fail: what `fuzz/` does without end, for a few seconds on any toolchain.

#[path = "../../../../fuzz/src/graph.rs"]
mod graph;
mod limits;
#[path = "../../../../fuzz/src/operators.rs"]
mod operators;
#[allow(dead_code, reason = "only what graphs are made of is used")]
#[path = "../../src/proto.rs"]
mod proto;
#[path = "../../../../fuzz/src/read.rs"]
mod read;

use std::panic::catch_unwind;

/// Where the tables of operators are.
const OPERATORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops");

/// Numbers that are the same in every run: a xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.roll() >> 32) as u8).collect()
    }

    /// `seed` cut short, with other bytes, or with a number in it that is far too large.
    fn damaged(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << (self.0 % 8)),
                2 => bytes.iter_mut().skip(at).take(8).for_each(|b| *b = 0xff),
                3 => drop(bytes.splice(at..at, seed.iter().copied().take(9))),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = b"09-,{[(\"\x00\x7f"[(self.0 % 10) as usize]),
            }
        }
        bytes
    }
}

/// Runs `read` on `rounds` inputs; each panic is told with the seed that shows it again.
fn survives(
    name: &str,
    rounds: u64,
    make: impl Fn(&mut Dice) -> Vec<u8>,
    read: impl Fn(&[u8]) + std::panic::RefUnwindSafe,
) {
    let fails = |round: u64| {
        let input = make(&mut Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        catch_unwind(|| read(&input)).is_err()
    };
    let failed: Vec<u64> = (1..=rounds).filter(|&round| fails(round)).collect();
    assert!(
        failed.is_empty(),
        "{name}: {} of {rounds} inputs panic, such as rounds {:?}",
        failed.len(),
        &failed[..failed.len().min(20)]
    );
}

fn graphs(dice: &mut Dice) -> Vec<u8> {
    let length = 64 + dice.below(960);
    graph::model(&dice.bytes(length))
}

/// Small files that are right, from `fuzz/seeds`.
fn seeds(kind: &str) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/");
    let files = std::fs::read_dir(format!("{folder}{kind}")).expect("the seeds are in the repository");
    let mut files: Vec<_> = files.map(|file| file.expect("a folder can be listed").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a seed can be read")).collect()
}

fn damaged(kind: &str) -> impl Fn(&mut Dice) -> Vec<u8> {
    let seeds = seeds(kind);
    move |dice| {
        let seed = &seeds[dice.below(seeds.len())];
        dice.damaged(seed)
    }
}

#[test]
fn models_of_any_operators_are_run_or_refused() {
    survives("onnx_graph", 4_000, graphs, read::onnx);
}

#[test]
fn damaged_models_are_refused_or_run() {
    survives("onnx", 3_000, damaged("onnx"), read::onnx);
    survives(
        "onnx bytes",
        1_000,
        |dice| {
            let n = dice.below(64);
            dice.bytes(n)
        },
        read::onnx,
    );
}

#[test]
fn damaged_arrays_and_weights_are_refused_or_read() {
    survives("npy", 3_000, damaged("npy"), read::npy);
    survives("safetensors", 3_000, damaged("safetensors"), read::safetensors);
}

#[test]
#[ignore = "takes long; cargo test -p breakeven-onnx --test hostile -- --ignored"]
fn many_models_of_any_operators_are_run_or_refused() {
    // Other graphs than those above.
    survives("onnx_graph", 1_000_000, |dice| graphs(&mut Dice(!dice.0)), read::onnx);
}
