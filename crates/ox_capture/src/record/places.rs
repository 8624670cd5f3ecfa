//! Which of the user's lines made a trace rely on something.

use super::Recording;
use crate::vm::CodeInfo;
use std::rc::Rc;

/// A place in the user's code.
#[derive(Clone)]
pub struct Place {
    code: Rc<CodeInfo>,
    at: usize,
}

impl Place {
    pub fn new(code: &Rc<CodeInfo>, at: usize) -> Place {
        Place { code: code.clone(), at }
    }

    pub fn line(&self) -> String {
        self.code.location(self.at)
    }
}

/// Of each check of a segment, in their order. Those that came before the first instruction have none.
pub type Places = Vec<Option<Place>>;

impl Recording {
    /// Whether there are checks whose place is not known yet.
    pub fn has_new_checks(&self) -> bool {
        self.places.len() < self.checks.len()
    }

    /// All checks that are new were made at this place.
    pub fn place_checks(&mut self, place: Option<Place>) {
        self.places.resize(self.checks.len(), place);
    }

    pub(super) fn take_places(&mut self) -> Places {
        let mut places = std::mem::take(&mut self.places);
        places.truncate(self.checks.len());
        places.shrink_to_fit();
        places
    }
}
