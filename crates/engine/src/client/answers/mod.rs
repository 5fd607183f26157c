//! Answers on their way to clients: our own, and those of servers that are held to their end.

pub(crate) mod answer;
pub(crate) mod buffered_answer;
pub(crate) mod held_answer;
