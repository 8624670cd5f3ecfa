//! Decoded code.

use crate::instruction::Instruction;
use crate::operand::Label;
use crate::raw::{Arguments, Variable};

/// Where to go when an instruction of `start..end` raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    pub start: Label,
    pub end: Label,
    pub target: Label,
    /// The depth that the stack is cut to.
    pub depth: u32,
    /// Whether the index of the instruction that raised is pushed (as an int) before the exception.
    pub push_index: bool,
}

impl Handler {
    pub(crate) fn covers(&self, index: u32) -> bool {
        self.start.0 <= index && index < self.end.0
    }

    /// The depth of the stack at the target.
    pub fn depth_at_target(&self) -> u32 {
        self.depth + u32::from(self.push_index) + 1
    }
}

/// Where in the source an instruction comes from. Columns count UTF-8 bytes from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub column: Option<u32>,
    pub end_column: Option<u32>,
}

/// A code object that a virtual machine can run. `positions`, `offsets` and `depths` have an entry for each instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    pub instructions: Vec<Instruction>,
    /// Sorted by `start`; no two cover the same instruction.
    pub handlers: Vec<Handler>,
    pub positions: Vec<Position>,
    /// The byte in `co_code` that the instruction comes from (`tb_lasti` of a traceback).
    pub offsets: Vec<u32>,
    /// The depth of the stack before the instruction; `None` where it cannot be reached.
    pub depths: Vec<Option<u32>>,
    /// The greatest depth of the stack.
    pub stack_size: u32,
    pub variables: Vec<Variable>,
    pub arguments: Arguments,
    /// `co_flags`
    pub flags: u32,
    pub first_line: u32,
}

impl Code {
    /// The handler of the instruction at `index`.
    pub fn handler(&self, index: usize) -> Option<&Handler> {
        let index = index as u32;
        let after = self.handlers.partition_point(|h| h.start.0 <= index);
        self.handlers[..after].last().filter(|h| h.covers(index))
    }

    /// Where blocks begin: the targets of jumps and handlers, sorted.
    pub fn labels(&self) -> Vec<Label> {
        let jumps = self.instructions.iter().filter_map(Instruction::label);
        let mut labels: Vec<Label> = jumps.chain(self.handlers.iter().map(|h| h.target)).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// `CO_VARARGS`: a `*args` parameter.
    pub fn has_varargs(&self) -> bool {
        self.flags & 0x04 != 0
    }

    /// `CO_VARKEYWORDS`: a `**kwargs` parameter.
    pub fn has_varkeywords(&self) -> bool {
        self.flags & 0x08 != 0
    }

    /// `CO_GENERATOR`
    pub fn is_generator(&self) -> bool {
        self.flags & 0x20 != 0
    }

    /// `CO_COROUTINE`
    pub fn is_coroutine(&self) -> bool {
        self.flags & 0x80 != 0
    }

    /// `CO_ASYNC_GENERATOR`
    pub fn is_async_generator(&self) -> bool {
        self.flags & 0x200 != 0
    }
}
