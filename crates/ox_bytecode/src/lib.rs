//! CPython's bytecode, versions 3.11, 3.12 and 3.13, as one instruction set.
//!
//! [`decode`] takes what a code object holds ([`RawCode`]) and gives a [`Code`] that a virtual machine can run without knowing which
//! interpreter compiled it: inline caches and `EXTENDED_ARG` are gone, jumps and exception handlers name instructions, and what the
//! versions do differently is done one way. [`Instruction`] is the table of what there is, with the effect of each on the stack.
//!
//! ```
//! use ox_bytecode::{Arguments, RawCode, Version, decode, variables};
//!
//! // `lambda x: x + 1` of Python 3.12
//! let raw = RawCode {
//!     version: Version::new(3, 12).unwrap(),
//!     code: &[151, 0, 124, 0, 100, 1, 122, 0, 0, 0, 83, 0],
//!     exception_table: &[],
//!     line_table: &[128, 0, 136, 65, 136, 97, 137, 67, 128, 0],
//!     first_line: 1,
//!     names: 0,
//!     consts: 2,
//!     variables: variables(&["x"], &[], &[]),
//!     arguments: Arguments { positional: 1, ..Arguments::default() },
//!     flags: 3,
//!     stack_size: 2,
//! };
//! let text = decode(&raw).unwrap().to_string();
//! assert_eq!(text, "\
//! args=1 flags=0x3 stack=2 vars=x
//!    0  1    Resume start
//!    1       LoadFast 0 (x)
//!    2       LoadConst 1
//!    3       Binary +
//!    4       ReturnValue
//! ");
//! ```
//!
//! # Conventions
//!
//! **Stack.** Effects are written `[before] → [after]`, top of the stack on the right. A *label* is the index of an instruction.
//!
//! **Empty slots.** A place on the stack, and a local variable, may hold nothing (NULL). Only [`Instruction::PushNull`],
//! [`Instruction::LoadMethod`], [`Instruction::LoadSuperAttr`] and [`Instruction::LoadFastAndClear`] push one, and only calls,
//! [`Instruction::StoreFast`], `Swap` and `PopTop` meet one.
//!
//! **Calls.** Below the arguments lie two slots: `NULL, callable`, or `function, self`. In the second form the call is
//! `function(self, arguments...)`. `CallFunctionEx` always has the first form.
//!
//! **Cells.** A variable that a closure shares lies in a cell, and the cell lies in the variable's slot: `MakeCell` puts it there,
//! `LoadFast` of such a slot pushes the cell itself, `LoadDeref` what is in it.
//!
//! **Exceptions.** When the instruction at `i` raises, [`Code::handler`] tells where to go: cut the stack to `depth`, push `i` as an int if
//! `push_index`, push the exception, go on at `target`. Without a handler the exception leaves the frame.
//!
//! **Generators.** `ReturnGenerator` suspends the fresh frame and hands the generator to the caller. Each resumption pushes the value
//! that was sent (`None` at first). `throw` pushes None and raises as if the suspended `YieldValue` (or `ReturnGenerator`) did. A
//! StopIteration that leaves a generator's frame becomes a RuntimeError there; the compilers of 3.12 and later write this out in addition.
//! A frame whose next instruction is a `Resume` with [`Resume::YieldFrom`] or [`Resume::Await`] is suspended in a delegation: the top of
//! its stack is the iterator, which `throw` and `close` go to first.

mod code;
mod decode;
mod effect;
mod error;
mod instruction;
mod operand;
mod raw;
mod table;
mod text;
mod verify;

pub use code::{Code, Handler, Position};
pub use decode::decode;
pub use effect::{Effect, stack_effect};
pub use error::DecodeError;
pub use instruction::Instruction;
pub use operand::{
    Awaiting, BinaryOp, CompareOp, Condition, Const, Conversion, FunctionAttribute, Intrinsic1, Intrinsic2, Label, Local, Name,
    Resume, UnaryOp,
};
pub use raw::{Arguments, RawCode, Variable, VariableKind, Version, variables};
