//! The options of a file.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::live::Source;
use crate::options::{FILE_OPTION, NAMES_OF_CLIENTS, OPTIONS, OptionSpec};
use crate::value::Given;
use crate::{Configuration, Error, Place, nearest};

/// Checks every key of `text`, the content of `path`, and applies it.
pub(crate) fn apply(configuration: &mut Configuration, path: &Path, text: &str) -> Result<(), Error> {
    let place = |offset: usize| Place::File { path: path.into(), line: line(text, offset) };
    let table = DeTable::parse(text).map_err(|error| {
        // Not the error's own display: it quotes the line, which may hold a password.
        Error::new(place(error.span().map_or(0, |span| span.start)), error.message())
    })?;
    for (key, value) in table.get_ref() {
        let option = option(key.get_ref(), value.get_ref())
            .map_err(|message| Error::new(place(key.span().start), message))?;
        let items = match value.get_ref() {
            DeValue::Array(items) if option.kind.repeatable() => items.iter().map(given).collect(),
            _ => vec![given(value)],
        };
        configuration.choose(option, &items, Source::File).map_err(|message| {
            Error::new(place(value.span().start), format!("{}: {message}", option.name))
        })?;
    }
    Ok(())
}

fn option(key: &str, value: &DeValue<'_>) -> Result<&'static OptionSpec, String> {
    if key == FILE_OPTION {
        return Err(format!("{FILE_OPTION} names the file and cannot stand in it"));
    }
    // As it is written in the table: a file has no dashes.
    if let Some(option) = OptionSpec::find(key).filter(|_| !key.contains('-')) {
        return Ok(option);
    }
    if value.is_table() {
        return Err(format!("[{key}]: there are no sections; options stand at the top level"));
    }
    let names = OPTIONS.iter().map(|option| option.name).filter(|name| *name != FILE_OPTION);
    Err(match nearest(key, names) {
        _ if NAMES_OF_CLIENTS.contains(&key) => format!(
            "unknown option {key:?}; listen says where clients connect, backend which server is behind and as whom"
        ),
        Some(name) => format!("unknown option {key:?}; did you mean {name}?"),
        None => format!("unknown option {key:?}; `onramp serve --help` lists them all"),
    })
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
