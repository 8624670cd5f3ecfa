//! Texts that are made of numbers that vary: `f"step {n}"`. Until somebody reads one it is what each call makes of its numbers.
//!
//! Few instructions carry such a text from place to place. All others, and all calls but those of Python's functions, rely on what it says.

use super::rows::spread;
use super::{Args, R, Vm};
use crate::builtins;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::record::Val;
use crate::types::types;
use ox_bytecode::{BinaryOp, Effect, Instruction};

impl Vm {
    pub(super) fn is_free_text(&self, value: &Val) -> bool {
        value.free.is_some() && value.obj.class_is(types().str)
    }

    /// Before an instruction that would read texts without asking where they come from.
    pub(super) fn settle_texts(&mut self, instruction: &Instruction) {
        if carries(instruction) {
            return;
        }
        let reach = Effect::of(instruction, false).reach as usize;
        let depth = self.frame().stack.len();
        for at in depth.saturating_sub(reach)..depth {
            if let Some(text) = self.frame().stack[at].clone().filter(|value| self.is_free_text(value)) {
                let known = self.settled(&text).into();
                self.frame().stack[at] = Some(known);
            }
        }
    }

    /// The arguments of a call: functions of Python's are given texts as they are, and so is `print`, which is called between two graphs.
    pub(super) fn with_known_texts(&mut self, callable: &Val, args: Args) -> Args {
        let this = &callable.obj;
        let is_python = this.class_is(types().function) || this.class_is(types().method);
        let is_print = || self.builtin("print").quiet().is_some_and(|print| print.is(this));
        if is_python && builtins::known(this).is_none() || is_print() {
            return args;
        }
        let mut known = |value: Val| if self.is_free_text(&value) { self.settled(&value).into() } else { value };
        let positional = args.positional.into_iter().map(&mut known).collect();
        let keywords = args.keywords.into_iter().map(|(name, value)| (name, known(value))).collect();
        Args { positional, keywords }
    }

    /// The parts of an f-string.
    pub(super) fn joined_texts(&mut self, parts: &[Val]) -> R<Val> {
        static JOIN: Found<Obj> = Found::new();
        let join = JOIN.or_try_find(|| Obj::str("").attr("join"))?;
        if parts.iter().any(|part| self.is_free_text(part)) {
            return self.pure(&spread(join, false)?, parts, &[]);
        }
        let parts: Vec<Obj> = parts.iter().map(|part| self.settled(part)).collect();
        Ok(join.call(&[crate::obj::list_of(&parts)?], None)?.into())
    }
}

/// Whether an instruction moves values only, or makes texts of texts.
fn carries(instruction: &Instruction) -> bool {
    use Instruction::*;
    matches!(
        instruction,
        PopTop
            | Copy(_)
            | Swap(_)
            | StoreFast(_)
            | LoadFastAndClear(_)
            | ReturnValue
            | YieldValue
            | Call { .. }
            | FormatSimple
            | BuildString(_)
            | BuildTuple(_)
            // What is put there under a key stays what it is; keys are relied on.
            | BuildMap(_)
            | BuildConstKeyMap(_)
            | Binary { op: BinaryOp::Add | BinaryOp::Remainder, .. }
    )
}
