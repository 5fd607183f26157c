//! "Did you mean": the nearest of the valid names.

/// The candidate nearest to `name` by edit distance, if it is near enough to be a slip of the fingers: a third of the
/// name's length, at least two edits. `-` and `_` count as the same.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.replace('-', "_").to_ascii_lowercase();
    let furthest = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&name, &candidate.replace('-', "_")), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("permits", "permits"), 0);
        assert_eq!(edit_distance("permist", "permits"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_nearest_wins_and_the_far_ones_do_not_count() {
        let names = ["max_connections", "max_backends", "permits"];
        assert_eq!(nearest("max-conections", names), Some("max_connections"));
        assert_eq!(nearest("permit", names), Some("permits"));
        assert_eq!(nearest("colour", names), None);
    }
}
