//! MySQL's optimizer hints, as far as they set session variables.

use memchr::memchr;

use crate::steps;

/// The names that a hint sets, as they are written: those of `SET_VAR(name = value)`, for the statement that it stands in (manual,
/// "Variable-Setting Hint Syntax"). The value may hold anything in quotes; a name that stands in one is found too, which does no
/// harm: it is a variable that goes back. What is no plain name behind the parenthesis is told as an empty one.
pub(crate) fn variables(hint: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = hint.windows(WORD.len()).enumerate().filter(|(_, word)| word.eq_ignore_ascii_case(WORD));
    starts.filter_map(|(start, _)| {
        let behind = hint[start + WORD.len()..].trim_ascii_start().strip_prefix(b"(")?.trim_ascii_start();
        Some(name(behind).unwrap_or_default())
    })
}

/// The name before an equals sign. It ends where it is none, so that many that are open cost no more than one.
fn name(text: &[u8]) -> Option<&[u8]> {
    let (name, behind) = match text.strip_prefix(b"`") {
        Some(quoted) => {
            let end = memchr(b'`', quoted)?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            text.split_at(text.iter().take_while(|byte| plain(byte)).count())
        }
    };
    steps::add(name.len());
    behind.trim_ascii_start().starts_with(b"=").then_some(name)
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
        for unclear in ["+ SET_VAR(x", "+ SET_VAR(=1)", "+ SET_VAR(`x", "+ SET_VAR(a.b=1)"] {
            assert_eq!(of(unclear), [b""], "{unclear}");
        }
        assert_eq!(of("+ SET_VAR(SET_VAR(x=1)"), [&b""[..], b"x"]);
    }
}
