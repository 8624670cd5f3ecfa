//! The machine's state at a branch, by recipes, so that a later call can go on from there.

use super::{After, Frame, Vm, code_info};
use crate::obj::Obj;
use crate::recipe::Recipe;
use crate::record::{Recording, Val};
use crate::source::{Sources, Values};
use pyo3::prelude::*;

#[derive(Clone, Debug)]
pub struct FrameShot {
    function: Recipe,
    pc: usize,
    locals: Vec<Option<Recipe>>,
    stack: Vec<Option<Recipe>>,
    after: AfterShot,
}

#[derive(Clone, Debug)]
enum AfterShot {
    Push,
    Drop,
    Instance(Recipe),
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    frames: Vec<FrameShot>,
}

impl Vm {
    /// None if something has no place where a later call finds it.
    pub fn snapshot(&self, rec: &mut Recording) -> Option<Snapshot> {
        // SAFETY: a new reference, or null for none.
        let handled = unsafe { Obj::owned_opt(pyo3::ffi::PyErr_GetHandledException()) };
        if handled.is_some_and(|exception| !exception.is_none()) {
            return None;
        }
        let frames = self.frames.iter().map(|frame| frame_shot(rec, frame)).collect::<Option<Vec<_>>>()?;
        Some(Snapshot { frames })
    }

    /// Puts the frames of a snapshot back.
    pub fn restore(&mut self, snapshot: &Snapshot, sources: &Sources, values: &mut Values<'_>) -> PyResult<()> {
        for shot in &snapshot.frames {
            let mut get = |recipe: &Recipe| -> PyResult<Val> {
                let obj = recipe.get(sources, values, &[])?;
                let is_number = crate::types::types().is_scalar(&obj);
                let free = match recipe {
                    Recipe::Source(id) if is_number => Some(*id),
                    _ => None,
                };
                Ok(Val { obj, free })
            };
            let function: Obj = get(&shot.function)?.obj;
            let code = code_info(&function.attr("__code__")?)
                .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("oxytorch: a frame's code is gone"))?;
            let mut slots = |slots: &[Option<Recipe>]| -> PyResult<Vec<Option<Val>>> {
                slots.iter().map(|slot| slot.as_ref().map(&mut get).transpose()).collect()
            };
            let (locals, stack) = (slots(&shot.locals)?, slots(&shot.stack)?);
            let after = match &shot.after {
                AfterShot::Push => After::Push,
                AfterShot::Drop => After::Drop,
                AfterShot::Instance(recipe) => After::Instance(get(recipe)?),
            };
            let mut frame = Frame::new(code, &function, locals)?;
            frame.stack = stack;
            frame.pc = shot.pc;
            frame.after = after;
            self.frames.push(frame);
        }
        Ok(())
    }
}

fn frame_shot(rec: &mut Recording, frame: &Frame) -> Option<FrameShot> {
    if frame.generator.is_some() {
        return None;
    }
    let mut slots = |slots: &[Option<Val>]| -> Option<Vec<Option<Recipe>>> {
        slots
            .iter()
            .map(|slot| match slot {
                Some(value) => rec.lasting(value).map(Some),
                None => Some(None),
            })
            .collect()
    };
    let (locals, stack) = (slots(&frame.locals)?, slots(&frame.stack)?);
    let after = match &frame.after {
        After::Push => AfterShot::Push,
        After::Drop => AfterShot::Drop,
        After::Instance(object) => AfterShot::Instance(rec.lasting(object)?),
        After::Hand | After::ForIter(_) | After::Send(_) => return None,
    };
    let function = rec.lasting(&frame.function.clone().into())?;
    Some(FrameShot { function, pc: frame.pc, locals, stack, after })
}
