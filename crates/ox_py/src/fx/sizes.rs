//! The sizes of a captured graph that are not constants.
//!
//! The examples of such a graph have the sizes of the call that was captured: the hints. Its placeholders say which sizes stand for
//! variables. The recorder computes with those; every result is compared with its example at the hints. What cannot be decided without the
//! hints is a fact that later calls must meet, and a size that an operation cannot take as a variable is fixed: the import is then
//! begun again, knowing more.

use super::call::Request;
use super::importer::{How, Imported, Importer, Slot, attempt};
use super::library::is_sequence;
use super::refusal::{Import, Refusal};
use ox_capture::SizeObject;
use ox_ir::graph::Shape;
use ox_ir::{Sym, Var};
use ox_ops::{Fact, FrontValue, Hints, Noted, ValueOf, at_hints};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// What is known of the sizes of a graph.
#[derive(Clone, Default)]
pub struct Known {
    pub hints: Hints,
    /// Sizes that are no variables of their own.
    values: FxHashMap<Var, Sym>,
    pub facts: Vec<Noted>,
}

impl Known {
    /// The value of an expression when the graph was captured. None for expressions of other graphs than captured ones.
    pub fn hint(&self, sym: &Sym) -> Option<i64> {
        if self.hints.is_empty() { None } else { sym.eval(&|var| self.hints.get(var).copied()) }
    }

    /// Whether all sizes are fixed: nothing varies.
    pub fn is_settled(&self) -> bool {
        self.hints.keys().all(|var| self.values.get(var).is_some_and(|value| value.as_const().is_some()))
    }

    pub fn resolve(&self, sym: &Sym) -> Sym {
        if self.values.is_empty() { sym.clone() } else { sym.subst(&|var| self.values.get(var).cloned()) }
    }

    /// Takes over what must hold. Where that neither decides or bounds a size nor asks for multiples of something, sizes are fixed.
    pub fn learn(&mut self, (fact, at): Noted) {
        if let Some((var, value)) = fact.solved() {
            self.facts.push((fact, at));
            return self.set(var, value);
        }
        if let Some(var) = fact.least().or_else(|| fact.most()) {
            self.facts.push((fact, at));
            let size = Sym::var(&var);
            return self.set(var, size);
        }
        match (fact.multiples(&self.hints), fact.order(&self.hints)) {
            (Some(sizes), _) => sizes.into_iter().for_each(|var| self.take_as_multiple(var, &at)),
            (None, Some(order)) => self.learn((order, at)),
            (None, None) => fact.knots(&self.hints).into_iter().for_each(|var| self.fix(var, &at)),
        }
    }

    /// From now on the size is known to be a multiple of the variable's divisor.
    fn take_as_multiple(&mut self, var: Var, at: &str) {
        let plain = Sym::var(&Var::size(var.id(), var.lo(), var.hi(), 1));
        self.facts.push((Fact::Equal(plain.rem(&Sym::from(var.divisor())), Sym::ZERO), at.to_string()));
        let size = Sym::var(&var);
        self.set(var, size);
    }

    pub fn fix(&mut self, var: Var, why: &str) {
        if let Some(hint) = self.hints.get(&var).copied() {
            self.facts.push((Fact::Equal(Sym::var(&var), Sym::from(hint)), why.to_string()));
            self.set(var, Sym::from(hint));
        }
    }

    pub fn fix_all(&mut self, why: &str) {
        let vars: BTreeSet<Var> = self.hints.keys().filter(|var| !self.values.contains_key(*var)).cloned().collect();
        vars.into_iter().for_each(|var| self.fix(var, why));
    }

    fn set(&mut self, var: Var, value: Sym) {
        for known in self.values.values_mut() {
            *known = known.subst(&|v| (*v == var).then(|| value.clone()));
        }
        self.values.insert(var, value);
    }

    /// What an attempt says of the sizes. Ok with the error back if that is of another kind. A question that could not be decided may have an
    /// answer once a size is what was noted in front of it: only what is still open then fixes others.
    pub fn learn_from(&mut self, refusal: Refusal, noted_before: &[Noted]) -> Result<(), Refusal> {
        let settles = |(fact, _): &&Noted| fact.solved().is_some_and(|(var, _)| !self.values.contains_key(&var));
        match (refusal, noted_before.iter().find(settles)) {
            (Refusal::Undecided(_) | Refusal::Fixed { .. } | Refusal::Left { .. }, Some(noted)) => self.learn(noted.clone()),
            (Refusal::Undecided(noted), None) => self.learn(noted),
            (Refusal::Fixed { sizes, why } | Refusal::Left { sizes, why }, None) => {
                sizes.into_iter().for_each(|var| self.fix(var, &why));
            }
            (other, _) => return Err(other),
        }
        Ok(())
    }
}

/// Imports a graph; one with sizes that are variables as often as it takes to know enough of them.
pub fn import<'py>(gm: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>, how: How<'_>) -> Import<Imported> {
    let hints = how.fixed.cloned().map_or_else(|| hints_of(gm), Ok)?;
    let mut known = Known { hints, ..Known::default() };
    if known.hints.is_empty() {
        return attempt(gm, examples, how, &known);
    }
    if how.fixed.is_some() {
        known.fix_all(IN_PIECES);
    }
    how.learned.iter().for_each(|noted| known.learn(noted.clone()));
    // A size can be bounded, made a multiple, another's expression, and fixed.
    for _ in 0..=4 * known.hints.len() {
        let (result, facts) = at_hints(known.hints.clone(), || attempt(gm, examples, how, &known));
        match result {
            Ok(imported) => match facts.iter().find(|(fact, _)| fact.solved().is_some()) {
                Some(noted) => known.learn(noted.clone()),
                None => {
                    let seen =
                        imported.graph.sizes.iter().filter_map(|var| Some((var.clone(), *known.hints.get(var)?))).collect();
                    return Ok(Imported { facts: [known.facts, facts].concat(), seen, ..imported });
                }
            },
            Err(refusal) => known.learn_from(refusal, &facts)?,
        }
    }
    Err(Refusal::unsupported(UNSETTLED))
}

pub const UNSETTLED: &str = "sizes that are not settled by what is known of them";

// Why all sizes of a graph are constants.
pub const IN_PIECES: &str = "a graph that is computed in pieces";
pub const IN_EAGER: &str = "a graph that runs in eager";

/// That all sizes of a graph are what they are.
pub fn fixed_sizes(hints: &Hints, why: &str) -> Vec<Noted> {
    let mut known = Known { hints: hints.clone(), ..Known::default() };
    known.fix_all(why);
    known.facts
}

/// The sizes of a graph that are variables, as they were when it was captured.
pub fn hints_of(gm: &Bound<'_, PyAny>) -> Import<Hints> {
    let py = gm.py();
    let mut hints = Hints::default();
    for node in gm.getattr(intern!(py, "graph"))?.getattr(intern!(py, "nodes"))?.try_iter()? {
        hints.extend(hint_of(&node?)?);
    }
    Ok(hints)
}

/// Of a placeholder of a size.
pub fn hint_of(node: &Bound<'_, PyAny>) -> Import<Option<(Var, i64)>> {
    let py = node.py();
    if node.getattr(intern!(py, "op"))?.extract::<&str>()? != "placeholder" {
        return Ok(None);
    }
    let meta = node.getattr(intern!(py, "meta"))?;
    let meta = meta.cast::<PyDict>()?;
    let (Some(size), Some(example)) = (meta.get_item(intern!(py, "size"))?, meta.get_item(intern!(py, "example_value"))?) else {
        return Ok(None);
    };
    let size = size.cast::<SizeObject>()?.get().0.clone();
    Ok(size.as_var().map(|var| Ok::<_, PyErr>((var.clone(), example.extract()?))).transpose()?)
}

impl<'py> Importer<'py> {
    fn note(&self, node: &Bound<'py, PyAny>, name: &str) -> Import<Option<Bound<'py, PyAny>>> {
        if self.known.hints.is_empty() {
            return Ok(None);
        }
        let meta = node.getattr(intern!(self.py, "meta"))?;
        Ok(meta.cast::<PyDict>()?.get_item(name)?)
    }

    /// The size that a node stands for.
    pub(super) fn captured_size(&self, node: &Bound<'py, PyAny>) -> Import<Option<Sym>> {
        let Some(size) = self.note(node, "size")? else { return Ok(None) };
        Ok(Some(self.known.resolve(&size.cast::<SizeObject>()?.get().0)))
    }

    pub(super) fn captured_size_placeholder(&mut self, size: Sym) -> Import<FrontValue> {
        let var = size.as_var().filter(|var| !self.recorder.builder().graph().sizes.contains(var)).cloned();
        self.slots.push(if var.is_some() { Slot::Size } else { Slot::Ignored });
        if let Some(var) = var {
            self.recorder.builder().size(var);
        }
        Ok(ValueOf::Int(size))
    }

    /// Shape and strides of an input.
    pub(super) fn captured_sizes(&self, node: &Bound<'py, PyAny>) -> Import<Option<(Shape, Shape)>> {
        match (self.note(node, "sizes")?, self.note(node, "strides")?) {
            (Some(sizes), Some(strides)) => Ok(Some((self.shape_of(&sizes)?, self.shape_of(&strides)?))),
            _ => Ok(None),
        }
    }

    fn shape_of(&self, sizes: &Bound<'py, PyAny>) -> Import<Shape> {
        let mut shape = Shape::new();
        for size in sizes.cast::<PyTuple>()?.iter() {
            shape.push(match size.cast::<SizeObject>() {
                Ok(size) => self.known.resolve(&size.get().0),
                Err(_) => Sym::from(size.extract::<i64>()?),
            });
        }
        Ok(shape)
    }

    /// Sizes that the arguments of a call depend on.
    pub(super) fn sizes_in(&self, request: &Request<'py>) -> BTreeSet<Var> {
        let mut found = BTreeSet::new();
        let values = request.args.iter().chain(request.kwargs.iter().map(|(_, value)| value));
        values.for_each(|value| self.collect_sizes(value, &mut found));
        found
    }

    fn collect_sizes(&self, value: &FrontValue, found: &mut BTreeSet<Var>) {
        match value {
            ValueOf::Int(size) => found.extend(size.vars()),
            ValueOf::Tensor(tensor) => found.extend(self.recorder.ty(*tensor).shape.iter().flat_map(Sym::vars)),
            ValueOf::List(items) | ValueOf::Tuple(items) => items.iter().for_each(|item| self.collect_sizes(item, found)),
            ValueOf::Slice(parts) => parts.iter().for_each(|part| self.collect_sizes(part, found)),
            _ => {}
        }
    }

    pub(super) fn has_sizes(&self, request: &Request<'py>) -> bool {
        !self.known.hints.is_empty() && !self.sizes_in(request).is_empty()
    }

    /// A call that is left to torch has results of the sizes that its example shows.
    pub(super) fn refuse_sizes(&self, request: &Request<'py>, why: &str) -> Import<()> {
        if !self.has_sizes(request) {
            return Ok(());
        }
        let sizes = self.sizes_in(request).into_iter().collect();
        let why = format!("{}: {why} ({})", request.name, self.location);
        // Sizes say how many parts there are: a trace is for one number of them anyhow.
        Err(if self.gives_parts(request)? { Refusal::Fixed { sizes, why } } else { Refusal::Left { sizes, why } })
    }

    /// `split`, `unbind`: views of an argument.
    fn gives_parts(&self, request: &Request<'py>) -> Import<bool> {
        let Some(example) = request.example.as_ref().filter(|example| is_sequence(example)) else { return Ok(false) };
        let Some(own) = self.storage(example)? else { return Ok(false) };
        Ok(self.argument_storages(&request.node)?.contains(&own))
    }
}
