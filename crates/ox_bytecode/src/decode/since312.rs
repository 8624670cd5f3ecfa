//! What 3.12 brought and 3.13 kept.

use super::common::{self, known};
use super::emit::Emitter;
use super::opcode::Opcode::*;
use super::read::Raw;
use crate::error::DecodeError;
use crate::instruction::Instruction as I;
use crate::operand::*;

pub(super) fn translate(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    let a = raw.argument;
    match raw.opcode {
        // Where `ForIter` and `Send` come to; what these take off is part of their jumps.
        END_FOR | END_SEND => {}
        LOAD_ATTR if a & 1 != 0 => out.emit(I::LoadMethod(Name(a >> 1))),
        LOAD_ATTR => out.emit(I::LoadAttr(Name(a >> 1))),
        LOAD_SUPER_ATTR => out.emit(I::LoadSuperAttr { name: Name(a >> 2), method: a & 1 != 0, arguments: a & 2 != 0 }),
        RETURN_CONST => out.emit_all([I::LoadConst(Const(a)), I::ReturnValue]),
        BINARY_SLICE => out.emit_all([I::BuildSlice(2), I::BinarySubscr]),
        STORE_SLICE => out.emit_all([I::BuildSlice(2), I::StoreSubscr]),
        CALL_INTRINSIC_1 => out.emit(intrinsic1(raw)?),
        CALL_INTRINSIC_2 => out.emit(I::CallIntrinsic2(known(raw, Intrinsic2::from_number(a))?)),
        POP_JUMP_IF_TRUE => out.emit(jump_if(raw, Condition::True)?),
        POP_JUMP_IF_FALSE => out.emit(jump_if(raw, Condition::False)?),
        POP_JUMP_IF_NONE => out.emit(jump_if(raw, Condition::None)?),
        POP_JUMP_IF_NOT_NONE => out.emit(jump_if(raw, Condition::NotNone)?),
        _ => common::translate(raw, out)?,
    }
    Ok(())
}

/// Numbered from 1, with the unary plus among them.
fn intrinsic1(raw: &Raw) -> Result<I, DecodeError> {
    let number = match raw.argument {
        5 => return Ok(I::Unary(UnaryOp::Positive)),
        before @ 1..5 => before - 1,
        after => after.wrapping_sub(2),
    };
    Ok(I::CallIntrinsic1(known(raw, Intrinsic1::from_number(number))?))
}

fn jump_if(raw: &Raw, condition: Condition) -> Result<I, DecodeError> {
    Ok(I::JumpIf { condition, label: Label(raw.forward()?) })
}
