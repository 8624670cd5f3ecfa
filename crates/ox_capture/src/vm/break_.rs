//! Breaks in place: what was recorded is computed, one call is made for real, and recording goes on right behind it.

use super::exception::exception_of;
use super::native::keywords;
use super::reading::{Read, Reading};
use super::{After, Args, Attach, Break, Called, Frame, R, Vm};
use crate::advice::advice;
use crate::gc::Work;
use crate::log::{Topic, log};
use crate::obj::Obj;
use crate::policy::error_on_graph_break;
use crate::recipe::Recipe;
use crate::record::{Closing, Inspection, Rec, Recording, Val};
use crate::source::Source;
use crate::tree::{Action, Branches, End};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

// Passes the program's handlers for `Exception`; a RuntimeError when it is out.
pyo3::create_exception!(oxytorch, Refused, PyBaseException);

/// Recipes for an action.
struct Wanted {
    function: Recipe,
    args: Vec<Recipe>,
    kwargs: Vec<(Obj, Recipe)>,
}

impl Vm {
    /// A call that nobody can see into.
    pub fn opaque_call(&mut self, callable: &Val, args: Args, why: &str) -> R<Called> {
        self.drop_contradicted()?;
        if self.rec.is_some() && (self.settings.fullgraph || error_on_graph_break()) {
            return Err(self.refuse(why));
        }
        if self.rec.is_some() {
            let found = Break {
                reason: why.to_string(),
                stack: self.frames.iter().filter(|frame| !frame.code.hidden).map(Frame::location).collect(),
            };
            log(Topic::GraphBreaks, || format!("{}: {why} (by way of {})", found.location(), found.stack.join(" > ")));
            self.breaks.push(found);
        }
        let read = Read::Like(self.known_to_vary(&args));
        self.action(callable, args, why, (read != Read::Like(Vec::new())).then_some((&read, &[])))
    }

    /// Nothing may be kept of what another call with the same checks would not do; a segment that ends would be.
    pub(super) fn drop_contradicted(&mut self) -> R<()> {
        if self.rec.as_ref().is_some_and(|rec| rec.contradicted) { self.stop_recording() } else { Ok(()) }
    }

    /// Ends the segment, makes the call for real, and begins another. With what the call reads, if that is why, and the sizes of its first
    /// argument that vary.
    pub(super) fn action(&mut self, callable: &Val, args: Args, why: &str, read: Option<Reading<'_>>) -> R<Called> {
        self.sweep_crumbs(why);
        // What the machine knows is wrong where something was computed behind its back, in this very instruction.
        let is_sound = self.rec.as_ref().is_some_and(|rec| rec.tainted.is_none());
        let closed = match is_sound && self.waiting == 0 {
            true => self.close_for(callable, &args, why)?,
            false => {
                self.give_up(why);
                false
            }
        };
        if let Some(error) = PyErr::take(crate::obj::py()) {
            return Err(error);
        }
        let positional: Vec<Obj> = args.positional.iter().map(|a| a.obj.clone()).collect();
        let keywords = keywords(&args.keywords)?;
        let outcome = {
            let _work = Work::new();
            callable.obj.call(&positional, keywords.as_ref())
        };
        if !closed {
            return outcome.map(|object| Called::Value(object.into()));
        }
        if let (Some((read, varying)), Ok(result)) = (read, &outcome) {
            self.note_read(read, varying, result);
        }
        self.go_on(outcome).map(Called::Value)
    }

    /// The call goes on unrecorded, so that what the program has opened is closed on the way out. Nothing is kept: the next call is
    /// refused as well.
    fn refuse(&mut self, why: &str) -> PyErr {
        let text = self.refusal(why);
        let computed = self.rec.take().map(|mut rec| rec.compute());
        match computed {
            Some(Err(error)) => {
                self.fatal = true;
                error
            }
            _ => Refused::new_err(text),
        }
    }

    /// Why a function that may not break cannot be compiled, with the user's line and what to do.
    fn refusal(&self, why: &str) -> String {
        let asked = if self.settings.fullgraph { "fullgraph=True" } else { "error_on_graph_break is set" };
        let way_out = if self.settings.fullgraph { "drop fullgraph" } else { "allow the break" };
        let (explanation, hint) = advice(why);
        let mut text =
            format!("oxytorch: {asked}, but at {} there is {why}; {explanation}. {hint}, or {way_out}", self.location());
        if self.verbose {
            let lines = self.frames.iter().map(|frame| format!("\n    {}", frame.location()));
            text.extend(lines);
        }
        text
    }

    /// Ends the segment with the call as its action. False if recording had to be given up.
    fn close_for(&mut self, callable: &Val, args: &Args, why: &str) -> R<bool> {
        let location = self.location();
        let mut rec = self.rec.take().expect("checked by the caller");
        let calls = rec.graph.calls;
        let graph = match self.compute(&mut rec) {
            Ok(graph) => graph,
            Err(error) => {
                self.fatal = true;
                return Err(error);
            }
        };
        let mut found = Inspection::default();
        let wanted = action_recipes(&mut rec, callable, args, &mut found);
        let effects = wanted.and_then(|wanted| Ok((wanted, rec.effects(&mut found)?)));
        let lasting = effects.and_then(|(wanted, effects)| {
            self.inspect_frames(&rec, &mut found)?;
            rec.inspect_machines(&mut found)?;
            Ok((wanted, effects))
        });
        let (wanted, effects) = match lasting {
            Ok(all) => all,
            Err(error) => {
                let depth = self.first_without_recipe(&rec).unwrap_or_else(|| self.depth_to_leave());
                self.rec = Some(rec);
                self.give_up_in(depth, &format!("{why}; {}", error.0));
                return Ok(false);
            }
        };
        let result = rec.source(Source::Result(rec.segment));
        rec.tree.sources.change(|sources| sources.name_action(rec.segment, crate::source::short(&callable.obj)));
        let closing = Closing { graph, found, effects };
        let mut segment = rec.segment(closing, End::GiveUp(String::new()));
        let snapshot = match self.snapshot(&mut rec) {
            Some(snapshot) => snapshot,
            None => {
                self.rec = Some(rec);
                self.give_up(&format!("{why}; the machine's state cannot be kept"));
                return Ok(false);
            }
        };
        let Wanted { function, args, kwargs } = wanted;
        segment.end = End::Action(Box::new(Action {
            function,
            args,
            kwargs,
            reason: why.to_string(),
            location,
            result,
            snapshot,
            branches: Branches::default(),
        }));
        let segment = self.attach_segment(segment);
        let before = std::mem::replace(&mut self.attach, Attach::Action(segment.clone()));
        self.note_crumb(calls, before, segment);
        self.rec = Some(rec);
        Ok(true)
    }

    /// Recording begins again behind the action.
    fn go_on(&mut self, outcome: PyResult<Obj>) -> R<Val> {
        let rec = self.rec.as_mut().expect("a segment was closed");
        let before = rec.segment;
        rec.begin_segment();
        rec.checks.push(crate::guard::Check::Returned(outcome.is_ok()));
        rec.state = crate::state::TorchState::now()?;
        let state = rec.state.clone();
        rec.checks.push(crate::guard::Check::State(state.into()));
        let source = rec.tree.source(before, Source::Result(before));
        match outcome {
            Ok(object) => Ok(rec.meet(object, source)),
            Err(error) => {
                rec.meet(exception_of(&error), source);
                Err(error)
            }
        }
    }

    /// Everything that the frames hold gets a recipe.
    fn inspect_frames(&self, rec: &Recording, found: &mut Inspection) -> Rec<()> {
        let handled = super::exception::handled();
        if !handled.is_none() && !handled.is(&self.entered) {
            rec.recipe_of(&handled, found)?;
        }
        self.suspended.told().try_for_each(|object| rec.recipe_of(object, found).map(drop))?;
        self.frames.iter().try_for_each(|frame| inspect_frame(frame, rec, found))
    }

    /// The outermost frame that holds something which a later call could not make.
    fn first_without_recipe(&self, rec: &Recording) -> Option<usize> {
        let mut found = Inspection::default();
        self.frames.iter().position(|frame| inspect_frame(frame, rec, &mut found).is_err())
    }
}

fn inspect_frame(frame: &Frame, rec: &Recording, found: &mut Inspection) -> Rec<()> {
    if let Some(generator) = &frame.generator {
        rec.recipe_of(generator, found)?;
    }
    for value in frame.locals.iter().chain(&frame.stack).flatten() {
        rec.recipe(value, found)?;
    }
    match &frame.after {
        After::Instance(object) => drop(rec.recipe(object, found)?),
        After::New(class, args) => {
            for value in std::iter::once(class).chain(args.values()) {
                rec.recipe(value, found)?;
            }
        }
        _ => {}
    }
    for part in [&frame.scope, &frame.handled.own, &frame.handled.around].into_iter().flatten() {
        rec.recipe_of(part, found)?;
    }
    rec.recipe_of(&frame.function, found)?;
    Ok(())
}

fn action_recipes(rec: &mut Recording, callable: &Val, args: &Args, found: &mut Inspection) -> Rec<Wanted> {
    let function = rec.recipe(callable, found)?;
    let positional = args.positional.iter().map(|a| rec.recipe(a, found)).collect::<Rec<Vec<Recipe>>>()?;
    let kwargs = args.keywords.iter().map(|(k, v)| Ok((k.clone(), rec.recipe(v, found)?))).collect::<Rec<Vec<_>>>()?;
    Ok(Wanted { function, args: positional, kwargs })
}
