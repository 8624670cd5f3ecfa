//! How the tensors of a captured graph lie in memory where sizes are variables.
//!
//! torch says how a result lies at the hints. Mostly that is so for all sizes; where it is not, what decided it is relied on, if somebody can
//! see it: in what comes out, in what is written, in what may be an input.

use super::call::Request;
use super::fake::Fake;
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use ox_ir::graph::Shape;
use ox_ir::{Sym, Var};
use ox_ops::decide::{are_different, assured, is_one, rely_on_shape};
use ox_ops::{FrontValue, Layout, OutputSpec, TensorRef, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// What decides whether a function copies its argument.
enum Wish {
    /// The elements side by side, with the dimensions in this order.
    Dense(Vec<usize>),
    Shape(Shape),
}

/// A result that is a copy or not because of how the argument lies in memory.
pub struct ByLayout {
    from: TensorRef,
    to: TensorRef,
    wish: Wish,
}

/// A call that made something: how that lies may follow from how its arguments do.
pub struct Making {
    /// The memory that was made.
    memory: usize,
    from: Vec<TensorRef>,
    /// Whether an argument has a computed size that was 1: where that is another, the argument lies otherwise.
    is_open: bool,
}

/// Row by row, however their arguments lie.
const PLAIN: &[&str] = &["linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "layer_norm", "embedding", "cross_entropy"];

impl<'py> Importer<'py> {
    /// The first argument was copied or not because of how it lay in memory.
    pub(super) fn note_by_layout(&mut self, request: &Request<'py>, value: &FrontValue) {
        let (Some(ValueOf::Tensor(from)), ValueOf::Tensor(to)) = (request.args.first(), value) else { return };
        let shape = &self.recorder.ty(*to).shape;
        let format = format_of(request);
        let wish = match request.name.name.as_str() {
            _ if self.known.hints.is_empty() => None,
            "contiguous" | "ravel" => order_of(format.unwrap_or(ROW_BY_ROW), self.recorder.ty(*from).rank()).map(Wish::Dense),
            "reshape" | "flatten" | "reshape_as" | "unflatten" => Some(Wish::Shape(shape.clone())),
            "clone" => None,
            _ => format.and_then(|format| order_of(format, shape.len())).map(Wish::Dense),
        };
        self.by_layout.extend(wish.map(|wish| ByLayout { from: *from, to: *to, wish }));
    }

    /// Whether something is a copy or a view can be seen if it is written, if it may be an input, or if it comes out: by its strides, and by
    /// what it shares memory with. Then the answer is relied on.
    pub(super) fn rely_on_layouts(&self, outputs: &[OutputSpec]) -> Import<()> {
        let memory = |tensor: TensorRef| self.recorder.memory(tensor).0;
        let writes = self.recorder.writes() > 0;
        let come_out: FxHashSet<usize> = outputs.iter().map(|output| memory(output.tensor)).collect();
        let mut seen = come_out.clone();
        for ByLayout { from, to, wish } in &self.by_layout {
            if !writes && self.recorder.input_strides(*from).is_none() && !come_out.contains(&memory(*to)) {
                continue;
            }
            seen.insert(memory(*from));
            let (sizes, layout) = self.layout_of(*from);
            let own = &self.recorder.ty(*from).shape;
            match (layout, wish) {
                _ if sizes.is_empty() => {}
                (Some(layout), Wish::Dense(order)) => drop(layout.is_dense_in(own, order)),
                (Some(layout), Wish::Shape(shape)) => drop(layout.takes(own, shape)),
                (None, _) => {
                    let why = "whether a result is a copy depends on how its argument lies in memory".to_string();
                    return Err(Refusal::Fixed { sizes: sizes.into_iter().collect(), why });
                }
            }
        }
        self.rely_on_orders(seen);
        Ok(())
    }

    /// Where results lie in the order of arguments, and those in the order of others: sizes of 1 that were computed are relied on. What lies
    /// row by row does so for all sizes.
    fn rely_on_orders(&self, mut seen: FxHashSet<usize>) {
        if !self.making.iter().any(|making| making.is_open) {
            return;
        }
        for making in self.making.iter().rev() {
            if !seen.contains(&making.memory) {
                continue;
            }
            seen.extend(making.from.iter().map(|tensor| self.recorder.memory(*tensor).0));
            for tensor in making.from.iter().filter(|_| making.is_open) {
                let shape = &self.recorder.ty(*tensor).shape;
                let is_plain = self.layout_of(*tensor).1.is_some_and(|layout| layout.is_row_major(shape));
                for size in shape.iter().filter(|size| !is_plain && self.is_single(size)) {
                    is_one(size);
                }
            }
        }
    }

    /// A computed size that was 1.
    fn is_single(&self, size: &Sym) -> bool {
        size.as_const().is_none() && self.known.hint(size) == Some(1)
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

    /// Where a tensor lies in its memory. None where sizes decide how that lies.
    pub(super) fn layout_now(&self, tensor: TensorRef) -> Option<Layout> {
        let (_, shape, _) = self.recorder.memory(tensor);
        self.layout_of(tensor).1.filter(|_| !shape.iter().any(|size| self.is_single(size)))
    }

    /// After a call: its results are as large as they are now, or larger than nothing; and how they lie in memory.
    pub(super) fn note_made(
        &mut self,
        request: &Request<'py>,
        value: &FrontValue,
        example: Option<&Bound<'py, PyAny>>,
    ) -> Import<()> {
        let Some(example) = example.filter(|_| !self.known.hints.is_empty()) else { return Ok(()) };
        match value {
            ValueOf::Tensor(tensor) => {
                rely_on_shape(&self.recorder.ty(*tensor).shape);
                let (memory, _, whole) = self.recorder.memory(*tensor);
                if whole && !self.made.contains_key(&memory) {
                    let strides = example.call_method0(intern!(self.py, "stride"))?;
                    self.made.insert(memory, strides.extract()?);
                    self.note_making(request, memory);
                }
                Ok(())
            }
            ValueOf::Tuple(items) | ValueOf::List(items) => items
                .iter()
                .zip(example.try_iter()?)
                .try_for_each(|(item, example)| self.note_made(request, item, Some(&example?))),
            _ => Ok(()),
        }
    }

    /// Of dimensions with one stride (what `unfold` makes) the shorter one lies inside.
    fn rely_on_ties(&self, tensor: TensorRef) {
        let Some(layout) = self.layout_of(tensor).1 else { return };
        let shape = &self.recorder.ty(tensor).shape;
        let is_tie = |a: usize, b: usize| {
            let is_long = |d: usize| !shape[d].is_one() && !layout.strides[d].is_zero();
            layout.strides[a] == layout.strides[b] && is_long(a) && is_long(b)
        };
        for b in 1..shape.len() {
            for a in (0..b).filter(|a| is_tie(*a, b)) {
                let gap = &shape[a] - &shape[b];
                let _ = assured(&gap) || assured(&(&-&gap - 1));
            }
        }
    }

    /// Padded by nothing, a tensor is copied as it lies; otherwise the result lies row by row or with its channels last.
    fn rely_on_padding(&self, request: &Request<'py>) {
        let named = || request.kwargs.iter().find(|(key, _)| key == "pad").map(|(_, value)| value);
        let (Some(ValueOf::Tensor(of)), Some(pads)) = (request.args.first(), request.args.get(1).or_else(named)) else { return };
        let shape = &self.recorder.ty(*of).shape;
        let orders: Vec<_> =
            [ROW_BY_ROW, CHANNELS_LAST, CHANNELS_LAST_3D].iter().filter_map(|f| order_of(*f, shape.len())).collect();
        let layout = self.layout_of(*of).1;
        if layout.is_some_and(|layout| orders.iter().any(|order| layout.is_always_dense_in(shape, order))) {
            return;
        }
        for pad in pads.items().unwrap_or_default() {
            if let ValueOf::Int(size) = pad {
                are_different(size, &Sym::ZERO);
            }
        }
    }

    fn note_making(&mut self, request: &Request<'py>, memory: usize) {
        if request.name.name == "pad" {
            self.rely_on_padding(request);
        }
        if PLAIN.contains(&request.name.name.as_str()) {
            return;
        }
        let from: Vec<TensorRef> = request.tensors();
        from.iter().for_each(|tensor| self.rely_on_ties(*tensor));
        let is_open = from.iter().any(|tensor| self.recorder.ty(*tensor).shape.iter().any(|size| self.is_single(size)));
        self.making.push(Making { memory, from, is_open });
    }

    /// Where an output lies, in terms of sizes. None where its example says all.
    pub(super) fn captured_layout(&self, tensor: TensorRef, fake: &Fake, offset: &Sym) -> Import<Option<Layout>> {
        if self.known.hints.is_empty() {
            return Ok(None);
        }
        let own = self.recorder.ty(tensor).shape.clone();
        let (mut sizes, layout) = self.layout_of(tensor);
        let (.., is_whole) = self.recorder.memory(tensor);
        // What holds nothing now has strides that nothing decides, unless they are those of rows.
        let is_empty = own.iter().any(|size| size.as_const().is_none() && self.known.hint(size) == Some(0));
        let is_settled = |layout: &Layout| !is_empty || layout.is_row_major(&own);
        match layout.filter(|layout| self.is_at(layout, &own, fake, offset) && is_settled(layout)) {
            // A part of fixed sizes lies as its example does, but begins where a variable may say.
            Some(layout) if sizes.is_empty() => Ok(Some(Layout { strides: fake.strides.clone(), ..layout })),
            Some(layout) => {
                // What is expanded to one element is not repeated, and has a stride.
                for (size, _) in own.iter().zip(&layout.strides).filter(|(_, stride)| stride.is_zero()) {
                    is_one(size);
                }
                Ok(Some(layout))
            }
            None if sizes.is_empty() && (is_whole || self.known.is_settled()) => Ok(None),
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

/// torch's numbers of memory formats.
const ROW_BY_ROW: i32 = 0;
const CHANNELS_LAST: i32 = 2;
const CHANNELS_LAST_3D: i32 = 3;

/// The memory format that a call asks for.
fn format_of(request: &Request<'_>) -> Option<i32> {
    let values = request.args.iter().chain(request.kwargs.iter().map(|(_, value)| value));
    values.into_iter().find_map(|value| if let ValueOf::MemoryFormat(format) = value { Some(*format) } else { None })
}

/// The order of the dimensions in it, the outermost first. None if it keeps the order that there is.
fn order_of(format: i32, rank: usize) -> Option<Vec<usize>> {
    match (format, rank) {
        (ROW_BY_ROW, _) => Some((0..rank).collect()),
        (CHANNELS_LAST, 4) => Some(vec![0, 2, 3, 1]),
        (CHANNELS_LAST_3D, 5) => Some(vec![0, 2, 3, 4, 1]),
        _ => None,
    }
}
