//! Random bits from a counter: any element of the stream can be computed by itself, on any device.

use crate::Word;

/// Rotations of Threefry-2x32, round after round (Salmon et al. 2011, table 2).
const ROTATIONS: [f64; 8] = [13.0, 15.0, 26.0, 6.0, 17.0, 29.0, 16.0, 24.0];
const ROUNDS: usize = 20;
/// Makes the third word of the key from the other two, so that no key is all zeros.
const PARITY: f64 = 0x1BD1_1BDA as f64;

/// The first word of Threefry-2x32-20 of counter `(x, 0)` under the key `(low, high)`.
#[inline(always)]
pub fn threefry<V: Word>(x: V, low: V, high: V) -> V {
    let keys = [low, high, low ^ high ^ x.lit(PARITY)];
    let (mut a, mut b) = (x + keys[0], keys[1]);
    for round in 0..ROUNDS {
        a = a + b;
        b = rotated(b, ROTATIONS[round % 8]) ^ a;
        if round % 4 == 3 {
            let turn = round / 4 + 1;
            a = a + keys[turn % 3];
            b = b + keys[(turn + 1) % 3] + x.lit(turn as f64);
        }
    }
    a
}

#[inline(always)]
fn rotated<V: Word>(x: V, by: f64) -> V {
    (x << x.lit(by)) | (x >> x.lit(32.0 - by))
}
