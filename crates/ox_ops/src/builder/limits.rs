//! What numbers that are only known when the graph runs must be.

use super::Builder;
use ox_ir::{DType, Sym};

/// A number that is only known when the graph runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// The n-th input of the graph.
    Input(u32),
    Size(Sym),
}

/// A number that must fit into a type: eager refuses others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    pub number: Unknown,
    pub dtype: DType,
    /// The user's line, as a place in the graph's list.
    pub location: u32,
}

impl Builder {
    pub fn must_hold(&mut self, dtype: DType, number: Unknown) {
        let is_it = |limit: &Limit| limit.number == number && limit.dtype == dtype;
        if !self.limits.iter().any(is_it) {
            self.limits.push(Limit { number, dtype, location: self.location });
        }
    }

    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}
