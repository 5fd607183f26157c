//! The options of a file.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Instead, Misplaced};
use crate::live::Source;
use crate::options::{FILE_OPTION, NAMES_OF_CLIENTS, OPTIONS, OptionSpec};
use crate::value::Given;
use crate::{Configuration, Error, Fault, Place, nearest};

/// Checks every key of `text`, the content of `path`, and applies it. What is wrong is left out, and joins the others by its line.
pub(crate) fn apply(configuration: &mut Configuration, path: &Path, text: &str, faults: &mut Vec<Error>) {
    let (table, unreadable) = DeTable::parse_recoverable(text);
    let mut found: Vec<(usize, Fault)> = Vec::new();
    for error in unreadable {
        // Not the error's own display: it quotes the line, which may hold a password.
        let reason = String::from(error.message());
        found.push((line(text, error.span().map_or(0, |span| span.start)), Fault::NoToml(reason)));
    }
    for (key, value) in table.get_ref() {
        // What was made of a line that cannot be read is nobody's.
        let lines = [key.span().start, value.span().start].map(|offset| line(text, offset));
        if found.iter().any(|(line, fault)| matches!(fault, Fault::NoToml(_)) && lines.contains(line)) {
            continue;
        }
        let option = match option(key.get_ref(), value.get_ref()) {
            Ok(option) => option,
            Err(fault) => {
                found.push((lines[0], fault));
                continue;
            }
        };
        let items = match value.get_ref() {
            DeValue::Array(items) if option.kind.repeatable() => items.iter().map(given).collect(),
            _ => vec![given(value)],
        };
        if let Err(reason) = configuration.choose(option, &items, Source::File) {
            found.push((lines[1], Fault::Value { option: Some(option.name), reason }));
        }
    }
    found.sort_by_key(|(line, _)| *line);
    let place = |line| Place::File { path: path.into(), line };
    faults.extend(found.into_iter().map(|(line, fault)| Error::new(place(line), fault)));
}

fn option(key: &str, value: &DeValue<'_>) -> Result<&'static OptionSpec, Fault> {
    if key == FILE_OPTION {
        return Err(Fault::Misplaced(Misplaced::FileInFile));
    }
    // As it is written in the table: a file has no dashes.
    if let Some(option) = OptionSpec::find(key).filter(|_| !key.contains('-')) {
        return Ok(option);
    }
    if value.is_table() {
        return Err(Fault::Misplaced(Misplaced::Section(String::from(key))));
    }
    let names = OPTIONS.iter().map(|option| option.name).filter(|name| *name != FILE_OPTION);
    let instead = match nearest(key, names) {
        _ if NAMES_OF_CLIENTS.contains(&key) => Instead::Addresses { listen: "listen", backend: "backend" },
        Some(name) => Instead::Option(String::from(name)),
        None => Instead::Nothing,
    };
    Err(Fault::UnknownOption { name: Some(String::from(key)), instead })
}

fn given<'a>(value: &'a Spanned<DeValue<'_>>) -> Given<'a> {
    match value.get_ref() {
        DeValue::String(text) => Given::Quoted(text),
        DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
            .map_or(Given::Other("a number beyond all ranges"), Given::Integer),
        DeValue::Float(_) => Given::Other("a fraction"),
        DeValue::Boolean(_) => Given::Other("true or false"),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(_) => Given::Other("a list"),
        DeValue::Table(_) => Given::Other("a table"),
    }
}

/// The line, from 1, in which the byte at `offset` stands.
fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
