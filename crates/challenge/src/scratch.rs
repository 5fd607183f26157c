//! The temporary folder: the private server's data and the files that the programs leave. Gone at the end.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Lack};

/// A folder that is removed with the value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in `parent`, or in the system's folder for temporary files.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) fn create(parent: Option<&Path>) -> Result<Self, Error> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| Error::Machine(Lack::RandomBytes(error.into())))?;
        let path = parent.join(format!("onramp-challenge-{:016x}", u64::from_ne_bytes(random)));
        // Open to the server's own user.
        std::fs::DirBuilder::new()
            .mode(0o711)
            .create(&path)
            .map_err(|error| Error::Machine(Lack::Folder { path: path.clone(), error }))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("onramp challenge: {} could not be removed: {error}", self.0.display());
        }
    }
}
