//! Walks every way through the code and checks the depth of the stack: it never runs dry, and is the same however an instruction is
//! reached.

use crate::code::Handler;
use crate::effect::Effect;
use crate::error::DecodeError;
use crate::instruction::Instruction;

/// The depth before each instruction that can be reached.
pub(crate) fn depths(instructions: &[Instruction], handlers: &[Handler]) -> Result<Vec<Option<u32>>, DecodeError> {
    let mut walk = Walk { instructions, depths: vec![None; instructions.len()], todo: Vec::new() };
    let by_instruction = covering(instructions.len(), handlers);
    walk.reach(0, 0)?;
    while let Some(index) = walk.todo.pop() {
        walk.step(index, by_instruction[index as usize])?;
    }
    Ok(walk.depths)
}

/// The greatest depth on any way.
pub(crate) fn stack_size(instructions: &[Instruction], depths: &[Option<u32>]) -> u32 {
    let after = |(instruction, depth): (&Instruction, &Option<u32>)| {
        let effect = Effect::of(instruction, false);
        depth.map(|d| d.max((d - effect.pops).saturating_add(effect.pushes)))
    };
    instructions.iter().zip(depths).filter_map(after).max().unwrap_or(0)
}

fn covering(instructions: usize, handlers: &[Handler]) -> Vec<Option<&Handler>> {
    let mut covering = vec![None; instructions];
    for handler in handlers {
        covering[handler.start.index()..handler.end.index()].fill(Some(handler));
    }
    covering
}

struct Walk<'a> {
    instructions: &'a [Instruction],
    depths: Vec<Option<u32>>,
    todo: Vec<u32>,
}

impl Walk<'_> {
    fn step(&mut self, index: u32, handler: Option<&Handler>) -> Result<(), DecodeError> {
        let instruction = self.instructions[index as usize];
        let depth = self.depths[index as usize].unwrap_or(0);
        if let Some(handler) = handler {
            require(index, depth, handler.depth)?;
            self.reach(handler.target.0, handler.depth_at_target())?;
        }
        if let Some(label) = instruction.label() {
            self.reach(label.0, after(&instruction, index, depth, true)?)?;
        }
        let next = after(&instruction, index, depth, false)?;
        if instruction.falls_through() { self.reach(index + 1, next) } else { Ok(()) }
    }

    fn reach(&mut self, index: u32, depth: u32) -> Result<(), DecodeError> {
        match self.depths.get_mut(index as usize) {
            None => Err(DecodeError::NoEnd),
            Some(Some(known)) if *known == depth => Ok(()),
            Some(Some(known)) => Err(DecodeError::Depth { index, one: *known, other: depth }),
            Some(unknown) => {
                *unknown = Some(depth);
                self.todo.push(index);
                Ok(())
            }
        }
    }
}

fn after(instruction: &Instruction, index: u32, depth: u32, jump: bool) -> Result<u32, DecodeError> {
    let effect = Effect::of(instruction, jump);
    require(index, depth, effect.reach)?;
    Ok((depth - effect.pops).saturating_add(effect.pushes))
}

fn require(index: u32, depth: u32, needed: u32) -> Result<(), DecodeError> {
    if depth < needed { Err(DecodeError::Underflow { index, needed, depth }) } else { Ok(()) }
}
