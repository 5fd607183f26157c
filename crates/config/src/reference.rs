//! The texts about the options for people: the help text and the reference page, both drawn from the table.

use std::fmt::Write as _;

use crate::Configuration;
use crate::options::{FILE_OPTION, OPTIONS, OptionSpec, Section};
use crate::value::Kind;

/// The text of `onramp serve --help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: onramp serve [--check] [OPTIONS]\n\n\
         Serves MySQL clients over few connections to a server. Without --backend it starts a private one.\n\
         Each option may also come from the environment or from a file (--config); a flag outranks the\n\
         environment, which outranks the file. docs/OPTIONS.md says more about each. With --check it serves nobody\n\
         and says all that is wrong with them.\n",
    );
    let mut defaults = Configuration::default();
    for section in Section::ALL {
        push(&mut text, format_args!("\n{}:\n", section.title()));
        for option in of(section) {
            push(&mut text, format_args!("  {} {}\n", option.flag(), option.kind.placeholder()));
            for line in wrapped(&summary(option, &mut defaults), 90) {
                push(&mut text, format_args!("      {line}\n"));
            }
        }
    }
    text
}

/// The text of docs/OPTIONS.md.
pub fn reference_page() -> String {
    let mut text = String::from(
        "# Options of `onramp serve`\n\n\
         <!-- Written by `onramp docs options` from crates/config/src/options.rs. -->\n\n\
         An option is given as a flag (`--max-connections 20000`), in the environment\n\
         (`ONRAMP_MAX_CONNECTIONS=20000`) or in the file that `--config` names (`max_connections = 20000`). A flag\n\
         outranks the environment, which outranks the file, which outranks the default. Between the environment and\n\
         the file stand credentials (docs/INSTALL.md): the content of the file `onramp_max_connections` in the folder\n\
         that `CREDENTIALS_DIRECTORY` names, as systemd sets it. In flags `-` and `_` are the\n\
         same. An empty environment variable counts as not set; in the environment, a list is separated by commas, in\n\
         the file it is `[\"a\", \"b\"]`, as a flag it is given once for each.\n\n\
         Times are whole numbers with a unit: `500ms`, `10s`, `5m`, `8h`, `1d`. Sizes are bytes or carry a unit:\n\
         `256KiB`, `64MiB`, `1GiB`. In the file, times and sizes with a unit stand in quotes.\n\n\
         Anything unknown, out of range or of the wrong type ends the start with exit code 2, before any socket is\n\
         opened. `onramp serve --check`, with the same options, says all that is wrong at once, with the lines of the\n\
         file, and serves nobody: its exit code is 1 then, and 0 where all is well. It also looks up the names of\n\
         servers and reads the files of TLS.\n",
    );
    let mut defaults = Configuration::default();
    for section in Section::ALL {
        push(&mut text, format_args!("\n## {}\n", section.title()));
        for option in of(section) {
            push_option(&mut text, option, &mut defaults);
        }
    }
    text
}

fn push_option(text: &mut String, option: &OptionSpec, defaults: &mut Configuration) {
    push(text, format_args!("\n### {}\n\n", option.name));
    for line in wrapped(option.doc, 110) {
        push(text, format_args!("{line}\n"));
    }
    let default =
        option.default(defaults).map_or_else(|| String::from("none"), |default| format!("`{default}`"));
    push(text, format_args!("\n- {}; default {default}\n", option.kind.description()));
    push(text, format_args!("- `{} {}`\n", option.flag(), option.example));
    push(text, format_args!("- `{}`\n", option.environment()));
    if option.name != FILE_OPTION {
        push(text, format_args!("- in the file: `{}`\n", file_line(option)));
    }
}

/// The option's example as a line of the file.
pub(crate) fn file_line(option: &OptionSpec) -> String {
    file_line_with(option, option.example)
}

fn file_line_with(option: &OptionSpec, value: &str) -> String {
    match value {
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{} = {number}", option.name),
        text => format!("{} = \"{text}\"", option.name),
    }
}

/// A file in which every option is explained and none is set.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Options of Onramp. None is set here: a line that begins with # says what holds by default, or an example\n\
         # where nothing does. Take the # away and change the value to set one.\n\
         #\n\
         # The one option that has to be set is `backend`: which server is behind, and as whom it is looked at.\n\
         # `onramp serve --check --config FILE` says all that is wrong with this file. A running service reads it\n\
         # again at `systemctl reload onramp`; what holds from the next start on only, it says in its log.\n",
    );
    let mut defaults = Configuration::default();
    for section in Section::ALL {
        push(
            &mut text,
            format_args!("\n\n# {} {}\n", section.title(), "-".repeat(97 - section.title().len())),
        );
        for option in of(section).filter(|option| option.name != FILE_OPTION) {
            text.push('\n');
            for line in wrapped(option.doc, 98) {
                push(&mut text, format_args!("# {line}\n"));
            }
            let default = option.default(&mut defaults);
            let held = if default.is_some() { "the default" } else { "an example; there is no default" };
            let live = if option.is_live() { "; can change while Onramp runs" } else { "" };
            push(&mut text, format_args!("# ({}; {held}{live})\n", option.kind.description()));
            let value = default.unwrap_or_else(|| String::from(option.example));
            push(&mut text, format_args!("#{}\n", file_line_with(option, &value)));
        }
    }
    text
}

/// An option of `onramp serve` in words, for manual pages and completions.
#[derive(Clone, Debug)]
pub struct OptionText {
    /// As the file has it.
    pub name: &'static str,
    /// The flag without its dashes.
    pub flag: String,
    /// What stands for its value in a synopsis.
    pub placeholder: &'static str,
    /// What it is about.
    pub doc: &'static str,
    /// The kind of value with its range.
    pub kind: String,
    /// Its default as it would be written; `None` where there is none, and for a secret.
    pub default: Option<String>,
    /// Under which heading it stands.
    pub section: &'static str,
    /// The words that are its values, where there are a few.
    pub words: Vec<&'static str>,
    /// It names a file or a folder.
    pub is_path: bool,
}

/// All options, in the order of the reference page.
pub fn option_texts() -> Vec<OptionText> {
    let mut defaults = Configuration::default();
    let options = Section::ALL.into_iter().flat_map(of);
    let text = |option: &'static OptionSpec| OptionText {
        name: option.name,
        flag: String::from(option.flag().trim_start_matches('-')),
        placeholder: option.kind.placeholder(),
        doc: option.doc,
        kind: option.kind.description(),
        default: option.default(&mut defaults),
        section: option.section.title(),
        words: option.kind.words(),
        is_path: matches!(option.kind, Kind::Path(_)),
    };
    options.map(text).collect()
}

fn summary(option: &OptionSpec, defaults: &mut Configuration) -> String {
    let first = option.doc.split_inclusive(". ").next().unwrap_or_default().trim_end();
    let default = option.default(defaults).map_or_else(String::new, |default| format!("; default {default}"));
    format!("{first} ({}{default})", option.kind.description())
}

fn of(section: Section) -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().filter(move |option| option.section == section)
}

/// Breaks text into lines of at most `width` characters, between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a last line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            push(line, format_args!(" {word}"));
        } else {
            lines.push(String::from(word));
        }
    }
    lines
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a String cannot fail");
}
