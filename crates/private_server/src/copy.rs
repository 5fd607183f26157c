//! A second server with the data of one: for servers that replicate, which have to begin with the same.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::{Error, FileUse};
use crate::folder::Folder;

/// MySQL keeps its `server_uuid` in it, and makes another where it is missing.
/// <https://dev.mysql.com/doc/refman/8.4/en/replication-options.html#sysvar_server_uuid>
const IDENTITY: &str = "auto.cnf";

/// Copies the data and the passwords of a server that does not run into a folder that is not there yet. The copy has the same accounts, and is
/// a server of its own.
///
/// # Errors
/// What cannot be read or written, or that the server's folder is in use.
pub fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    // Held until the end: nobody starts a server on what is being copied.
    let source = Folder::take(from)?;
    std::fs::DirBuilder::new().mode(0o711).create(to).map_err(Error::file(to, FileUse::Create))?;
    for account in ["service", "admin"] {
        let file = source.password_file(account);
        let name = file.file_name().expect("a password's file has a name");
        copy_entry(&file, &to.join(name))?;
    }
    copy_entry(&source.data(), &to.join("data"))
}

/// A file, or a folder with what is in it, with its rights and its owner. Nothing else lies in a server's data that would be worth a copy:
/// sockets are made anew.
fn copy_entry(from: &Path, to: &Path) -> Result<(), Error> {
    let found = from.symlink_metadata().map_err(Error::file(from, FileUse::Read))?;
    if found.is_dir() {
        std::fs::DirBuilder::new().mode(0o700).create(to).map_err(Error::file(to, FileUse::Create))?;
        for entry in std::fs::read_dir(from).map_err(Error::file(from, FileUse::Read))? {
            let entry = entry.map_err(Error::file(from, FileUse::Read))?;
            if entry.file_name() != IDENTITY {
                copy_entry(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    } else if found.is_file() {
        std::fs::copy(from, to).map_err(Error::file(to, FileUse::Write))?;
    } else {
        return Ok(());
    }
    let rights = std::fs::Permissions::from_mode(found.permissions().mode());
    std::fs::set_permissions(to, rights).map_err(Error::file(to, FileUse::Write))?;
    let made = to.symlink_metadata().map_err(Error::file(to, FileUse::Read))?;
    if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
        std::os::unix::fs::chown(to, Some(found.uid()), Some(found.gid()))
            .map_err(Error::file(to, FileUse::Use))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_data_and_the_passwords_and_not_the_identity() {
        let folder = std::env::temp_dir().join(format!("onramp-copy-{}", std::process::id()));
        let (from, to) = (folder.join("one"), folder.join("two"));
        std::fs::create_dir_all(from.join("data/schema")).unwrap();
        for (name, text) in [
            ("service.password", "a"),
            ("admin.password", "b"),
            ("server.log", "said"),
            ("data/auto.cnf", "uuid"),
            ("data/schema/table.ibd", "rows"),
        ] {
            std::fs::write(from.join(name), text).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(from.join("data/server.sock")).unwrap();
        std::fs::set_permissions(from.join("data/schema"), std::fs::Permissions::from_mode(0o750)).unwrap();
        copy(&from, &to).unwrap();
        let again = copy(&from, &to);
        let read = |name: &str| std::fs::read_to_string(to.join(name)).ok();
        let found = ["service.password", "admin.password", "server.log", "data/auto.cnf", "data/server.sock"]
            .map(read);
        let rows = read("data/schema/table.ibd");
        let mode = to.join("data/schema").metadata().unwrap().permissions().mode() & 0o777;
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [Some(String::from("a")), Some(String::from("b")), None, None, None]);
        assert_eq!((rows.as_deref(), mode), (Some("rows"), 0o750));
        assert!(again.is_err(), "nothing is written over");
    }
}
