//! A graph in several pieces, one behind the other, which autograd joins.
//!
//! - `behind`: what later pieces write.
//! - `cut`: an FX graph into FX graphs.
//! - `inline`: checkpointed functions into the graph around them.
//! - `itself`: calls that give their argument back.
//! - `places`: where a graph is cut so that gradients are seen where eager shows them.
//! - `regions`: checkpointed parts.
//! - `shared`: arguments that are written, and share with others what autograd knows of them.
//! - `views`: results that torch makes of others.

mod behind;
mod cut;
mod inline;
mod itself;
mod places;
mod regions;
mod shared;
mod views;

pub use behind::written_behind;
pub use cut::{cut_with_views, ordered};
pub use inline::inline_checkpoints;
pub use itself::merge_selves;
pub use places::{computed, example, is_computed, requires_grad, visible_cuts};
pub use regions::{
    Region, by_eager, checkpointed, has_several_results, may_be_written, may_write, reads_what_is_written,
    reads_what_others_write, region_cuts, spare_writing, written_by_flag,
};
pub use shared::Written;
pub use views::{shows_outdated_parts, visible_views};

use ox_capture::{Offer, is_kept, take_offer, undone};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// One piece: what is called, with which values, and which values it gives.
pub struct Step {
    pub callable: Py<PyAny>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
    /// Values that no later piece needs.
    pub last: Vec<usize>,
    pub undoing: Undoing,
}

/// What becomes of a call in which a piece fails.
#[derive(Clone, Copy, Default)]
pub struct Undoing {
    /// The piece is a program of ours, which has changed nothing if it fails.
    pub is_ours: bool,
    /// When it has run nobody can tell: it writes nothing, draws nothing and calls nothing of the program's.
    pub is_pure: bool,
}

/// What the whole returns.
pub enum Tree {
    Value(usize),
    Object(Py<PyAny>),
    Tuple(Vec<Tree>),
    List(Vec<Tree>),
}

impl Tree {
    /// The values of a row of them.
    pub fn row(&self) -> Option<Vec<usize>> {
        let Tree::Tuple(items) = self else { return None };
        items.iter().map(|item| if let Tree::Value(n) = item { Some(*n) } else { None }).collect()
    }
}

/// Runs pieces in their order. The arguments are the first values.
#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct Pieces {
    pub values: usize,
    pub steps: Vec<Step>,
    pub result: Tree,
    pub written: Option<Written>,
}

impl Pieces {
    pub fn new(values: usize, mut steps: Vec<Step>, result: Tree, written: Option<Written>) -> Pieces {
        let mut needed = vec![false; values];
        result.mark(&mut needed);
        for step in steps.iter_mut().rev() {
            let all = step.inputs.iter().chain(&step.outputs);
            step.last = all.copied().filter(|n| !std::mem::replace(&mut needed[*n], true)).collect();
        }
        Pieces { values, steps, result, written }
    }
}

impl Tree {
    fn mark(&self, needed: &mut [bool]) {
        match self {
            Tree::Value(n) => needed[*n] = true,
            Tree::Object(_) => {}
            Tree::Tuple(items) | Tree::List(items) => items.iter().for_each(|item| item.mark(needed)),
        }
    }
}

#[pymethods]
impl Pieces {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, args, &|_, value| Ok(value))
    }

    /// The same; `settle(token, place, value)` gives the object that stands for a result from then on.
    fn call_settling<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        settle: &Bound<'py, PyAny>,
        token: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let places: Vec<usize> = match &self.result {
            Tree::Tuple(items) => items.iter().map(|item| if let Tree::Value(n) = item { *n } else { usize::MAX }).collect(),
            _ => Vec::new(),
        };
        self.run(py, args, &|n, value| {
            let mut found = places.iter().enumerate().filter(|(_, place)| **place == n);
            match (found.next(), found.next()) {
                (Some((place, _)), None) if !is_kept(&value, 1)? => settle.call1((token, place, value)),
                _ => Ok(value),
            }
        })
    }

    fn __repr__(&self) -> String {
        format!("<oxytorch graph in {} pieces>", self.steps.len())
    }
}

impl Pieces {
    /// `settle`: what takes the place of a new value.
    fn run<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        settle: &dyn Fn(usize, Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut undoable = take_offer();
        if let Some(written) = self.written.as_ref().filter(|written| written.is_shared(args)) {
            return if undoable { Err(undone(None)) } else { written.eager.bind(py).call1(args) };
        }
        let mut values: Vec<Option<Bound<'py, PyAny>>> = args.iter().map(Some).collect();
        values.resize(self.values, None);
        for step in &self.steps {
            let inputs: Vec<&Bound<'py, PyAny>> = step.inputs.iter().filter_map(|n| values[*n].as_ref()).collect();
            let results = {
                let _offer = Offer::new(undoable && step.undoing.is_ours);
                step.callable.bind(py).call1(PyTuple::new(py, inputs)?)?
            };
            // A piece that fails can undo those before it only where there is nothing to undo.
            undoable &= step.undoing.is_pure;
            let results = results.cast_into::<PyTuple>()?;
            let (mut new, count): (Vec<Bound<'py, PyAny>>, _) = (results.iter().collect(), results.len());
            drop(results);
            for (n, place) in step.outputs.iter().enumerate().take(count) {
                let result = std::mem::replace(&mut new[n], py.None().into_bound(py));
                let known = values.iter().flatten().any(|value| value.is(&result)) || new.iter().any(|other| other.is(&result));
                values[*place] = Some(if known { result } else { settle(*place, result)? });
            }
            for n in &step.last {
                values[*n] = None;
            }
        }
        build(py, &self.result, &values)
    }
}

fn build<'py>(py: Python<'py>, tree: &Tree, values: &[Option<Bound<'py, PyAny>>]) -> PyResult<Bound<'py, PyAny>> {
    let all = |items: &[Tree]| items.iter().map(|item| build(py, item, values)).collect::<PyResult<Vec<_>>>();
    Ok(match tree {
        Tree::Value(n) => {
            values[*n].clone().ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("oxytorch: a value is gone"))?
        }
        Tree::Object(object) => object.bind(py).clone(),
        Tree::Tuple(items) => PyTuple::new(py, all(items)?)?.into_any(),
        Tree::List(items) => PyList::new(py, all(items)?)?.into_any(),
    })
}
