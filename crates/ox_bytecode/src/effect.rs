//! What each instruction does to the depth of the stack.

use crate::instruction::Instruction::{self, *};

/// How an instruction uses the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Values taken off.
    pub pops: u32,
    /// Values put on afterwards.
    pub pushes: u32,
    /// How deep the instruction looks; at least `pops`.
    pub reach: u32,
}

fn effect(pops: u32, pushes: u32) -> Effect {
    Effect { pops, pushes, reach: pops }
}

fn looking(reach: u32, Effect { pops, pushes, .. }: Effect) -> Effect {
    Effect { pops, pushes, reach }
}

impl Effect {
    /// The effect of the instruction, when it jumps or when it does not. An instruction that leaves the frame has one too: what it takes.
    pub fn of(instruction: &Instruction, jump: bool) -> Effect {
        match *instruction {
            PopTop | StoreFast(_) | StoreDeref(_) | StoreGlobal(_) | StoreName(_) | DeleteAttr(_) => effect(1, 0),
            PushNull | LoadConst(_) | LoadFast(_) | LoadFastAndClear(_) | LoadDeref(_) | LoadGlobal(_) | LoadName(_) => {
                effect(0, 1)
            }
            LoadLocals | LoadBuildClass | LoadAssertionError => effect(0, 1),
            DeleteFast(_) | MakeCell(_) | CopyFreeVars(_) | DeleteDeref(_) | DeleteGlobal(_) | DeleteName(_) => effect(0, 0),
            SetupAnnotations | Resume(_) | Jump(_) => effect(0, 0),
            LoadFromDictOrDeref(_) | LoadFromDictOrGlobals(_) | LoadAttr(_) => effect(1, 1),
            Copy(n) => looking(n, effect(0, 1)),
            Swap(n) => looking(n, effect(0, 0)),

            LoadMethod(_) => effect(1, 2),
            StoreAttr(_) | DeleteSubscr => effect(2, 0),
            LoadSuperAttr { method, .. } => effect(3, 1 + u32::from(method)),
            StoreSubscr => effect(3, 0),
            BinarySubscr | Binary { .. } | Compare(_) | Is { .. } | Contains { .. } | FormatWithSpec => effect(2, 1),
            Unary(_) | ToBool | ConvertValue(_) | FormatSimple => effect(1, 1),

            BuildSlice(n) | BuildTuple(n) | BuildList(n) | BuildSet(n) | BuildString(n) => effect(n, 1),
            BuildMap(n) => effect(n.saturating_mul(2), 1),
            BuildConstKeyMap(n) => effect(n.saturating_add(1), 1),
            ListAppend(n) | SetAdd(n) | ListExtend(n) | SetUpdate(n) | DictUpdate(n) => {
                looking(n.saturating_add(1), effect(1, 0))
            }
            MapAdd(n) => looking(n.saturating_add(2), effect(2, 0)),
            DictMerge(n) => looking(n.saturating_add(3), effect(1, 0)),
            UnpackSequence(n) => effect(1, n),
            UnpackEx { before, after } => effect(1, before.saturating_add(after).saturating_add(1)),

            Call { arguments, .. } => effect(arguments.saturating_add(2), 1),
            CallFunctionEx { keywords } => effect(3 + u32::from(keywords), 1),
            MakeFunction | CallIntrinsic1(_) => effect(1, 1),
            SetFunctionAttribute(_) | CallIntrinsic2(_) => effect(2, 1),

            JumpIf { .. } | ReturnValue => effect(1, 0),
            GetIter | GetYieldFromIter | GetAwaitable(_) | GetAiter | YieldValue => effect(1, 1),
            ForIter(_) => effect(1, if jump { 0 } else { 2 }),
            ReturnGenerator => effect(0, 1),
            Send(_) => effect(2, if jump { 1 } else { 2 }),
            CleanupThrow => effect(3, 1),
            GetAnext => effect(1, 2),
            EndAsyncFor => effect(2, 0),

            PushExcInfo | BeforeWith | BeforeAsyncWith => effect(1, 2),
            PopExcept => effect(1, 0),
            CheckExcMatch | CheckEgMatch => effect(2, 2),
            Raise(n) => effect(n, 0),
            Reraise(n) => looking(n.saturating_add(1), effect(1, 0)),
            WithExceptStart => looking(4, effect(0, 1)),

            GetLen | MatchMapping | MatchSequence | ImportFrom(_) => looking(1, effect(0, 1)),
            MatchKeys => looking(2, effect(0, 1)),
            MatchClass(_) => effect(3, 1),
            ImportName(_) => effect(2, 1),
        }
    }
}

/// By how much the instruction deepens the stack, when it jumps or when it does not.
pub fn stack_effect(instruction: &Instruction, jump: bool) -> i64 {
    let effect = Effect::of(instruction, jump);
    i64::from(effect.pushes) - i64::from(effect.pops)
}
