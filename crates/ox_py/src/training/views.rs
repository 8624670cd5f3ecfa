//! Results that share memory with an argument or with another result. An autograd function must not return those: torch would not know of
//! the sharing, and a write to one would leave the gradient of the other wrong. So they are made of what it returns, by torch.

use super::apart::{self, Part};
use ox_capture::GradMode;
use ox_driver::Held;
use ox_ir::Sym;
use ox_ir::graph::{Alias, Graph, GraphInput, GraphOutput, Memory, Shape};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Where a result of the graph is found.
pub enum Place {
    /// The n-th result of the autograd function.
    Result(usize),
    View(Box<View>),
}

enum Base {
    Input(usize),
    Result(usize),
}

pub struct View {
    base: Base,
    shape: Shape,
    strides: Shape,
    /// From the first element of the base.
    offset: Sym,
    detached: bool,
}

pub struct Views {
    pub places: Vec<Place>,
}

impl Views {
    /// Takes out of the graph's outputs those that are views, and of `grads` what belonged to them. None if eager must run the graph.
    pub fn take(graph: &mut Graph, inputs: &[bool], grads: &mut Vec<bool>) -> Option<Views> {
        let outputs = std::mem::take(&mut graph.outputs);
        let of_outputs = std::mem::take(grads);
        let parts: Vec<bool> = outputs.iter().map(|output| is_part(&outputs, output, graph)).collect();
        if !parts_are_apart(graph, &outputs, &parts) {
            return None;
        }
        let is_view = |n: usize| outputs[n].alias.is_some() && !parts[n];
        let mut numbers = vec![0; outputs.len()];
        for n in (0..outputs.len()).filter(|n| !is_view(*n)) {
            numbers[n] = graph.outputs.len();
            // One that is taken away from others has memory of its own.
            let memory = if parts[n] || is_left(&outputs, &parts, n) { Memory::Own } else { outputs[n].memory.clone() };
            graph.outputs.push(GraphOutput { alias: None, memory, ..outputs[n].clone() });
            grads.push(of_outputs[n]);
        }
        let mut places = Vec::with_capacity(outputs.len());
        for (n, output) in outputs.iter().enumerate() {
            places.push(match &output.alias {
                Some(alias) if is_view(n) => {
                    let (base, offset, carries) = match alias {
                        Alias::Input(input, offset) => (Base::Input(*input as usize), offset, inputs[*input as usize]),
                        Alias::Output(of, offset) => (Base::Result(numbers[*of as usize]), offset, of_outputs[*of as usize]),
                    };
                    // torch spreads the gradient of a place over all elements that lie there.
                    let spreads = matches!(base, Base::Input(n) if overlaps(&graph.inputs[n]));
                    if of_outputs[n] && (!carries || spreads) {
                        return None;
                    }
                    let shape = graph.ty(output.value).shape.clone();
                    Place::View(Box::new(View {
                        base,
                        shape,
                        strides: output.strides.clone(),
                        offset: offset.clone(),
                        // One of what has no gradient either stays a view: both have one as soon as one of them is written with it.
                        detached: carries && !of_outputs[n],
                    }))
                }
                _ => Place::Result(numbers[n]),
            });
        }
        Some(Views { places })
    }

    /// The same of the results that are none.
    pub fn held(&self, held: Held) -> Held {
        let of_results = |all: &[bool]| {
            let results = self.places.iter().zip(all).filter(|(place, _)| matches!(place, Place::Result(_)));
            results.map(|(_, one)| *one).collect()
        };
        Held { outputs: of_results(&held.outputs), written: of_results(&held.written), ..held }
    }

    /// What is said of pairs of outputs, of pairs of results: the gradients of views come to what they are made of.
    pub fn of_results(&self, said: &[Vec<bool>]) -> Vec<Vec<bool>> {
        let results: Vec<usize> = (0..self.places.len()).filter(|n| matches!(self.places[*n], Place::Result(_))).collect();
        let mut of_results = vec![vec![false; results.len()]; results.len()];
        for (place, said) in self.places.iter().zip(said) {
            let result = match place {
                Place::Result(n) => *n,
                Place::View(view) => match view.base {
                    Base::Result(n) => n,
                    Base::Input(_) => continue,
                },
            };
            of_results[result].iter_mut().zip(&results).for_each(|(all, output)| *all |= said[*output]);
        }
        of_results
    }
}

/// Whether it was expanded.
fn overlaps(input: &GraphInput) -> bool {
    input.strides.iter().zip(&input.ty.shape).any(|(stride, size)| stride.as_const() == Some(0) && !size.is_one())
}

/// Whether the output lies in another one's storage, but not inside of that one's elements.
fn is_part(outputs: &[GraphOutput], output: &GraphOutput, graph: &Graph) -> bool {
    let Some(Alias::Output(of, offset)) = &output.alias else { return false };
    let holder = &outputs[*of as usize];
    let all = &graph.ty(holder.value).shape;
    let fits = || {
        let end = Part::new(&graph.ty(output.value).shape, &output.strides, offset.clone()).end();
        offset.is_nonneg() && (all.iter().product::<Sym>() - end).is_nonneg()
    };
    // What holds the whole of the memory holds whatever lies there.
    let inside = || is_dense(all, &holder.strides) && (!matches!(holder.memory, Memory::Whole(_)) || fits());
    // The same elements: what is not dense has a view of itself, too (`expand` to its own size).
    let is_all = offset.is_zero() && output.strides == holder.strides && graph.ty(output.value).shape == *all;
    graph.ty(output.value).dtype != graph.ty(holder.value).dtype || !(is_all || inside())
}

/// Whether parts of its memory are taken away from this output.
fn is_left(outputs: &[GraphOutput], parts: &[bool], n: usize) -> bool {
    let of_it =
        |(output, part): (&GraphOutput, &bool)| *part && matches!(output.alias, Some(Alias::Output(of, _)) if of as usize == n);
    outputs.iter().zip(parts).any(of_it)
}

/// Parts with gaps that take more elements than this, each in memory of its own with eager's strides, are eager's.
const MOST_SPREAD: i64 = 1 << 22;

/// Whether outputs take little more memory apart than together.
fn is_small_apart<'a>(graph: &Graph, outputs: impl Iterator<Item = &'a GraphOutput> + Clone) -> bool {
    let span = |output: &GraphOutput| Part::new(&graph.ty(output.value).shape, &output.strides, Sym::ZERO).end();
    let has_no_gaps = |output: &GraphOutput| span(output) == graph.ty(output.value).shape.iter().product::<Sym>();
    let total = || outputs.clone().map(|output| span(output).as_const()).sum::<Option<i64>>();
    outputs.clone().all(has_no_gaps) || total().is_some_and(|total| total <= MOST_SPREAD)
}

/// Whether results that lie in one storage in eager have no element in common: then they may as well lie apart.
fn parts_are_apart(graph: &Graph, outputs: &[GraphOutput], parts: &[bool]) -> bool {
    for (holder, _) in outputs.iter().enumerate() {
        let of_holder = |n: &usize| parts[*n] && matches!(outputs[*n].alias, Some(Alias::Output(of, _)) if of as usize == holder);
        let members: Vec<usize> = (0..outputs.len()).filter(of_holder).collect();
        let all = members.iter().chain([&holder]).map(|n| &outputs[*n]);
        if !(members.is_empty() || is_small_apart(graph, all) && are_apart(graph, outputs, holder, &members)) {
            return false;
        }
    }
    true
}

fn are_apart(graph: &Graph, outputs: &[GraphOutput], holder: usize, members: &[usize]) -> bool {
    let part = |n: &usize| {
        let output = &outputs[*n];
        let offset = match &output.alias {
            Some(Alias::Output(_, offset)) => offset.clone(),
            _ => Sym::from(0i64),
        };
        Part::new(&graph.ty(output.value).shape, &output.strides, offset)
    };
    apart::are_apart(&std::iter::once(&holder).chain(members).map(part).collect::<Vec<_>>())
}

/// Elements without gaps, in some order of the dimensions.
fn is_dense(shape: &[Sym], strides: &[Sym]) -> bool {
    let mut dims: Vec<(&Sym, &Sym)> = strides.iter().zip(shape).filter(|(_, size)| !size.is_one()).collect();
    let mut next = Sym::ONE;
    while let Some(innermost) = dims.iter().position(|(stride, _)| **stride == next) {
        next = &next * dims.remove(innermost).1;
    }
    dims.is_empty()
}

/// What views are made of.
pub struct Whole<'a, 'py> {
    pub inputs: &'a [Bound<'py, PyAny>],
    pub results: &'a Bound<'py, PyTuple>,
    pub size: &'a dyn Fn(&Sym) -> PyResult<i64>,
}

impl View {
    pub fn make<'py>(&self, py: Python<'py>, whole: &Whole<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let base = self.base(whole)?;
        let base = if self.detached { base.call_method0(intern!(py, "detach"))? } else { base };
        self.make_of(&base, whole)
    }

    /// A view in autograd's eyes, through which no gradient passes.
    pub fn make_without_grad<'py>(&self, whole: &Whole<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let _mode = GradMode::set(false)?;
        self.make_of(&self.base(whole)?, whole)
    }

    fn base<'py>(&self, whole: &Whole<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.base {
            Base::Input(n) => Ok(whole.inputs[n].clone()),
            Base::Result(n) => whole.results.get_item(n),
        }
    }

    fn make_of<'py>(&self, base: &Bound<'py, PyAny>, whole: &Whole<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = base.py();
        let begin: i64 = base.call_method0(intern!(py, "storage_offset"))?.extract()?;
        let all = |sizes: &Shape| sizes.iter().map(whole.size).collect::<PyResult<Vec<i64>>>();
        let (shape, strides) = (PyTuple::new(py, all(&self.shape)?)?, PyTuple::new(py, all(&self.strides)?)?);
        base.call_method1(intern!(py, "as_strided"), (shape, strides, begin + (whole.size)(&self.offset)?))
    }
}
