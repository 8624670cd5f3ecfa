//! The passes, one per file. Which run, and in which order, stands in `pipeline.rs`.

pub mod remove_dead;
pub mod simplify;
