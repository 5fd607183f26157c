//! What is in a file that somebody has named, whatever that is in truth.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use zeroize::Zeroizing;

/// Bytes of a file of options, certificates or keys. All authorities of the world have some hundred KiB; `/dev/zero` has no end.
const LONGEST: usize = 4 << 20;

/// What comes through a pipe, of `--config <(vault read ...)` say, may take this long to come, and each piece of it after the one before.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Reads all of it. A pipe is read while somebody writes to it; nobody is waited for who does not come.
///
/// # Errors
/// The system's own, where there is nobody who writes or nothing comes, and where it is longer than a file of that kind can be.
pub fn content(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // To open a FIFO would take until somebody writes to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_fifo = file.metadata()?.file_type().is_fifo();
    let mut bytes = Zeroizing::new(Vec::new());
    let mut piece = Zeroizing::new([0; 16 << 10]);
    loop {
        match file.read(&mut *piece) {
            Ok(0) if is_fifo && bytes.is_empty() => {
                return Err(io::Error::other("it is a FIFO, and nobody writes to it"));
            }
            Ok(0) => return Ok(bytes),
            Ok(count) if bytes.len() + count > LONGEST => {
                return Err(io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)));
            }
            Ok(count) => append(&mut bytes, &piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut waiting = [PollFd::new(&file, PollFlags::IN)];
                if retry_on_intr(|| poll(&mut waiting, Some(&PATIENCE)))? == 0 {
                    let waited = PATIENCE.tv_sec;
                    return Err(io::Error::other(format!("nothing has come from it for {waited} s")));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// A vector that grows leaves a copy of what it held where it was.
fn append(bytes: &mut Zeroizing<Vec<u8>>, piece: &[u8]) {
    if bytes.capacity() - bytes.len() < piece.len() {
        let mut larger = Zeroizing::new(Vec::with_capacity(2 * (bytes.len() + piece.len())));
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
    bytes.extend_from_slice(piece);
}

/// [`content()`], of a text.
///
/// # Errors
/// Likewise, and where it is not UTF-8.
pub(crate) fn text(path: &Path) -> io::Result<Zeroizing<String>> {
    let bytes = content(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))?;
    Ok(Zeroizing::new(String::from(text)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    struct Fifo(PathBuf);

    impl Fifo {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("onramp-content-{}-{name}", std::process::id()));
            mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
            Self(path)
        }
    }

    impl Drop for Fifo {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn nobody_is_waited_for_who_does_not_write_and_nothing_is_read_without_end() {
        let fifo = Fifo::new("nobody");
        assert!(content(&fifo.0).unwrap_err().to_string().contains("nobody writes to it"));
        assert!(content("/dev/zero".as_ref()).unwrap_err().to_string().contains("longer than 4 MiB"));
        assert!(content("/".as_ref()).is_err());
        assert_eq!(content("/dev/null".as_ref()).unwrap().len(), 0);
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let fifo = Fifo::new("written");
        // Both ends, so that it is there before anybody has written.
        let mut pipe = File::options().read(true).write(true).open(&fifo.0).unwrap();
        // More than a pipe holds, so that it is open until all but the rest has been read.
        let write = move || (0..2).try_for_each(|_| pipe.write_all(&[b'x'; 50_000]));
        let writer = std::thread::Builder::new().spawn(write).unwrap();
        assert_eq!(content(&fifo.0).unwrap().len(), 100_000);
        writer.join().unwrap().unwrap();
    }
}
