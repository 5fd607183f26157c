//! The judgement of recorded machines: folders with what `proc` and `sys` held there.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod broken;
mod judgement;
mod program;
mod remedies;
mod support;
