//! What an opcode means in every version that has it.

use super::emit::Emitter;
use super::opcode::Opcode::{self, *};
use super::read::Raw;
use crate::error::DecodeError;
use crate::instruction::Instruction as I;
use crate::operand::*;

pub(super) fn translate(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    let a = raw.argument;
    match raw.opcode {
        NOP | PRECALL => {}
        LOAD_GLOBAL => {
            if a & 1 != 0 {
                out.emit(I::PushNull);
            }
            out.emit(I::LoadGlobal(Name(a >> 1)));
        }
        KW_NAMES => out.keywords = Some(Const(a)),
        CALL => {
            let keywords = out.keywords.take();
            out.emit(I::Call { arguments: a, keywords });
        }
        _ => out.emit(plain(raw)?),
    }
    Ok(())
}

/// Opcodes that are one instruction.
fn plain(raw: &Raw) -> Result<I, DecodeError> {
    let (op, a) = (raw.opcode, raw.argument);
    let bare = bare(op).or_else(|| variable(op, a)).or_else(|| name(op, a)).or_else(|| counted(op, a));
    match bare {
        Some(instruction) => Ok(instruction),
        None => with_operand(raw),
    }
}

/// Opcodes without an operand.
fn bare(op: Opcode) -> Option<I> {
    Some(match op {
        POP_TOP => I::PopTop,
        PUSH_NULL => I::PushNull,
        LOAD_LOCALS => I::LoadLocals,
        LOAD_BUILD_CLASS => I::LoadBuildClass,
        LOAD_ASSERTION_ERROR => I::LoadAssertionError,
        SETUP_ANNOTATIONS => I::SetupAnnotations,
        BINARY_SUBSCR => I::BinarySubscr,
        STORE_SUBSCR => I::StoreSubscr,
        DELETE_SUBSCR => I::DeleteSubscr,
        UNARY_POSITIVE => I::Unary(UnaryOp::Positive),
        UNARY_NEGATIVE => I::Unary(UnaryOp::Negative),
        UNARY_NOT => I::Unary(UnaryOp::Not),
        UNARY_INVERT => I::Unary(UnaryOp::Invert),
        GET_ITER => I::GetIter,
        RETURN_VALUE => I::ReturnValue,
        RETURN_GENERATOR => I::ReturnGenerator,
        YIELD_VALUE => I::YieldValue,
        GET_YIELD_FROM_ITER => I::GetYieldFromIter,
        CLEANUP_THROW => I::CleanupThrow,
        GET_AITER => I::GetAiter,
        GET_ANEXT => I::GetAnext,
        END_ASYNC_FOR => I::EndAsyncFor,
        PUSH_EXC_INFO => I::PushExcInfo,
        POP_EXCEPT => I::PopExcept,
        CHECK_EXC_MATCH => I::CheckExcMatch,
        CHECK_EG_MATCH => I::CheckEgMatch,
        BEFORE_WITH => I::BeforeWith,
        BEFORE_ASYNC_WITH => I::BeforeAsyncWith,
        WITH_EXCEPT_START => I::WithExceptStart,
        GET_LEN => I::GetLen,
        MATCH_MAPPING => I::MatchMapping,
        MATCH_SEQUENCE => I::MatchSequence,
        MATCH_KEYS => I::MatchKeys,
        _ => return None,
    })
}

/// Opcodes that name a slot of the frame.
fn variable(op: Opcode, a: u32) -> Option<I> {
    let local = Local(a);
    Some(match op {
        LOAD_FAST | LOAD_FAST_CHECK | LOAD_CLOSURE => I::LoadFast(local),
        STORE_FAST => I::StoreFast(local),
        DELETE_FAST => I::DeleteFast(local),
        LOAD_FAST_AND_CLEAR => I::LoadFastAndClear(local),
        MAKE_CELL => I::MakeCell(local),
        LOAD_DEREF => I::LoadDeref(local),
        STORE_DEREF => I::StoreDeref(local),
        DELETE_DEREF => I::DeleteDeref(local),
        LOAD_FROM_DICT_OR_DEREF => I::LoadFromDictOrDeref(local),
        _ => return None,
    })
}

/// Opcodes that name an entry of `co_names`.
fn name(op: Opcode, a: u32) -> Option<I> {
    let name = Name(a);
    Some(match op {
        LOAD_FROM_DICT_OR_GLOBALS => I::LoadFromDictOrGlobals(name),
        STORE_GLOBAL => I::StoreGlobal(name),
        DELETE_GLOBAL => I::DeleteGlobal(name),
        LOAD_NAME => I::LoadName(name),
        STORE_NAME => I::StoreName(name),
        DELETE_NAME => I::DeleteName(name),
        STORE_ATTR => I::StoreAttr(name),
        DELETE_ATTR => I::DeleteAttr(name),
        IMPORT_NAME => I::ImportName(name),
        IMPORT_FROM => I::ImportFrom(name),
        _ => return None,
    })
}

/// Opcodes that count values, or places down the stack.
fn counted(op: Opcode, a: u32) -> Option<I> {
    Some(match op {
        COPY => I::Copy(a),
        SWAP => I::Swap(a),
        COPY_FREE_VARS => I::CopyFreeVars(a),
        BUILD_SLICE => I::BuildSlice(a),
        BUILD_TUPLE => I::BuildTuple(a),
        BUILD_LIST => I::BuildList(a),
        BUILD_SET => I::BuildSet(a),
        BUILD_MAP => I::BuildMap(a),
        BUILD_CONST_KEY_MAP => I::BuildConstKeyMap(a),
        BUILD_STRING => I::BuildString(a),
        LIST_APPEND => I::ListAppend(a),
        SET_ADD => I::SetAdd(a),
        MAP_ADD => I::MapAdd(a),
        LIST_EXTEND => I::ListExtend(a),
        SET_UPDATE => I::SetUpdate(a),
        DICT_UPDATE => I::DictUpdate(a),
        DICT_MERGE => I::DictMerge(a),
        UNPACK_SEQUENCE => I::UnpackSequence(a),
        UNPACK_EX => I::UnpackEx { before: a & 0xff, after: a >> 8 },
        RAISE_VARARGS => I::Raise(a),
        RERAISE => I::Reraise(a),
        MATCH_CLASS => I::MatchClass(a),
        _ => return None,
    })
}

/// Opcodes whose operand has a meaning of its own, and may be none of those that there are.
fn with_operand(raw: &Raw) -> Result<I, DecodeError> {
    let a = raw.argument;
    Ok(match raw.opcode {
        LOAD_CONST => I::LoadConst(Const(a)),
        BINARY_OP => binary(raw)?,
        IS_OP => I::Is { negated: a != 0 },
        CONTAINS_OP => I::Contains { negated: a != 0 },
        CALL_FUNCTION_EX => I::CallFunctionEx { keywords: a & 1 != 0 },
        JUMP_FORWARD => I::Jump(Label(raw.forward()?)),
        JUMP_BACKWARD | JUMP_BACKWARD_NO_INTERRUPT => I::Jump(Label(raw.backward()?)),
        FOR_ITER => I::ForIter(Label(raw.forward()?)),
        SEND => I::Send(Label(raw.forward()?)),
        // The third bit tells 3.13's tracers about the exception stack.
        RESUME => I::Resume(known(raw, Resume::from_number(a & 3))?),
        GET_AWAITABLE => I::GetAwaitable(known(raw, Awaiting::from_number(a))?),
        _ => return Err(raw.misplaced()),
    })
}

/// The numbers of the operators are followed by those of their in-place forms.
fn binary(raw: &Raw) -> Result<I, DecodeError> {
    let count = BinaryOp::ALL.len() as u32;
    let (in_place, number) = if raw.argument >= count { (true, raw.argument - count) } else { (false, raw.argument) };
    Ok(I::Binary { op: known(raw, BinaryOp::from_number(number))?, in_place })
}

pub(super) fn known<T>(raw: &Raw, operator: Option<T>) -> Result<T, DecodeError> {
    operator.ok_or_else(|| raw.bad_operand())
}

pub(super) fn compare(raw: &Raw, number: u32) -> Result<I, DecodeError> {
    Ok(I::Compare(known(raw, CompareOp::from_number(number))?))
}

/// A function and what the bits of `flags` say lies below its code, as 3.11 and 3.12 write it.
pub(super) fn make_function(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    if raw.argument >> FunctionAttribute::ALL.len() != 0 {
        return Err(raw.bad_operand());
    }
    out.emit(I::MakeFunction);
    for (bit, attribute) in FunctionAttribute::ALL.iter().enumerate().rev() {
        if raw.argument >> bit & 1 != 0 {
            out.emit(I::SetFunctionAttribute(*attribute));
        }
    }
    Ok(())
}

/// A formatted value, as 3.11 and 3.12 write it: the conversion in the low bits, then whether a format lies on top.
pub(super) fn format_value(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    let with_spec = match raw.argument >> 2 {
        0 => false,
        1 => true,
        _ => return Err(raw.bad_operand()),
    };
    match Conversion::from_number(raw.argument & 3) {
        Some(conversion) if with_spec => out.emit_all([I::Swap(2), I::ConvertValue(conversion), I::Swap(2)]),
        Some(conversion) => out.emit(I::ConvertValue(conversion)),
        None => {}
    }
    out.emit(if with_spec { I::FormatWithSpec } else { I::FormatSimple });
    Ok(())
}
