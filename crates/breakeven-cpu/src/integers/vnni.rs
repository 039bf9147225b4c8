//! 8-bit integers with AVX-512 VNNI, which adds four products of a signed and an unsigned byte to a sum of 32 bits.
//!
//! The left side is packed signed and the right side unsigned: one that is not is moved by 128. With `a = a' + p` and
//! `b = b' - q`, the sum of `a b` is that of `a' b'`, plus `p` times the sum of `b'`, minus `q` times the sum of `a'`, minus
//! `p q` for each term. Sums of lines lie behind the panels, and the kernel starts from them.

use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm_set1_epi32, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16,
    _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_xor_si128, _mm256_dpbusd_epi32, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::pack::{Lines, pack};
use super::plain::keep;
use super::{IntegerPanels, Pair, Side};
use crate::lanes::array;

const ROWS: usize = 8;
const COLUMNS: usize = 32;
/// Terms that one instruction sums.
const GROUP: usize = 4;
/// What a side is moved by whose sign is not as the instruction wants it.
const MOVED: i32 = 128;

/// True when this machine has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
}

/// The way for operands that are signed or not. The machine must have the instructions.
pub(super) fn panels(left: bool, right: bool) -> IntegerPanels {
    IntegerPanels {
        lines: [ROWS, COLUMNS],
        group: GROUP,
        width: 1,
        tail: size_of::<i32>(),
        pack: match (left, right) {
            (true, true) => [pack_left::<true, true>, pack_right::<true, true>],
            (true, false) => [pack_left::<true, false>, pack_right::<true, false>],
            (false, true) => [pack_left::<false, true>, pack_right::<false, true>],
            (false, false) => [pack_left::<false, false>, pack_right::<false, false>],
        },
        multiply,
        keep: keep::<i32, COLUMNS>,
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn pack_left<const LEFT: bool, const RIGHT: bool>(lines: &Lines, to: *mut u8) {
    let (p, q) = (if LEFT { 0 } else { MOVED }, if RIGHT { MOVED } else { 0 });
    // SAFETY: the caller's contract.
    unsafe {
        pack_bytes::<ROWS>(lines, to, !LEFT);
        let sums = if q == 0 { [0; ROWS] } else { left_sums(lines, to) };
        let starts = sums.map(|sum| (-q * sum).wrapping_sub(p * q * lines.terms as i32));
        to.add(lines.terms.div_ceil(GROUP) * ROWS * GROUP).cast::<[i32; ROWS]>().write(starts);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn pack_right<const LEFT: bool, const RIGHT: bool>(lines: &Lines, to: *mut u8) {
    let p = if LEFT { 0 } else { MOVED };
    // SAFETY: the caller's contract.
    unsafe {
        pack_bytes::<COLUMNS>(lines, to, RIGHT);
        let sums = if p == 0 { [0; COLUMNS] } else { right_sums(lines, to) };
        to.add(lines.terms.div_ceil(GROUP) * COLUMNS * GROUP).cast::<[i32; COLUMNS]>().write(sums.map(|sum| p * sum));
    }
}

/// Packs bytes, of which the highest bit is turned where `turn` says so: the same as moving them by 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn pack_bytes<const W: usize>(lines: &Lines, to: *mut u8, turn: bool) {
    let (bit, bits) = if turn { (0x80, 0x8080_8080) } else { (0, 0) };
    let Lines { side, terms } = *lines;
    let by_term = side.across == 1 && side.lines == W && W.is_multiple_of(16);
    let whole = if side.along == 1 || by_term { terms / GROUP } else { 0 };
    let place = |x: usize, p: usize| side.from.wrapping_offset(x as isize * side.across + p as isize * side.along);
    for group in 0..whole {
        // SAFETY: the caller's contract; what is read at once lies in a row.
        unsafe {
            let to = &mut *to.cast::<[u32; W]>().add(group);
            if by_term {
                for x in (0..W).step_by(16) {
                    let rows = array(|r| place(x, group * GROUP + r));
                    interleave(rows, to[x..].as_mut_ptr(), bits);
                }
            } else {
                *to = [0; W];
                for x in 0..side.lines {
                    to[x] = place(x, group * GROUP).cast::<u32>().read_unaligned() ^ bits;
                }
            }
        }
    }
    let rest = Lines { side: Side { from: place(0, whole * GROUP), ..side }, terms: terms - whole * GROUP };
    // SAFETY: the caller's contract.
    unsafe { pack::<u8, u8, W, GROUP>(&rest, to.add(whole * W * GROUP), |byte| byte ^ bit) };
}

/// Writes byte `r` of word `x` from byte `x` of row `r`, for 16 words, and turns `bits` of each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn interleave(rows: [*const u8; GROUP], to: *mut u32, bits: u32) {
    // SAFETY: each row holds 16 bytes, and there is room for 16 words.
    unsafe {
        let [a, b, c, d] = rows.map(|row| _mm_loadu_si128(row.cast()));
        let low = [_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d)];
        let high = [_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d)];
        let words = [
            _mm_unpacklo_epi16(low[0], low[1]),
            _mm_unpackhi_epi16(low[0], low[1]),
            _mm_unpacklo_epi16(high[0], high[1]),
            _mm_unpackhi_epi16(high[0], high[1]),
        ];
        let bits = _mm_set1_epi32(bits.cast_signed());
        for (quarter, words) in words.into_iter().enumerate() {
            _mm_storeu_si128(to.add(4 * quarter).cast(), _mm_xor_si128(words, bits));
        }
    }
}

/// The sum of each packed line of the left side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn left_sums(lines: &Lines, packed: *const u8) -> [i32; ROWS] {
    let (ones, mut sums) = (_mm256_set1_epi8(1), _mm256_setzero_si256());
    for group in 0..lines.terms.div_ceil(GROUP) {
        // SAFETY: so many groups were packed.
        sums = unsafe { _mm256_dpbusd_epi32(sums, ones, _mm256_loadu_si256(packed.cast::<__m256i>().add(group))) };
    }
    let mut words = [0; ROWS];
    // SAFETY: there are as many words as lanes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sums) };
    words
}

/// The sum of each packed line of the right side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn right_sums(lines: &Lines, packed: *const u8) -> [i32; COLUMNS] {
    let (ones, mut sums) = (_mm512_set1_epi8(1), [_mm512_setzero_si512(); 2]);
    for group in 0..lines.terms.div_ceil(GROUP) {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: so many groups were packed.
            let bytes = unsafe { _mm512_loadu_si512(packed.cast::<__m512i>().add(2 * group + half)) };
            *sum = _mm512_dpbusd_epi32(*sum, bytes, ones);
        }
    }
    let mut words = [0; COLUMNS];
    for (half, sum) in sums.into_iter().enumerate() {
        // SAFETY: there are as many words as lanes.
        unsafe { _mm512_storeu_si512(words[half * 16..].as_mut_ptr().cast(), sum) };
    }
    words
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn multiply(pair: &Pair) {
    // SAFETY: the caller's contract.
    unsafe {
        match pair.rows {
            1 => sums::<1>(pair),
            2 => sums::<2>(pair),
            3 | 4 => sums::<4>(pair),
            _ => sums::<ROWS>(pair),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn sums<const R: usize>(pair: &Pair) {
    let (left, right) = (pair.left.cast::<[i32; ROWS]>(), pair.right.cast::<[__m512i; 2]>());
    // SAFETY: both panels have so many groups, and a start for each line behind them.
    let mut sums = unsafe {
        let (rows, columns) = (&*left.add(pair.groups), right.add(pair.groups).cast::<__m512i>());
        let columns = [_mm512_loadu_si512(columns), _mm512_loadu_si512(columns.add(1))];
        let mut sums = [columns; R];
        for i in 0..R {
            sums[i] = columns.map(|start| _mm512_add_epi32(start, _mm512_set1_epi32(rows[i])));
        }
        sums
    };
    for group in 0..pair.groups {
        // SAFETY: as above.
        unsafe {
            let right = right.add(group).cast::<__m512i>();
            let columns = [_mm512_loadu_si512(right), _mm512_loadu_si512(right.add(1))];
            for i in 0..R {
                let row = _mm512_set1_epi32((*left.add(group))[i]);
                for j in 0..2 {
                    sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], columns[j], row);
                }
            }
        }
    }
    for i in 0..R {
        for j in 0..2 {
            // SAFETY: there is room for the sums of all rows.
            unsafe { _mm512_storeu_si512(pair.sums.cast::<__m512i>().add(2 * i + j), sums[i][j]) };
        }
    }
}
