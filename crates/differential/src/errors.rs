//! Errors that may differ between a direct connection and one through Onramp, and what tells of them.

use wire::parse_text_row;

use crate::step::Step;

/// ER_MALFORMED_PACKET, ER_WRONG_ARGUMENTS, ER_UNSUPPORTED_PS, ER_TABLE_EXISTS_ERROR or ER_LOAD_INFILE_CAPABILITY_DISABLED, and
/// what preparing the statement gives where nothing may be changed, a temporary table has another's place, or the table is not
/// among those locked (ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION and so on).
pub(crate) fn refused_before_its_values(step: &Step, direct: &[u8], through: &[u8]) -> bool {
    let code = |payload| wire::ErrPacket::parse(payload).map_or(0, |error| error.code);
    matches!(step, Step::Execute { .. } | Step::Bulk { .. })
        && [1835, 1210, 1295, 1050, 4166].contains(&code(direct))
        && [1792, 1054, 1100, 1099].contains(&code(through))
}

/// ER_UNKNOWN_TABLE or ER_NO_SUCH_TABLE.
pub(crate) fn is_not_in_information_schema(error: &[u8]) -> bool {
    wire::ErrPacket::parse(error).is_ok_and(|error| {
        [1109, 1146].contains(&error.code)
            && String::from_utf8_lossy(error.message).contains("information_schema")
    })
}

/// The same in a row of SHOW WARNINGS or SHOW ERRORS.
pub(crate) fn tells_of_no_table(row: &[u8]) -> bool {
    let Ok(cells) = parse_text_row(row) else { return false };
    let [_, Some(code), Some(message)] = cells[..] else { return false };
    [&b"1109"[..], b"1146"].contains(&code) && String::from_utf8_lossy(message).contains("information_schema")
}

/// ER_PARSE_ERROR shows a piece of the text.
pub(crate) fn quotes_text(error: &[u8]) -> bool {
    wire::ErrPacket::parse(error).is_ok_and(|error| error.code == 1064)
}

/// ER_UNKNOWN_STMT_HANDLER and ER_STMT_HAS_NO_OPEN_CURSOR name a statement in parentheses, in an ERR and in what SHOW
/// WARNINGS tells of it.
pub(crate) fn names_statement(direct: &[u8], through: &[u8]) -> bool {
    let nameless = |payload: &[u8]| {
        let text = String::from_utf8_lossy(payload).into_owned();
        let begin =
            ["statement (", "handler ("].iter().find_map(|word| Some(text.find(word)? + word.len()))?;
        let end = begin + text[begin..].find(')')?;
        let is_number = text[begin..end].bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| [&text[..begin], &text[end..]].concat())
    };
    nameless(direct).is_some_and(|text| nameless(through) == Some(text))
}

pub(crate) fn cells_name_statement(direct: &[u8], through: &[u8]) -> bool {
    let (Ok(one), Ok(two)) = (parse_text_row(direct), parse_text_row(through)) else { return false };
    let same = |one: Option<&[u8]>, two: Option<&[u8]>| {
        one == two || one.zip(two).is_some_and(|(one, two)| names_statement(one, two))
    };
    one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| same(*one, *two))
}
