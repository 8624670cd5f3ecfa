//! The instruction set.

use crate::operand::*;

/// One instruction. Effects on the stack are written `[before] → [after]`, top on the right; see the crate's conventions.
///
/// What compilers write in other forms, and how it is decoded:
///
/// | bytecode | becomes |
/// |---|---|
/// | `NOP`, `CACHE`, `EXTENDED_ARG`, `PRECALL`, `END_FOR`, `END_SEND` | nothing |
/// | `LOAD_GLOBAL` with a NULL | `PushNull, LoadGlobal` |
/// | `PUSH_NULL` behind the callable (3.13) | `PushNull, Swap 2` |
/// | `KW_NAMES` + `CALL`, `LOAD_CONST` + `CALL_KW` | `Call` with keywords |
/// | `LOAD_CLOSURE`, `LOAD_FAST_CHECK` | `LoadFast` |
/// | two variables in one (`LOAD_FAST_LOAD_FAST` ...) | one each |
/// | `LOAD_CLASSDEREF` (3.11) | `LoadLocals, LoadFromDictOrDeref` |
/// | `RETURN_CONST` | `LoadConst, ReturnValue` |
/// | `COMPARE_OP` with conversion to bool (3.13) | `Compare, ToBool` |
/// | `JUMP_IF_x_OR_POP` (3.11) | `Copy 1, JumpIf x, PopTop` |
/// | `BINARY_SLICE`, `STORE_SLICE` | `BuildSlice 2` and the subscript |
/// | `FORMAT_VALUE` (to 3.12) | `ConvertValue`, `FormatSimple` or `FormatWithSpec` |
/// | `MAKE_FUNCTION` with flags (to 3.12) | `MakeFunction`, `SetFunctionAttribute` for each |
/// | `PRINT_EXPR`, `IMPORT_STAR` (3.11) | `CallIntrinsic1, PopTop` |
/// | `yield from` and `await` (3.11) | with a handler that ends in `CleanupThrow`, as later compilers write it |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    // The stack.
    /// `[a] → []`
    PopTop,
    /// `[] → [NULL]`
    PushNull,
    /// `[a, ... n-1 others] → [a, ..., a]`; 1 is the top.
    Copy(u32),
    /// Exchanges the top with the nth from the top; 1 is the top itself.
    Swap(u32),

    // Constants and variables.
    /// `[] → [constant]`
    LoadConst(Const),
    /// `[] → [what the slot holds]`; UnboundLocalError if it is empty.
    LoadFast(Local),
    /// `[a] → []`; a NULL empties the slot.
    StoreFast(Local),
    /// `[] → []`; UnboundLocalError if the slot is empty.
    DeleteFast(Local),
    /// `[] → [what the slot holds, or NULL]`; the slot is empty then. Saves a variable around an inlined comprehension.
    LoadFastAndClear(Local),
    /// `[] → []`; puts a cell with what the slot holds (or an empty one) into the slot.
    MakeCell(Local),
    /// `[] → []`; copies the cells of the function's closure to the last n slots.
    CopyFreeVars(u32),
    /// `[] → [content of the cell]`; an empty one raises UnboundLocalError for a cell, NameError for a free variable.
    LoadDeref(Local),
    /// `[a] → []`
    StoreDeref(Local),
    /// `[] → []`; raises as `LoadDeref` does.
    DeleteDeref(Local),
    /// `[mapping] → [value]`; from the mapping under the variable's name, else from the cell.
    LoadFromDictOrDeref(Local),
    /// `[mapping] → [value]`; from the mapping, else as `LoadGlobal`.
    LoadFromDictOrGlobals(Name),
    /// `[] → [value]`; from the globals, else from the builtins, else NameError.
    LoadGlobal(Name),
    /// `[a] → []`
    StoreGlobal(Name),
    /// `[] → []`
    DeleteGlobal(Name),
    /// `[] → [value]`; from the locals mapping, else as `LoadGlobal`.
    LoadName(Name),
    /// `[a] → []`; into the locals mapping.
    StoreName(Name),
    /// `[] → []`
    DeleteName(Name),
    /// `[] → [locals mapping]`
    LoadLocals,
    /// `[] → [builtins.__build_class__]`
    LoadBuildClass,
    /// `[] → [AssertionError]`, whatever that name is bound to.
    LoadAssertionError,
    /// `[] → []`; makes `__annotations__` in the locals mapping if there is none.
    SetupAnnotations,

    // Attributes and items.
    /// `[a] → [a.name]`
    LoadAttr(Name),
    /// `[a] → [function, a]` if `a.name` would bind a method of a's type to a, else `[a] → [NULL, a.name]`. For a `Call`.
    LoadMethod(Name),
    /// `[value, a] → []`; `a.name = value`
    StoreAttr(Name),
    /// `[a] → []`
    DeleteAttr(Name),
    /// `[super, class, self] → [attribute]`, with `method` `→ [function, self]` or `[NULL, attribute]` as `LoadMethod`. If `super` is
    /// not the builtin it is called: `super(class, self)` where the source has the `arguments`, `super()` otherwise.
    LoadSuperAttr { name: Name, method: bool, arguments: bool },
    /// `[a, key] → [a[key]]`
    BinarySubscr,
    /// `[value, a, key] → []`; `a[key] = value`
    StoreSubscr,
    /// `[a, key] → []`
    DeleteSubscr,
    /// `[start, stop] → [slice]`, or with 3 `[start, stop, step] → [slice]`
    BuildSlice(u32),

    // Operators.
    /// `[a] → [result]`; `Not` takes any object.
    Unary(UnaryOp),
    /// `[a, b] → [result]`
    Binary { op: BinaryOp, in_place: bool },
    /// `[a, b] → [result]`, which need not be a bool.
    Compare(CompareOp),
    /// `[a, b] → [bool]`
    Is { negated: bool },
    /// `[item, container] → [bool]`
    Contains { negated: bool },
    /// `[a] → [bool(a)]`
    ToBool,

    // Collections.
    /// `[n items] → [tuple]`
    BuildTuple(u32),
    /// `[n items] → [list]`
    BuildList(u32),
    /// `[n items] → [set]`
    BuildSet(u32),
    /// `[n times key, value] → [dict]`
    BuildMap(u32),
    /// `[n values, tuple of keys] → [dict]`
    BuildConstKeyMap(u32),
    /// `[n strings] → [str]`
    BuildString(u32),
    /// `[list, ... n-1 others, a] → [list, ...]`
    ListAppend(u32),
    /// `[set, ... n-1 others, a] → [set, ...]`
    SetAdd(u32),
    /// `[dict, ... n-1 others, key, value] → [dict, ...]`
    MapAdd(u32),
    /// `[list, ... n-1 others, iterable] → [list, ...]`
    ListExtend(u32),
    /// `[set, ... n-1 others, iterable] → [set, ...]`
    SetUpdate(u32),
    /// `[dict, ... n-1 others, mapping] → [dict, ...]`
    DictUpdate(u32),
    /// As `DictUpdate`, but a key that is there already is a TypeError of the call whose keywords are merged. With the conventions of
    /// `CallFunctionEx` its callable lies two below the dict.
    DictMerge(u32),
    /// `[iterable] → [last, ..., first]`; ValueError unless it has n items.
    UnpackSequence(u32),
    /// `[iterable] → [after in reverse, list of the rest, before in reverse]`, the first item on top.
    UnpackEx { before: u32, after: u32 },
    /// `[a] → [str]`
    ConvertValue(Conversion),
    /// `[a] → [format(a)]`; a str stays itself.
    FormatSimple,
    /// `[a, spec] → [format(a, spec)]`
    FormatWithSpec,

    // Calls and functions.
    /// `[NULL, callable, arguments] → [result]` or `[function, self, arguments] → [result]`. `keywords` is the tuple of the names of the
    /// last arguments.
    Call { arguments: u32, keywords: Option<Const> },
    /// `[NULL, callable, iterable] → [result]`, with `keywords` `[NULL, callable, iterable, mapping] → [result]`
    CallFunctionEx { keywords: bool },
    /// `[code] → [function]`, with the globals of the frame; defaults, annotations and closure are set afterwards.
    MakeFunction,
    /// `[value, function] → [function]`
    SetFunctionAttribute(FunctionAttribute),
    /// `[a] → [result]`
    CallIntrinsic1(Intrinsic1),
    /// `[a, b] → [result]`
    CallIntrinsic2(Intrinsic2),

    // Control flow.
    /// `[] → []`; a label at or before the jump closes a loop: signals are checked there.
    Jump(Label),
    /// `[a] → []`; jumps if it is so. True and False go by `bool(a)`.
    JumpIf { condition: Condition, label: Label },
    /// `[a] → [iter(a)]`
    GetIter,
    /// `[iterator] → [iterator, next]`; at its end `[iterator] → []` and jumps.
    ForIter(Label),
    /// `[a] → ` leaves the frame.
    ReturnValue,

    // Generators and coroutines.
    /// Hands the generator of this frame to the caller; when it is resumed `[] → [sent]`.
    ReturnGenerator,
    /// `[a] → [sent]`; suspends in between.
    YieldValue,
    /// `[] → []`; says where the frame came from.
    Resume(Resume),
    /// `[a] → [iterator]`; a generator, and in a coroutine a coroutine, stays itself.
    GetYieldFromIter,
    /// `[a] → [a.__await__()]`; a coroutine, or a generator that `types.coroutine` marked, stays itself. RuntimeError if somebody else
    /// awaits the coroutine.
    GetAwaitable(Awaiting),
    /// `[receiver, a] → [receiver, yielded]`; when the receiver returns `[receiver, a] → [returned]` and jumps.
    Send(Label),
    /// `[receiver, sent, exception] → [returned]` if it is a StopIteration (its value), otherwise raises it again.
    CleanupThrow,
    /// `[a] → [a.__aiter__()]`
    GetAiter,
    /// `[a] → [a, iterator of a.__anext__()]`, taken from the awaitable as `GetAwaitable` does it.
    GetAnext,
    /// `[iterator, exception] → []` if it is a StopAsyncIteration, otherwise raises it again.
    EndAsyncFor,

    // Exceptions and context managers.
    /// `[exception] → [exception handled before or None, exception]`; it is the handled one (`sys.exception()`) from here on.
    PushExcInfo,
    /// `[exception handled before or None] → []`; which is the handled one again.
    PopExcept,
    /// `[exception, type or tuple] → [exception, bool]`
    CheckExcMatch,
    /// `[exception, type or tuple] → [rest or None, match]`, or `→ [exception, None]` without a match. A match is the handled exception.
    /// The exception is None when clauses before have matched all of it.
    CheckEgMatch,
    /// 0: raises the handled exception again. 1: `[exception]`, 2: `[exception, cause]`
    Raise(u32),
    /// `[exception]`; raises it with the traceback that it has. Other than 0: the nth below it is the index (pushed by a handler) of the
    /// instruction that the frame is to stand at.
    Reraise(u32),
    /// `[manager] → [its bound __exit__, result of __enter__]`
    BeforeWith,
    /// `[manager] → [its bound __aexit__, awaitable of __aenter__]`
    BeforeAsyncWith,
    /// `[exit, index, previous, exception] → [exit, index, previous, exception, exit(type, exception, traceback)]`
    WithExceptStart,

    // Patterns.
    /// `[a] → [a, len(a)]`
    GetLen,
    /// `[a] → [a, bool]`; whether patterns take its type for a mapping.
    MatchMapping,
    /// `[a] → [a, bool]`; whether patterns take its type for a sequence: str and bytes are none.
    MatchSequence,
    /// `[a, tuple of keys] → [a, keys, tuple of values or None]`
    MatchKeys,
    /// `[a, class, tuple of keyword names] → [tuple of attributes or None]`; n positional patterns come before the keywords.
    MatchClass(u32),

    // Modules.
    /// `[level, names or None] → [module]`
    ImportName(Name),
    /// `[module] → [module, module.name]`
    ImportFrom(Name),
}

impl Instruction {
    /// Where it may jump.
    pub fn label(&self) -> Option<Label> {
        match *self {
            Instruction::Jump(label) | Instruction::ForIter(label) | Instruction::Send(label) => Some(label),
            Instruction::JumpIf { label, .. } => Some(label),
            _ => None,
        }
    }

    pub(crate) fn label_mut(&mut self) -> Option<&mut Label> {
        match self {
            Instruction::Jump(label) | Instruction::ForIter(label) | Instruction::Send(label) => Some(label),
            Instruction::JumpIf { label, .. } => Some(label),
            _ => None,
        }
    }

    /// Whether the next instruction may be run after it.
    pub fn falls_through(&self) -> bool {
        !matches!(self, Instruction::Jump(_) | Instruction::ReturnValue | Instruction::Raise(_) | Instruction::Reraise(_))
    }
}
