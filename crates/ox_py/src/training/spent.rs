//! Several backward passes through one call. In eager every node lets go of what it saved when a pass has gone through it, unless the graph is
//! retained, and another pass may go other ways. Here all of them are one node: what earlier passes have used is written down, what others may
//! still need is kept, and a pass that would come to a node of eager's that is empty raises as it does.

use super::chosen::Choice;
use super::knots::Knot;
use super::known::Known;
use super::{Backward, TrainingCallable};
use ox_capture::Found;
use ox_driver::{Source, part};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, PoisonError};

/// What is known of the ways through a graph.
#[derive(Default)]
pub struct Ways {
    /// Where eager saves something; None if that could not be found out.
    knots: Found<Option<Vec<Knot>>>,
    /// For each saved tensor, whether it is kept behind what is gone.
    kept: Known<Gone, Arc<[bool]>>,
}

/// How far a backward pass went.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pass {
    pub choice: Choice,
    /// It ended before all nodes below this place: it raised there. Later nodes come first.
    pub end: u64,
}

/// What passes that did not retain the graph have let go of.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Gone {
    /// All that is on the way of the first one. Eager itself is asked only where something hangs on it.
    By(Pass),
    /// What these nodes of eager's saved.
    At(Arc<[bool]>),
}

/// What is left of what a call saved.
#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct Spent {
    gone: Gone,
    rest: Vec<Option<Left>>,
}

pub struct Left {
    tensor: Py<PyAny>,
    version: Option<i64>,
}

impl Left {
    pub fn bound<'py>(&self, py: Python<'py>) -> Saved<'py> {
        Saved { tensor: self.tensor.bind(py).clone(), version: self.version }
    }
}

const ENABLE: &str = "enable anomaly detection to find the operation that failed to compute its gradient, with \
    torch.autograd.set_detect_anomaly(True, check_nan=False).";
const SHOWN: &str = "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was \
    changed in there or anywhere later. Good luck!";

/// A saved tensor.
pub struct Saved<'py> {
    tensor: Bound<'py, PyAny>,
    /// As it was when it was last looked at, where torch does not look.
    version: Option<i64>,
}

impl<'py> Saved<'py> {
    /// The tensor, if nobody has written to it.
    pub fn unchanged(self) -> PyResult<Bound<'py, PyAny>> {
        // torch has looked at the others.
        let Some(then) = self.version else { return Ok(self.tensor) };
        match version_of(&self.tensor)? {
            Some(now) if now != then => Err(changed(&self.tensor, now, then)?),
            _ => Ok(self.tensor),
        }
    }
}

/// How often a tensor was written; None where torch does not count.
pub fn version_of(tensor: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let py = tensor.py();
    match tensor.getattr(intern!(py, "_version")) {
        Ok(version) => version.extract().map(Some),
        Err(_) if tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()? => Ok(None),
        Err(error) => Err(error),
    }
}

/// In torch's words for it.
pub fn changed(tensor: &Bound<'_, PyAny>, now: i64, then: i64) -> PyResult<PyErr> {
    let py = tensor.py();
    let (kind, shape) = (tensor.call_method0(intern!(py, "type"))?, tensor.getattr(intern!(py, "shape"))?);
    let shape: Vec<i64> = shape.extract()?;
    let made_by = tensor.getattr(intern!(py, "grad_fn"))?;
    let which = match made_by.is_none() {
        true => String::new(),
        false => {
            let (place, name) = (tensor.getattr(intern!(py, "output_nr"))?, made_by.call_method0(intern!(py, "name"))?);
            format!(", which is output {place} of {name},")
        }
    };
    let hint = if super::is_watched(py)? { SHOWN } else { ENABLE };
    Ok(modified(&format!("[{kind} {shape:?}]{which} is at version {now}; expected version {then} instead. Hint: {hint}")))
}

pub fn modified(how: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: {how}"
    ))
}

impl TrainingCallable {
    /// What is left of what a call saved, or torch's own error where eager would come to a node that has let go of what it saved. `ctx` is the
    /// autograd function's.
    pub(super) fn saved<'py>(&self, ctx: &Bound<'py, PyAny>, choice: &Choice) -> PyResult<Vec<Option<Saved<'py>>>> {
        let saved = self.left_of_saved(ctx, choice)?;
        self.ensure_uncounted(ctx, choice)?;
        Ok(saved)
    }

    fn left_of_saved<'py>(&self, ctx: &Bound<'py, PyAny>, choice: &Choice) -> PyResult<Vec<Option<Saved<'py>>>> {
        let py = ctx.py();
        let Some(spent) = spent(ctx)? else {
            let all = match ctx.getattr(intern!(py, "saved_tensors")) {
                Ok(all) => all.cast_into::<PyTuple>()?,
                Err(error) => return self.saved_although(ctx, error),
            };
            return Ok(all.iter().map(|tensor| Some(Saved { tensor, version: None })).collect());
        };
        let spent = spent.get();
        let saved: Vec<_> = spent.rest.iter().map(|left| left.as_ref().map(|left| left.bound(py))).collect();
        let Some(knots) = self.knots(ctx)? else { return Err(twice(ctx)) };
        let pass = Pass { choice: choice.clone(), end: 0 };
        let gone = spent.gone.at(knots);
        let is_closed = |(knot, gone): &(&Knot, &bool)| **gone && knot.is_on(&pass);
        if let Some(first) = knots.iter().zip(gone.iter()).filter(is_closed).map(|(knot, _)| knot.place).max() {
            self.let_go(ctx, Pass { end: first + 1, ..pass }, &saved)?;
            return Err(twice(ctx));
        }
        Ok(saved)
    }

    /// Somebody has written to a saved tensor, which this pass may not need: each is looked at when it is used. `error` is what torch says of it.
    fn saved_although<'py>(&self, ctx: &Bound<'py, PyAny>, error: PyErr) -> PyResult<Vec<Option<Saved<'py>>>> {
        let py = ctx.py();
        let Ok(raw) = ctx.getattr(intern!(py, "_raw_saved_tensors")) else { return Err(error) };
        let versions: Option<Vec<Option<i64>>> = ctx.getattr(intern!(py, "versions"))?.extract()?;
        let sources = self.backward.sources.iter().filter(|source| !matches!(source, Source::Gradient(_)));
        let mut all = Vec::new();
        for (raw, source) in raw.try_iter()?.zip(sources) {
            let version = match source {
                Source::Input(n) => versions.as_ref().map(|versions| versions[*n as usize]),
                // Nobody has written to it when it is saved.
                _ => Some(Some(0)),
            };
            let (raw, Some(version)) = (raw?, version) else { return Err(error) };
            if !raw.getattr(intern!(py, "unpack_hook"))?.is_none() {
                return Err(error);
            }
            all.push(Some(Saved { tensor: raw.getattr(intern!(py, "data"))?, version }));
        }
        Ok(all)
    }

    /// A pass lets go of what no other one will need, if it does not retain the graph.
    pub(super) fn let_go<'py>(&self, ctx: &Bound<'py, PyAny>, pass: Pass, saved: &[Option<Saved<'py>>]) -> PyResult<()> {
        let py = ctx.py();
        if keeps_graph(py)? {
            return Ok(());
        }
        let (gone, kept) = self.behind(ctx, spent(ctx)?, pass)?;
        let sources = self.backward.sources.iter().filter(|source| !matches!(source, Source::Gradient(_)));
        let mut rest = Vec::with_capacity(saved.len());
        for ((saved, source), kept) in saved.iter().zip(sources).zip(kept.iter()) {
            rest.push(saved.as_ref().filter(|_| *kept).map(|saved| saved.left(source)).transpose()?);
        }
        if !kept.contains(&true) {
            ctx.setattr(intern!(py, "inputs"), py.None())?;
            ctx.setattr(intern!(py, "seen"), py.None())?;
        }
        ctx.setattr(intern!(py, "spent"), Spent { gone, rest })?;
        ctx.call_method0(intern!(py, "maybe_clear_saved_tensors")).map(drop)
    }

    /// What is gone behind another pass, and for each saved tensor whether it is kept.
    fn behind(&self, ctx: &Bound<'_, PyAny>, before: Option<Bound<'_, Spent>>, pass: Pass) -> PyResult<(Gone, Arc<[bool]>)> {
        if before.is_none() {
            let gone = Gone::By(pass.clone());
            let kept = self.kept(&gone, &[]);
            if !kept.contains(&true) {
                return Ok((gone, kept));
            }
        }
        let Some(knots) = self.knots(ctx)? else {
            let nothing = self.backward.needed(&self.gradients.outputs, &|_, _| false);
            return Ok((Gone::By(pass), nothing.into()));
        };
        let mut gone = Gone::By(pass.clone()).at(knots).to_vec();
        if let Some(before) = before {
            gone.iter_mut().zip(before.get().gone.at(knots).iter()).for_each(|(gone, before)| *gone |= before);
        }
        let gone = Gone::At(gone.into());
        let kept = self.kept(&gone, knots);
        Ok((gone, kept))
    }

    /// For each saved tensor, whether another pass may need it.
    fn kept(&self, gone: &Gone, knots: &[Knot]) -> Arc<[bool]> {
        if let Some(kept) = self.ways.kept.get(gone) {
            return kept;
        }
        let results = &self.gradients.outputs;
        let kept: Arc<[bool]> = match gone {
            Gone::By(Pass { choice, end }) => {
                let was_on = |result: usize, input: usize| *end == 0 && choice.present[result] && choice.asks_for(input);
                self.backward.needed(results, &|result, input| !was_on(result, input)).into()
            }
            Gone::At(gone) => {
                let mut is_open = vec![vec![true; self.gradients.inputs.len()]; results.len()];
                for (knot, _) in knots.iter().zip(gone.iter()).filter(|(_, gone)| **gone) {
                    for result in &knot.above {
                        knot.below.iter().for_each(|input| is_open[*result][*input] = false);
                    }
                }
                self.backward.needed(results, &|result, input| is_open[result][input]).into()
            }
        };
        self.ways.kept.put(gone.clone(), kept.clone());
        kept
    }

    fn knots(&self, ctx: &Bound<'_, PyAny>) -> PyResult<Option<&Vec<Knot>>> {
        self.ways.knots.or_try_find(|| self.find_knots(ctx)).map(Option::as_ref)
    }
}

impl Gone {
    /// By node of eager's that saves something, whether that is gone.
    fn at(&self, knots: &[Knot]) -> Arc<[bool]> {
        match self {
            Gone::By(pass) => knots.iter().map(|knot| knot.is_on(pass)).collect(),
            Gone::At(gone) => gone.clone(),
        }
    }
}

impl<'py> Saved<'py> {
    /// As it is, within one pass.
    pub fn kept(&self) -> Left {
        Left { tensor: self.tensor.clone().unbind(), version: self.version }
    }

    /// A result of the call is kept without its own history, which would hold the call in turn.
    fn left(&self, source: &Source) -> PyResult<Left> {
        let py = self.tensor.py();
        let tensor = match source {
            Source::Output(_) => self.tensor.call_method0(intern!(py, "detach"))?,
            _ => self.tensor.clone(),
        };
        let version = if self.version.is_some() { self.version } else { version_of(&tensor)? };
        Ok(Left { tensor: tensor.unbind(), version })
    }
}

impl Backward {
    /// For each saved tensor, whether gradients between those results and inputs need it that `are_asked` names.
    fn needed(&self, results: &[bool], are_asked: &dyn Fn(usize, usize) -> bool) -> Vec<bool> {
        let mut used = vec![false; self.sources.len()];
        for result in (0..results.len()).filter(|result| results[*result]) {
            let mut wanted = vec![false; self.graph.outputs.len()];
            for (input, place) in self.gradients.iter().enumerate() {
                if let Some(n) = place {
                    wanted[*n as usize] |= self.reach[result][input] && are_asked(result, input);
                }
            }
            if wanted.contains(&true) {
                let of_part = self.needed_by(result, results.len(), wanted);
                used.iter_mut().zip(of_part.iter()).for_each(|(used, of_part)| *used |= of_part);
            }
        }
        let saved = self.sources.iter().zip(used).filter(|(source, _)| !matches!(source, Source::Gradient(_)));
        saved.map(|(_, used)| used).collect()
    }

    /// For each input of the graph, whether these of its results need it where one of `results` has a gradient.
    fn needed_by(&self, result: usize, results: usize, wanted: Vec<bool>) -> Arc<[bool]> {
        let lock = || self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, needed)) = lock().get(&result).filter(|(known, _)| *known == wanted) {
            return needed.clone();
        }
        let present: Vec<bool> = (0..results).map(|n| n == result).collect();
        let needed: Arc<[bool]> = part(&self.graph, &self.sources, &present, &wanted).inputs.into();
        lock().insert(result, (wanted, needed.clone()));
        needed
    }
}

fn spent<'py>(ctx: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Spent>>> {
    let spent = ctx.getattr(intern!(ctx.py(), "spent"))?;
    Ok(if spent.is_none() { None } else { Some(spent.cast_into()?) })
}

/// Whether the backward pass that is going on retains the graph.
fn keeps_graph(py: Python<'_>) -> PyResult<bool> {
    let autograd = py.import(intern!(py, "torch._C._autograd"))?;
    autograd.call_method0(intern!(py, "_get_current_graph_task_keep_graph"))?.is_truthy()
}

/// torch's own words, which it has for whoever asks for what it has let go of.
fn twice(ctx: &Bound<'_, PyAny>) -> PyErr {
    match ctx.getattr(intern!(ctx.py(), "saved_tensors")) {
        Err(error) => error,
        Ok(_) => PyRuntimeError::new_err("Trying to backward through the graph a second time"),
    }
}
