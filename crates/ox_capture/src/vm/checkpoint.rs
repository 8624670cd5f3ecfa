//! `torch.utils.checkpoint`: the function is run as any other. What is recorded while it runs is marked, so that the graph is cut around it and
//! its backward computes it again instead of keeping it.

use super::own_derivative::may_have_own_derivative;
use super::{Args, Called, Frame, R, Vm};
use crate::builtins;
use crate::callable::Captured;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py, tuple_of};
use crate::record::Val;
use crate::record::grad::{self, GradMode};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicI64, Ordering};

/// The function of the library whose frame stands while a region is run.
const FRAME: &str = "recomputed";
/// That which torch's own checkpoint is given.
const CHECKPOINTED: &str = "checkpointed";
static REGIONS: AtomicI64 = AtomicI64::new(0);

impl Vm {
    /// None if it is another function, or asks for what only torch can do.
    pub fn call_checkpoint(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        if !builtins::is_checkpoint(&callable.obj) || self.rec.is_none() {
            return Ok(None);
        }
        let Some((function, rest)) = args.positional.split_first() else { return Ok(None) };
        let mut names = Vec::new();
        let (mut reentrant, mut early_stop, mut preserves) = (None, None, None);
        for (name, value) in &args.keywords {
            match name.to_str().unwrap_or_default().as_str() {
                "use_reentrant" => reentrant = Some(value.clone()),
                "early_stop" => early_stop = Some(value.clone()),
                "context_fn" | "determinism_check" | "debug" => return Ok(None),
                "preserve_rng_state" => preserves = Some(value.clone()),
                _ => names.push((name.clone(), value.clone())),
            }
        }
        let Some(reentrant) = reentrant.map(|value| self.settled(&value)).filter(|value| value.class_is(types().bool)) else {
            return Ok(None);
        };
        // Then it takes no names, and gives no gradient if none of these requires it.
        if reentrant.truth()? && (!names.is_empty() || !self.any_requires_grad(rest)?) {
            return Ok(None);
        }
        if GradMode::is_on()? && may_have_own_derivative(&function.obj) {
            return self.checkpoint_by_torch(callable, args).map(Some);
        }
        let early_stop = early_stop.map(|value| self.settled(&value));
        let preserves = preserves.map_or(Ok(true), |value| self.settled(&value).truth())?;
        let id = Obj::int(REGIONS.fetch_add(1, Ordering::Relaxed));
        self.mark_arguments(rest, &id)?;
        let flags = [stops_early(early_stop)?, preserves, GradMode::is_on()?].map(Obj::bool);
        let region = self.pinned(tuple_of(&[&[id, reentrant], &flags[..]].concat())?);
        let positional = [region, function.clone()].into_iter().chain(rest.iter().cloned()).collect();
        let stand_in = self.pinned(super::library::function(FRAME)?);
        self.call_function(&stand_in, Args { positional, keywords: names }).map(Some)
    }

    fn mark_arguments(&mut self, values: &[Val], region: &Obj) -> R<()> {
        let Some(rec) = &mut self.rec else { return Ok(()) };
        let mut tensors = values.iter().filter(|value| super::operators::is_tensor(&value.obj));
        tensors.try_for_each(|tensor| rec.mark_argument(&tensor.obj, region))
    }

    /// Whatever the function keeps, torch's own checkpoint lets go of. The function is captured by itself.
    fn checkpoint_by_torch(&mut self, callable: &Val, args: &Args) -> R<Called> {
        let captured = self.checkpointed()?;
        let captured = self.pinned(captured);
        let positional = [&[captured], &args.positional[..]].concat();
        let args = Args { positional, keywords: args.keywords.clone() };
        self.opaque_call(callable, args, "a checkpointed function with a torch.autograd.Function")
    }

    /// One for all functions, which it takes as its first argument.
    fn checkpointed(&self) -> R<Obj> {
        if let Some(known) = &*self.tree.checkpointed.read() {
            return Ok(known.clone());
        }
        let backend = self.rec.as_ref().expect("it is recorded").backend.clone();
        let captured = Captured::new(super::library::function(CHECKPOINTED)?, backend, self.settings.clone(), None)?;
        let captured = Obj::from(Bound::new(py(), captured)?.into_any());
        self.tree.checkpointed.change(|known| *known = Some(captured.clone()));
        Ok(captured)
    }

    /// The regions that are being run, the outermost first: of each its number, and how torch would run it.
    pub fn regions(&self) -> Option<Obj> {
        let frames = self.frames.iter().filter(|frame| frame.code.hidden && frame.code.name == FRAME);
        let regions: Vec<Obj> = frames.filter_map(|frame| frame.locals.first()?.clone()).map(|region| region.obj).collect();
        if regions.is_empty() { None } else { tuple_of(&regions).quiet() }
    }

    /// The older variant gives zeros to the results that nobody uses, and with them to all that they were computed of: they are results of the
    /// part whether somebody holds them or not.
    pub fn mark_results(&self, frame: &Frame, value: &Val) -> R<()> {
        let region = Some(frame)
            .filter(|frame| frame.code.hidden && frame.code.name == FRAME)
            .and_then(|frame| frame.locals.first()?.clone());
        let (Some(region), Some(rec)) = (region, &self.rec) else { return Ok(()) };
        if !region.obj.bind().get_item(1)?.is_truthy()? {
            return Ok(());
        }
        let results = match value.obj.bind().cast::<PyTuple>() {
            Ok(several) => several.iter().map(Obj::from).collect(),
            Err(_) => vec![value.obj.clone()],
        };
        for result in results.iter().filter(|result| types().is_tensor(result)) {
            rec.mark_result(result)?;
        }
        Ok(())
    }

    /// Those inside of containers do not count: torch does not look there.
    fn any_requires_grad(&self, values: &[Val]) -> R<bool> {
        let tensors = values.iter().filter(|value| types().is_tensor(&value.obj));
        let seen = tensors.map(|value| self.rec.as_ref().map_or_else(|| value.obj.clone(), |rec| rec.seen_as(&value.obj)));
        grad::any_requires_grad(&seen.collect::<Vec<_>>())
    }
}

/// Whether what is computed again ends with the last value that was saved. What the program has set for all checkpoints comes first.
fn stops_early(asked: Option<Obj>) -> PyResult<bool> {
    let set = py().import("torch.utils.checkpoint")?.getattr("_enable_checkpoint_early_stop")?;
    if !set.is_none() {
        return set.is_truthy();
    }
    asked.map_or(Ok(true), |asked| asked.truth())
}
