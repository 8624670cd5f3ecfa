//! Questions about sizes whose answer makes no difference.
//!
//! `n > 1 and mask is None` is False where there is a mask, whatever n is. So what a comparison says of sizes is not relied on before the
//! program goes another way than it would with the other answer: as long as nothing but harmless instructions come, it may still arrive at the very
//! place, with the same on its stack. `n > 1` is not a fact of the trace then.
//!
//! Nor is `n != 1` where `x = x.expand(n, -1)` is all that the program does about it: where n is 1 that is x itself. It is one again where
//! somebody sees which of the two it is.

use super::operators::is_tensor;
use super::{R, Vm};
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::record::Val;
use crate::types::types;
use ox_bytecode::{CompareOp, Condition, Instruction, Label, UnaryOp};
use ox_ops::{Fact, Noted, Sym, Var};

/// A comparison that was answered, and not acted upon yet.
pub struct Question {
    facts: Vec<Noted>,
    /// How many frames there were.
    depth: usize,
    /// Where the other answer would have led.
    place: usize,
    /// What it would have left on the stack there.
    left: Option<Obj>,
    /// The variables of the function, as they would have been there.
    locals: Vec<Option<Val>>,
}

impl Question {
    /// What a size is if the answer is the other one, where that is one equation.
    fn other_answer(&self) -> Option<(Var, Sym)> {
        match &self.facts[..] {
            [(Fact::Unequal(a, b), _)] => Fact::Equal(a.clone(), b.clone()).solved(),
            _ => None,
        }
    }
}

/// `torch.Tensor.expand`
fn is_expand(function: &Obj) -> bool {
    function.class_is(types().method_descriptor)
        && function.attr("__name__").quiet().is_some_and(|name| name.to_str().as_deref() == Some("expand"))
}

/// How the answer of a comparison is used: a jump, in front of which it may be kept on the stack.
struct Use {
    condition: bool,
    label: usize,
    is_kept: bool,
}

impl Vm {
    pub fn op_compare(&mut self, op: CompareOp) -> R<super::Flow> {
        let (right, left) = (self.pop(), self.pop());
        let Some(used) = self.use_of_answer().filter(|_| self.is_size(&left) || self.is_size(&right)) else {
            let called = self.compare(op, &left, &right)?;
            return self.take(called);
        };
        self.recorded(|rec| {
            rec.sizing.asked = Some(Vec::new());
            Ok(())
        });
        let called = self.compare(op, &left, &right);
        let facts = self.rec.as_mut().and_then(|rec| rec.sizing.asked.take()).unwrap_or_default();
        let answer = match &called {
            Ok(super::Called::Value(Val { obj, free: None })) if obj.class_is(types().bool) => obj.truth().quiet(),
            _ => None,
        };
        let question = Question {
            facts,
            depth: self.frames.len(),
            place: used.label,
            left: used.is_kept.then(|| Obj::bool(used.condition)),
            locals: self.frame().locals.clone(),
        };
        match answer == Some(!used.condition) {
            true => self.questions.push(question),
            false => self.rely_on(question),
        }
        let called = called?;
        self.take(called)
    }

    /// What the instructions behind a comparison do with its result.
    fn use_of_answer(&mut self) -> Option<Use> {
        let frame = self.frame();
        let next = &frame.code.code.instructions[frame.pc..];
        let (is_kept, next) = match next {
            [Instruction::Copy(1), rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let next = if let [Instruction::ToBool, rest @ ..] = next { rest } else { next };
        match next {
            [Instruction::JumpIf { condition: condition @ (Condition::True | Condition::False), label: Label(label) }, ..] => {
                Some(Use { condition: *condition == Condition::True, label: *label as usize, is_kept })
            }
            _ => None,
        }
    }

    /// Before an instruction: which questions are settled, one way or the other.
    pub fn settle_questions(&mut self) {
        while let Some((depth, place)) = self.questions.last().map(|question| (question.depth, question.place)) {
            let is_here = depth == self.frames.len();
            if is_here && self.frame().pc == place {
                let question = self.questions.pop().expect("it is there");
                if !self.is_as_otherwise(&question) {
                    self.rely_on(question);
                }
            } else if is_here && self.is_harmless() {
                return;
            } else {
                let question = self.questions.pop().expect("it is there");
                self.rely_on(question);
            }
        }
    }

    /// Whether stack and variables are what they would be with the other answer.
    fn is_as_otherwise(&mut self, question: &Question) -> bool {
        let top = self.frame().stack.last().cloned().flatten();
        let is_same = |left: &Obj| top.is_some_and(|top| top.free.is_none() && top.obj.is(left));
        if !question.left.as_ref().is_none_or(is_same) {
            return false;
        }
        let locals = self.frame().locals.clone();
        locals.iter().zip(&question.locals).all(|pair| match pair {
            (Some(now), Some(then)) if now.obj.is(&then.obj) => now.free == then.free,
            (Some(now), Some(then)) => {
                let Some(((var, value), rec)) = question.other_answer().zip(self.rec.as_mut()) else { return false };
                let is_expanded = rec.is_expanded(&now.obj, &then.obj, &var, &value);
                if is_expanded {
                    rec.note_expansion(&now.obj, &question.facts);
                }
                is_expanded
            }
            (None, None) => true,
            _ => false,
        })
    }

    /// Whether the next instruction does nothing but move what is known on the stack, and make tensors larger that have one element there.
    fn is_harmless(&mut self) -> bool {
        use Instruction::*;
        let is_answer = |value: &Option<Val>| {
            value.as_ref().is_some_and(|v| v.free.is_none() && (v.obj.class_is(types().bool) || v.obj.is_none()))
        };
        let frame = self.frame();
        match frame.code.code.instructions[frame.pc] {
            LoadFast(_) | StoreFast(_) | LoadConst(_) | Copy(_) | PopTop | Is { .. } => true,
            LoadMethod(name) => {
                let is_expand = frame.code.names[name.index()].to_str().as_deref() == Some("expand");
                is_expand && frame.stack.last().is_some_and(|this| this.as_ref().is_some_and(|this| is_tensor(&this.obj)))
            }
            Call { arguments, keywords: None } => {
                let at = frame.stack.len().saturating_sub(arguments as usize + 2);
                let [Some(function), Some(this), sizes @ ..] = &frame.stack[at..] else { return false };
                let is_int = |size: &Option<Val>| size.as_ref().is_some_and(|size| size.obj.class_is(types().int));
                is_expand(&function.obj) && is_tensor(&this.obj) && sizes.iter().all(is_int)
            }
            JumpIf { condition: Condition::None | Condition::NotNone, .. } => true,
            ToBool | JumpIf { .. } | Unary(UnaryOp::Not) => frame.stack.last().is_some_and(is_answer),
            // Of sizes: of anything else it may be the program's code.
            Compare(_) => {
                let [.., Some(a), Some(b)] = &frame.stack[..] else { return false };
                a.obj.class_is(types().int) && b.obj.class_is(types().int)
            }
            _ => false,
        }
    }

    fn rely_on(&mut self, question: Question) {
        if let Some(rec) = &mut self.rec {
            question.facts.into_iter().for_each(|(fact, line)| rec.rely_on_fact(fact, &line));
        }
    }
}
