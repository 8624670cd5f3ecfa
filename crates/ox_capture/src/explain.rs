//! What is known of a function's traces, as Python data.

use crate::guard::Check;
use crate::tree::{Branches, End, Segment, Tree};
use ox_ops::{Atom, Sym, Var};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// `segments`: each with its guards, its graph and how it ends, in the order in which they were traced. `closed`: why traces were lost.
pub fn report<'py>(py: Python<'py>, tree: &Tree) -> PyResult<Bound<'py, PyDict>> {
    let segments = PyList::empty(py);
    collect(py, tree, &tree.branches, &segments)?;
    let dict = PyDict::new(py);
    dict.set_item("segments", segments)?;
    dict.set_item("closed", tree.closed())?;
    Ok(dict)
}

/// What a trace needs of sizes, with all that may come behind it: sums that must be a constant, of factors and what people call the sizes.
pub fn sums_of_sizes(tree: &Tree, segment: &Segment) -> Vec<Vec<(i64, String)>> {
    let facts = segment.checks.iter().filter_map(|check| match check {
        Check::Fact(fact, _) => fact.solved(),
        _ => None,
    });
    let sources = tree.sources.read();
    let name = |var: &Var| sources.with_names(&Sym::var(var).to_string());
    let sum = |(var, value): (Var, Sym)| {
        let rest = value.terms().iter().map(|(product, factor)| Some((-factor, name(single(product)?))));
        std::iter::once(Some((1, name(&var)))).chain(rest).collect::<Option<Vec<_>>>()
    };
    let mut found: Vec<Vec<(i64, String)>> = facts.filter_map(sum).collect();
    let next = segment.branches().map(Branches::all).unwrap_or_default();
    found.extend(next.iter().flat_map(|segment| sums_of_sizes(tree, segment)));
    found
}

fn single(product: &[Atom]) -> Option<&Var> {
    match product {
        [Atom::Var(var)] => Some(var),
        _ => None,
    }
}

fn collect<'py>(py: Python<'py>, tree: &Tree, branches: &Branches, out: &Bound<'py, PyList>) -> PyResult<()> {
    for segment in branches.all().iter() {
        let sources = tree.sources.read();
        let entry = PyDict::new(py);
        entry.set_item("guards", segment.checks.iter().map(|check| check.show(&sources)).collect::<Vec<_>>())?;
        entry.set_item("graph", segment.graph.as_ref().map(|graph| graph.callable.bind().clone()))?;
        let end = match &segment.end {
            End::Return(_) => "returns".to_string(),
            End::Raise(..) => "raises".to_string(),
            End::GiveUp(why) => format!("left to Python: {why}"),
            End::Action(action) => format!("{} at {}", action.reason, action.location),
        };
        entry.set_item("end", end)?;
        out.append(entry)?;
        drop(sources);
        if let Some(next) = segment.branches() {
            collect(py, tree, next, out)?;
        }
    }
    Ok(())
}
