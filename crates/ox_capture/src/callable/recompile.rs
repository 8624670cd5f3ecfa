//! What is done with a call that no trace fits: by the stance, the settings, the marks of its arguments.

use super::Inner;
use crate::guard::{Check, Context};
use crate::log::{Topic, log, place_of};
use crate::obj::Obj;
use crate::policy::{Stance, is_disabled};
use crate::source::{Source, SourceId, Sources, Values, short};
use crate::tree::{Branches, Segment, Tree};
use crate::types::types;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

impl Inner {
    /// Whether a call that no trace fits is traced; otherwise it runs as it is.
    pub(super) fn may_trace(&self, tree: &Tree, stance: Stance, values: &mut Values<'_>) -> PyResult<bool> {
        let first = !self.counts.called.replace(true);
        if first && stance == Stance::EagerThenCompile {
            return Ok(false);
        }
        self.may_grow(tree, stance, &tree.branches, values, true)
    }

    /// Whether a branch may be added here. `returned`: whether the action before it did.
    pub(super) fn may_grow(
        &self,
        tree: &Tree,
        stance: Stance,
        branches: &Branches,
        values: &mut Values<'_>,
        returned: bool,
    ) -> PyResult<bool> {
        if is_disabled() {
            return Ok(false);
        }
        let name = short(&self.function);
        self.note_varying(tree, branches, values, returned);
        let mut why = || self.why_not(tree, branches, values, returned);
        match stance {
            Stance::EagerOnRecompile => return Ok(false),
            Stance::FailOnRecompile => {
                let text = format!("oxytorch: the stance is \"fail_on_recompile\", and {name} would be traced: {}", why());
                return Err(PyRuntimeError::new_err(text));
            }
            _ if branches.len() == 0 || branches.full.get() => return Ok(true),
            _ => {}
        }
        let why = why();
        if self.setting("error_on_recompile")? != 0 {
            let text = format!("oxytorch: error_on_recompile is set, and {name} would be traced again: {why}");
            return Err(PyRuntimeError::new_err(text));
        }
        let line = format!("{}: {name} is traced again: {why}", place_of(&self.function));
        log(Topic::Recompiles, || line.clone());
        self.tell_of_repetition(tree, branches, values, returned)?;
        self.counts.recompiles.borrow_mut().push(line);
        Ok(true)
    }

    /// Whether no more traces may be added: here, or to the whole tree.
    pub(super) fn is_full(&self, tree: &Tree, branches: &Branches) -> PyResult<bool> {
        let here = branches.len() as i64 >= self.setting("recompile_limit")?;
        let full = here || i64::from(tree.traces.get()) >= self.setting("accumulated_recompile_limit")?;
        // Where sizes were the reason, a last trace takes them all as they come.
        let is_root = std::ptr::eq(branches, &tree.branches);
        let may_generalise = is_root && self.settings.dynamic != Some(false) && !tree.varying_sizes.read().is_empty();
        if full && may_generalise { Ok(tree.general.replace(true)) } else { Ok(full) }
    }

    /// Whether as many traces behind actions as there may be of one place were used by no later call: what comes there depends on values,
    /// and each call would be traced.
    pub(super) fn grows_in_vain(&self, tree: &Tree) -> PyResult<bool> {
        let in_vain = tree.unused.read().iter().filter(|segment| !segment.used.get()).count() as i64;
        let is_limit = in_vain >= self.setting("recompile_limit")?;
        if is_limit {
            self.tell_of_limit()?;
        }
        Ok(is_limit)
    }

    pub(super) fn tell_of_limit(&self) -> PyResult<()> {
        let name = short(&self.function);
        self.backend.warn(&format!("oxytorch: {name} was compiled for too many kinds of calls; others run as they are"))
    }

    /// Numbers that are other ones than a trace was made for: the next trace takes them as inputs where it can.
    fn note_varying(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) {
        let segments = branches.all();
        let sources = tree.sources.read();
        let context = Context { sources: &sources, backend: &*self.backend, returned };
        for segment in segments.iter() {
            let (holding, failed): (Vec<&Check>, Vec<&Check>) =
                segment.checks.iter().partition(|check| check.holds(&context, values));
            let mut varying: Vec<SourceId> = failed.iter().filter_map(|check| check.number()).collect();
            for text in failed.iter().filter_map(|check| check.text()) {
                varying.extend(numbers_of(&sources, text, values));
            }
            varying.retain(|id| !holding.iter().any(|check| check.number() == Some(*id)));
            tree.varying.change(|known| known.extend(varying.into_iter().map(|id| sources.show(id))));
        }
        for segment in segments.iter() {
            self.note_varying_sizes(tree, &segment.checks, &context, values);
            segment.behind(&mut |later| self.note_varying_arguments(tree, later, &context, values));
        }
    }

    /// Of what comes behind an action the arguments of the call alone are there already.
    fn note_varying_arguments(&self, tree: &Tree, segment: &Segment, context: &Context<'_>, values: &mut Values<'_>) {
        let is_argument = |id| matches!(context.sources.get(id), Source::Arg(_) | Source::Kwarg(_));
        for check in &segment.checks {
            if matches!(check, Check::Tensor(id, _) if is_argument(*id)) {
                self.note_varying_sizes(tree, std::slice::from_ref(check), context, values);
            }
        }
    }

    /// Sizes that are other ones than a trace was made for: the next trace takes them as they come. Sizes that a trace took for one and that
    /// are two are told apart.
    fn note_varying_sizes(&self, tree: &Tree, checks: &[Check], context: &Context<'_>, values: &mut Values<'_>) {
        for check in checks {
            let (Check::Tensor(id, _) | Check::Sized(id, _)) = check else { continue };
            let Some(tensor) = values.get(context.sources, *id) else { continue };
            let place = |dim: usize| (context.sources.show(*id), dim);
            let bound = &mut values.sizes;
            match check {
                Check::Tensor(_, spec) => {
                    let other =
                        |sizes: &[i64]| (0..sizes.len()).filter(|d| sizes[*d] != spec.sizes[*d]).map(place).collect::<Vec<_>>();
                    let note = &mut |sizes: &[i64], _: &[i64]| {
                        if sizes.len() == spec.sizes.len() {
                            tree.varying_sizes.change(|known| known.extend(other(sizes)));
                        }
                        true
                    };
                    self.backend.measure(&tensor, spec, note);
                }
                Check::Sized(_, spec) => {
                    let note = &mut |sizes: &[i64], strides: &[i64]| {
                        if sizes.len() == spec.sizes.len() && !spec.fits(sizes, strides, bound) {
                            let unlike: Vec<_> = spec.unlike(sizes, bound).into_iter().map(place).collect();
                            let varying: Vec<_> = spec.variable_dims().map(place).chain(unlike.iter().cloned()).collect();
                            tree.varying_sizes.change(|known| known.extend(varying));
                            tree.lone_sizes.change(|known| known.extend(unlike));
                        }
                        true
                    };
                    self.backend.measure(&tensor, &spec.tensor, note);
                }
                _ => {}
            }
        }
    }

    /// What the trace that comes nearest has against the call: the one of which most checks held, of equal ones the youngest.
    fn why_not(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) -> String {
        let segments = branches.all();
        let sources = tree.sources.read();
        let context = Context { sources: &sources, backend: &*self.backend, returned };
        let dynamic = self.settings.dynamic;
        let objections = segments.iter().filter_map(|segment| segment.objection(&context, values, dynamic));
        match objections.max_by_key(|objection| objection.check) {
            Some(objection) => objection.to_string(),
            None => "there is no trace of it".to_string(),
        }
    }

    /// Two traces that no call has ever used again, both for the same place that no argument decides: probably no trace ever will be.
    pub(super) fn tell_of_repetition(
        &self,
        tree: &Tree,
        branches: &Branches,
        values: &mut Values<'_>,
        returned: bool,
    ) -> PyResult<()> {
        let places: Vec<String> = {
            let segments = branches.all();
            let sources = tree.sources.read();
            let context = Context { sources: &sources, backend: &*self.backend, returned };
            let unused = segments.iter().filter(|segment| !segment.used.get());
            unused.filter_map(|segment| segment.strange_objection(&context, values)).collect()
        };
        let twice = places.iter().enumerate().find(|(n, place)| places[..*n].contains(place));
        match twice {
            Some((_, place)) if !self.counts.told.replace(true) => self.backend.warn(&format!(
                "oxytorch: {} is traced again and again: {place} is another in every call",
                short(&self.function)
            )),
            _ => Ok(()),
        }
    }
}

/// The numbers that a text is made of.
fn numbers_of(sources: &Sources, text: SourceId, values: &mut Values<'_>) -> Vec<SourceId> {
    let is_number = |value: Obj| value.class_is(types().int) || value.class_is(types().float);
    let mut is_given =
        |id: SourceId| !matches!(sources.get(id), Source::Compute(..)) && values.get(sources, id).is_some_and(is_number);
    sources.operands(text).into_iter().map(|(id, _)| id).filter(|id| is_given(*id)).collect()
}
