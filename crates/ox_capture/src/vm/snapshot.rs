//! The machine's state at a branch, by recipes, so that a later call can go on from there.

use super::handled::Handled;
use super::{After, Args, Frame, Vm, code_info, exception};
use crate::obj::Obj;
use crate::recipe::Recipe;
use crate::record::{Rec, Recording, Val, abandon};
use crate::source::{Sources, Values};
use pyo3::prelude::*;

#[derive(Clone, Debug)]
pub struct FrameShot {
    code: Obj,
    function: Recipe,
    pc: usize,
    locals: Vec<Option<Recipe>>,
    stack: Vec<Option<Recipe>>,
    after: AfterShot,
    /// The generator whose frame it is, while that runs.
    generator: Option<Recipe>,
    /// What the generator handles itself, and what its caller does.
    own: Option<Recipe>,
    around: Option<Recipe>,
    scope: Option<Recipe>,
}

#[derive(Clone, Debug)]
enum AfterShot {
    Push,
    Drop,
    Nothing,
    Instance(Recipe),
    New(Recipe, Vec<Recipe>, Vec<(Obj, Recipe)>),
    ForIter(usize),
    Send(usize),
    Next,
    Again,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    frames: Vec<FrameShot>,
    /// The exception that is being handled, unless the caller handles one.
    pub handled: Option<Recipe>,
    /// Generators that are still to be closed when nobody holds them.
    suspended: Vec<Recipe>,
    /// Exceptions, and what frames that they have left held of that.
    kept: Vec<(Recipe, Vec<Recipe>)>,
}

impl Vm {
    /// None if something has no place where a later call finds it.
    pub fn snapshot(&self, rec: &mut Recording) -> Option<Snapshot> {
        let handled = Some(exception::handled()).filter(|now| !now.is_none() && !now.is(&self.entered));
        let mut lasting = |value: &Val| rec.lasting(value).map_or_else(|| abandon("a value that does not last"), Ok);
        let frames = self.frames.iter().map(|frame| FrameShot::of(frame, &mut lasting)).collect::<Rec<Vec<_>>>();
        let handled = handled.map(|exception| lasting(&exception.into())).transpose().ok()?;
        let mut all =
            |objects: &[Obj]| objects.iter().filter_map(|object| lasting(&object.clone().into()).ok()).collect::<Vec<_>>();
        let suspended = all(self.suspended.all());
        let kept = self
            .suspended
            .kept()
            .iter()
            .filter_map(|(exception, held)| Some((all(std::slice::from_ref(exception)).pop()?, all(held))));
        let kept = kept.collect();
        frames.ok().map(|frames| Snapshot { frames, handled, suspended, kept })
    }

    /// Puts the frames of a snapshot back.
    pub fn restore(&mut self, snapshot: &Snapshot, sources: &Sources, values: &mut Values<'_>) -> PyResult<()> {
        for shot in &snapshot.frames {
            let frame = shot.frame(&mut |recipe| value_of(recipe, recipe.get(sources, values, &[])))?;
            self.frames.push(frame);
        }
        if let Some(handled) = &snapshot.handled {
            exception::set_handled(&handled.get(sources, values, &[])?);
        }
        for generator in &snapshot.suspended {
            self.suspended.expect(generator.get(sources, values, &[])?);
        }
        for (exception, held) in &snapshot.kept {
            let held = held.iter().map(|object| object.get(sources, values, &[])).collect::<PyResult<_>>()?;
            self.suspended.keep(exception.get(sources, values, &[])?, held);
        }
        Ok(())
    }
}

/// A value of a frame: a number is looked at only when its value is relied on.
pub fn value_of(recipe: &Recipe, object: PyResult<Obj>) -> PyResult<Val> {
    let obj = object?;
    let free = match recipe {
        Recipe::Source(id) if crate::types::types().is_scalar(&obj) => Some(*id),
        _ => None,
    };
    Ok(Val { obj, free })
}

impl Snapshot {
    /// Whether the frame at this depth runs the code.
    pub fn stands_in(&self, depth: usize, code: &Obj) -> bool {
        self.frames.get(depth).is_some_and(|frame| frame.code.is(code))
    }
}

impl FrameShot {
    pub fn of(frame: &Frame, recipe: &mut dyn FnMut(&Val) -> Rec<Recipe>) -> Rec<FrameShot> {
        let mut slots = |slots: &[Option<Val>]| -> Rec<Vec<Option<Recipe>>> {
            slots.iter().map(|slot| slot.as_ref().map(&mut *recipe).transpose()).collect()
        };
        let (locals, stack) = (slots(&frame.locals)?, slots(&frame.stack)?);
        let after = match &frame.after {
            After::Push => AfterShot::Push,
            After::Drop => AfterShot::Drop,
            After::Nothing => AfterShot::Nothing,
            After::Instance(object) => AfterShot::Instance(recipe(object)?),
            After::New(class, args) => AfterShot::New(
                recipe(class)?,
                args.positional.iter().map(&mut *recipe).collect::<Rec<_>>()?,
                args.keywords.iter().map(|(name, value)| Ok((name.clone(), recipe(value)?))).collect::<Rec<_>>()?,
            ),
            After::ForIter(label) => AfterShot::ForIter(*label),
            After::Send(label) => AfterShot::Send(*label),
            After::Next => AfterShot::Next,
            After::Again => AfterShot::Again,
            After::Hand => return abandon("a frame that Rust waits for"),
        };
        let mut part = |part: &Option<Obj>| part.clone().map(|part| recipe(&part.into())).transpose();
        let (generator, scope) = (part(&frame.generator)?, part(&frame.scope)?);
        let (own, around) = (part(&frame.handled.own)?, part(&frame.handled.around)?);
        let (code, function) = (frame.code.object.clone(), recipe(&frame.function.clone().into())?);
        Ok(FrameShot { code, function, pc: frame.pc, locals, stack, after, generator, own, around, scope })
    }

    pub fn frame(&self, get: &mut dyn FnMut(&Recipe) -> PyResult<Val>) -> PyResult<Frame> {
        let function: Obj = get(&self.function)?.obj;
        let code = code_info(&function.attr("__code__")?)
            .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("oxytorch: a frame's code is gone"))?;
        let mut slots = |slots: &[Option<Recipe>]| -> PyResult<Vec<Option<Val>>> {
            slots.iter().map(|slot| slot.as_ref().map(&mut *get).transpose()).collect()
        };
        let (locals, stack) = (slots(&self.locals)?, slots(&self.stack)?);
        let after = match &self.after {
            AfterShot::Push => After::Push,
            AfterShot::Drop => After::Drop,
            AfterShot::Nothing => After::Nothing,
            AfterShot::Instance(recipe) => After::Instance(get(recipe)?),
            AfterShot::New(class, positional, keywords) => {
                let class = get(class)?;
                let positional = positional.iter().map(&mut *get).collect::<PyResult<_>>()?;
                let keywords = keywords.iter().map(|(name, value)| Ok((name.clone(), get(value)?))).collect::<PyResult<_>>()?;
                After::New(class, Args { positional, keywords })
            }
            AfterShot::ForIter(label) => After::ForIter(*label),
            AfterShot::Send(label) => After::Send(*label),
            AfterShot::Next => After::Next,
            AfterShot::Again => After::Again,
        };
        let mut part = |part: &Option<Recipe>| part.as_ref().map(|recipe| get(recipe).map(|v| v.obj)).transpose();
        let (generator, scope) = (part(&self.generator)?, part(&self.scope)?);
        let handled = Handled { own: part(&self.own)?, around: part(&self.around)? };
        let mut frame = Frame::new(code, &function, locals)?;
        frame.scope = scope;
        frame.stack = stack;
        frame.pc = self.pc;
        frame.after = after;
        frame.generator = generator;
        frame.handled = handled;
        Ok(frame)
    }
}
