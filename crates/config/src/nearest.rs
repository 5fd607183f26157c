//! "Did you mean": the nearest of the valid names.

/// The candidate nearest to `name` by edit distance (a swap of neighbours is one edit), if it is near enough to be a slip of the fingers: a third of the
/// name's length, at least two edits, and one where the name has five letters or fewer: with two of four changed it is another word. `-` and `_` count
/// as the same.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.replace('-', "_").to_ascii_lowercase();
    let furthest = match name.chars().count() {
        ..=5 => 1,
        letters => (letters / 3).max(2),
    };
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&name, &candidate.replace('-', "_")), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_wins_and_the_far_ones_do_not_count() {
        let names = ["max_connections", "max_backends", "permits"];
        assert_eq!(nearest("max-conections", names), Some("max_connections"));
        assert_eq!(nearest("permit", names), Some("permits"));
        assert_eq!(nearest("eprimts", names), Some("permits"), "two swaps");
        assert_eq!(nearest("colour", names), None);
        assert_eq!([nearest("zon", ["zone"]), nearest("lane", ["zone"])], [Some("zone"), None]);
    }
}
