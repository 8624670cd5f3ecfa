//! Instructions that go elsewhere: jumps and calls.

use super::reading::Read;
use super::{Args, Flow, R, Vm};
use crate::builtins::is_of_torch;
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::record::Val;
use crate::types::types;
use ox_bytecode::{Condition, Const, Instruction, Label};
use pyo3::exceptions::PyRuntimeError;

impl Vm {
    pub(super) fn op_jump_if(&mut self, condition: Condition, Label(label): Label) -> R<Flow> {
        let value = self.pop();
        if matches!(condition, Condition::True | Condition::False)
            && let Some(flow) = self.ask_tensor(&value)?
        {
            return Ok(flow);
        }
        let jump = match condition {
            Condition::None => value.obj.is_none(),
            Condition::NotNone => !value.obj.is_none(),
            Condition::True | Condition::False => self.truth(&value)? == (condition == Condition::True),
        };
        if jump {
            if (label as usize) < self.frame().pc {
                self.breathe()?;
            }
            self.frame().pc = label as usize;
        }
        Ok(Flow::Next)
    }

    /// The truth of a tensor is asked for by a break, that of the program's objects in a frame; then the instruction comes again, with the
    /// answer on the stack.
    pub(super) fn ask_tensor(&mut self, value: &Val) -> R<Option<Flow>> {
        if let Some(called) = self.truth_by_method(value)? {
            return self.again(called).map(Some);
        }
        if self.rec.is_none() || !super::operators::is_tensor(&value.obj) {
            return Ok(None);
        }
        let (truth, args) = (self.operator("truth")?, Args::positional(vec![value.clone()]));
        let is_asserted = self.is_asserted();
        self.frame().pc -= 1;
        let called = match is_asserted {
            true => self.read(&truth.into(), args, Read::Nothing, "the truth of a tensor, which is asserted")?,
            false => self.opaque_call(&truth.into(), args, "the truth of a tensor")?,
        };
        self.take(called).map(Some)
    }

    /// Whether one of the two ways from here is the failure of an `assert`, or of `torch._assert`: the program has one way to go.
    fn is_asserted(&mut self) -> bool {
        use Instruction::{JumpIf, LoadAssertionError};
        let frame = self.frame();
        if frame.code.name == "_assert" && is_of_torch(&frame.function) {
            return true;
        }
        let instructions = &frame.code.code.instructions;
        let is_failure = |at: usize| instructions.get(at) == Some(&LoadAssertionError);
        let jump = [frame.pc - 1, frame.pc].into_iter().find_map(|at| match instructions.get(at) {
            Some(JumpIf { label: Label(label), .. }) => Some((at + 1, *label as usize)),
            _ => None,
        });
        jump.is_some_and(|(next, label)| is_failure(next) || is_failure(label))
    }

    pub(super) fn op_call(&mut self, count: usize, keywords: Option<Const>) -> R<Flow> {
        let mut positional = self.pop_many(count);
        let (second, first) = (self.pop_slot(), self.pop_slot());
        let mut args = Args::default();
        if let Some(names) = keywords {
            let names = crate::obj::items_of(&self.constant(names));
            let values = positional.split_off(positional.len() - names.len());
            args.keywords = names.into_iter().zip(values).collect();
        }
        let callable = match (first, second) {
            (Some(function), Some(this)) => {
                positional.insert(0, this);
                function
            }
            (_, Some(callable)) => callable,
            (Some(callable), None) => callable,
            (None, None) => return Err(PyRuntimeError::new_err("oxytorch: a call of nothing")),
        };
        args.positional = positional;
        let called = self.call(&callable, args)?;
        self.take(called)
    }

    pub(super) fn op_call_ex(&mut self, keywords: bool) -> R<Flow> {
        if !keywords && self.collect_first(None)? {
            return Ok(Flow::Next);
        }
        let mapping = if keywords { Some(self.pop()) } else { None };
        let (positional, callable) = (self.pop(), self.pop());
        self.pop_slot();
        if types().is_indivisible(&positional.obj) || !super::iterate::is_iterable(&positional.obj) {
            let (name, class) = (called_name(&callable.obj), positional.obj.type_name());
            let text = format!("{name} argument after * must be an iterable, not {class}");
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        let args = self.spread(&positional, mapping.as_ref())?;
        let called = self.call(&callable, args)?;
        self.take(called)
    }
}

/// How CPython names what `f(*args, **kwargs)` calls: with its module, unless that is the built-ins'.
pub(super) fn called_name(callable: &Obj) -> String {
    let text = |name: &str| callable.attr(name).quiet().and_then(|part| part.to_str());
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) if module != "builtins" => format!("{module}.{name}()"),
        (_, Some(name)) => format!("{name}()"),
        _ => callable.text(),
    }
}
