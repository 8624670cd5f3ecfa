//! Numbers that come with a call and are too large for the types that eager converts them to: eager refuses the call.

use crate::callable::NativeCallable;
use crate::fx::Slot;
use ox_capture::undone;
use ox_ir::{DType, Scalar, Sym};
use ox_ops::surface::fits;
use ox_ops::{Builder, Limit, Unknown};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};

#[derive(Default)]
pub struct Limits(Vec<MustHold>);

struct MustHold {
    dtype: DType,
    given: Given,
    location: String,
}

enum Given {
    Argument(usize),
    Size(Sym),
}

impl Limits {
    pub fn new(builder: &Builder, slots: &[Slot]) -> Limits {
        let inputs = || (0..slots.len()).filter(|n| matches!(slots[*n], Slot::Tensor | Slot::Number(_)));
        let given = |number: &Unknown| match number {
            Unknown::Input(n) => inputs().nth(*n as usize).filter(|n| matches!(slots[*n], Slot::Number(_))).map(Given::Argument),
            Unknown::Size(sym) => Some(Given::Size(sym.clone())),
        };
        let location = |limit: &Limit| builder.graph().locations.get(limit.location as usize).cloned().unwrap_or_default();
        let bound =
            |limit: &Limit| Some(MustHold { dtype: limit.dtype, given: given(&limit.number)?, location: location(limit) });
        Limits(builder.limits().iter().filter_map(bound).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl NativeCallable {
    /// What eager does for a call with such a number, before anything of it was done: the program makes the call, where the caller can make
    /// it do so. None if all numbers fit.
    pub(crate) fn refused<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        sizes: &[i64],
        undoable: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        for MustHold { dtype, given, location } in &self.limits.0 {
            let number = match given {
                Given::Size(sym) => self.size(sym, sizes).ok().map(Scalar::Int),
                Given::Argument(n) => Some(number(&*args.get_borrowed_item(*n)?)?),
            };
            if number.is_some_and(|number| fits(number, *dtype)) {
                continue;
            }
            return if undoable { Err(undone(None)) } else { self.serve_by_eager(args.py(), "", location, args).map(Some) };
        }
        Ok(None)
    }
}

fn number(given: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let is_fraction = given.is_instance_of::<PyFloat>();
    Ok(if is_fraction { Scalar::Float(given.extract()?) } else { Scalar::Int(given.extract()?) })
}
