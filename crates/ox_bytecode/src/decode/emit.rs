//! Collects instructions while their labels are still places in `co_code`, then names the instructions that lie there.

use super::opcode::Opcode;
use super::read::Raw;
use crate::code::{Code, Handler, Position};
use crate::error::DecodeError;
use crate::instruction::Instruction;
use crate::operand::{Const, Label};
use crate::raw::{RawCode, Variable, VariableKind};
use crate::table::{self, ExceptionEntry};
use crate::text;

pub(super) struct Emitter<'a> {
    raw: &'a RawCode<'a>,
    source: Vec<Position>,
    code: Code,
    /// For each code unit the instruction that is run when one jumps there: the first that was made of it or of what follows.
    index_of: Vec<u32>,
    /// The place of the opcode that is being translated.
    unit: u32,
    /// The opcode before that.
    pub previous: Option<Opcode>,
    /// The names of the keywords of the next call.
    pub keywords: Option<Const>,
}

impl<'a> Emitter<'a> {
    pub fn new(raw: &'a RawCode<'a>) -> Result<Emitter<'a>, DecodeError> {
        let code = Code {
            instructions: Vec::new(),
            handlers: Vec::new(),
            positions: Vec::new(),
            offsets: Vec::new(),
            depths: Vec::new(),
            stack_size: 0,
            variables: raw.variables.clone(),
            arguments: raw.arguments,
            flags: raw.flags,
            first_line: raw.first_line,
        };
        let source = table::positions(raw.line_table, raw.first_line)?;
        Ok(Emitter { raw, source, code, index_of: Vec::new(), unit: 0, previous: None, keywords: None })
    }

    pub fn begin(&mut self, raw: &Raw) -> Result<(), DecodeError> {
        if self.keywords.is_some() && !matches!(raw.opcode, Opcode::PRECALL | Opcode::CALL) {
            return Err(raw.misplaced());
        }
        self.unit = raw.unit;
        self.index_of.resize(raw.unit as usize + 1, self.code.instructions.len() as u32);
        Ok(())
    }

    pub fn end(&mut self, raw: &Raw) {
        self.previous = Some(raw.opcode);
        self.index_of.resize(raw.next as usize, self.code.instructions.len() as u32);
    }

    pub fn emit(&mut self, instruction: Instruction) {
        self.code.instructions.push(instruction);
        self.code.positions.push(self.source.get(self.unit as usize).copied().unwrap_or_default());
        self.code.offsets.push(self.unit * 2);
    }

    pub fn emit_all<const N: usize>(&mut self, instructions: [Instruction; N]) {
        instructions.into_iter().for_each(|instruction| self.emit(instruction));
    }

    /// Takes the last instruction back; who jumps to it comes to the one that is emitted next.
    pub fn take_back(&mut self) -> Option<Instruction> {
        self.code.positions.pop();
        self.code.offsets.pop();
        self.code.instructions.pop()
    }

    pub fn finish(mut self) -> Result<Code, DecodeError> {
        self.index_of.push(self.code.instructions.len() as u32);
        for index in 0..self.code.instructions.len() {
            self.resolve(index)?;
            self.check_operands(index)?;
        }
        for entry in table::exceptions(self.raw.exception_table)? {
            self.add_handler(&entry)?;
        }
        match self.code.handlers.windows(2).position(|w| w[1].start < w[0].end) {
            Some(at) => Err(DecodeError::HandlerOrder { index: self.code.handlers[at + 1].start.0 }),
            None => Ok(self.code),
        }
    }

    fn resolve(&mut self, index: usize) -> Result<(), DecodeError> {
        let offset = self.code.offsets[index];
        if let Some(label) = self.code.instructions[index].label_mut() {
            *label = named(&self.index_of, label.0, offset)?;
        }
        Ok(())
    }

    /// Every table entry that is named exists.
    fn check_operands(&self, index: usize) -> Result<(), DecodeError> {
        let (instruction, offset) = (self.code.instructions[index], self.code.offsets[index]);
        let within = |what, index: Option<u32>, count: usize| match index {
            Some(index) if index as usize >= count => Err(DecodeError::OutOfRange { what, index, offset }),
            _ => Ok(()),
        };
        within("variable", text::variable(&instruction).map(|v| v.0), self.raw.variables.len())?;
        within("name", text::name(&instruction).map(|n| n.0), self.raw.names as usize)?;
        within("free variable", unfilled(&instruction, &self.raw.variables), 0)?;
        within("constant", text::constant(&instruction).map(|c| c.0), self.raw.consts as usize)
    }

    fn add_handler(&mut self, entry: &ExceptionEntry) -> Result<(), DecodeError> {
        let label = |unit| named(&self.index_of, unit, entry.start.saturating_mul(2));
        let (start, end, target) = (label(entry.start)?, label(entry.end)?, label(entry.target)?);
        // Nothing is left of a range of NOPs.
        if start < end {
            self.code.handlers.push(Handler { start, end, target, depth: entry.depth, push_index: entry.push_index });
        }
        Ok(())
    }
}

/// The number of free variables, if the instruction copies another number of cells.
fn unfilled(instruction: &Instruction, variables: &[Variable]) -> Option<u32> {
    let free = variables.iter().filter(|v| v.kind == VariableKind::Free).count() as u32;
    matches!(instruction, Instruction::CopyFreeVars(n) if *n != free).then_some(free)
}

fn named(index_of: &[u32], unit: u32, offset: u32) -> Result<Label, DecodeError> {
    let missing = DecodeError::OutOfRange { what: "code unit", index: unit, offset };
    index_of.get(unit as usize).copied().map(Label).ok_or(missing)
}
