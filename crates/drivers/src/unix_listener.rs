//! Listening Unix sockets and the files that they leave behind.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, connect, listen};

use crate::socket_options::{listen_backlog, unix_socket};

/// The file of a listening Unix socket; removed on drop unless somebody else has put another in its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if ours {
            // If it cannot be removed, the next start finds it stale and replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on `path`. A socket file that nobody listens on any more is replaced.
///
/// # Errors
/// `AddrInUse` where somebody listens there or the path is no socket; otherwise what the system says.
pub(crate) fn unix_listener(path: &Path, backlog: u32) -> io::Result<(OwnedFd, SocketFile)> {
    let address = SocketAddrUnix::new(path)?;
    let socket = unix_socket()?;
    match bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_stale(path, &address)? => {
            fs::remove_file(path)?;
            bind(&socket, &address)?;
        }
        result => result?,
    }
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() };
    // As MySQL does: who may come in is for the login to say, not for the process's umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    listen(&socket, listen_backlog(backlog))?;
    Ok((socket, file))
}

/// True where the path is a socket and connecting to it is refused.
fn is_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = unix_socket()?;
    // EAGAIN is a listener with a full backlog: alive.
    Ok(connect(&probe, address) == Err(Errno::CONNREFUSED))
}
