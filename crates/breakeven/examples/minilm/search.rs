//! The lines most like a query.

/// A line and its likeness to the query: 1 for the same direction, 0 for nothing in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub line: usize,
    pub likeness: f32,
}

/// The `count` best lines, best first; of equals, the earlier. Vectors have length 1, so their product is the cosine.
pub fn best(lines: &[Vec<f32>], query: &[f32], count: usize) -> Vec<Hit> {
    let likeness = |vector: &[f32]| vector.iter().zip(query).map(|(a, b)| a * b).sum();
    let mut hits: Vec<Hit> = lines.iter().enumerate().map(|(line, v)| Hit { line, likeness: likeness(v) }).collect();
    hits.sort_by(|a, b| b.likeness.total_cmp(&a.likeness));
    hits.truncate(count);
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_ties_keep_their_order() {
        let lines = [vec![0.0, 1.0], vec![0.6, 0.8], vec![1.0, 0.0], vec![1.0, 0.0]];
        let hits: Vec<usize> = best(&lines, &[1.0, 0.0], 3).iter().map(|hit| hit.line).collect();
        assert_eq!(hits, [2, 3, 1]);
    }
}
