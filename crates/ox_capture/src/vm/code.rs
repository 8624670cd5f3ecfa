//! Code objects, decoded once.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use ox_bytecode::{Arguments, Code, Instruction, Intrinsic1, Intrinsic2, RawCode, Version, decode, variables};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// A code object and everything that running it needs.
pub struct CodeInfo {
    pub object: Obj,
    pub code: Code,
    pub consts: Vec<Obj>,
    pub names: Vec<Obj>,
    pub file: String,
    pub name: String,
    /// Of the machine's library: no code of the user's.
    pub hidden: bool,
    /// Of torch or of Python's own library: who calls it says more.
    pub foreign: bool,
}

thread_local! {
    /// By the address of the code object, which the entry keeps alive. None for code that the machine does not run.
    /// Never dropped: when a thread ends, the interpreter may be gone already.
    static KNOWN: ManuallyDrop<RefCell<FxHashMap<usize, Option<Rc<CodeInfo>>>>> = ManuallyDrop::new(RefCell::default());
}

pub fn code_info(object: &Obj) -> Option<Rc<CodeInfo>> {
    if let Some(known) = KNOWN.with(|known| known.borrow().get(&object.id()).cloned()) {
        return known;
    }
    let info = read(object).quiet().flatten().map(Rc::new);
    if info.is_none() {
        // The address must not be taken for another code object later on.
        std::mem::forget(object.clone());
    }
    KNOWN.with(|known| known.borrow_mut().insert(object.id(), info.clone()));
    info
}

fn read(object: &Obj) -> PyResult<Option<CodeInfo>> {
    let info = py().version_info();
    let Some(version) = Version::new(info.major.into(), info.minor.into()) else { return Ok(None) };
    let bind = object.bind();
    let number = |name: &str| -> PyResult<u32> { bind.getattr(name)?.extract() };
    let texts = |name: &str| -> PyResult<Vec<String>> { bind.getattr(name)?.extract() };
    let bytes = |name: &str| -> PyResult<Vec<u8>> { bind.getattr(name)?.extract() };
    let (code, exceptions, lines) = (bytes("co_code")?, bytes("co_exceptiontable")?, bytes("co_linetable")?);
    let (consts, names) = (items_of(&object.attr("co_consts")?), items_of(&object.attr("co_names")?));
    let raw = RawCode {
        version,
        code: &code,
        exception_table: &exceptions,
        line_table: &lines,
        first_line: number("co_firstlineno")?,
        names: names.len() as u32,
        consts: consts.len() as u32,
        variables: variables(&texts("co_varnames")?, &texts("co_cellvars")?, &texts("co_freevars")?),
        arguments: Arguments {
            positional: number("co_argcount")?,
            positional_only: number("co_posonlyargcount")?,
            keyword_only: number("co_kwonlyargcount")?,
        },
        flags: number("co_flags")?,
        stack_size: number("co_stacksize")?,
    };
    if looks_at_frames(&names) {
        return Ok(None);
    }
    let Ok(code) = decode(&raw) else { return Ok(None) };
    if code.is_coroutine() || code.is_async_generator() || !code.instructions.iter().all(is_supported) {
        return Ok(None);
    }
    let (file, name): (String, String) = (bind.getattr("co_filename")?.extract()?, bind.getattr("co_name")?.extract()?);
    let hidden = file == super::library::FILE;
    let foreign = is_foreign(&file);
    Ok(Some(CodeInfo { object: object.clone(), code, consts, names, file, name, hidden, foreign }))
}

/// Whether a file belongs to torch or to Python's own library.
fn is_foreign(file: &str) -> bool {
    static FOLDERS: Found<Vec<String>> = Found::new();
    let folder = |module: &str| -> PyResult<String> {
        let file: String = py().import("sys")?.getattr("modules")?.get_item(module)?.getattr("__file__")?.extract()?;
        Ok(file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or(file))
    };
    let folders = FOLDERS.or_find(|| ["torch", "os"].into_iter().filter_map(|module| folder(module).quiet()).collect());
    let lies_there =
        folders.iter().any(|folder| file.strip_prefix(folder.as_str()).is_some_and(|rest| !rest.contains("-packages/")));
    file.starts_with("<frozen ") || lies_there
}

/// Whether code that has these names asks for frames: what it is given must be its own, and those of its callers.
fn looks_at_frames(names: &[Obj]) -> bool {
    let asks = |name: &Obj| matches!(name.to_str().as_deref(), Some("_getframe" | "currentframe" | "_getframemodulename"));
    names.iter().any(asks)
}

/// The same of a function.
pub fn asks_for_frames(function: &Obj) -> bool {
    let names = function.attr("__code__").and_then(|code| code.attr("co_names"));
    names.quiet().is_some_and(|names| looks_at_frames(&items_of(&names)))
}

/// What stands in class bodies and modules, in coroutines and with type parameters is left to CPython.
fn is_supported(instruction: &Instruction) -> bool {
    use Instruction::*;
    !matches!(
        instruction,
        LoadFromDictOrDeref(_)
            | LoadFromDictOrGlobals(_)
            | LoadName(_)
            | StoreName(_)
            | DeleteName(_)
            | LoadLocals
            | SetupAnnotations
            | GetAwaitable(_)
            | GetAiter
            | GetAnext
            | EndAsyncFor
            | BeforeAsyncWith
    ) && !matches!(instruction, CallIntrinsic2(intrinsic) if *intrinsic != Intrinsic2::PrepReraiseStar)
        && !matches!(instruction, CallIntrinsic1(intrinsic) if !matches!(intrinsic, Intrinsic1::ListToTuple | Intrinsic1::StopIterationError))
}

impl CodeInfo {
    pub fn line(&self, at: usize) -> u32 {
        self.code.positions.get(at).and_then(|p| p.line).unwrap_or(self.code.first_line)
    }

    pub fn location(&self, at: usize) -> String {
        format!("{}:{}", self.file, self.line(at))
    }
}
