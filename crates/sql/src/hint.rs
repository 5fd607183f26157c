//! MySQL's optimizer hints, as far as they set session variables.

/// The names that a hint sets, as they are written: those of `SET_VAR(name = value)`, for the statement that it stands in (manual,
/// "Variable-Setting Hint Syntax"). The value may hold anything in quotes; a name that stands in one is found too, which does no
/// harm: it is a variable that goes back.
pub(crate) fn variables(hint: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = hint.windows(WORD.len()).enumerate().filter(|(_, word)| word.eq_ignore_ascii_case(WORD));
    starts.filter_map(|(start, _)| {
        let behind = hint[start + WORD.len()..].trim_ascii_start().strip_prefix(b"(")?;
        let end = behind.iter().position(|&byte| byte == b'=')?;
        let name = behind[..end].trim_ascii();
        Some(name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name))
    })
}

const WORD: &[u8] = b"SET_VAR";

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_found() {
        let of = |hint: &'static str| super::variables(hint.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            of("+ SET_VAR(sql_mode = 'ANSI') set_var ( `time_zone`='x') "),
            [&b"sql_mode"[..], b"time_zone"]
        );
        assert_eq!(of("+ MAX_EXECUTION_TIME(50) NO_MERGE(a)"), [b""; 0]);
        assert_eq!(of("+ SET_VAR"), [b""; 0]);
        assert_eq!(of("+ SET_VAR(x"), [b""; 0]);
        assert_eq!(of("+ SET_VAR(=1)"), [b""]);
    }
}
