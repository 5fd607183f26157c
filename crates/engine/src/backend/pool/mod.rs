//! The backends that there are: when one is opened, in whose place, who gets it, and how long one stays that nobody needs.

pub(in crate::backend) mod account_affinity;
pub(crate) mod building;
pub(in crate::backend) mod change;
pub(in crate::backend) mod cleaning;
pub(in crate::backend) mod full_accounts;
pub(in crate::backend) mod holding;
pub(crate) mod idle;
pub(crate) mod lack;
pub(crate) mod moving;
pub(crate) mod opening;
pub(crate) mod reserved_backends;
pub(in crate::backend) mod taking_places;
