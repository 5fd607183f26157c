//! What a package brings beside the program: manual pages and completions for shells, made of the command lines as they are.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;

/// More options than this are not listed in a page's synopsis: they fill it, and stand below anyway.
const MOST_IN_SYNOPSIS: usize = 20;

/// The program.
const NAME: &str = "onramp";

/// `onramp docs man [COMMAND]`: the manual page of the program or of one command (`bench-run` for one of a command's), in roff.
pub(crate) fn page(of: Option<&str>) -> ExitCode {
    let mut root = command();
    root.build();
    let mut words = of.into_iter().flat_map(|name| name.split('-'));
    let found = words.try_fold(&root, |command, word| command.find_subcommand(word));
    let Some(found) = found else {
        let names: Vec<_> = root.get_subcommands().map(Command::get_name).collect();
        return crate::usage_error(&format!("docs man: there are pages for {}", names.join(", ")));
    };
    let title = of.map_or_else(|| String::from(NAME), |name| format!("{NAME}-{name}"));
    let mut text = Vec::new();
    match write_page(found, &title, &mut text) {
        Ok(()) => crate::print(&String::from_utf8_lossy(&text)),
        Err(error) => crate::usage_error(&format!("docs man: {error}")),
    }
}

fn write_page(of: &Command, title: &str, text: &mut Vec<u8>) -> io::Result<()> {
    let has_commands = of.get_subcommands().next().is_some();
    let few = of.get_arguments().count() <= MOST_IN_SYNOPSIS;
    let synopsis = title.replacen('-', " ", 1);
    let page = clap_mangen::Man::new(of.clone().display_name(String::from(title)))
        .title(title.to_uppercase())
        .section("1")
        // No date: the same program makes the same page.
        .date("")
        .manual("Onramp");
    page.render_title(text)?;
    page.render_name_section(text)?;
    if few {
        page.render_synopsis_section(text)?;
    } else {
        writeln!(text, ".SH SYNOPSIS\n\\fB{synopsis}\\fR [OPTIONS]")?;
    }
    page.render_description_section(text)?;
    page.render_options_section(text)?;
    if has_commands {
        page.render_subcommands_section(text)?;
    }
    if of.get_after_long_help().is_some() || of.get_after_help().is_some() {
        page.render_extra_section(text)?;
    }
    Ok(())
}

/// `onramp docs completions SHELL`.
pub(crate) fn completions(shell: &str) -> ExitCode {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => return crate::usage_error("docs completions: for bash, zsh or fish"),
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut text);
    crate::print(&String::from_utf8_lossy(&text))
}

/// The whole command line.
fn command() -> Command {
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about("A thread pool for any MySQL or MariaDB server, as a program of its own")
        .long_about(
            "Clients connect to Onramp as to the server; few connections go on to the server, and a small number of statements run \
             there at a time. Each command has a page of its own.",
        )
        .disable_help_subcommand(true)
        .subcommand(serve())
        .subcommand(trial())
        .subcommand(top::command_line())
        .subcommand(bench::command_line())
        .subcommand(doctor::command_line())
        .subcommand(
            Command::new("health")
                .about("Asks the Onramp beside it whether it is well: for the checks of containers")
                .arg(
                    Arg::new("ready")
                        .long("ready")
                        .action(ArgAction::SetTrue)
                        .help("Ask whether it serves new clients, and not only whether its loops turn"),
                )
                .args(options()),
        )
        .subcommand(challenge::command_line())
        .subcommand(
            Command::new("docs")
                .about("Prints what packages and pages are made of")
                .disable_help_subcommand(true)
                .subcommand(Command::new("options").about("The reference page of all options"))
                .subcommand(Command::new("configuration").about("A file in which every option is explained and none is set"))
                .subcommand(
                    Command::new("man")
                        .about("The manual page of the program, or of one command")
                        .arg(Arg::new("command").help("Which one")),
                )
                .subcommand(
                    Command::new("completions")
                        .about("Completions for a shell")
                        .arg(Arg::new("shell").required(true).value_parser(["bash", "zsh", "fish"])),
                ),
        )
}

fn serve() -> Command {
    Command::new("serve")
        .about("Serves MySQL clients over few connections to a server")
        .long_about(
            "Serves MySQL clients over few connections to a server. Without --backend it starts a private one.\n\n\
             Each option may also come from the environment (ONRAMP_ and its name in capitals, with _ for -), from a credential or from the file that --config \
             names. A flag outranks the environment, which outranks credentials, which outrank the file. Times are whole numbers \
             with a unit: 500ms, 10s, 5m, 8h, 1d. Sizes are bytes or carry a unit: 256KiB, 64MiB, 1GiB.",
        )
        .after_long_help(
            "Exit codes: 0 an orderly end, 1 it could not start or stopped by a defect, 2 an option is wrong. With --check: 0 all is \
             well, 1 it is not.\n\nSignals: SIGTERM and SIGINT end it in an orderly way, and a second one at once; SIGHUP has options, \
             certificates and keys read again; SIGUSR1 logs what memory is held for; SIGUSR2 opens the slow log anew.",
        )
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Say all that is wrong with the options, and serve nobody"),
        )
        .args(options())
}

fn trial() -> Command {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_hint(ValueHint::FilePath).help(help)
    };
    Command::new("trial")
        .about("Serves with one backend for each client, and tells what a pool would make of the load")
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("TIME")
                .help("When the first report is due: 10m, 2h [default: 1h]"),
        )
        .arg(file("json", "Each report as JSON, in the place of the one before"))
        .arg(file("html", "Likewise as a page that needs nothing else"))
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("ADDRESS")
                .help("Serve nobody, and watch the Onramp whose admin port this is"),
        )
        .arg(Arg::new("user").long("user").value_name("NAME").help("With --from: its admin_user"))
        .arg(file("password-file", "With --from: the file whose first line is its admin_password"))
        .args(options())
}

/// The options of `serve`.
fn options() -> Vec<Arg> {
    config::option_texts().into_iter().map(option).collect()
}

fn option(text: config::OptionText) -> Arg {
    let default = text.default.map_or_else(String::new, |default| format!("; default {default}"));
    let (summary, _) = text.doc.split_once(". ").unwrap_or((text.doc.trim_end_matches('.'), ""));
    let argument = Arg::new(text.name)
        .long(text.flag)
        .value_name(text.placeholder)
        .help_heading(text.section)
        .help(String::from(summary))
        .long_help(format!("{} ({}{default})", text.doc, text.kind));
    if text.is_path {
        argument.value_hint(ValueHint::AnyPath)
    } else if text.words.is_empty() {
        argument
    } else {
        argument.value_parser(PossibleValuesParser::new(text.words)).hide_possible_values(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    /// By the help, by what an unknown command is held against, and by pages and completions.
    #[test]
    fn the_commands_are_the_same_everywhere() {
        let (_, list) = crate::USAGE.split_once("\nCommands:\n").unwrap();
        let (list, _) = list.split_once("\n\n").unwrap();
        let told: Vec<_> = list.lines().filter_map(|line| line.split_ascii_whitespace().next()).collect();
        assert_eq!([&told[..], &["version"]].concat(), crate::COMMANDS);
        let command = command();
        let mut pages: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        pages.push("help");
        assert_eq!(pages, told);
    }

    #[test]
    fn every_command_has_a_page() {
        fn each(command: &Command, title: &str) {
            let mut text = Vec::new();
            write_page(command, title, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains(&format!(".TH {} 1", title.to_uppercase())), "{title}");
            for subcommand in command.get_subcommands() {
                each(subcommand, &format!("{title}-{}", subcommand.get_name()));
            }
        }
        let mut root = command();
        root.build();
        each(&root, NAME);
    }

    #[test]
    fn every_option_is_there() {
        let serve = serve();
        for option in config::option_texts() {
            let found = serve.get_arguments().find(|argument| argument.get_long() == Some(&option.flag));
            let help = found.and_then(Arg::get_long_help).map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with(option.doc), "{}", option.name);
        }
    }
}
