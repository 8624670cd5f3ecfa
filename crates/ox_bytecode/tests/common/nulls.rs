//! Follows where the empty slots of the stack lie: they are met only by instructions that may meet one, and calls find their two slots.

use ox_bytecode::Instruction::{self, *};
use ox_bytecode::{Code, Effect};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Value,
    Null,
    Either,
}

/// What is wrong with the use of NULL.
pub fn misplaced(code: &Code) -> Vec<String> {
    let mut walk = Walk { code, before: vec![None; code.instructions.len()], todo: Vec::new(), wrong: Vec::new() };
    walk.reach(0, Vec::new());
    while let Some(index) = walk.todo.pop() {
        walk.step(index);
    }
    walk.wrong
}

struct Walk<'a> {
    code: &'a Code,
    before: Vec<Option<Vec<Slot>>>,
    todo: Vec<usize>,
    wrong: Vec<String>,
}

impl Walk<'_> {
    fn step(&mut self, index: usize) {
        let instruction = self.code.instructions[index];
        let stack = self.before[index].clone().expect("it was reached");
        if let Some(handler) = self.code.handler(index) {
            let mut at_target = stack[..handler.depth as usize].to_vec();
            at_target.resize(handler.depth_at_target() as usize, Slot::Value);
            self.reach(handler.target.index(), at_target);
        }
        if let Some(label) = instruction.label() {
            let after = self.after(index, &instruction, stack.clone(), true);
            self.reach(label.index(), after);
        }
        let after = self.after(index, &instruction, stack, false);
        if instruction.falls_through() {
            self.reach(index + 1, after);
        }
    }

    fn after(&mut self, index: usize, instruction: &Instruction, mut stack: Vec<Slot>, jump: bool) -> Vec<Slot> {
        let effect = Effect::of(instruction, jump);
        let top = stack.len();
        if let Swap(n) = instruction {
            stack.swap(top - 1, top - *n as usize);
            return stack;
        }
        let taken = stack.split_off(top - effect.pops as usize);
        if !may_take(instruction, &taken) {
            self.wrong.push(format!("{index} {instruction} takes {taken:?}"));
        }
        stack.extend(std::iter::repeat_n(Slot::Value, effect.pushes as usize));
        let top = stack.len();
        match instruction {
            PushNull => stack[top - 1] = Slot::Null,
            LoadMethod(_) | LoadSuperAttr { method: true, .. } => stack[top - 2] = Slot::Either,
            LoadFastAndClear(_) => stack[top - 1] = Slot::Either,
            Copy(n) if stack[top - 1 - *n as usize] != Slot::Value => self.wrong.push(format!("{index} copies NULL")),
            _ => {}
        }
        stack
    }

    fn reach(&mut self, index: usize, stack: Vec<Slot>) {
        let joined = match &self.before[index] {
            None => stack,
            Some(known) => known.iter().zip(&stack).map(|(a, b)| if a == b { *a } else { Slot::Either }).collect(),
        };
        if self.before[index].as_ref() != Some(&joined) {
            self.before[index] = Some(joined);
            self.todo.push(index);
        }
    }
}

fn may_take(instruction: &Instruction, taken: &[Slot]) -> bool {
    match instruction {
        StoreFast(_) | PopTop => true,
        CallFunctionEx { .. } => taken[0] == Slot::Null && all_values(&taken[1..]),
        Call { .. } => all_values(&taken[1..]),
        _ => all_values(taken),
    }
}

fn all_values(slots: &[Slot]) -> bool {
    slots.iter().all(|slot| *slot == Slot::Value)
}
