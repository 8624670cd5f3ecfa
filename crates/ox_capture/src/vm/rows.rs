//! Rows of numbers that vary, given to functions that take them at once.

use super::{R, Vm};
use crate::found::Found;
use crate::obj::{Obj, items_of, list_of, py};
use crate::record::{DEPTH, Val};
use crate::types::types;
use ox_ops::surface::{Place, takes_number};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// More numbers than this are no inputs of a graph, nor of what is computed beside it.
const MOST: usize = 64;

impl Vm {
    /// A pure function of C of a row of numbers: `sum(row, start)`, `math.prod(row)`. If some of them vary, its result does.
    pub(super) fn of_row(&mut self, function: &Obj, items: &[Val], start: Option<Val>) -> R<Val> {
        let are_numbers = items.iter().chain(&start).all(|item| types().is_scalar(&item.obj));
        if are_numbers && items.len() <= MOST && items.iter().chain(&start).any(|item| self.stays_free(item)) {
            let numbers: Vec<Val> = start.clone().into_iter().chain(items.iter().cloned()).collect();
            return self.pure(&spread(function, start.is_some())?, &numbers, &[]);
        }
        let objects: Vec<Obj> = items.iter().map(|item| self.settled(item)).collect();
        let row = self.made(list_of(&objects)?);
        let args: Vec<Val> = [row].into_iter().chain(start).collect();
        self.pure(function, &args, &[])
    }

    /// `torch.tensor([v, 1.0])`: a list or tuple in the place of a number, of which some vary.
    pub(super) fn row_for_graph(&mut self, function: &str, place: Place<'_>, row: &Val) -> Option<Val> {
        let is_row = row.obj.class_is(types().list) || row.obj.class_is(types().tuple);
        if !is_row || !takes_number(function, place) || count(&row.obj, DEPTH).is_none_or(|numbers| numbers > MOST) {
            return None;
        }
        Some(self.settled_but_free(row).into())
    }
}

/// How many numbers there are in lists of lists. None of those that lie deeper, or have no end.
fn count(row: &Obj, depth: usize) -> Option<usize> {
    let is_row = |item: &Obj| item.class_is(types().list) || item.class_is(types().tuple);
    let depth = depth.checked_sub(1)?;
    items_of(row).iter().map(|item| if is_row(item) { count(item, depth) } else { Some(1) }).sum()
}

/// The function of a row, called with its items: one object for each, so that what it computes is known again. With a start, that comes first.
pub(super) fn spread(function: &Obj, has_start: bool) -> R<Obj> {
    static KNOWN: Found<Py<PyDict>> = Found::new();
    let known = KNOWN.or_find(|| PyDict::new(py()).unbind()).bind(py());
    let key = (function.id(), has_start);
    if let Some(found) = known.get_item(key)? {
        return Ok(found.into());
    }
    let own = function.clone();
    let call = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let row = args.get_slice(usize::from(has_start), args.len());
        let result = match has_start {
            true => own.bind().call1((row, args.get_item(0)?)),
            false => own.bind().call1((row,)),
        };
        Ok(result?.unbind())
    };
    let spread = PyCFunction::new_closure(py(), Some(c"of_row"), None, call)?;
    known.set_item(key, &spread)?;
    Ok(spread.into())
}
