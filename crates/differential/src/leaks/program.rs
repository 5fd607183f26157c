//! What clients do, one after the other, and how that is written in a file.

use std::fmt::Write as _;

use crate::Failure;
use crate::connection::Login;
use crate::step::Step;

/// How a client lets go of its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// COM_QUIT.
    Quit,
    /// It closes its connection without a word.
    Drop,
    /// COM_RESET_CONNECTION, and it stays.
    Reset,
    /// COM_CHANGE_USER to the account that it has, and it stays.
    ChangeUser,
}

impl Ending {
    pub(crate) const ALL: [Self; 4] = [Self::Quit, Self::Drop, Self::Reset, Self::ChangeUser];

    fn name(self) -> &'static str {
        match self {
            Self::Quit => "quit",
            Self::Drop => "drop",
            Self::Reset => "reset",
            Self::ChangeUser => "change_user",
        }
    }
}

/// A client: its login, what it does, and how it lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) login: Login,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

/// Clients that come one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) visits: Vec<Visit>,
}

impl Program {
    /// The file's text.
    pub(crate) fn write(&self) -> String {
        let mut text = String::new();
        for Visit { login, steps, ending } in &self.visits {
            let Login { user, schema, collation, capabilities } = login;
            let _ = writeln!(text, "client\t{user}\t{schema}\t{collation}\t{capabilities}");
            for step in steps {
                let _ = writeln!(text, "{}", step.write());
            }
            let _ = writeln!(text, "end\t{}", ending.name());
        }
        text
    }

    /// Whether what is in the schemas may be another afterwards.
    pub(crate) fn changes_definitions(&self) -> bool {
        let text = self.write().to_ascii_uppercase();
        // EXECUTE too: texts can be spelled in digits.
        ["CREATE", "DROP", "ALTER", "RENAME", "EXECUTE", "P_RUN"].iter().any(|word| text.contains(word))
    }

    /// Reads what [`Self::write`] wrote. Lines that begin with `#` are for people.
    ///
    /// # Errors
    /// The line that is not understood.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let mut visits: Vec<Visit> = Vec::new();
        let mut open: Option<Visit> = None;
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let wrong = || format!("not understood: {line}");
            let words: Vec<&str> = line.split('\t').collect();
            match (words.as_slice(), &mut open) {
                (["client", user, schema, collation, capabilities], None) => {
                    let login = Login {
                        user: (*user).into(),
                        schema: (*schema).into(),
                        collation: collation.parse().map_err(|_| wrong())?,
                        capabilities: capabilities.parse().map_err(|_| wrong())?,
                    };
                    open = Some(Visit { login, steps: Vec::new(), ending: Ending::Quit });
                }
                (["end", name], Some(_)) => {
                    let ending = Ending::ALL.into_iter().find(|ending| ending.name() == *name);
                    let mut visit = open.take().ok_or_else(wrong)?;
                    visit.ending = ending.ok_or_else(wrong)?;
                    visits.push(visit);
                }
                (_, Some(visit)) => visit.steps.push(Step::read(line).ok_or_else(wrong)?),
                (_, None) => return Err(wrong().into()),
            }
        }
        match open {
            Some(_) => Err("the last client has no end".into()),
            None => Ok(Self { visits }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks::grammar;

    #[test]
    fn programs_are_read_as_they_were_written() {
        for seed in 0..200 {
            let program = grammar::draw(seed, seed % 2 == 0);
            assert_eq!(Program::read(&program.write()).unwrap(), program, "{seed}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let program = grammar::draw(1, false).write();
        for (line, named) in [("query\tSELECT 1\n", "SELECT 1"), ("client\tapp\t\t45\t0\n", "no end")] {
            let error = Program::read(&format!("{program}{line}")).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
