//! Why a code object could not be decoded. None of these happens to code that one of the known compilers made.

use crate::raw::Version;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error(
        "opcode {opcode} at offset {offset} is none that Python {version}'s compiler writes (specialised? `co_code` is needed)"
    )]
    UnknownOpcode { version: Version, opcode: u8, offset: u32 },
    #[error("opcode {opcode} at offset {offset} is an instrumented form of Python {version}: a tracer is at work")]
    Instrumented { version: Version, opcode: u8, offset: u32 },
    #[error("{opcode} at offset {offset} belongs to the interpreter, not to compiled code")]
    Internal { opcode: &'static str, offset: u32 },
    #[error("{opcode} at offset {offset} cannot have the operand {argument}")]
    Operand { opcode: &'static str, offset: u32, argument: u32 },
    #[error("{opcode} at offset {offset} does not stand where its compiler puts it")]
    Misplaced { opcode: &'static str, offset: u32 },
    #[error("the code ends within the instruction at offset {offset}")]
    Truncated { offset: u32 },
    #[error("the {table} is damaged at byte {byte}")]
    Table { table: &'static str, byte: usize },
    #[error("{what} {index} at offset {offset} does not exist")]
    OutOfRange { what: &'static str, index: u32, offset: u32 },
    #[error("instruction {index} has more than one exception handler")]
    HandlerOrder { index: u32 },
    #[error("instruction {index} takes {needed} values off a stack of {depth}")]
    Underflow { index: u32, needed: u32, depth: u32 },
    #[error("the stack at instruction {index} has the depth {one} or {other}, depending on the way there")]
    Depth { index: u32, one: u32, other: u32 },
    #[error("the code runs past its end")]
    NoEnd,
}
