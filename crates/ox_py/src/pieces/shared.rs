//! Arguments that a graph in pieces writes. A piece is compiled for what requires grad when it begins. A write in front of it gives what it writes a
//! gradient, and with it all that autograd knows as views of the same tensor. The graph was captured of arguments that share nothing of that kind:
//! where they do, the pieces are not for them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub struct Written {
    /// By their places.
    pub arguments: Vec<usize>,
    /// The same computation, done by torch.
    pub eager: Py<PyAny>,
}

impl Written {
    /// Whether one of them is a view of the same tensor as another argument.
    pub fn is_shared(&self, args: &Bound<'_, PyTuple>) -> bool {
        let bases: Vec<Option<usize>> = args.iter_borrowed().map(|arg| base_of(&arg)).collect();
        let is_met = |place: &usize| {
            let others = bases.iter().enumerate().filter(|(other, _)| other != place);
            bases[*place].is_some_and(|base| others.into_iter().any(|(_, other)| *other == Some(base)))
        };
        self.arguments.iter().any(is_met)
    }
}

/// The address of the tensor that an argument is a view of, its own if of none. None for a size.
fn base_of(arg: &Bound<'_, PyAny>) -> Option<usize> {
    let base = arg.getattr(intern!(arg.py(), "_base")).ok()?;
    Some(if base.is_none() { arg.as_ptr() } else { base.as_ptr() } as usize)
}
