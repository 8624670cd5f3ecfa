//! Splits `co_code` into its instructions: `EXTENDED_ARG` folded into the operand, inline caches skipped.

use super::opcode::{Opcode, Table};
use super::{py311, py312, py313};
use crate::error::DecodeError;
use crate::raw::{RawCode, Version};

/// An instruction as the compiler wrote it. Places are counted in code units of two bytes.
pub(super) struct Raw {
    pub opcode: Opcode,
    pub argument: u32,
    /// Of the opcode, behind its `EXTENDED_ARG`s.
    pub unit: u32,
    /// Behind the caches; jumps are counted from here.
    pub next: u32,
}

impl Raw {
    pub fn offset(&self) -> u32 {
        self.unit * 2
    }

    pub fn bad_operand(&self) -> DecodeError {
        DecodeError::Operand { opcode: self.opcode.name(), offset: self.offset(), argument: self.argument }
    }

    pub fn misplaced(&self) -> DecodeError {
        DecodeError::Misplaced { opcode: self.opcode.name(), offset: self.offset() }
    }

    pub fn forward(&self) -> Result<u32, DecodeError> {
        self.next.checked_add(self.argument).ok_or_else(|| self.bad_operand())
    }

    pub fn backward(&self) -> Result<u32, DecodeError> {
        self.next.checked_sub(self.argument).ok_or_else(|| self.bad_operand())
    }
}

fn table(version: Version) -> &'static Table {
    match version {
        Version::Python311 => &py311::OPCODES,
        Version::Python312 => &py312::OPCODES,
        Version::Python313 => &py313::OPCODES,
    }
}

pub(super) fn read(raw: &RawCode<'_>) -> Result<Vec<Raw>, DecodeError> {
    let (units, rest) = raw.code.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(DecodeError::Truncated { offset: raw.code.len() as u32 });
    }
    let mut instructions = Vec::with_capacity(units.len());
    let mut at = 0;
    while at < units.len() {
        let instruction = one(raw.version, units, at as u32)?;
        at = instruction.next as usize;
        instructions.push(instruction);
    }
    Ok(instructions)
}

fn one(version: Version, units: &[[u8; 2]], start: u32) -> Result<Raw, DecodeError> {
    let (mut unit, mut argument) = (start, 0u32);
    loop {
        let truncated = DecodeError::Truncated { offset: start * 2 };
        let [number, low] = *units.get(unit as usize).ok_or(truncated.clone())?;
        let (opcode, caches) = table(version).get(version, number, unit * 2)?;
        if argument >> 24 != 0 {
            return Err(DecodeError::Operand { opcode: opcode.name(), offset: unit * 2, argument });
        }
        argument = argument << 8 | u32::from(low);
        let next = unit + 1 + u32::from(caches);
        if next as usize > units.len() {
            return Err(truncated);
        }
        if opcode != Opcode::EXTENDED_ARG {
            return Ok(Raw { opcode, argument, unit, next });
        }
        unit = next;
    }
}
