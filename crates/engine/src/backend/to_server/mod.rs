//! The way to the server: the statement that runs next, its backend, the form in which it goes, and the preludes ahead of it.

pub(in crate::backend) mod ahead;
pub(in crate::backend) mod brought;
pub(in crate::backend) mod difference;
pub(crate) mod dispatch;
pub(crate) mod flow_control;
pub(in crate::backend) mod literals;
pub(crate) mod message;
pub(in crate::backend) mod own_statement;
pub(crate) mod prepared;
pub(crate) mod prepared_statement_room;
pub(crate) mod preparing;
pub(crate) mod sending;
