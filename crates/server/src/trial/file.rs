//! The files that a trial's report is written to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Says whether a report can be written there, as far as that shows before it is.
///
/// # Errors
/// Where its folder takes no file, or the path is a folder's own or that of a link that leads nowhere.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if let Place::File(path) = place(path)? {
        let (beside, _) = create_beside(&path)?;
        fs::remove_file(beside)?;
    }
    Ok(())
}

/// Writes a report. A file has all of it at once, so that nobody reads half; what is no file, such as a device or a pipe, is written to
/// as it is.
///
/// # Errors
/// As the system says. The file is as before then.
pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = match place(path)? {
        Place::Other(path) => return OpenOptions::new().write(true).open(path)?.write_all(text),
        Place::File(path) => path,
    };
    let (beside, mut file) = create_beside(&path)?;
    let written = file.write_all(text).and_then(|()| {
        if let Ok(before) = fs::metadata(&path) {
            file.set_permissions(before.permissions())?;
        }
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        // The first error is the one that says something.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Whether two paths lead to the same file, also to one that is not there yet.
pub(super) fn are_same(one: &Path, other: &Path) -> bool {
    let path = |path: &Path| match place(path) {
        Ok(Place::File(path) | Place::Other(path)) => in_its_folder(&path).unwrap_or(path),
        Err(_) => path.to_owned(),
    };
    path(one) == path(other)
}

/// A path by its folder's one name; `None` where there is no such folder, or the path ends with no name.
fn in_its_folder(path: &Path) -> Option<PathBuf> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    Some(folder.canonicalize().ok()?.join(name))
}

enum Place {
    /// A file, or where one can be.
    File(PathBuf),
    /// A device, a pipe, a socket.
    Other(PathBuf),
}

/// What a path leads to. Links are followed: what they lead to is written, not they.
fn place(path: &Path) -> io::Result<Place> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::File(path.to_owned())),
        found => found?,
    };
    let path = path.canonicalize()?;
    let found = fs::metadata(&path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(if found.is_file() { Place::File(path) } else { Place::Other(path) })
}

/// A file of our own in the same folder. What is there already, even as a link, is somebody else's.
fn create_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    Ok((beside, file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Gone with the value, and all that is in it.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_report_takes_the_place_of_a_file_and_of_nothing_else() {
        let folder = Folder(std::env::temp_dir().join(format!("onramp-report-{}", std::process::id())));
        let folder = &folder.0;
        fs::create_dir(folder).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("file"), "old").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        check(&at("link")).unwrap();
        write(&at("link"), b"report").unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("file")).unwrap(), b"report");
        assert_eq!(fs::metadata(at("file")).unwrap().permissions().mode() & 0o777, 0o600);
        write(&at("new"), b"report").unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"report");
        assert!(
            are_same(&at("file"), &at("link"))
                && are_same(&at("x"), &at("x"))
                && !are_same(&at("x"), &at("new"))
        );
        // What is not there yet has more than one name, too.
        let around = folder.join("..").join(folder.file_name().unwrap());
        assert!(are_same(&around.join("x"), &at("x")) && !are_same(&around.join("x"), &at("y")));
        assert!(are_same(Path::new("no-report-yet"), Path::new("./no-report-yet")));
        for refused in [at("dangling"), folder.clone(), at("no/folder")] {
            assert!(check(&refused).is_err() && write(&refused, b"report").is_err(), "{}", refused.display());
        }
        // A device takes it, and stays one. Nobody needs the rights of root to see that.
        check(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), b"report").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(write(Path::new("/dev/full"), b"report").is_err());
        assert_eq!(fs::read_dir(folder).unwrap().count(), 4, "nothing else is left behind");
    }
}
