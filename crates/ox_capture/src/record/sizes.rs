//! Sizes that are variables, and the numbers that are computed of them.
//!
//! A tensor that comes in may have sizes that later calls bring anew: its check binds variables. The numbers that the program makes of sizes
//! carry the expression as their source (`Source::Expr`); the machine computes with expressions as it does with the numbers. What a
//! comparison says is relied on as a fact of the trace, and whoever needs the number itself relies on its value.

use super::graph::{NotRecorded, Recorded};
use super::{Origin, Recording, Val};
use crate::backend::Sizes;
use crate::declared::{Range, Varying};
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py, tuple_of};
use crate::policy::Marks;
use crate::sizes::SizeObject;
use crate::source::{Source, SourceId};
use crate::types::types;
use ox_gauge::{Size, SizedSpec, TensorSpec};
use ox_ops::decide::{are_different, assured};
use ox_ops::{Atom, Fact, Hints, Noted, Sym, Var, at_hints};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

/// The sizes of a recording.
#[derive(Default)]
pub struct Sizing {
    /// `dynamic=` of the user's.
    pub dynamic: Option<bool>,
    /// What each variable is in this call.
    pub(super) hints: Hints,
    /// Whole numbers that are variables, by their places.
    pub(super) integers: FxHashMap<SourceId, Var>,
    /// Shapes of tensors from outside that have variables, by address.
    shapes: FxHashMap<usize, Vec<Sym>>,
    /// Variables by what they are now and may be: equal sizes are taken for one until a call says otherwise.
    shared: FxHashMap<(i64, i64, i64), Var>,
    /// Variables that the checks of this segment bind.
    bound_here: rustc_hash::FxHashSet<Var>,
    /// Facts that stand in the checks already.
    facts: rustc_hash::FxHashSet<Fact>,
    /// Variables whose dimensions the user has marked, with their places.
    marked: FxHashMap<Var, (String, usize)>,
    /// What a mark says that cannot be kept.
    broken: Option<String>,
    /// What `shapes=` says of arguments, by place and dimension; with the parameter.
    declared: FxHashMap<(String, usize), (Range, String)>,
    /// The user's line.
    pub line: String,
    /// What a comparison says is put here while its answer is only asked for.
    pub asked: Option<Vec<Noted>>,
    /// Lazy tensors that are another tensor itself where a fact does not hold, by address.
    expansions: Vec<(usize, Vec<Noted>)>,
}

impl Sizing {
    pub fn is_in_use(&self) -> bool {
        !self.hints.is_empty()
    }

    pub fn declare(&mut self, arguments: Vec<Varying>) {
        for Varying { place, parameter, dims } in arguments {
            self.declared.extend(dims.into_iter().map(|(d, range)| ((place.clone(), d), (range, parameter.clone()))));
        }
    }

    fn declared(&self, place: &str, dim: usize) -> Option<&(Range, String)> {
        if self.declared.is_empty() { None } else { self.declared.get(&(place.to_string(), dim)) }
    }

    /// Behind an action nothing is known of what tensors are; numbers of earlier segments keep their expressions.
    pub fn begin_segment(&mut self) {
        self.shapes.clear();
        self.integers.clear();
        self.shared.clear();
        self.facts.clear();
        self.bound_here.clear();
    }
}

/// A size that is a variable may be 1 in later calls, but is not when the trace is made: what broadcasting does could not be told, nor how
/// tensors lie, whether one can be seen in another shape, and which functions return their argument itself.
const LEAST: i64 = 1;
const LEAST_HINT: i64 = 2;

impl Recording {
    /// The check of a tensor: with variables in the place of sizes that may be others in later calls.
    pub(super) fn tensor_check(&mut self, tensor: &Obj, source: SourceId, spec: TensorSpec) -> Check {
        let place = self.tree.sources.read().show(source);
        let marks = Marks::of(tensor);
        // Of what the arguments hold deeper inside.
        self.sizing.broken = self.sizing.broken.take().or_else(|| marks.complaint(&place, &spec.sizes));
        let ranges: Vec<Option<(i64, i64)>> = self.variable_dims(tensor, source, &place, &spec);
        if ranges.iter().all(Option::is_none) {
            return Check::Tensor(source, spec.into());
        }
        let strict = marks.strict;
        let dims: Vec<(usize, Option<(i64, i64)>)> = ranges.into_iter().enumerate().collect();
        let sizes = dims.into_iter().map(|(d, range)| match range {
            Some(range) => {
                let strict = strict.contains(&d) || self.sizing.declared(&place, d).is_some();
                self.variable(&place, d, spec.sizes[d], range, strict)
            }
            None => Size::Known(spec.sizes[d]),
        });
        let sizes = sizes.collect();
        let sized = SizedSpec::new(spec, sizes);
        self.sizing.shapes.insert(tensor.id(), sized.shape());
        Check::Sized(source, sized.into())
    }

    /// For each dimension that is a variable, its range.
    fn variable_dims(&self, tensor: &Obj, source: SourceId, place: &str, spec: &TensorSpec) -> Vec<Option<(i64, i64)>> {
        let marks = Marks::of(tensor);
        let all = self.sizing.dynamic == Some(true) && !self.belongs_to_model(tensor, source);
        let varying = self.tree.varying_sizes.read();
        // What is said of one dimension goes before what is said of all.
        let is_variable = |d: usize| match (marks.of_dim(d), self.sizing.dynamic) {
            (Some(marked), _) => marked,
            (None, Some(false)) => false,
            (None, _) => all || varying.contains(&(place.to_string(), d)),
        };
        let range = |d: usize| match self.sizing.declared(place, d) {
            _ if spec.sizes[d] < LEAST_HINT => None,
            Some((range, _)) => Some((range.least.max(LEAST), range.most)),
            None => is_variable(d).then(|| marks.range(d, LEAST)),
        };
        (0..spec.sizes.len()).map(range).collect()
    }

    /// Parameters and buffers, what hangs on them, and what is no argument at all: their sizes rarely change.
    fn belongs_to_model(&self, tensor: &Obj, source: SourceId) -> bool {
        let sources = self.tree.sources.read();
        let place = sources.show(source);
        tensor.class_is(types().parameter)
            || ["._parameters[", "._buffers["].iter().any(|table| place.contains(table))
            || place.ends_with(".grad")
            || sources.is_of_surroundings(source)
            || self.is_of_optimizer(source)
    }

    fn variable(&mut self, place: &str, dim: usize, size: i64, (lo, hi): (i64, i64), strict: bool) -> Size {
        let key = (place.to_string(), dim);
        let alone = self.sizing.declared.contains_key(&key) || self.tree.lone_sizes.read().contains(&key);
        let key = (size, lo, hi);
        if let Some(var) = self.sizing.shared.get(&key).filter(|_| !alone).cloned() {
            if strict {
                self.sizing.marked.entry(var.clone()).or_insert_with(|| (place.to_string(), dim));
            }
            return Size::Same(var);
        }
        let var = Var::size(self.tree.next_variable(), lo, hi, 1);
        self.sizing.bound_here.insert(var.clone());
        self.sizing.hints.insert(var.clone(), size);
        self.tree.sources.change(|sources| sources.name_variable(var.id(), format!("{place}.shape[{dim}]")));
        if strict {
            self.sizing.marked.insert(var.clone(), (place.to_string(), dim));
        }
        if !alone {
            self.sizing.shared.insert(key, var.clone());
        }
        Size::Bind(var)
    }

    /// What variables of earlier segments are in this call.
    pub fn adopt_sizes(&mut self, known: impl Iterator<Item = (u32, i64)>) {
        // A variable is told by its number alone.
        self.sizing.hints.extend(known.map(|(id, size)| (Var::size(id, i64::MIN, i64::MAX, 1), size)));
    }

    /// The expression that a source stands for.
    pub fn expr_of(&self, source: SourceId) -> Option<Sym> {
        match self.tree.sources.read().get(source) {
            Source::Expr(sym) => Some(sym.clone()),
            _ => None,
        }
    }

    /// Whether its variables are bound by this segment's own checks.
    pub fn is_of_this_segment(&self, sym: &Sym) -> bool {
        sym.vars().iter().all(|var| self.sizing.bound_here.contains(var))
    }

    /// A number with the expression that it is the value of.
    fn number(&mut self, value: i64, sym: Sym) -> Val {
        let free = sym.as_const().is_none().then(|| self.source(Source::Expr(sym)));
        Val { obj: Obj::int(value), free }
    }

    /// The sizes of a tensor that are variables, as they are in this call.
    pub fn varying_sizes_of(&mut self, tensor: &Obj) -> Vec<i64> {
        if let Origin::Outside(source) = self.origin(tensor)
            && self.rely_on_tensor(tensor, source).is_err()
        {
            return Vec::new();
        }
        let Some(sizes) = self.sizes_of(tensor) else { return Vec::new() };
        let shape = self.seen_as(tensor).attr("shape").and_then(|shape| shape.bind().extract::<Vec<i64>>());
        let varies = |(sym, size): (&Sym, i64)| sym.as_const().is_none().then_some(size);
        sizes.iter().zip(shape.quiet().unwrap_or_default()).filter_map(varies).collect()
    }

    /// The same by dimension, of a tensor that something is relied on of already; nothing if none is.
    pub fn varying_dims_of(&self, tensor: &Obj) -> Vec<Option<i64>> {
        let sizes = match self.origin(tensor) {
            Origin::Lazy(n) => self.graph.follower.as_ref().and_then(|follower| follower.of(&self.graph.lazies[n].node)),
            _ => self.sizing.shapes.get(&tensor.id()).cloned(),
        };
        let hint = |sym: &Sym| sym.as_const().is_none().then(|| sym.eval(&|var| self.sizing.hints.get(var).copied())).flatten();
        sizes.unwrap_or_default().iter().map(hint).collect()
    }

    /// Sizes of a tensor that may be variables; None if none is.
    fn sizes_of(&mut self, tensor: &Obj) -> Option<Vec<Sym>> {
        let sizes = match self.origin(tensor) {
            Origin::Lazy(n) => {
                let follower = self.graph.follower.as_ref()?;
                match follower.of(&self.graph.lazies[n].node) {
                    Some(sizes) => sizes,
                    None => {
                        self.fix_sizes();
                        return None;
                    }
                }
            }
            _ => self.sizing.shapes.get(&tensor.id())?.clone(),
        };
        sizes.iter().any(|size| size.as_const().is_none()).then_some(sizes)
    }

    /// Whether one tensor is the other, expanded to sizes that are its own where the variable has this value.
    pub fn is_expanded(&mut self, larger: &Obj, tensor: &Obj, var: &Var, value: &Sym) -> bool {
        let Some((method, first)) = self.method_and_owner(larger) else { return false };
        if method != "expand" || !self.node_of(tensor).is_some_and(|node| node.is(&first)) {
            return false;
        }
        let there = |sizes: Vec<Sym>| -> Vec<Sym> {
            sizes.iter().map(|size| size.subst(&|v| (v == var).then(|| value.clone()))).collect()
        };
        match (self.sizes_of(larger), self.sizes_of(tensor)) {
            (Some(larger), Some(own)) => there(larger) == there(own),
            _ => false,
        }
    }

    /// The tensor is another one itself unless these facts hold, which makes no difference to what is computed of it.
    pub fn note_expansion(&mut self, tensor: &Obj, facts: &[Noted]) {
        self.sizing.expansions.push((tensor.id(), facts.to_vec()));
    }

    /// Somebody sees which object it is, or how it lies in memory.
    pub(super) fn rely_on_expansion(&mut self, tensor: &Obj) {
        let expansions = std::mem::take(&mut self.sizing.expansions);
        let (seen, others) = expansions.into_iter().partition(|(id, _)| *id == tensor.id());
        self.sizing.expansions = others;
        let facts = Vec::into_iter(seen).flat_map(|(_, facts)| facts);
        facts.for_each(|(fact, line)| self.rely_on_fact(fact, &line));
    }

    /// The name of the method that gave a lazy tensor, and the node that it was called on.
    fn method_and_owner(&self, tensor: &Obj) -> Option<(String, Obj)> {
        let node = self.node_of(tensor)?;
        let first = items_of(&node.attr("args").quiet()?).into_iter().next()?;
        Some((node.attr("target").quiet()?.to_str()?, first))
    }

    fn node_of(&self, tensor: &Obj) -> Option<Obj> {
        match self.origin(tensor) {
            Origin::Lazy(n) => Some(self.graph.lazies[n].node.clone()),
            _ => self.graph.inputs.iter().find(|input| input.object.is(tensor)).map(|input| input.node.clone()),
        }
    }

    /// Behind a graph its results are met like any tensor: sizes that were computed of variables vary there, too.
    pub(super) fn note_varying(&mut self, follower: Option<&dyn Sizes>, node: &Obj, source: SourceId) {
        let Some(sizes) = follower.and_then(|follower| follower.of(node)) else { return };
        let dims: Vec<usize> = (0..sizes.len()).filter(|d| sizes[*d].as_const().is_none()).collect();
        if !dims.is_empty() {
            let place = self.tree.sources.read().show(source);
            self.tree.varying_sizes.change(|known| known.extend(dims.into_iter().map(|d| (place.clone(), d))));
        }
    }

    /// Something depends on sizes in a way that is not known: they must be what they are.
    fn fix_sizes(&mut self) {
        let hints: Vec<(Var, i64)> = self.sizing.hints.iter().map(|(var, hint)| (var.clone(), *hint)).collect();
        let line = self.sizing.line.clone();
        for (var, hint) in hints {
            self.rely_on_fact(Fact::Equal(Sym::var(&var), Sym::from(hint)), &line);
        }
    }

    pub fn rely_on_fact(&mut self, fact: Fact, line: &str) {
        if let Some(asked) = &mut self.sizing.asked {
            return asked.push((fact, line.to_string()));
        }
        if self.sizing.facts.insert(fact.clone()) {
            self.checks.push(Check::Fact(fact.into(), line.to_string()));
        }
    }

    /// A dimension that the user has marked as one that varies, although the program needs it as it is.
    pub fn broken_mark(&self) -> Option<String> {
        self.sizing.broken.clone().or_else(|| self.forced_mark())
    }

    /// Before the checks of a segment are put away.
    pub(super) fn keep_broken_mark(&mut self) {
        self.sizing.broken = self.broken_mark();
    }

    fn forced_mark(&self) -> Option<String> {
        if self.sizing.marked.is_empty() {
            return None;
        }
        self.checks.iter().find_map(|check| {
            let Check::Fact(fact, line) = check else { return None };
            let (var, value) = fact.solved().filter(|(_, value)| value.as_const().is_some())?;
            let (place, dim) = self.sizing.marked.get(&var)?;
            let at = if line.is_empty() { String::new() } else { format!(" ({line})") };
            let needs = format!("but the program needs it to be {value}{at}");
            Some(match self.sizing.declared(place, *dim) {
                Some((_, parameter)) => {
                    format!("oxytorch: dimension {dim} of {parameter} is declared by shapes= to vary, {needs}; do not declare it")
                }
                None => format!(
                    "oxytorch: dimension {dim} of {place} is marked as one that varies, {needs}; \
                     drop the mark, or use maybe_mark_dynamic"
                ),
            })
        })
    }

    /// What a function that returns no tensor says of a tensor, with the expressions of sizes in it.
    pub(super) fn sized_result(&mut self, name: &str, args: &[Val], result: Obj) -> Val {
        let others = args.iter().skip(1).any(|arg| types().is_tensor(&arg.obj) && self.sizes_of(&arg.obj).is_some());
        if others {
            return self.fixed_result(&result);
        }
        let sizes = args.first().and_then(|tensor| self.sizes_of(&tensor.obj));
        let Some(sizes) = sizes else { return result.into() };
        let number = |rec: &mut Recording, sym: Sym| match result.bind().extract::<i64>() {
            Ok(value) => rec.number(value, sym),
            Err(_) => result.clone().into(),
        };
        match name {
            "shape" | "size" => self.of_dims(&sizes, args.get(1), &result),
            "stride" => match self.varying_strides(&args[0].obj, &sizes).filter(|strides| self.are_now(strides, &args[0].obj)) {
                Some(strides) => self.of_dims(&strides, args.get(1), &result),
                None => self.fixed_result(&result),
            },
            "__len__" => number(self, sizes[0].clone()),
            "numel" | "nelement" => number(self, sizes.iter().product()),
            // The strides of an input that lies densely are checked as products of its sizes. Else sizes decide.
            "is_contiguous"
                if !result.truth().quiet().unwrap_or(false) || matches!(self.origin(&args[0].obj), Origin::Lazy(_)) =>
            {
                self.fixed_result(&result)
            }
            "__get__" | "is_contiguous" | "dim" | "ndim" | "ndimension" | "dtype" | "device" | "layout" | "requires_grad"
            | "is_floating_point" | "is_complex" | "element_size" | "itemsize" | "get_device" | "is_leaf" | "type" => {
                result.into()
            }
            "is_same_size" => self.fixed_result(&result),
            _ if name.starts_with("is_") => result.into(),
            _ => self.fixed_result(&result),
        }
    }

    /// What a tensor says of all its dimensions, or of one.
    fn of_dims(&mut self, all: &[Sym], dim: Option<&Val>, result: &Obj) -> Val {
        if result.is_instance_of(types().tuple) {
            for (n, (item, sym)) in items_of(result).into_iter().zip(all).enumerate() {
                let free = sym.as_const().is_none().then(|| self.source(Source::Expr(sym.clone())));
                self.stow(result, Obj::int(n as i64), &Val { obj: item, free });
            }
            return result.clone().into();
        }
        let dim: Option<i64> = dim.and_then(|dim| dim.obj.bind().extract().quiet());
        let place = dim.map(|dim| if dim < 0 { dim + all.len() as i64 } else { dim });
        match (place.and_then(|place| all.get(place as usize)), result.bind().extract()) {
            (Some(sym), Ok(value)) => self.number(value, sym.clone()),
            _ => self.fixed_result(result),
        }
    }

    /// The strides of a tensor by its sizes, as far as these decide about them.
    fn varying_strides(&mut self, tensor: &Obj, sizes: &[Sym]) -> Option<Vec<Sym>> {
        let strides = match self.origin(tensor) {
            Origin::Outside(source) => self.sized(source)?.stride_syms(),
            Origin::Lazy(n) => self.graph.follower.as_ref()?.strides(&self.graph.lazies[n].node)?,
            _ => return None,
        };
        // No check asks for the stride of a dimension of size 1.
        let line = self.sizing.line.clone();
        for size in sizes.iter().filter(|size| !(*size - 1).is_positive() && size.as_const().is_none()) {
            self.rely_on_fact(Fact::Unequal(size.clone(), Sym::ONE), &line);
        }
        Some(strides)
    }

    /// Whether these are the strides of a tensor in this call.
    fn are_now(&self, strides: &[Sym], tensor: &Obj) -> bool {
        let found: Option<Vec<i64>> =
            self.seen_as(tensor).bind().call_method0("stride").quiet().and_then(|now| now.extract().quiet());
        let now = |sym: &Sym| sym.eval(&|var| self.sizing.hints.get(var).copied());
        found.is_some_and(|found| strides.iter().map(now).eq(found.into_iter().map(Some)))
    }

    /// What the check of a tensor says of its sizes, if some are variables.
    fn sized(&self, source: SourceId) -> Option<SizedSpec> {
        self.checks.iter().find_map(|check| match check {
            Check::Sized(of, sized) if *of == source => Some((**sized).clone()),
            _ => None,
        })
    }

    /// How far a lazy tensor begins behind the memory of this trace's that it lies in, where sizes vary: their expression, or relied on.
    pub fn varying_offset(&mut self, tensor: &Obj) -> PyResult<Option<Val>> {
        let (Some(shadow), Some(node)) = (self.shadow_beside_inputs(tensor)?, self.node_of(tensor)) else { return Ok(None) };
        let Some(follower) = &self.graph.follower else { return Ok(None) };
        let (offset, value) = (follower.offset(&node), shadow.bind().call_method0("storage_offset")?.extract()?);
        let is_it = |offset: &Sym| offset.eval(&|var| self.sizing.hints.get(var).copied()) == Some(value);
        Ok(Some(match offset.filter(is_it) {
            Some(offset) => self.number(value, offset),
            None => self.fixed_result(&Obj::int(value)),
        }))
    }

    fn fixed_result(&mut self, result: &Obj) -> Val {
        self.fix_sizes();
        result.clone().into()
    }

    /// The node of a size expression, for calls that are given the number.
    pub(super) fn size_node(&mut self, sym: &Sym) -> Recorded<Obj> {
        if let Some(node) = self.graph.size_nodes.get(sym) {
            return Ok(node.clone());
        }
        let node = match sym.as_var() {
            Some(var) => self.size_input(var)?,
            None => self.expression_node(sym)?,
        };
        self.graph.size_nodes.insert(sym.clone(), node.clone());
        Ok(node)
    }

    fn size_input(&mut self, var: &Var) -> Recorded<Obj> {
        self.begin_following()?;
        let sym = Sym::var(var);
        let hint = Obj::int(self.sizing.hints.get(var).copied().unwrap_or(LEAST));
        let source = self.source(Source::Expr(sym.clone()));
        let name = format!("in{}_{sym}", self.graph.inputs.len());
        let node = self.graph.node("placeholder", &Obj::str(&name), &[], None, &name)?;
        let entry =
            super::graph::InputEntry { object: hint.clone(), source, node: node.clone(), shadow: hint.clone(), version: None };
        self.graph.inputs.push(entry);
        self.note_size(&node, &sym, &hint)?;
        Ok(node)
    }

    fn note_size(&mut self, node: &Obj, sym: &Sym, value: &Obj) -> PyResult<()> {
        let meta = node.attr("meta")?;
        meta.bind().set_item("example_value", value.bind())?;
        meta.bind().set_item("size", pyo3::Bound::new(py(), SizeObject(sym.clone()))?)?;
        self.follow(node);
        Ok(())
    }

    /// A sum of products, each factor a node.
    fn expression_node(&mut self, sym: &Sym) -> Recorded<Obj> {
        let constant = Some(Sym::from(sym.constant())).filter(|constant| !constant.is_zero());
        let mut sum: Option<(Sym, Obj)> = constant.map(|constant| (constant, Obj::int(sym.constant())));
        for (factors, times) in sym.terms().to_vec() {
            let mut term: Option<(Sym, Obj)> = (times != 1).then(|| (Sym::from(times), Obj::int(times)));
            for factor in &factors {
                let node = self.atom_node(factor)?;
                term = Some(match term {
                    Some(term) => self.integer_node("mul", term, node)?,
                    None => node,
                });
            }
            let term = term.expect("a term has a factor");
            sum = Some(match sum {
                Some(sum) => self.integer_node("add", sum, term)?,
                None => term,
            });
        }
        Ok(sum.expect("an expression has a term").1)
    }

    fn atom_node(&mut self, atom: &Atom) -> Recorded<(Sym, Obj)> {
        let (name, parts) = match atom {
            Atom::Var(var) => return Ok((Sym::var(var), self.size_node(&Sym::var(var))?)),
            Atom::Div(parts) => ("floordiv", parts),
            Atom::Mod(parts) => ("mod", parts),
            Atom::Min(parts) => ("min", parts),
            Atom::Max(parts) => ("max", parts),
        };
        let mut operand = |sym: &Sym| match sym.as_const() {
            Some(known) => Ok((sym.clone(), Obj::int(known))),
            None => Ok::<_, NotRecorded>((sym.clone(), self.size_node(sym)?)),
        };
        let (left, right) = (operand(&parts.0)?, operand(&parts.1)?);
        self.integer_node(name, left, right)
    }

    fn integer_node(&mut self, name: &str, left: (Sym, Obj), right: (Sym, Obj)) -> Recorded<(Sym, Obj)> {
        let (a, b) = (&left.0, &right.0);
        let sym = match name {
            "add" => a + b,
            "mul" => a * b,
            "floordiv" => a.div(b),
            "mod" => a.rem(b),
            "min" => a.lesser(b),
            _ => a.greater(b),
        };
        let module = if matches!(name, "min" | "max") { "builtins" } else { "operator" };
        let function: Obj = py().import(module)?.getattr(name)?.into();
        self.graph.size_calls += 1;
        let label = format!("z{}", self.graph.size_calls);
        let node = self.graph.node("call_function", &function, &[left.1, right.1], Some(&PyDict::new(py()).into()), &label)?;
        let value = Obj::int(sym.eval(&|var| self.sizing.hints.get(var).copied()).unwrap_or(0));
        self.note_size(&node, &sym, &value)?;
        Ok((sym, node))
    }

    /// The graph's node of an input tensor says which of its sizes are variables.
    pub(super) fn note_shape(&mut self, tensor: &Obj, source: SourceId, node: &Obj) -> Recorded<()> {
        let Some(sized) = self.sized(source).filter(|_| self.sizing.shapes.contains_key(&tensor.id())) else { return Ok(()) };
        let meta = node.attr("meta")?;
        meta.bind().set_item("sizes", size_tuple(&sized.shape())?.bind())?;
        meta.bind().set_item("strides", size_tuple(&sized.stride_syms())?.bind())?;
        Ok(())
    }

    /// Before the tensor's own placeholder: those of its sizes.
    pub(super) fn size_inputs(&mut self, tensor: &Obj) -> Recorded<()> {
        let Some(shape) = self.sizing.shapes.get(&tensor.id()).cloned() else { return Ok(()) };
        self.begin_following()?;
        for size in shape.iter().filter(|size| size.as_const().is_none()) {
            self.size_node(size)?;
        }
        Ok(())
    }

    fn begin_following(&mut self) -> PyResult<()> {
        if self.graph.follower.is_some() {
            return Ok(());
        }
        let device = self.device()?;
        self.graph.follower = self.backend.sizes(&self.graph.fx, &device);
        // What was recorded before had no variables.
        let nodes: Vec<Obj> = self.graph.fx.attr("nodes")?.bind().try_iter()?.flatten().map(Obj::from).collect();
        nodes.iter().for_each(|node| self.follow(node));
        Ok(())
    }

    /// Tells the follower of a node.
    pub(super) fn follow(&mut self, node: &Obj) {
        if let Some(follower) = &mut self.graph.follower {
            follower.follow(node, false);
        }
    }

    /// Tells the follower of a call. One that would fix sizes is taken back where it may stand between two graphs.
    pub(super) fn follow_call(&mut self, node: &Obj, writes: bool) -> Recorded<()> {
        let may_stand_apart = self.graph.may_stand_apart && !writes;
        let taken = self.graph.follower.as_mut().is_none_or(|follower| follower.follow(node, may_stand_apart));
        if taken {
            return Ok(());
        }
        self.graph.calls -= 1;
        self.graph.fx.bind().call_method1("erase_node", (node.bind(),))?;
        Err(NotRecorded::Varying)
    }

    /// Integer arithmetic and comparisons of sizes. None if something else is at hand.
    pub fn size_call(&mut self, name: &str, args: &[Val], result: &Obj) -> Option<Val> {
        if !args.iter().any(|arg| arg.free.is_some_and(|free| self.expr_of(free).is_some())) {
            return None;
        }
        let syms = args.iter().map(|arg| self.integer(arg)).collect::<Option<Vec<Sym>>>()?;
        let (a, b) = (syms.first()?, syms.get(1).unwrap_or(&Sym::ZERO));
        let value = match (name, syms.len()) {
            ("add", 2) => a + b,
            ("sub", 2) => a - b,
            ("mul", 2) => a * b,
            ("floordiv", 2) if b.is_positive() => a.div(b),
            ("mod", 2) if b.is_positive() => a.rem(b),
            ("neg", 1) => -a,
            ("pos" | "index", 1) => a.clone(),
            ("eq" | "ne" | "lt" | "le" | "gt" | "ge", 2) => {
                self.rely_on_comparison(name, a, b);
                return Some(result.clone().into());
            }
            ("truth", 1) => {
                self.rely_on_comparison("ne", a, &Sym::ZERO);
                return Some(result.clone().into());
            }
            _ => return None,
        };
        if !self.fits(&value) {
            return None;
        }
        Some(self.number(result.bind().extract().quiet()?, value))
    }

    /// `max(n, 4)` of a size and a number, as an expression. None of anything else: which of two sizes is the larger is a question.
    pub fn extreme_size(&mut self, is_larger: bool, a: &Val, b: &Val) -> Option<Val> {
        let is_number = |value: &Val| value.free.is_none() && value.obj.class_is(types().int);
        if is_number(a) == is_number(b) {
            return None;
        }
        let sizes = [a, b].into_iter().find(|value| !is_number(value))?;
        self.expr_of(sizes.free?)?;
        let (left, right) = (self.integer(a)?, self.integer(b)?);
        let sym = if is_larger { left.greater(&right) } else { left.lesser(&right) };
        let value = sym.eval(&|var| self.sizing.hints.get(var).copied())?;
        Some(self.number(value, sym))
    }

    /// An int that is an expression of sizes, or a constant. Numbers from elsewhere are relied on: a size that is divided by one of them would
    /// be no expression otherwise.
    fn integer(&mut self, arg: &Val) -> Option<Sym> {
        match arg.free.map(|source| self.expr_of(source)) {
            Some(Some(sym)) => Some(sym),
            Some(None) if arg.obj.class_is(types().int) => {
                let value = arg.obj.bind().extract::<i64>().quiet()?;
                self.settle(arg);
                Some(Sym::from(value))
            }
            Some(None) => None,
            None => arg.obj.class_is(types().int).then(|| arg.obj.bind().extract::<i64>().quiet().map(Sym::from)).flatten(),
        }
    }

    /// `a is b`, where one of them is a size. Which equal numbers are one object is CPython's affair: only that they are equal is relied on. None
    /// if none is a size.
    pub(super) fn is_same_size(&mut self, a: &Val, b: &Val) -> Option<bool> {
        if ![a, b].iter().any(|value| value.free.is_some_and(|free| self.expr_of(free).is_some())) {
            return None;
        }
        if a.obj.class_ptr() != b.obj.class_ptr() {
            return Some(false);
        }
        let (left, right) = (self.integer(a)?, self.integer(b)?);
        self.rely_on_comparison("eq", &left, &right);
        Some(a.obj.is(&b.obj))
    }

    /// What a comparison says stays so.
    fn rely_on_comparison(&mut self, name: &str, a: &Sym, b: &Sym) {
        let gap = a - b;
        let (_, facts) = at_hints(self.sizing.hints.clone(), || match name {
            "lt" | "ge" => assured(&gap) || assured(&(&-&gap - 1)),
            "gt" | "le" => assured(&(&gap - 1)) || assured(&-&gap),
            _ => are_different(a, b),
        });
        let line = self.sizing.line.clone();
        facts.into_iter().for_each(|(fact, _)| self.rely_on_fact(fact, &line));
    }
}

fn size_tuple(sizes: &[Sym]) -> PyResult<Obj> {
    let object = |sym: &Sym| -> PyResult<Obj> {
        Ok(match sym.as_const() {
            Some(known) => Obj::int(known),
            None => pyo3::Bound::new(py(), SizeObject(sym.clone()))?.into(),
        })
    };
    tuple_of(&sizes.iter().map(object).collect::<PyResult<Vec<Obj>>>()?)
}
