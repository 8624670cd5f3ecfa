//! The text form: one line an instruction.
//!
//! ```text
//! args=1 flags=0x3 stack=2 vars=x
//!    0  1   Resume start
//!    1  2   LoadFast 0 (x)
//!    2      JumpIf false -> 5
//! 0..2 -> 5 depth=1 index
//! ```
//!
//! The second column is the line, where it changes. Below the instructions stand the handlers.

use crate::code::{Code, Handler};
use crate::instruction::Instruction::{self, *};
use crate::operand::{Const, Local, Name};
use crate::raw::{Variable, VariableKind};
use std::fmt::{self, Display, Formatter};

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let a = &self.arguments;
        write!(f, "args={}", a.positional)?;
        written(f, "posonly", a.positional_only)?;
        written(f, "kwonly", a.keyword_only)?;
        write!(f, " flags={:#x} stack={}", self.flags, self.stack_size)?;
        if !self.variables.is_empty() {
            let variables: Vec<String> = self.variables.iter().map(ToString::to_string).collect();
            write!(f, " vars={}", variables.join(","))?;
        }
        writeln!(f)?;
        self.instruction_lines(f)?;
        self.handlers.iter().try_for_each(|handler| writeln!(f, "{handler}"))
    }
}

impl Code {
    fn instruction_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for (index, (instruction, position)) in self.instructions.iter().zip(&self.positions).enumerate() {
            let line = match position.line {
                line if line == last => String::new(),
                Some(line) => line.to_string(),
                None => "-".to_owned(),
            };
            last = position.line;
            write!(f, "{index:4}  {line:4} {instruction}")?;
            match variable(instruction) {
                Some(local) => writeln!(f, " ({})", self.variables[local.index()].name)?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

fn written(f: &mut Formatter<'_>, what: &str, count: u32) -> fmt::Result {
    if count == 0 { Ok(()) } else { write!(f, " {what}={count}") }
}

impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            VariableKind::Local => "",
            VariableKind::Cell => ":cell",
            VariableKind::Free => ":free",
        };
        write!(f, "{}{kind}", self.name)
    }
}

impl Display for Handler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let index = if self.push_index { " index" } else { "" };
        write!(f, "{}..{} -> {} depth={}{index}", self.start.0, self.end.0, self.target.0, self.depth)
    }
}

/// The variable that the instruction is about.
pub(crate) fn variable(instruction: &Instruction) -> Option<Local> {
    match *instruction {
        LoadFast(v) | StoreFast(v) | DeleteFast(v) | LoadFastAndClear(v) | MakeCell(v) => Some(v),
        LoadDeref(v) | StoreDeref(v) | DeleteDeref(v) | LoadFromDictOrDeref(v) => Some(v),
        _ => None,
    }
}

/// The name that the instruction is about.
pub(crate) fn name(instruction: &Instruction) -> Option<Name> {
    match *instruction {
        LoadFromDictOrGlobals(n) | LoadGlobal(n) | StoreGlobal(n) | DeleteGlobal(n) => Some(n),
        LoadName(n) | StoreName(n) | DeleteName(n) => Some(n),
        LoadAttr(n) | LoadMethod(n) | StoreAttr(n) | DeleteAttr(n) | LoadSuperAttr { name: n, .. } => Some(n),
        ImportName(n) | ImportFrom(n) => Some(n),
        _ => None,
    }
}

/// The constant that the instruction is about.
pub(crate) fn constant(instruction: &Instruction) -> Option<Const> {
    match *instruction {
        LoadConst(c) | Call { keywords: Some(c), .. } => Some(c),
        _ => None,
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.mnemonic().as_str())?;
        if let Some(index) = variable(self).map(|v| v.0).or(name(self).map(|n| n.0)) {
            write!(f, " {index}")?;
        }
        operands(self, f)?;
        self.label().map_or(Ok(()), |label| write!(f, " -> {}", label.0))
    }
}

impl Instruction {
    /// The name of the instruction: that of its variant.
    fn mnemonic(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(['(', ' ']).unwrap_or(text.len());
        text[..end].to_owned()
    }
}

/// What is neither a variable nor a name nor a label.
fn operands(instruction: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let flag = |set: bool, text: &'static str| if set { text } else { "" };
    match *instruction {
        LoadConst(c) => write!(f, " {}", c.0),
        Copy(n) | Swap(n) | CopyFreeVars(n) | BuildSlice(n) | BuildTuple(n) | BuildList(n) | BuildSet(n) | BuildMap(n) => {
            write!(f, " {n}")
        }
        BuildConstKeyMap(n) | BuildString(n) | ListAppend(n) | SetAdd(n) | MapAdd(n) | ListExtend(n) => write!(f, " {n}"),
        SetUpdate(n) | DictUpdate(n) | DictMerge(n) | UnpackSequence(n) | Raise(n) | Reraise(n) | MatchClass(n) => {
            write!(f, " {n}")
        }
        UnpackEx { before, after } => write!(f, " {before} {after}"),
        LoadSuperAttr { method, arguments, .. } => write!(f, "{}{}", flag(method, " method"), flag(arguments, " arguments")),
        Unary(op) => write!(f, " {op}"),
        Binary { op, in_place } => write!(f, " {op}{}", flag(in_place, "=")),
        Compare(op) => write!(f, " {op}"),
        Is { negated } | Contains { negated } => write!(f, "{}", flag(negated, " not")),
        ConvertValue(conversion) => write!(f, " {conversion}"),
        Call { arguments, keywords: None } => write!(f, " {arguments}"),
        Call { arguments, keywords: Some(names) } => write!(f, " {arguments} keywords={}", names.0),
        CallFunctionEx { keywords } => write!(f, "{}", flag(keywords, " keywords")),
        SetFunctionAttribute(attribute) => write!(f, " {attribute}"),
        CallIntrinsic1(function) => write!(f, " {function}"),
        CallIntrinsic2(function) => write!(f, " {function}"),
        JumpIf { condition, .. } => write!(f, " {condition}"),
        Resume(at) => write!(f, " {at}"),
        GetAwaitable(of) => write!(f, " {of}"),
        _ => Ok(()),
    }
}
