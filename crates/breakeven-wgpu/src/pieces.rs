//! Uploads cut into pieces that are staged and sent by themselves, so that the device fetches one while the next is staged.

/// Bytes on their way to a slot, where they begin at byte `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub slot: usize,
    pub at: u64,
    pub bytes: &'a [u8],
}

/// Pieces of the `uploads` into slots, in order, in parts that are sent together. Each part but the last has at least `chunk`
/// bytes, so that sending it costs little beside moving it; the last may go with the work that follows.
pub(crate) fn parts<'a>(uploads: impl Iterator<Item = (usize, &'a [u8])>, chunk: u64) -> Vec<Vec<Piece<'a>>> {
    // Pieces start where words and bindings may.
    let chunk = (chunk.max(1).next_multiple_of(16)) as usize;
    let (mut parts, mut staged) = (vec![Vec::new()], 0);
    for (slot, all) in uploads {
        for (nth, bytes) in all.chunks(chunk).enumerate() {
            if staged >= chunk {
                parts.push(Vec::new());
                staged = 0;
            }
            staged += bytes.len();
            let piece = Piece { slot, at: (nth * chunk) as u64, bytes };
            parts.last_mut().expect("it starts with one").push(piece);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lengths: &[usize], chunk: u64, want: &[&[(usize, u64, usize)]]) {
        let data: Vec<Vec<u8>> = lengths.iter().map(|n| vec![0; *n]).collect();
        let got = parts(data.iter().map(Vec::as_slice).enumerate(), chunk);
        let got: Vec<Vec<_>> =
            got.iter().map(|part| part.iter().map(|p| (p.slot, p.at, p.bytes.len())).collect()).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn what_fits_one_chunk_is_one_part() {
        check(&[], 32, &[&[]]);
        check(&[0, 0], 32, &[&[]]);
        check(&[32], 32, &[&[(0, 0, 32)]]);
        check(&[20, 0, 30], 32, &[&[(0, 0, 20), (2, 0, 30)]]);
    }

    #[test]
    fn what_is_longer_goes_in_parts_of_at_least_a_chunk() {
        check(&[33], 32, &[&[(0, 0, 32)], &[(0, 32, 1)]]);
        check(&[70, 5], 32, &[&[(0, 0, 32)], &[(0, 32, 32)], &[(0, 64, 6), (1, 0, 5)]]);
        check(&[20, 20, 20], 32, &[&[(0, 0, 20), (1, 0, 20)], &[(2, 0, 20)]]);
    }

    #[test]
    fn pieces_start_at_words() {
        check(&[40], 1, &[&[(0, 0, 16)], &[(0, 16, 16)], &[(0, 32, 8)]]);
        check(&[40], 0, &[&[(0, 0, 16)], &[(0, 16, 16)], &[(0, 32, 8)]]);
    }
}
