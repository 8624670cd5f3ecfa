//! What the graph returns, and how to put it together at run time.

use super::fake::{lazy_bit, place};
use super::grad::Apart;
use super::importer::{Gradients, Imported, Importer, Slot};
use super::refusal::{Import, Refusal};
use crate::limits::Limits;
use ox_driver::Held;
use ox_ir::Graph;
use ox_ir::Sym;
use ox_ir::graph::{Alias, NodeId, Op};
use ox_ops::{Layout, OpError, OutputSpec, TensorRef, ValueOf, with_unseen};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The shape of the result, with the run's tensors in it.
pub enum OutTree {
    /// The n-th tensor that the run returns.
    Tensor(usize),
    /// The same, of which autograd knows nothing although it may show an input's memory or another result's.
    Detached(usize),
    /// The same, and writes to it are not told to those who share its memory.
    Data(usize),
    /// The same, where autograd is to take it for a view that was made without grad.
    Quiet(usize),
    /// The same, where it is to take it for one that was made with grad.
    Tracked(usize),
    /// The n-th argument of the callable, unchanged: eager returns the same object.
    Argument(usize),
    /// The n-th constant of the module, likewise.
    Constant(usize),
    Size(Sym),
    Object(Py<PyAny>),
    Tuple(Vec<OutTree>),
    List(Vec<OutTree>),
}

/// What was learned of the outputs while the tree was built.
#[derive(Default)]
struct Collected<'py> {
    specs: Vec<OutputSpec>,
    /// The place of the input whose storage the output lies in, by the fake tensors.
    inputs: Vec<Option<u32>>,
    /// Whether it requires grad.
    grads: Vec<bool>,
    /// What it is to eager, and its storage.
    examples: Vec<(Bound<'py, PyAny>, usize)>,
    apart: Vec<Option<Apart>>,
    outdated: bool,
}

impl Collected<'_> {
    fn tree(&self, n: usize) -> OutTree {
        match self.apart[n] {
            Some(Apart::Detached) => OutTree::Detached(n),
            Some(Apart::Data) => OutTree::Data(n),
            Some(Apart::Quiet) => OutTree::Quiet(n),
            Some(Apart::Tracked) => OutTree::Tracked(n),
            None => OutTree::Tensor(n),
        }
    }
}

impl<'py> Importer<'py> {
    pub(super) fn finish(mut self, node: &Bound<'py, PyAny>) -> Import<Imported> {
        let py = self.py;
        let returned = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?.get_item(0)?;
        let mut collected = Collected::default();
        let outputs = self.out_tree(&returned, &mut collected)?;
        self.rely_on_layouts(&collected.specs)?;
        let limits = Limits::new(self.recorder.builder(), &self.slots);
        let mut graph = std::mem::take(&mut self.recorder).finish(&collected.specs).map_err(|error| match error {
            OpError::Bug(text) => Refusal::Bug(text),
            other => Refusal::unsupported(other.to_string()),
        })?;
        for (n, input) in collected.inputs.iter().enumerate() {
            match (input, &graph.outputs[n].alias) {
                // The fake tensors know of views that the recorder could not follow.
                (Some(input), _) => {
                    let value = graph.outputs[n].value;
                    if graph.ty(value).dtype != graph.inputs[*input as usize].ty.dtype {
                        return Err(Refusal::unsupported("an output that shows an input's memory as another type"));
                    }
                    // Counted from the input's first element: no guard says where in its storage an input begins.
                    let offset = &collected.specs[n].offset - &self.inputs[*input as usize].offset;
                    graph.outputs[n].alias = Some(Alias::Input(*input, offset));
                }
                (None, Some(Alias::Input(..))) => graph.outputs[n].alias = None,
                _ => {}
            }
        }
        for (output, spec) in graph.outputs.iter().zip(&collected.specs).filter(|(output, _)| output.alias.is_none()) {
            let meets_itself = |d: usize| spec.strides[d].is_zero() && !graph.ty(output.value).shape[d].is_one();
            if (0..spec.strides.len()).any(meets_itself) && !is_repeated(&graph, output.value) {
                return Err(Refusal::unsupported("an output of which torch foretells that different elements share a place"));
            }
        }
        let (mut held, mut saved_behind) = match self.training {
            true => self.held(&graph, &collected.examples)?,
            false => (Held::all_inputs(&graph), Vec::new()),
        };
        // Behind the results that the tree names.
        let graph = with_unseen(graph);
        for of_outputs in [&mut collected.grads, &mut held.outputs, &mut held.written] {
            of_outputs.resize(graph.outputs.len(), false);
        }
        if self.training {
            saved_behind.resize(graph.outputs.len(), Vec::new());
            saved_behind.iter_mut().for_each(|of_outputs| of_outputs.resize(graph.outputs.len(), false));
        }
        let unheard = self.unheard_arguments(&graph, &collected.apart);
        let constants = self.constants.into_iter().map(|(object, _)| object).collect();
        let Importer { slots, host, python_calls, pinned, weights, grad, .. } = self;
        let gradients = Gradients { inputs: grad.inputs, outputs: collected.grads, origins: grad.origins, ambient: grad.ambient };
        Ok(Imported {
            graph,
            slots,
            constants,
            outputs,
            host,
            python_calls,
            pinned,
            limits,
            weights,
            gradients,
            held,
            saved_behind,
            unheard,
            outdated: collected.outdated,
            facts: Vec::new(),
            seen: Vec::new(),
        })
    }

    fn out_tree(&mut self, object: &Bound<'py, PyAny>, collected: &mut Collected<'py>) -> Import<OutTree> {
        if let Ok(tuple) = object.cast::<PyTuple>() {
            let items = tuple.iter().map(|item| self.out_tree(&item, collected)).collect::<Import<_>>()?;
            return Ok(OutTree::Tuple(items));
        }
        if let Ok(list) = object.cast::<PyList>() {
            let items = list.iter().map(|item| self.out_tree(&item, collected)).collect::<Import<_>>()?;
            return Ok(OutTree::List(items));
        }
        if !object.is_instance(self.torch.fx_node.bind(self.py))? {
            return Ok(OutTree::Object(object.clone().unbind()));
        }
        match self.value(object)? {
            ValueOf::Tensor(tensor) => self.out_tensor(object, tensor, collected),
            ValueOf::Int(sym) => Ok(OutTree::Size(sym)),
            ValueOf::None => Ok(OutTree::Object(self.py.None())),
            _ => match self.meta(object)? {
                Some(example) => Ok(OutTree::Object(example.unbind())),
                None => Err(Refusal::unsupported("an output that is neither a tensor nor a number")),
            },
        }
    }

    fn out_tensor(&mut self, node: &Bound<'py, PyAny>, tensor: TensorRef, collected: &mut Collected<'py>) -> Import<OutTree> {
        if let Some(whole) = self.whole_input(tensor) {
            return Ok(whole);
        }
        // One object in two places is one object again.
        if let Some(n) = collected.specs.iter().position(|spec| spec.tensor == tensor) {
            return Ok(collected.tree(n));
        }
        let example = self.meta(node)?.ok_or_else(|| Refusal::unsupported("an output without an example"))?;
        let fake = self.describe(&example)?;
        let eager = self.requires_grad_here(node, tensor, fake.requires_grad)?;
        let requires_grad = self.output_requires_grad(tensor, eager)?;
        collected.outdated |=
            self.grad.apart.get(&tensor) == Some(&Apart::Quiet) && example.getattr(intern!(self.py, "grad_fn")).is_err();
        let place =
            place(&self.symbols, &example)?.ok_or_else(|| Refusal::unsupported("an output at an offset that is not known"))?;
        let input = self.input_below(tensor, place.storage);
        if let (Some(_), Some(foreign)) = (input, lazy_bit(&example)?) {
            return Err(Refusal::unsupported(format!("an output in an input's memory that is {foreign}")));
        }
        if let (None, Some(name)) = (input, self.opaque_views.get(&place.storage)) {
            return Err(Refusal::unsupported(format!("an output in memory of which {name} returned a view")));
        }
        let layout = self.captured_layout(tensor, &fake, &place.offset)?;
        let Layout { strides, offset } = layout.unwrap_or(Layout { strides: fake.strides, offset: place.offset });
        collected.specs.push(OutputSpec { tensor, strides, offset });
        collected.inputs.push(input.map(|n| n as u32));
        collected.grads.push(requires_grad);
        collected.examples.push((example, place.storage));
        collected.apart.push(self.apart(tensor).filter(|_| !requires_grad));
        Ok(collected.tree(collected.specs.len() - 1))
    }

    /// Without grad all around, views are made without it anyway. What a piece hands on is detached if another may write what it
    /// shows, by `.data` for example: torch would refuse a view that was made without grad then.
    fn apart(&self, tensor: TensorRef) -> Option<Apart> {
        match self.grad.apart.get(&tensor).copied()? {
            Apart::Quiet if self.written => Some(Apart::Detached),
            Apart::Quiet => (self.grad.ambient || self.training).then_some(Apart::Quiet),
            Apart::Tracked => (!self.training).then_some(Apart::Tracked),
            apart => Some(apart),
        }
    }

    /// The input whose storage the tensor lies in. Of several with one storage it is the one that the tensor was made of: in another
    /// call they may lie elsewhere.
    fn input_below(&self, tensor: TensorRef, storage: usize) -> Option<usize> {
        let inside = |input: &&super::importer::InputInfo| input.storage == storage;
        let made_of = |input: &super::importer::InputInfo| inside(&input) && self.recorder.aliases(input.tensor, tensor);
        self.inputs.iter().position(made_of).or_else(|| self.inputs.iter().position(|input| inside(&input)))
    }

    /// An output that is an input: the caller gets the very object back.
    fn whole_input(&self, tensor: TensorRef) -> Option<OutTree> {
        if let Some(n) = self.constants.iter().position(|(_, known)| *known == tensor) {
            return Some(OutTree::Constant(n));
        }
        let passed: Vec<&super::importer::InputInfo> =
            self.inputs.iter().filter(|input| !self.constants.iter().any(|(_, known)| *known == input.tensor)).collect();
        let place = passed.iter().position(|input| input.tensor == tensor)?;
        let tensors = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Tensor | Slot::Number(_)));
        tensors.map(|(n, _)| n).nth(place).map(OutTree::Argument)
    }
}

/// Whether it shows something again and again: then elements of it may share their places. (Fake kernels say so of more, such as `select_scatter` of
/// what was expanded, which eager copies.)
fn is_repeated(graph: &Graph, value: NodeId) -> bool {
    let node = graph.node(value);
    match node.op {
        Op::Expand => true,
        ref op => op.is_view() && is_repeated(graph, node.args[0]),
    }
}
