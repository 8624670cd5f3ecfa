//! Second derivatives: the gradients as functions of the inputs and of the results' gradients, by eager, which computes everything again.

use super::chosen::Choice;
use super::reach::read_by;
use super::spent::{Pass, changed, modified, version_of};
use super::{Again, Backward, TrainingCallable};
use crate::unheard;
use ox_capture::Found;
use ox_capture::GradMode;
use ox_driver::{SMALL, Source};
use ox_ir::Graph;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyList, PyTuple};

const NOT_AGAIN: &str = "oxytorch: a second derivative (create_graph=True) or a batch of gradients (is_grads_batched=True, vmap) needs the graph to be \
    computed again by eager, and this one changes something large that it reads, holds parameters as constants, was checkpointed or has random numbers of its own beside others or on a GPU; \
    compile the function without that part, or run it in eager; options={\"fallback_random\": True} takes random numbers from eager";

/// Inputs, and what tells whether they were written.
pub type Kept<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// What a call was given and keeps for a second derivative, and what tells whether somebody has written to it; None where it keeps nothing.
pub struct Given {
    inputs: Py<PyAny>,
    seen: Py<PyAny>,
}

impl Given {
    pub fn of(ctx: &Bound<'_, PyAny>) -> PyResult<Given> {
        let py = ctx.py();
        Ok(Given { inputs: ctx.getattr(intern!(py, "inputs"))?.unbind(), seen: ctx.getattr(intern!(py, "seen"))?.unbind() })
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Given {
        Given { inputs: self.inputs.clone_ref(py), seen: self.seen.clone_ref(py) }
    }
}

/// Whether one of the gradients is a batch of many: `is_grads_batched`, `vmap`.
pub fn is_batched(grads: &Bound<'_, PyTuple>) -> PyResult<bool> {
    let transforms = grads.py().import(intern!(grads.py(), "torch._C._functorch"))?;
    for grad in grads.iter_borrowed().filter(|grad| !grad.is_none()) {
        for kind in [intern!(grads.py(), "is_legacy_batchedtensor"), intern!(grads.py(), "is_batchedtensor")] {
            if transforms.call_method1(kind, (grad,))?.is_truthy()? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The same tensor by a node of its own, no view: what is written to the tensor later is nothing to it.
fn aside<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static SAME: Found<Py<PyAny>> = Found::new();
    let py = tensor.py();
    let same = SAME.or_try_find(|| -> PyResult<Py<PyAny>> {
        let aten = py.import("torch")?.getattr("ops")?.getattr("aten")?;
        Ok(aten.getattr("_unsafe_view")?.getattr("default")?.unbind())
    })?;
    same.bind(py).call1((tensor, tensor.getattr(intern!(py, "shape"))?))
}

impl TrainingCallable {
    /// `ctx` is the autograd function's, of the call that is differentiated.
    pub(super) fn differentiably<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyTuple>,
        choice: &Choice,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        // Whoever has let go of the graph gets torch's own words for it.
        self.saved(ctx, choice)?;
        self.differentiated_again(ctx, &Given::of(ctx)?, grads)
    }

    /// The same of what the call was given, which it may have let go of.
    pub(super) fn differentiated_again<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        given: &Given,
        grads: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let py = ctx.py();
        self.ensure_again(ctx, given, grads)?;
        let given = given.inputs.bind(py).cast::<PyTuple>()?;
        if self.again == Again::Natively {
            return self.natively(ctx, given, grads);
        }
        let why = if is_batched(grads)? { "a batch of gradients" } else { "create_graph=True" };
        let text = format!("oxytorch: {why}: this backward pass is computed by eager");
        py.import(intern!(py, "warnings"))?.call_method1(intern!(py, "warn"), (text,))?;
        let inputs = self.inputs_again(given)?;
        let results = self.results_again(ctx, &inputs)?;
        self.gradients_again(&inputs, &results, grads)
    }

    /// Raises where the call cannot be computed once more for these gradients.
    pub(super) fn ensure_again(&self, ctx: &Bound<'_, PyAny>, given: &Given, grads: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = ctx.py();
        let may_be = match self.again {
            Again::ByEager => true,
            Again::Natively => !is_batched(grads)?,
            Again::Never => false,
        };
        if !may_be || given.inputs.is_none(py) {
            return Err(PyRuntimeError::new_err(NOT_AGAIN));
        }
        self.ensure_unchanged(ctx, given.seen.bind(py).cast()?, grads)
    }

    /// A pass that no program of ours does: its gradients are many at once.
    pub(super) fn by_eager_alone<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyTuple>,
        choice: &Choice,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let saved = self.saved(ctx, choice)?;
        let gradients = self.differentiably(ctx, grads, choice)?;
        self.let_go(ctx, Pass { choice: choice.clone(), end: 0 }, &saved)?;
        Ok(gradients)
    }

    /// Not the tensors themselves where somebody may yet write to them what was computed of the results: the history of that would hold the call,
    /// which holds them. None where one is to be copied that is large.
    pub(super) fn keep_inputs<'py>(&self, inputs: &Bound<'py, PyTuple>) -> PyResult<Option<Kept<'py>>> {
        let py = inputs.py();
        for (input, _) in inputs.iter().zip(&self.copied).filter(|(_, is_copied)| **is_copied) {
            if input.getattr(intern!(py, "nbytes"))?.extract::<u64>()? >= SMALL {
                return Ok(None);
            }
        }
        let _mode = GradMode::set(true)?;
        let (mut kept, mut seen) = (Vec::new(), Vec::new());
        for ((input, has_gradient), is_copied) in inputs.iter().zip(&self.gradients.inputs).zip(&self.copied) {
            let input = if *is_copied { input.call_method0(intern!(py, "clone"))? } else { input };
            let is_fixed = *has_gradient && input.getattr(intern!(py, "is_leaf"))?.is_truthy()?;
            seen.push(if is_fixed { input.clone() } else { input.call_method0(intern!(py, "detach"))? });
            kept.push(match is_fixed {
                true => input,
                false if *has_gradient => aside(&input)?,
                false => seen[seen.len() - 1].clone(),
            });
        }
        Ok(Some((PyTuple::new(py, kept)?, PyTuple::new(py, seen)?)))
    }

    pub(super) fn is_written(&self, input: usize) -> bool {
        self.native.graph.mutations.iter().any(|mutation| mutation.input as usize == input)
    }

    /// What is computed again is computed of the inputs as they are now: somebody else may have written to them since the call. What the
    /// graph writes itself, no gradient depends on, or it was copied; the values of others no gradient depends on, either (what is only added up).
    fn ensure_unchanged(&self, ctx: &Bound<'_, PyAny>, seen: &Bound<'_, PyTuple>, grads: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = ctx.py();
        let versions: Vec<Option<i64>> = ctx.getattr(intern!(py, "versions"))?.extract()?;
        let moment: i64 = ctx.getattr(intern!(py, "moment"))?.extract()?;
        let read = read_by(&self.native.graph, grads.iter().map(|grad| !grad.is_none()));
        let matters = self.backward.values_that_matter(&self.native.graph);
        let is_asked = |place: usize| read[place] && matters[place] && !self.is_written(place);
        for (place, tensor) in seen.iter().enumerate().filter(|(place, _)| is_asked(*place)) {
            if let (Some(now), Some(then)) = (version_of(&tensor)?, versions[place])
                && now != then
            {
                return Err(changed(&tensor, now, then)?);
            }
            // What is computed again sees what autograd does not count, too.
            if unheard::is_written_since(&tensor, moment)? {
                return Err(modified("an input of a compiled graph was written by way of .data"));
            }
        }
        Ok(())
    }

    /// Tensors of their own: what other inputs were computed of must not be differentiated a second time.
    fn inputs_again<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let py = given.py();
        let _mode = GradMode::set(true)?;
        let mut inputs = Vec::with_capacity(given.len());
        for (place, tensor) in given.iter().enumerate() {
            inputs.push(match self.gradients.inputs[place] {
                _ if self.is_written(place) => tensor.call_method0(intern!(py, "detach"))?.call_method0(intern!(py, "clone"))?,
                true => tensor.call_method1(intern!(py, "view_as"), (&tensor,))?,
                false => tensor,
            });
        }
        PyTuple::new(py, inputs)
    }

    /// In the grad mode, under the autocast and with the random numbers of the call.
    fn results_again<'py>(&self, ctx: &Bound<'py, PyAny>, inputs: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let py = ctx.py();
        let sizes: Vec<i64> = ctx.getattr(intern!(py, "sizes"))?.extract()?;
        let others = ctx.getattr(intern!(py, "others"))?;
        let args = self.arguments(py, sizes, others.cast()?, inputs)?;
        self.called_again(ctx, args, None)
    }

    /// `within`: a mode in which it is called.
    pub(super) fn called_again<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        within: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = ctx.py();
        let _numbers = RandomState::set(&ctx.getattr(intern!(py, "random"))?)?;
        let _mode = GradMode::set(self.gradients.ambient)?;
        let mut regions = Regions::enter(&ctx.getattr(intern!(py, "autocast"))?)?;
        within.map(|mode| regions.enter_also(mode)).transpose()?;
        let returned = self.native.eager.bind(py).call1(args)?;
        drop(regions);
        self.roots(py, &returned)
    }

    fn gradients_again<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        results: &Bound<'py, PyList>,
        grads: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let py = inputs.py();
        let (mut of, mut weights) = (Vec::new(), Vec::new());
        for (result, grad) in results.iter().zip(grads.iter()).filter(|(_, grad)| !grad.is_none()) {
            of.push(result);
            weights.push(grad);
        }
        // No gradient flows to the others: those that none of the results depends on were given without their histories.
        let is_wanted = |place: usize| self.gradients.inputs[place] && self.backward.is_reached(place);
        let wanted: Vec<_> = inputs.iter().enumerate().filter(|(place, _)| is_wanted(*place)).map(|(_, input)| input).collect();
        let kwargs = [("create_graph", is_grad_enabled(py)?), ("allow_unused", true)].into_py_dict(py)?;
        let grad = py.import(intern!(py, "torch.autograd"))?.getattr(intern!(py, "grad"))?;
        let found = grad.call((of, wanted, weights), Some(&kwargs))?;
        let mut found = found.try_iter()?;
        (0..inputs.len())
            .map(|place| Ok(if is_wanted(place) { found.next().transpose()?.filter(|grad| !grad.is_none()) } else { None }))
            .collect()
    }
}

impl Backward {
    /// The inputs whose values gradients depend on. What was saved may have been computed of all of them.
    fn values_that_matter(&self, graph: &Graph) -> Vec<bool> {
        let mut matters = vec![self.sources.iter().any(|source| matches!(source, Source::Saved(_))); graph.inputs.len()];
        let is_read = |n: usize| self.sources.contains(&Source::Output(n as u32));
        let below = read_by(graph, (0..graph.outputs.len()).map(is_read));
        matters.iter_mut().zip(below).for_each(|(matters, below)| *matters |= below);
        for source in &self.sources {
            if let Source::Input(n) = source {
                matters[*n as usize] = true;
            }
        }
        matters
    }
}

pub fn is_grad_enabled(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()
}

/// Regions of autocast, one for each kind of device, and other modes, until it is dropped.
struct Regions<'py>(Vec<Bound<'py, PyAny>>);

impl<'py> Regions<'py> {
    /// `settings`: the kind, whether it is on, the type.
    fn enter(settings: &Bound<'py, PyAny>) -> PyResult<Regions<'py>> {
        let py = settings.py();
        let autocast = py.import(intern!(py, "torch"))?.getattr(intern!(py, "autocast"))?;
        let mut regions = Regions(Vec::new());
        for setting in settings.try_iter()? {
            let (kind, enabled, dtype): (Bound<'_, PyAny>, bool, Bound<'_, PyAny>) = setting?.extract()?;
            let kwargs = [("enabled", enabled), ("cache_enabled", false)].into_py_dict(py)?;
            regions.enter_also(autocast.call((kind, dtype), Some(&kwargs))?)?;
        }
        Ok(regions)
    }

    fn enter_also(&mut self, region: Bound<'py, PyAny>) -> PyResult<()> {
        region.call_method0(intern!(region.py(), "__enter__"))?;
        self.0.push(region);
        Ok(())
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        for region in self.0.iter().rev() {
            let py = region.py();
            if let Err(error) = region.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None())) {
                // The others are left all the same.
                error.write_unraisable(py, Some(region));
            }
        }
    }
}

/// The state of torch's generator, until it is dropped.
pub struct RandomState<'py> {
    before: Option<Bound<'py, PyAny>>,
}

impl<'py> RandomState<'py> {
    /// None leaves it as it is.
    pub fn set(state: &Bound<'py, PyAny>) -> PyResult<RandomState<'py>> {
        let py = state.py();
        let torch = py.import(intern!(py, "torch"))?;
        let before = torch.call_method0(intern!(py, "get_rng_state"))?;
        if !state.is_none() {
            torch.call_method1(intern!(py, "set_rng_state"), (state,))?;
        }
        Ok(RandomState { before: Some(before) })
    }
}

impl Drop for RandomState<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            let py = before.py();
            // It was the state before.
            let _ = py.import(intern!(py, "torch")).and_then(|torch| torch.call_method1(intern!(py, "set_rng_state"), (before,)));
        }
    }
}
