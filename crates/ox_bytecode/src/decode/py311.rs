//! Python 3.11.

use super::common;
use super::emit::Emitter;
use super::opcode::{Opcode::*, Table, table};
use super::read::Raw;
use crate::code::{Code, Handler};
use crate::error::DecodeError;
use crate::instruction::Instruction as I;
use crate::operand::*;

#[rustfmt::skip]
pub(super) static OPCODES: Table = table! {
    instrumented from 255;
    1 POP_TOP, 2 PUSH_NULL, 9 NOP, 10 UNARY_POSITIVE, 11 UNARY_NEGATIVE, 12 UNARY_NOT, 15 UNARY_INVERT, 25 BINARY_SUBSCR + 4,
    30 GET_LEN, 31 MATCH_MAPPING, 32 MATCH_SEQUENCE, 33 MATCH_KEYS, 35 PUSH_EXC_INFO, 36 CHECK_EXC_MATCH, 37 CHECK_EG_MATCH,
    49 WITH_EXCEPT_START, 50 GET_AITER, 51 GET_ANEXT, 52 BEFORE_ASYNC_WITH, 53 BEFORE_WITH, 54 END_ASYNC_FOR, 60 STORE_SUBSCR
    + 1, 61 DELETE_SUBSCR, 68 GET_ITER, 69 GET_YIELD_FROM_ITER, 70 PRINT_EXPR, 71 LOAD_BUILD_CLASS, 74 LOAD_ASSERTION_ERROR,
    75 RETURN_GENERATOR, 82 LIST_TO_TUPLE, 83 RETURN_VALUE, 84 IMPORT_STAR, 85 SETUP_ANNOTATIONS, 86 YIELD_VALUE, 87
    ASYNC_GEN_WRAP, 88 PREP_RERAISE_STAR, 89 POP_EXCEPT, 90 STORE_NAME, 91 DELETE_NAME, 92 UNPACK_SEQUENCE + 1, 93 FOR_ITER,
    94 UNPACK_EX, 95 STORE_ATTR + 4, 96 DELETE_ATTR, 97 STORE_GLOBAL, 98 DELETE_GLOBAL, 99 SWAP, 100 LOAD_CONST, 101
    LOAD_NAME, 102 BUILD_TUPLE, 103 BUILD_LIST, 104 BUILD_SET, 105 BUILD_MAP, 106 LOAD_ATTR + 4, 107 COMPARE_OP + 2, 108
    IMPORT_NAME, 109 IMPORT_FROM, 110 JUMP_FORWARD, 111 JUMP_IF_FALSE_OR_POP, 112 JUMP_IF_TRUE_OR_POP, 114
    POP_JUMP_FORWARD_IF_FALSE, 115 POP_JUMP_FORWARD_IF_TRUE, 116 LOAD_GLOBAL + 5, 117 IS_OP, 118 CONTAINS_OP, 119 RERAISE, 120
    COPY, 122 BINARY_OP + 1, 123 SEND, 124 LOAD_FAST, 125 STORE_FAST, 126 DELETE_FAST, 128 POP_JUMP_FORWARD_IF_NOT_NONE, 129
    POP_JUMP_FORWARD_IF_NONE, 130 RAISE_VARARGS, 131 GET_AWAITABLE, 132 MAKE_FUNCTION, 133 BUILD_SLICE, 134
    JUMP_BACKWARD_NO_INTERRUPT, 135 MAKE_CELL, 136 LOAD_CLOSURE, 137 LOAD_DEREF, 138 STORE_DEREF, 139 DELETE_DEREF, 140
    JUMP_BACKWARD, 142 CALL_FUNCTION_EX, 144 EXTENDED_ARG, 145 LIST_APPEND, 146 SET_ADD, 147 MAP_ADD, 148 LOAD_CLASSDEREF, 149
    COPY_FREE_VARS, 151 RESUME, 152 MATCH_CLASS, 155 FORMAT_VALUE, 156 BUILD_CONST_KEY_MAP, 157 BUILD_STRING, 160 LOAD_METHOD
    + 10, 162 LIST_EXTEND, 163 SET_UPDATE, 164 DICT_MERGE, 165 DICT_UPDATE, 166 PRECALL + 1, 171 CALL + 4, 172 KW_NAMES, 173
    POP_JUMP_BACKWARD_IF_NOT_NONE, 174 POP_JUMP_BACKWARD_IF_NONE, 175 POP_JUMP_BACKWARD_IF_FALSE, 176
    POP_JUMP_BACKWARD_IF_TRUE,
};

pub(super) fn translate(raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    let a = raw.argument;
    match raw.opcode {
        LOAD_ATTR => out.emit(I::LoadAttr(Name(a))),
        LOAD_METHOD => out.emit(I::LoadMethod(Name(a))),
        LOAD_CLASSDEREF => out.emit_all([I::LoadLocals, I::LoadFromDictOrDeref(Local(a))]),
        COMPARE_OP => out.emit(common::compare(raw, a)?),
        MAKE_FUNCTION => common::make_function(raw, out)?,
        FORMAT_VALUE => common::format_value(raw, out)?,
        PRINT_EXPR => out.emit_all([I::CallIntrinsic1(Intrinsic1::Print), I::PopTop]),
        IMPORT_STAR => out.emit_all([I::CallIntrinsic1(Intrinsic1::ImportStar), I::PopTop]),
        LIST_TO_TUPLE => out.emit(I::CallIntrinsic1(Intrinsic1::ListToTuple)),
        ASYNC_GEN_WRAP => out.emit(I::CallIntrinsic1(Intrinsic1::AsyncGenWrap)),
        PREP_RERAISE_STAR => out.emit(I::CallIntrinsic2(Intrinsic2::PrepReraiseStar)),
        JUMP_IF_FALSE_OR_POP => jump_or_pop(raw, Condition::False, out)?,
        JUMP_IF_TRUE_OR_POP => jump_or_pop(raw, Condition::True, out)?,
        _ => match conditional_jump(raw)? {
            Some(jump) => out.emit(jump),
            None => common::translate(raw, out)?,
        },
    }
    Ok(())
}

fn jump_or_pop(raw: &Raw, condition: Condition, out: &mut Emitter) -> Result<(), DecodeError> {
    let label = Label(raw.forward()?);
    out.emit_all([I::Copy(1), I::JumpIf { condition, label }, I::PopTop]);
    Ok(())
}

fn conditional_jump(raw: &Raw) -> Result<Option<I>, DecodeError> {
    let condition = match raw.opcode {
        POP_JUMP_FORWARD_IF_TRUE | POP_JUMP_BACKWARD_IF_TRUE => Condition::True,
        POP_JUMP_FORWARD_IF_FALSE | POP_JUMP_BACKWARD_IF_FALSE => Condition::False,
        POP_JUMP_FORWARD_IF_NONE | POP_JUMP_BACKWARD_IF_NONE => Condition::None,
        POP_JUMP_FORWARD_IF_NOT_NONE | POP_JUMP_BACKWARD_IF_NOT_NONE => Condition::NotNone,
        _ => return Ok(None),
    };
    let label = match raw.opcode {
        POP_JUMP_FORWARD_IF_TRUE | POP_JUMP_FORWARD_IF_FALSE | POP_JUMP_FORWARD_IF_NONE | POP_JUMP_FORWARD_IF_NOT_NONE => {
            raw.forward()?
        }
        _ => raw.backward()?,
    };
    Ok(Some(I::JumpIf { condition, label: Label(label) }))
}

/// Gives each `yield from` and `await` the handler that later compilers write: 3.11's interpreter itself catches the StopIteration with
/// which the receiver answers an exception that is thrown into it, and goes on behind the loop with its value.
pub(super) fn catch_thrown(code: &mut Code) {
    for send in 0..code.instructions.len() {
        if let (I::Send(end), Some(depth)) = (code.instructions[send], code.depths[send]) {
            let target = append_cleanup(code, send, end);
            guard(&mut code.handlers, Handler { target, depth, push_index: false, ..around(send + 1, send + 2) });
        }
    }
    code.handlers.sort_by_key(|handler| handler.start);
}

/// Adds `CleanupThrow` and the way back, under the handler that the loop has.
fn append_cleanup(code: &mut Code, send: usize, end: Label) -> Label {
    let start = code.instructions.len();
    for instruction in [I::CleanupThrow, I::Jump(end)] {
        code.instructions.push(instruction);
        code.positions.push(code.positions[send]);
        code.offsets.push(code.offsets[send]);
    }
    if let Some(outer) = code.handlers.iter().find(|handler| handler.covers(send as u32)).copied() {
        let Handler { start, end, .. } = around(start, start + 2);
        code.handlers.push(Handler { start, end, ..outer });
    }
    Label(start as u32)
}

/// Lets `inner` handle its range instead of the handler that does so now.
fn guard(handlers: &mut Vec<Handler>, inner: Handler) {
    if let Some(outer) = handlers.iter().position(|handler| handler.covers(inner.start.0)) {
        let outer = handlers.remove(outer);
        let pieces = [Handler { end: inner.start, ..outer }, Handler { start: inner.end, ..outer }];
        handlers.extend(pieces.into_iter().filter(|piece| piece.start < piece.end));
    }
    handlers.push(inner);
}

fn around(start: usize, end: usize) -> Handler {
    Handler { start: Label(start as u32), end: Label(end as u32), target: Label(0), depth: 0, push_index: false }
}
