//! The pool of workers as one of them sees it.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::Instant;

use crate::workers::Workers;
use crate::workers::letter::Letter;

/// What the workers share, and which of them this is.
pub(crate) struct Pool {
    pub(crate) workers: Arc<Workers>,
    /// Which of them this is.
    pub(crate) worker: usize,
    /// Letters to others, each with the number of its reader.
    pub(crate) letters: VecDeque<(usize, Letter)>,
    /// Since when this worker has waited for a permit of another, or has asked the others.
    pub(crate) wanting_since: Option<Instant>,
}

impl Pool {
    pub(crate) fn new(workers: Arc<Workers>, worker: usize) -> Self {
        Self { workers, worker, letters: VecDeque::new(), wanting_since: None }
    }
}
