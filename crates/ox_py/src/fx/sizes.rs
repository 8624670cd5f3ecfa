//! The sizes of a captured graph that are not constants.
//!
//! The examples of such a graph have the sizes of the call that was captured: the hints. Its placeholders say which sizes stand for
//! variables. The recorder computes with those; every result is compared with its example at the hints. What cannot be decided without the
//! hints is a fact that later calls must meet, and a size that an operation cannot take as a variable is fixed: the import is then
//! begun again, knowing more.

use super::call::Request;
use super::fake::Fake;
use super::importer::{How, Imported, Importer, Slot, attempt};
use super::refusal::{Import, Refusal};
use ox_capture::SizeObject;
use ox_ir::graph::Shape;
use ox_ir::{Sym, Var};
use ox_ops::decide::rely_on_shape;
use ox_ops::{Fact, FrontValue, Hints, Layout, Noted, OutputSpec, TensorRef, ValueOf, at_hints};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// What decides whether a function copies its argument.
enum Wish {
    /// The elements side by side in their order.
    Dense,
    Shape(Shape),
    /// Another order of the dimensions in memory.
    Order,
}

/// A result that is a copy or not because of how the argument lies in memory.
pub struct ByLayout {
    from: TensorRef,
    to: TensorRef,
    wish: Wish,
}

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

    pub fn resolve(&self, sym: &Sym) -> Sym {
        if self.values.is_empty() { sym.clone() } else { sym.subst(&|var| self.values.get(var).cloned()) }
    }

    /// Takes over what must hold. Where that neither decides a size nor asks for multiples of something, those that are divided or compared in it
    /// are fixed; else all.
    pub fn learn(&mut self, (fact, at): Noted) {
        if let Some((var, value)) = fact.solved() {
            self.facts.push((fact, at));
            return self.set(var, value);
        }
        match fact.multiples(&self.hints) {
            Some(sizes) => sizes.into_iter().for_each(|var| self.take_as_multiple(var, &at)),
            None => fact.knots().into_iter().for_each(|var| self.fix(var, &at)),
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

    /// What an attempt says of the sizes. Ok with the error back if that is of another kind.
    pub fn learn_from(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        match refusal {
            Refusal::Undecided(noted) => self.learn(noted),
            Refusal::Fixed { sizes, why } => sizes.into_iter().for_each(|var| self.fix(var, &why)),
            other => return Err(other),
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
    // A size can be made a multiple, another's expression, and fixed.
    for _ in 0..=3 * known.hints.len() {
        let (result, facts) = at_hints(known.hints.clone(), || attempt(gm, examples, how, &known));
        match result {
            Ok(imported) => match facts.iter().find(|(fact, _)| fact.solved().is_some()) {
                Some(noted) => known.learn(noted.clone()),
                None => return Ok(Imported { facts: [known.facts, facts].concat(), ..imported }),
            },
            Err(refusal) => known.learn_from(refusal)?,
        }
    }
    Err(Refusal::unsupported("sizes that are not settled by what is known of them"))
}

const IN_PIECES: &str = "a graph that is computed in pieces";

/// That all sizes of a graph are what they are.
pub fn fixed_sizes(hints: &Hints) -> Vec<Noted> {
    let mut known = Known { hints: hints.clone(), ..Known::default() };
    known.fix_all(IN_PIECES);
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
    fn sizes_in(&self, request: &Request<'py>) -> BTreeSet<Var> {
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
        Err(Refusal::Fixed { sizes, why: format!("{}: {why} ({})", request.name, self.location) })
    }

    /// The first argument was copied or not because of how it lay in memory.
    pub(super) fn note_by_layout(&mut self, request: &Request<'py>, value: &FrontValue) {
        let (Some(ValueOf::Tensor(from)), ValueOf::Tensor(to)) = (request.args.first(), value) else { return };
        let is_plain = request.args.len() == 1 && request.kwargs.is_empty();
        let wish = match request.name.name.as_str() {
            _ if self.known.hints.is_empty() => return,
            "contiguous" | "ravel" if is_plain => Wish::Dense,
            "contiguous" | "ravel" => Wish::Order,
            "reshape" | "flatten" | "reshape_as" | "unflatten" => Wish::Shape(self.recorder.ty(*to).shape.clone()),
            _ => return,
        };
        self.by_layout.push(ByLayout { from: *from, to: *to, wish });
    }

    /// Whether something is a copy or a view can be seen if it is written, if it may be an input, or if it comes out: by its strides, and by
    /// what it shares memory with. Then the answer is relied on.
    pub(super) fn rely_on_layouts(&self, outputs: &[OutputSpec]) -> Import<()> {
        let memory = |tensor: TensorRef| self.recorder.memory(tensor).0;
        let writes = self.recorder.writes() > 0;
        let come_out: FxHashSet<usize> = outputs.iter().map(|output| memory(output.tensor)).collect();
        for ByLayout { from, to, wish } in &self.by_layout {
            if !writes && self.recorder.input_strides(*from).is_none() && !come_out.contains(&memory(*to)) {
                continue;
            }
            let (sizes, layout) = self.layout_of(*from);
            let own = &self.recorder.ty(*from).shape;
            match (layout, wish) {
                _ if sizes.is_empty() => {}
                (Some(layout), Wish::Dense) => drop(layout.is_dense(own)),
                (Some(layout), Wish::Shape(shape)) => drop(layout.takes(own, shape)),
                _ => {
                    let why = "whether a result is a copy depends on how its argument lies in memory".to_string();
                    return Err(Refusal::Fixed { sizes: sizes.into_iter().collect(), why });
                }
            }
        }
        Ok(())
    }

    /// The sizes that decide where a tensor lies, and where that is, as far as it is known.
    fn layout_of(&self, tensor: TensorRef) -> (BTreeSet<Var>, Option<Layout>) {
        let (memory, shape, _) = self.recorder.memory(tensor);
        let own = &self.recorder.ty(tensor).shape;
        let sizes = shape.iter().chain(own).flat_map(Sym::vars).collect();
        let strides = match self.recorder.input_strides(tensor) {
            Some(strides) => Some(strides),
            None => self.made.get(&memory).and_then(|strides| self.dense_strides(&shape, strides)),
        };
        (sizes, strides.and_then(|strides| self.recorder.layout(tensor, &strides)))
    }

    /// After a call: its results are as large as they are now, or larger than nothing; and how they lie in memory.
    pub(super) fn note_made(&mut self, value: &FrontValue, example: Option<&Bound<'py, PyAny>>) -> Import<()> {
        let Some(example) = example.filter(|_| !self.known.hints.is_empty()) else { return Ok(()) };
        match value {
            ValueOf::Tensor(tensor) => {
                rely_on_shape(&self.recorder.ty(*tensor).shape);
                let (memory, _, whole) = self.recorder.memory(*tensor);
                if whole && !self.made.contains_key(&memory) {
                    let strides = example.call_method0(intern!(self.py, "stride"))?;
                    self.made.insert(memory, strides.extract()?);
                }
                Ok(())
            }
            ValueOf::Tuple(items) | ValueOf::List(items) => {
                items.iter().zip(example.try_iter()?).try_for_each(|(item, example)| self.note_made(item, Some(&example?)))
            }
            _ => Ok(()),
        }
    }

    /// Where an output lies, in terms of sizes. None where its example says all.
    pub(super) fn captured_layout(&self, tensor: TensorRef, fake: &Fake, offset: &Sym) -> Import<Option<Layout>> {
        if self.known.hints.is_empty() {
            return Ok(None);
        }
        let own = self.recorder.ty(tensor).shape.clone();
        let (mut sizes, layout) = self.layout_of(tensor);
        let (.., is_whole) = self.recorder.memory(tensor);
        match layout.filter(|layout| self.is_at(layout, &own, fake, offset)) {
            // A part of fixed sizes lies as its example does, but begins where a variable may say.
            Some(layout) if sizes.is_empty() => Ok(Some(Layout { strides: fake.strides.clone(), ..layout })),
            Some(layout) => Ok(Some(layout)),
            None if sizes.is_empty() && is_whole => Ok(None),
            None => {
                let why = format!("where an output lies in memory ({})", self.location);
                if sizes.is_empty() {
                    sizes.extend(self.known.hints.keys().cloned());
                }
                Err(Refusal::Fixed { sizes: sizes.into_iter().collect(), why })
            }
        }
    }

    /// Whether the layout is that of the example; where a dimension has one element, its stride reaches nothing.
    fn is_at(&self, layout: &Layout, shape: &[Sym], fake: &Fake, offset: &Sym) -> bool {
        let strides = shape.iter().zip(&layout.strides).zip(&fake.strides);
        let same = |((size, ours), theirs): ((&Sym, &Sym), &Sym)| size.is_one() || self.known.hint(ours) == theirs.as_const();
        strides.into_iter().all(same) && self.known.hint(&layout.offset) == offset.as_const()
    }

    /// Strides of a tensor without gaps whose dimensions lie in the order of these.
    fn dense_strides(&self, shape: &[Sym], strides: &[i64]) -> Option<Shape> {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|d| std::cmp::Reverse((strides[*d], !shape[*d].is_one())));
        let mut out: Shape = smallvec::smallvec![Sym::ONE; shape.len()];
        let mut next = Sym::ONE;
        for d in order.into_iter().rev() {
            if !shape[d].is_one() && self.known.hint(&next) != Some(strides[d]) {
                return None;
            }
            out[d] = next.clone();
            next = &next * &shape[d];
        }
        Some(out)
    }
}
