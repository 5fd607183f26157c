//! Knowledge of new work that waits.

use super::delay::Delay;
use super::starts_lately::StartsLately;
use super::would_refuse::WouldRefuse;

/// The state of new work that waits.
pub(crate) struct NewWork {
    pub(super) delay: Delay,
    pub(crate) starts_lately: StartsLately,
    pub(crate) would_refuse: WouldRefuse,
}

impl Default for NewWork {
    fn default() -> Self {
        Self { delay: Delay::NONE, starts_lately: StartsLately::NONE, would_refuse: WouldRefuse::NONE }
    }
}
