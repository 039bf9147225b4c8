//! What a unit sees of the input, and how it gets into planes.

use super::super::geometry::Geometry;
use super::super::lines::{inside, zero};
use super::Planes;
use crate::shifts::{Bring, Part, SLACK};

/// The lines of planes, and what each row gives.
pub(super) struct Seen {
    lines: Vec<(usize, Option<isize>)>,
    parts: Vec<Part>,
}

impl Planes {
    /// What `rows` rows of windows from `at` on see.
    pub(super) fn seen(&self, g: &Geometry, at: [usize; 3], rows: usize) -> Seen {
        let last = &g.axes[2];
        let part = |&start: &usize| {
            let first = (at[2] * last.stride + start) as isize - last.before;
            let seen = inside(first, last.stride, self.plane[1], last.extent);
            let from = (first + (seen.start * last.stride) as isize) * last.step;
            Part { before: seen.start, seen: seen.len(), from }
        };
        let parts = self.phases[1].iter().map(part).collect();
        Seen { lines: self.lines(g, at, rows + self.plane[0] - self.tile[1]), parts }
    }

    /// Brings what is seen of `count` channels into planes, zeros around it.
    pub(super) unsafe fn bring(&self, g: &Geometry, x: *const u8, count: usize, seen: &Seen, planes: *mut f32) {
        let last = &g.axes[2];
        let bring = Bring {
            x: x.cast(),
            apart: g.x[2],
            channels: count,
            planes,
            per_channel: self.per_channel(g),
            lines: &seen.lines,
            parts: &seen.parts,
            steps: [self.plane[1], self.plane[0] * self.plane[1]],
            step: last.stride as isize * last.step,
        };
        // SAFETY: there is room for all of it; lines lie in the operand, and their places in the planes.
        unsafe {
            match self.widen {
                None => (self.bring)(&bring),
                Some(_) => self.bring_halves(&bring),
            }
            zero(planes.wrapping_add(count * bring.per_channel).cast(), 4 * (SLACK + 1));
        }
    }

    /// The same where elements are widened on the way.
    unsafe fn bring_halves(&self, b: &Bring<'_>) {
        // SAFETY: the same contract.
        unsafe {
            zero(b.planes.cast(), 4 * b.channels * b.per_channel);
            for channel in 0..b.channels {
                let x = b.x.cast::<u8>().wrapping_offset(channel as isize * b.apart * self.width as isize);
                let planes = b.planes.wrapping_add(channel * b.per_channel);
                for &(to, from) in b.lines {
                    let Some(from) = from else { continue };
                    for (number, part) in b.parts.iter().enumerate() {
                        let from = x.wrapping_offset((from + part.from) * self.width as isize);
                        let to = planes.wrapping_add(to + number * b.steps[1] + part.before);
                        self.widened(from, b.step, to.cast(), part.seen);
                    }
                }
            }
        }
    }

    /// For each line of a channel's first planes where it lies in them, and where in the channel, if inside.
    fn lines(&self, g: &Geometry, at: [usize; 3], seen: usize) -> Vec<(usize, Option<isize>)> {
        let (outer, middle) = (&g.axes[0], &g.axes[1]);
        let area = self.phases[1].len() * self.plane[0] * self.plane[1];
        let mut lines = Vec::with_capacity(outer.size * self.phases[0].len() * seen);
        for j in 0..outer.size {
            let from = outer.seen(at[0], j);
            for (phase, &start) in self.phases[0].iter().enumerate() {
                let plane = (j * self.phases[0].len() + phase) * area;
                let line = |row: usize| {
                    let place = ((at[1] + row) * middle.stride + start) as isize - middle.before;
                    let inside = (0..middle.extent as isize).contains(&place);
                    (plane + row * self.plane[1], from.filter(|_| inside).map(|from| from + place * middle.step))
                };
                lines.extend((0..seen).map(line));
            }
        }
        lines
    }
}
