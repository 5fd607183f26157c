//! The statements that turn one session state into another on a backend.

use std::borrow::Cow;

use crate::session::{SessionState, is_utf8};

/// Returns the statements that bring a backend into the state `wanted`. The backend is in one of the states `found`, or between two of them.
/// `with_schema` chooses the schema, even if it is the present one.
///
/// A schema's name is known as the server has reported it, in UTF-8. The server reads texts as character_set_client says. So a name
/// beyond ASCII goes ahead of a character set that is not UTF-8.
pub(in crate::backend) fn statements(
    wanted: &SessionState,
    found: &[&SessionState],
    with_schema: bool,
) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    let mut set = Vec::new();
    let schema = wanted.schema.as_deref().filter(|_| with_schema);
    let schema = schema.map(|schema| (choose(schema), wanted.can_say_schema()));
    if let Some((choose, false)) = &schema {
        let in_utf8 = |found: &&SessionState| is_utf8(&found.charset.client);
        if !found.iter().all(in_utf8) {
            texts.push(b"SET @@session.character_set_client='utf8mb4'".to_vec());
        }
        texts.push(choose.clone());
        let said = found.iter().map(|&found| match in_utf8(&found) {
            true => Cow::Borrowed(found),
            false => {
                let mut said = found.clone();
                said.charset.client = (*b"utf8mb4").into();
                Cow::Owned(said)
            }
        });
        let said: Vec<_> = said.collect();
        wanted.put_set(&said.iter().map(Cow::as_ref).collect::<Vec<_>>(), &mut set);
    } else {
        wanted.put_set(found, &mut set);
    }
    if !set.is_empty() {
        texts.push(set);
    }
    if let Some((choose, true)) = schema {
        texts.push(choose);
    }
    texts
}

fn choose(schema: &[u8]) -> Vec<u8> {
    let mut statement = b"USE ".to_vec();
    sql::quote_identifier(&mut statement, schema);
    statement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Charset;

    fn state(charset: &str, schema: &str) -> SessionState {
        SessionState {
            schema: Some(schema.as_bytes().into()),
            charset: Charset::of_login(charset.as_bytes(), b""),
            ..SessionState::default()
        }
    }

    fn texts(wanted: &SessionState, found: &SessionState) -> Vec<String> {
        let texts = statements(wanted, &[found], wanted.schema != found.schema);
        texts.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn a_schema_is_chosen_behind_the_rest() {
        let (latin, utf8) = (state("latin1", "a"), state("utf8mb4", "b"));
        assert_eq!(texts(&latin, &utf8), ["SET NAMES 'latin1'", "USE `a`"]);
        assert_eq!(statements(&latin, &[&utf8], false).len(), 1);
        assert_eq!(texts(&state("utf8mb4", "ä"), &latin), ["SET NAMES 'utf8mb4'", "USE `ä`"]);
    }

    #[test]
    fn what_is_another_in_any_of_several_states_is_set() {
        let with_zone = |mut state: SessionState, zone: &str| {
            state.set_variable(b"time_zone", zone.as_bytes());
            state
        };
        let wanted = with_zone(state("latin1", "a"), "+01:00");
        let (same, plain) = (wanted.clone(), state("latin1", "a"));
        let (zone, charset) = (with_zone(plain.clone(), "+02:00"), with_zone(state("greek", "b"), "+01:00"));
        let mut other = plain.clone();
        other.set_variable(b"sql_mode", b"ANSI");
        let from = |found: &[&SessionState]| {
            let texts = statements(&wanted, found, found.iter().any(|found| found.schema != wanted.schema));
            texts.into_iter().map(|text| String::from_utf8(text).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(from(&[&same, &same]), [""; 0]);
        assert_eq!(from(&[&same, &zone]), ["SET @@session.time_zone='+01:00'"]);
        assert_eq!(from(&[&charset, &same]), ["SET NAMES 'latin1'", "USE `a`"]);
        let all = "SET @@session.sql_mode=DEFAULT,NAMES 'latin1',@@session.time_zone='+01:00'";
        assert_eq!(from(&[&other, &charset, &other]), [all, "USE `a`"]);
    }

    #[test]
    fn a_name_beyond_ascii_is_said_in_utf_8() {
        let (latin, utf8) = (state("latin1", "ä"), state("utf8mb4", "b"));
        assert_eq!(texts(&latin, &utf8), ["USE `ä`", "SET NAMES 'latin1'"]);
        assert_eq!(
            texts(&latin, &state("latin1", "b")),
            ["SET @@session.character_set_client='utf8mb4'", "USE `ä`", "SET NAMES 'latin1'"]
        );
        // MySQL has said nothing of the character sets behind a reset.
        assert_eq!(texts(&latin, &state("", "b")).len(), 3);
        assert_eq!(texts(&latin, &latin.clone()), [""; 0]);
    }
}
