//! The opcodes of all versions by their names, and the table that each version numbers them by.

// The names are those of CPython's `opcode` module, so that they can be looked up there.
#![allow(non_camel_case_types, clippy::upper_case_acronyms)]

use crate::error::DecodeError;
use crate::raw::Version;

macro_rules! opcodes {
    ($($name:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Opcode {
            $($name),*
        }

        impl Opcode {
            pub fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => stringify!($name)),*
                }
            }
        }
    };
}

opcodes! {
    ASYNC_GEN_WRAP BEFORE_ASYNC_WITH BEFORE_WITH BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP
    BUILD_SET BUILD_SLICE BUILD_STRING BUILD_TUPLE CALL CALL_FUNCTION_EX CALL_INTRINSIC_1 CALL_INTRINSIC_2 CALL_KW
    CHECK_EG_MATCH CHECK_EXC_MATCH CLEANUP_THROW COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY COPY_FREE_VARS DELETE_ATTR
    DELETE_DEREF DELETE_FAST DELETE_GLOBAL DELETE_NAME DELETE_SUBSCR DICT_MERGE DICT_UPDATE END_ASYNC_FOR END_FOR END_SEND
    ENTER_EXECUTOR EXIT_INIT_CHECK EXTENDED_ARG FORMAT_SIMPLE FORMAT_VALUE FORMAT_WITH_SPEC FOR_ITER GET_AITER GET_ANEXT
    GET_AWAITABLE GET_ITER GET_LEN GET_YIELD_FROM_ITER IMPORT_FROM IMPORT_NAME IMPORT_STAR INTERPRETER_EXIT IS_OP JUMP_BACKWARD
    JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP KW_NAMES LIST_APPEND LIST_EXTEND
    LIST_TO_TUPLE LOAD_ASSERTION_ERROR LOAD_ATTR LOAD_BUILD_CLASS LOAD_CLASSDEREF LOAD_CLOSURE LOAD_CONST LOAD_DEREF LOAD_FAST
    LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_GLOBAL
    LOAD_LOCALS LOAD_METHOD LOAD_NAME LOAD_SUPER_ATTR MAKE_CELL MAKE_FUNCTION MAP_ADD MATCH_CLASS MATCH_KEYS MATCH_MAPPING
    MATCH_SEQUENCE NOP POP_EXCEPT POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
    POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PRECALL
    PREP_RERAISE_STAR PRINT_EXPR PUSH_EXC_INFO PUSH_NULL RAISE_VARARGS RERAISE RESUME RETURN_CONST RETURN_GENERATOR
    RETURN_VALUE SEND SETUP_ANNOTATIONS SET_ADD SET_FUNCTION_ATTRIBUTE SET_UPDATE STORE_ATTR STORE_DEREF STORE_FAST
    STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_GLOBAL STORE_NAME STORE_SLICE STORE_SUBSCR SWAP TO_BOOL UNARY_INVERT
    UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_EX UNPACK_SEQUENCE WITH_EXCEPT_START YIELD_VALUE
}

/// What each opcode number of a version stands for, with the number of its cache entries.
pub(super) struct Table {
    pub opcodes: [Option<(Opcode, u8)>; 256],
    /// From here on numbers are instrumented forms.
    pub instrumented: u8,
}

impl Table {
    pub fn get(&self, version: Version, number: u8, offset: u32) -> Result<(Opcode, u8), DecodeError> {
        match self.opcodes[usize::from(number)] {
            Some((opcode @ (Opcode::INTERPRETER_EXIT | Opcode::EXIT_INIT_CHECK | Opcode::ENTER_EXECUTOR), _)) => {
                Err(DecodeError::Internal { opcode: opcode.name(), offset })
            }
            Some(known) => Ok(known),
            None if number >= self.instrumented => Err(DecodeError::Instrumented { version, opcode: number, offset }),
            None => Err(DecodeError::UnknownOpcode { version, opcode: number, offset }),
        }
    }
}

/// `number NAME + caches, ...`
macro_rules! table {
    (instrumented from $instrumented:literal; $($number:literal $name:ident $(+ $caches:literal)?),* $(,)?) => {{
        let mut opcodes = [None; 256];
        $(opcodes[$number] = Some((crate::decode::opcode::Opcode::$name, 0 $(+ $caches)?));)*
        crate::decode::opcode::Table { opcodes, instrumented: $instrumented }
    }};
}

pub(super) use table;
