//! Packing: lines of an operand copied so that the terms which a kernel reads together lie together.

use super::Side;
use crate::lanes::array;

/// Lines of one operand that become one panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub side: Side,
    pub terms: usize,
}

/// Packs elements `E` as `P`: `G` neighbouring terms of each of `W` lines, then the next terms. What a whole panel has
/// more is 0.
///
/// # Safety
/// The lines must hold aligned elements, and `to` have room for `W` lines.
#[inline(always)]
pub(super) unsafe fn pack<E: Copy, P: Copy + Default, const W: usize, const G: usize>(
    lines: &Lines,
    to: *mut P,
    turn: impl Fn(E) -> P,
) {
    let Side { from, lines: count, across, along } = lines.side;
    let to = to.cast::<[[P; G]; W]>();
    let element = |x: usize, p: usize| from.wrapping_offset(x as isize * across + p as isize * along).cast::<E>();
    let whole = if count == W { lines.terms / G } else { 0 };
    let is_row = across == size_of::<E>() as isize;
    for group in 0..whole {
        // SAFETY: all lines have all terms of the group.
        unsafe {
            let to = &mut *to.add(group);
            if is_row {
                let rows: [[E; W]; G] = array(|r| element(0, group * G + r).cast::<[E; W]>().read());
                for x in 0..W {
                    for r in 0..G {
                        to[x][r] = turn(rows[r][x]);
                    }
                }
            } else {
                for x in 0..W {
                    for r in 0..G {
                        to[x][r] = turn(element(x, group * G + r).read());
                    }
                }
            }
        }
    }
    for group in whole..lines.terms.div_ceil(G) {
        // SAFETY: elements are read where they exist.
        unsafe {
            let to = &mut *to.add(group);
            *to = [[P::default(); G]; W];
            for x in 0..count {
                for r in 0..G.min(lines.terms - group * G) {
                    to[x][r] = turn(element(x, group * G + r).read());
                }
            }
        }
    }
}
