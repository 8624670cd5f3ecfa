//! Python 3.13.

use super::common::{self, known};
use super::emit::Emitter;
use super::opcode::{Opcode::*, Table, table};
use super::read::Raw;
use super::since312;
use crate::error::DecodeError;
use crate::instruction::Instruction as I;
use crate::operand::*;

#[rustfmt::skip]
pub(super) static OPCODES: Table = table! {
    instrumented from 236;
    1 BEFORE_ASYNC_WITH, 2 BEFORE_WITH, 4 BINARY_SLICE, 5 BINARY_SUBSCR + 1, 6 CHECK_EG_MATCH, 7 CHECK_EXC_MATCH, 8
    CLEANUP_THROW, 9 DELETE_SUBSCR, 10 END_ASYNC_FOR, 11 END_FOR, 12 END_SEND, 13 EXIT_INIT_CHECK, 14 FORMAT_SIMPLE, 15
    FORMAT_WITH_SPEC, 16 GET_AITER, 18 GET_ANEXT, 19 GET_ITER, 20 GET_LEN, 21 GET_YIELD_FROM_ITER, 22 INTERPRETER_EXIT, 23
    LOAD_ASSERTION_ERROR, 24 LOAD_BUILD_CLASS, 25 LOAD_LOCALS, 26 MAKE_FUNCTION, 27 MATCH_KEYS, 28 MATCH_MAPPING, 29
    MATCH_SEQUENCE, 30 NOP, 31 POP_EXCEPT, 32 POP_TOP, 33 PUSH_EXC_INFO, 34 PUSH_NULL, 35 RETURN_GENERATOR, 36 RETURN_VALUE,
    37 SETUP_ANNOTATIONS, 38 STORE_SLICE, 39 STORE_SUBSCR + 1, 40 TO_BOOL + 3, 41 UNARY_INVERT, 42 UNARY_NEGATIVE, 43
    UNARY_NOT, 44 WITH_EXCEPT_START, 45 BINARY_OP + 1, 46 BUILD_CONST_KEY_MAP, 47 BUILD_LIST, 48 BUILD_MAP, 49 BUILD_SET, 50
    BUILD_SLICE, 51 BUILD_STRING, 52 BUILD_TUPLE, 53 CALL + 3, 54 CALL_FUNCTION_EX, 55 CALL_INTRINSIC_1, 56 CALL_INTRINSIC_2,
    57 CALL_KW, 58 COMPARE_OP + 1, 59 CONTAINS_OP + 1, 60 CONVERT_VALUE, 61 COPY, 62 COPY_FREE_VARS, 63 DELETE_ATTR, 64
    DELETE_DEREF, 65 DELETE_FAST, 66 DELETE_GLOBAL, 67 DELETE_NAME, 68 DICT_MERGE, 69 DICT_UPDATE, 70 ENTER_EXECUTOR, 71
    EXTENDED_ARG, 72 FOR_ITER + 1, 73 GET_AWAITABLE, 74 IMPORT_FROM, 75 IMPORT_NAME, 76 IS_OP, 77 JUMP_BACKWARD + 1, 78
    JUMP_BACKWARD_NO_INTERRUPT, 79 JUMP_FORWARD, 80 LIST_APPEND, 81 LIST_EXTEND, 82 LOAD_ATTR + 9, 83 LOAD_CONST, 84
    LOAD_DEREF, 85 LOAD_FAST, 86 LOAD_FAST_AND_CLEAR, 87 LOAD_FAST_CHECK, 88 LOAD_FAST_LOAD_FAST, 89 LOAD_FROM_DICT_OR_DEREF,
    90 LOAD_FROM_DICT_OR_GLOBALS, 91 LOAD_GLOBAL + 4, 92 LOAD_NAME, 93 LOAD_SUPER_ATTR + 1, 94 MAKE_CELL, 95 MAP_ADD, 96
    MATCH_CLASS, 97 POP_JUMP_IF_FALSE + 1, 98 POP_JUMP_IF_NONE + 1, 99 POP_JUMP_IF_NOT_NONE + 1, 100 POP_JUMP_IF_TRUE + 1, 101
    RAISE_VARARGS, 102 RERAISE, 103 RETURN_CONST, 104 SEND + 1, 105 SET_ADD, 106 SET_FUNCTION_ATTRIBUTE, 107 SET_UPDATE, 108
    STORE_ATTR + 4, 109 STORE_DEREF, 110 STORE_FAST, 111 STORE_FAST_LOAD_FAST, 112 STORE_FAST_STORE_FAST, 113 STORE_GLOBAL,
    114 STORE_NAME, 115 SWAP, 116 UNPACK_EX, 117 UNPACK_SEQUENCE + 1, 118 YIELD_VALUE, 149 RESUME,
};

pub(super) fn translate(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    let (high, low) = (Local(raw.argument >> 4), Local(raw.argument & 15));
    match raw.opcode {
        // Belongs to the `END_FOR`.
        POP_TOP if out.previous == Some(END_FOR) => {}
        // Here the callable comes before the NULL.
        PUSH_NULL => out.emit_all([I::PushNull, I::Swap(2)]),
        LOAD_FAST_LOAD_FAST => out.emit_all([I::LoadFast(high), I::LoadFast(low)]),
        STORE_FAST_LOAD_FAST => out.emit_all([I::StoreFast(high), I::LoadFast(low)]),
        STORE_FAST_STORE_FAST => out.emit_all([I::StoreFast(high), I::StoreFast(low)]),
        TO_BOOL => out.emit(I::ToBool),
        COMPARE_OP => compare(raw, out)?,
        CONVERT_VALUE => out.emit(I::ConvertValue(known(raw, Conversion::from_number(raw.argument))?)),
        FORMAT_SIMPLE => out.emit(I::FormatSimple),
        FORMAT_WITH_SPEC => out.emit(I::FormatWithSpec),
        MAKE_FUNCTION => out.emit(I::MakeFunction),
        SET_FUNCTION_ATTRIBUTE => out.emit(I::SetFunctionAttribute(function_attribute(raw)?)),
        CALL_KW => call_with_keywords(raw, out)?,
        _ => since312::translate(raw, out)?,
    }
    Ok(())
}

/// The operator lies above four bits of hints for specialisation and one that asks for a bool.
fn compare(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    out.emit(common::compare(raw, raw.argument >> 5)?);
    if raw.argument & 16 != 0 {
        out.emit(I::ToBool);
    }
    Ok(())
}

fn function_attribute(raw: &Raw) -> Result<FunctionAttribute, DecodeError> {
    let bit = raw.argument.is_power_of_two().then(|| raw.argument.trailing_zeros());
    known(raw, bit.and_then(FunctionAttribute::from_number))
}

/// The names of the keywords lie on the stack: the compiler puts them there right before the call.
fn call_with_keywords(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    match out.take_back() {
        Some(I::LoadConst(names)) if out.previous == Some(LOAD_CONST) => {
            out.emit(I::Call { arguments: raw.argument, keywords: Some(names) });
            Ok(())
        }
        _ => Err(raw.misplaced()),
    }
}
