//! What stands behind `?`.

/// The value of this name; nothing where it is not there, or is no UTF-8.
pub(super) fn value(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(found, _)| *found == name)?;
    decoded(value)
}

/// Likewise, as a number.
pub(super) fn number(query: &str, name: &str) -> Option<u64> {
    value(query, name)?.parse().ok()
}

/// `%41` and `+`, as a form of HTML writes them.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                // A sign is no digit, and would be read all the same.
                let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.contains('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_was_typed() {
        assert_eq!(value("q=a%20b%26c+d&x=1", "q").as_deref(), Some("a b&c d"));
        assert_eq!(value("q=&x=1", "q").as_deref(), Some(""));
        assert_eq!(number("since=12&q=1", "since"), Some(12));
        for wrong in ["q=%", "q=%4", "q=%zz", "q=%+f", "q=%ff", "qq=1", "", "q"] {
            assert_eq!(value(wrong, "q"), None, "{wrong}");
        }
    }
}
