//! Options that the service manager hands over as credentials: files that nobody else can read (systemd's `LoadCredential=`).

use std::path::Path;

use zeroize::Zeroizing;

use crate::error::Instead;
use crate::options::{OPTIONS, OptionSpec};
use crate::{Error, Fault, Place, content, nearest};

/// Names the folder (systemd.exec(5)).
pub(crate) const FOLDER_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Where systemd makes such folders, for services of the system and of users. Since version 254 it names one that it does not make where a
/// service has no credentials at present.
const OF_SYSTEMD: [&str; 2] = ["/run/credentials/", "/run/user/"];

/// What the names of ours begin with, so that others may lie beside them. systemd puts `_` between the name of a folder of
/// credentials and that of each file in it; who names each by itself often writes a point.
const PREFIXES: [&str; 2] = ["onramp_", "onramp."];

/// An option's value.
pub(crate) struct Credential {
    pub(crate) option: &'static OptionSpec,
    pub(crate) place: Place,
    /// Without the end of the line that editors leave.
    pub(crate) value: Zeroizing<String>,
}

/// Reads those in `folder`, in the order of their names.
pub(crate) fn read(folder: &Path, faults: &mut Vec<Error>) -> Vec<Credential> {
    let mut found = Vec::new();
    let unreadable = |path: &Path, error: &std::io::Error| {
        let place = Place::Environment(String::from(FOLDER_VARIABLE));
        Error::new(place, Fault::Unreadable { path: path.into(), reason: error.to_string() })
    };
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut names: Vec<String> = match entries {
        Ok(entries) => entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
        Err(error) => {
            let none = error.kind() == std::io::ErrorKind::NotFound
                && OF_SYSTEMD.iter().any(|place| folder.starts_with(place));
            // Anywhere else somebody has mistaken the path.
            faults.extend((!none).then(|| unreadable(folder, &error)));
            return found;
        }
    };
    names.sort();
    for name in names {
        // Other files, a key in PEM form say, have a point in their names.
        let ours = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let Some(option) = ours.filter(|option| !option.contains('.')) else { continue };
        let place = Place::Credential(name.clone());
        let Some(option) = OptionSpec::find(option) else {
            // As with variables: what is merely near to an option's name is a slip.
            faults.extend(nearest(option, OPTIONS.iter().map(|option| option.name)).map(|near| {
                let instead = Instead::Option(format!("onramp_{near}"));
                Error::new(place, Fault::UnknownOption { name: None, instead })
            }));
            continue;
        };
        let path = folder.join(&name);
        match content::text(&path) {
            // As with variables.
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let value = Zeroizing::new(String::from(text.trim_end_matches(['\n', '\r'])));
                found.push(Credential { option, place, value });
            }
            Err(error) => faults.push(unreadable(&path, &error)),
        }
    }
    found
}
