//! Looks in a file, a line of JSON each: written with a bound, and read again from any place.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::snapshot::{NoSnapshot, Snapshot};

/// The longest line that is read: ten thousand rows of each tab take some twenty MiB.
const LONGEST_LINE: u64 = 256 << 20;

/// Writes looks. At half of its bound the file becomes `FILE.1`, in the place of an older one, so that the latest looks are always there.
pub struct Recorder {
    path: PathBuf,
    file: File,
    size: u64,
    bound: u64,
}

impl Recorder {
    /// Goes on with the file where it is there. `bound` is in bytes, for both files together.
    ///
    /// # Errors
    /// Where it cannot be read or written.
    pub fn open(path: &Path, bound: u64) -> Result<Self, BadRecording> {
        let mut file = open(path)?;
        let mut size = file.metadata().map_err(|error| BadRecording::file(path, error))?.len();
        if size > 0 && !ends_a_line(path, size).map_err(|error| BadRecording::file(path, error))? {
            // Whoever wrote it was cut off; what follows is not to be lost with that.
            file.write_all(b"\n").map_err(|error| BadRecording::file(path, error))?;
            size += 1;
        }
        Ok(Self { path: path.to_owned(), file, size, bound })
    }

    /// Appends a look.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&mut self, look: &Snapshot) -> Result<(), BadRecording> {
        let line = look.to_line() + "\n";
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.bound / 2 {
            std::fs::rename(&self.path, older(&self.path))
                .map_err(|error| BadRecording::file(&self.path, error))?;
            self.file = open(&self.path)?;
            self.size = 0;
        }
        self.size += length;
        self.file.write_all(line.as_bytes()).map_err(|error| BadRecording::file(&self.path, error))
    }
}

fn ends_a_line(path: &Path, size: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(size - 1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Appended to, and readable by nobody else: there are names of users and texts of statements in it.
fn open(path: &Path) -> Result<File, BadRecording> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(|error| BadRecording::file(path, error))
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

/// Why a recording cannot be used.
#[derive(Debug)]
pub enum BadRecording {
    /// The file.
    File {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// There is nothing in the file.
    Empty(PathBuf),
    /// The recording has no look with this number.
    AtItsEnd,
    /// A line is no look.
    NoLook {
        /// In which file.
        path: PathBuf,
        /// Where it begins, in bytes.
        offset: u64,
        /// Why.
        fault: LineFault,
    },
}

/// Why a line is no look.
#[derive(Debug)]
pub enum LineFault {
    /// The line is not JSON.
    NoJson(serde_json::Error),
    /// The line is JSON, and no look.
    NoSnapshot(NoSnapshot),
}

impl BadRecording {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

impl fmt::Display for BadRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Empty(path) => {
                write!(f, "{}: no look is in it; onramp top --record writes them", path.display())
            }
            Self::AtItsEnd => f.write_str("the recording is at its end"),
            Self::NoLook { path, offset, fault } => {
                write!(f, "{}: what begins at byte {offset} is no look: ", path.display())?;
                match fault {
                    LineFault::NoJson(error) => error.fmt(f),
                    LineFault::NoSnapshot(error) => error.fmt(f),
                }
            }
        }
    }
}

impl std::error::Error for BadRecording {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } => Some(error),
            Self::NoLook { fault: LineFault::NoJson(error), .. } => Some(error),
            Self::NoLook { fault: LineFault::NoSnapshot(error), .. } => Some(error),
            Self::Empty(_) | Self::AtItsEnd => None,
        }
    }
}

/// A recording that is read: where its looks are, and no more of them in memory than are shown.
#[derive(Debug)]
pub struct Recording {
    lines: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    offset: u64,
    length: u64,
}

impl Recording {
    /// Finds the lines of `FILE.1`, where it is there, and of the file.
    ///
    /// # Errors
    /// Where it cannot be read, or there is no look in it.
    pub fn open(path: &Path) -> Result<Self, BadRecording> {
        let mut lines = Vec::new();
        let before = older(path);
        if before.exists() {
            find_lines(&before, &mut lines)?;
        }
        find_lines(path, &mut lines)?;
        if lines.is_empty() {
            return Err(BadRecording::Empty(path.to_owned()));
        }
        let recording = Self { lines };
        recording.look(0)?;
        Ok(recording)
    }

    /// How many there are, at least one.
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// One of them, from 0.
    ///
    /// # Errors
    /// Where it cannot be read, with the file and the place.
    pub fn look(&self, number: usize) -> Result<Snapshot, BadRecording> {
        let place = self.lines.get(number).ok_or(BadRecording::AtItsEnd)?;
        let failed = |error: io::Error| BadRecording::file(&place.path, error);
        let mut file = File::open(&place.path).map_err(failed)?;
        file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
        let mut text = Vec::new();
        file.take(place.length).read_to_end(&mut text).map_err(failed)?;
        let read = serde_json::from_slice(&text).map_err(LineFault::NoJson);
        let look = read.and_then(|json| Snapshot::from_json(&json).map_err(LineFault::NoSnapshot));
        look.map_err(|fault| BadRecording::NoLook { path: place.path.clone(), offset: place.offset, fault })
    }
}

fn find_lines(path: &Path, lines: &mut Vec<Place>) -> Result<(), BadRecording> {
    let file = File::open(path).map_err(|error| BadRecording::file(path, error))?;
    let mut reader = BufReader::new(file);
    let mut offset = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let length = read.map_err(|error| BadRecording::file(path, error))? as u64;
        if length == 0 {
            return Ok(());
        }
        // The last line of a recorder that was killed may have no end, and says nothing then.
        if line.last() == Some(&b'\n') && line.len() > 1 {
            lines.push(Place { path: path.to_owned(), offset, length });
        }
        offset += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("onramp-top-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn look(at: u64) -> Snapshot {
        Snapshot { at, ..Snapshot::default() }
    }

    #[test]
    fn what_was_written_is_read_and_the_oldest_makes_room() {
        let folder = folder("bound");
        let path = folder.join("r.jsonl");
        let line = look(1_000).to_line().len() as u64 + 1;
        // Two lines in each of the two files.
        let mut recorder = Recorder::open(&path, line * 4).unwrap();
        for at in 1_000..1_007 {
            recorder.write(&look(at)).unwrap();
        }
        drop(recorder);
        let recording = Recording::open(&path).unwrap();
        let times: Vec<u64> =
            (0..recording.count()).map(|number| recording.look(number).unwrap().at).collect();
        assert_eq!(times, [1_004, 1_005, 1_006]);
        // Goes on where it was.
        Recorder::open(&path, line * 4).unwrap().write(&look(1_007)).unwrap();
        assert_eq!(Recording::open(&path).unwrap().count(), 4);
        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(size(&path) + size(&older(&path)) <= line * 4);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_without_an_end_is_left_out_and_a_wrong_one_named() {
        let folder = folder("torn");
        let path = folder.join("r.jsonl");
        std::fs::write(&path, format!("{}\n{{\"at_ms\": 5, \"sta", look(1).to_line())).unwrap();
        assert_eq!(Recording::open(&path).unwrap().count(), 1);
        Recorder::open(&path, 1 << 20).unwrap().write(&look(6)).unwrap();
        let mended = Recording::open(&path).unwrap();
        assert_eq!((mended.count(), mended.look(2).unwrap().at), (3, 6));
        std::fs::write(&path, format!("{}\nnonsense\n", look(1).to_line())).unwrap();
        let failed = Recording::open(&path).unwrap().look(1).unwrap_err().to_string();
        assert!(failed.contains("r.jsonl: what begins at byte"), "{failed}");
        for text in ["", "\n", "nonsense\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(Recording::open(&path).is_err(), "{text:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
