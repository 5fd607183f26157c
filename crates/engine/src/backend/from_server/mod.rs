//! The way from the server: where the parts of an answer go, and the consequences of its end.

pub(crate) mod aftermath;
pub(in crate::backend) mod beliefs;
pub(crate) mod diagnostics_area;
pub(in crate::backend) mod end_of_statement;
pub(in crate::backend) mod executed;
pub(in crate::backend) mod for_several;
pub(in crate::backend) mod held_answers;
pub(crate) mod own_answers;
pub(in crate::backend) mod relay;
pub(crate) mod reply;
pub(crate) mod settle;
pub(crate) mod unreported_variables;
