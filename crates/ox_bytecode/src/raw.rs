//! What a code object holds, as plain data.

use std::fmt;

/// The interpreter that compiled the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    Python311,
    Python312,
    Python313,
}

impl Version {
    /// The version of `sys.version_info[:2]`, if it is one that can be decoded.
    pub fn new(major: u32, minor: u32) -> Option<Version> {
        match (major, minor) {
            (3, 11) => Some(Version::Python311),
            (3, 12) => Some(Version::Python312),
            (3, 13) => Some(Version::Python313),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::Python311 => "3.11",
            Version::Python312 => "3.12",
            Version::Python313 => "3.13",
        })
    }
}

/// How many parameters the function has; they are its first variables, in this order, then `*args`, then `**kwargs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arguments {
    /// `co_argcount`: positional parameters, with the positional-only ones.
    pub positional: u32,
    /// `co_posonlyargcount`
    pub positional_only: u32,
    /// `co_kwonlyargcount`
    pub keyword_only: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableKind {
    /// Only the function itself sees it.
    Local,
    /// A local that is (also) shared with inner functions: `MakeCell` makes its cell. Parameters and the variables of inlined
    /// comprehensions may lie there without a cell before.
    Cell,
    /// Comes from the function's closure: `CopyFreeVars` puts its cell there.
    Free,
}

/// A slot of the frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
}

/// The slots of a frame from `co_varnames`, `co_cellvars` and `co_freevars`: locals, cells that are no locals, free variables.
pub fn variables<S: AsRef<str>>(varnames: &[S], cellvars: &[S], freevars: &[S]) -> Vec<Variable> {
    let is_in = |names: &[S], name: &S| names.iter().any(|n| n.as_ref() == name.as_ref());
    let variable = |name: &S, kind| Variable { name: name.as_ref().to_owned(), kind };
    let local = |n| variable(n, if is_in(cellvars, n) { VariableKind::Cell } else { VariableKind::Local });
    let cells = cellvars.iter().filter(|n| !is_in(varnames, n)).map(|n| variable(n, VariableKind::Cell));
    let free = freevars.iter().map(|n| variable(n, VariableKind::Free));
    varnames.iter().map(local).chain(cells).chain(free).collect()
}

/// A code object.
#[derive(Clone, Debug)]
pub struct RawCode<'a> {
    pub version: Version,
    /// `co_code`: without specialised and instrumented forms (not `_co_code_adaptive`).
    pub code: &'a [u8],
    /// `co_exceptiontable`
    pub exception_table: &'a [u8],
    /// `co_linetable`
    pub line_table: &'a [u8],
    /// `co_firstlineno`
    pub first_line: u32,
    /// `len(co_names)`
    pub names: u32,
    /// `len(co_consts)`
    pub consts: u32,
    /// The slots of the frame: see [`variables`].
    pub variables: Vec<Variable>,
    pub arguments: Arguments,
    /// `co_flags`
    pub flags: u32,
    /// `co_stacksize`
    pub stack_size: u32,
}
