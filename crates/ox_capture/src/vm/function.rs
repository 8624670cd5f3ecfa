//! Instructions that make functions, and those on names: cells, imports, text.

use super::attribute_of::hook_of;
use super::{Flow, R, Vm};
use crate::guard::whole;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::Val;
use crate::source::{Key, Source};
use crate::types::types;
use ox_bytecode::{Conversion, FunctionAttribute, Intrinsic1, Local, Name};
use pyo3::exceptions::{PyModuleNotFoundError, PyNameError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

impl Vm {
    pub(super) fn make_cell(&mut self, n: Local) -> R<()> {
        let value = self.frame().locals[n.index()].take();
        let content = value.as_ref().map(|value| self.settled_but_free(value));
        // SAFETY: a new cell with a live object or nothing.
        let cell = unsafe { Obj::owned(ffi::PyCell_New(content.as_ref().map_or(std::ptr::null_mut(), |c| c.ptr())))? };
        let cell = self.made(cell);
        if let Some(value) = value.filter(|value| self.stays_free(value)) {
            self.stow(&cell.obj, Obj::str("cell_contents"), &value);
        }
        self.frame().locals[n.index()] = Some(cell);
        Ok(())
    }

    pub(super) fn op_convert(&mut self, conversion: Conversion) -> R<Flow> {
        let value = self.pop();
        let called = self.call_builtin(conversion.text(), vec![value])?;
        self.take(called)
    }

    pub(super) fn format(&mut self, value: &Val, spec: Option<&Val>) -> R<Flow> {
        if spec.is_none() && value.obj.class_is(types().str) {
            self.push(value.clone());
            return Ok(Flow::Next);
        }
        let mut args = vec![value.clone()];
        args.extend(spec.cloned());
        let called = self.call_builtin("format", args)?;
        self.take(called)
    }

    pub(super) fn make_function(&mut self) -> R<()> {
        let code = self.pop();
        let globals = self.frame().globals.clone();
        self.pinned(globals.clone());
        // SAFETY: a code object and a dict.
        let function = unsafe { Obj::owned(ffi::PyFunction_New(code.obj.ptr(), globals.ptr()))? };
        if let Some(rec) = &mut self.rec {
            rec.register(&function, crate::record::Origin::Made);
        }
        self.push(function);
        Ok(())
    }

    pub(super) fn set_function_attribute(&mut self, attribute: FunctionAttribute) -> R<()> {
        let (function, value) = (self.pop(), self.pop());
        let object = match attribute {
            FunctionAttribute::Annotations => self.settled(&value),
            _ => self.settled_but_free(&value),
        };
        match attribute {
            FunctionAttribute::Defaults => crate::recipe::set_function_part(&function.obj, "__defaults__", &object)?,
            FunctionAttribute::KeywordDefaults => crate::recipe::set_function_part(&function.obj, "__kwdefaults__", &object)?,
            FunctionAttribute::Closure => crate::recipe::set_function_part(&function.obj, "closure", &object)?,
            FunctionAttribute::Annotations => {
                let pairs = crate::obj::items_of(&object);
                let dict = PyDict::new(py());
                for pair in pairs.chunks(2) {
                    dict.set_item(pair[0].bind(), pair[1].bind())?;
                }
                let dict = self.made(dict.into());
                function.obj.bind().setattr("__annotations__", dict.obj.bind())?;
            }
        }
        self.push(function);
        Ok(())
    }

    pub(super) fn intrinsic(&mut self, intrinsic: Intrinsic1) -> R<Flow> {
        let value = self.pop();
        match intrinsic {
            Intrinsic1::ListToTuple => {
                let items = self.items_made_here(&value.obj);
                let tuple = self.tuple(items)?;
                self.push(tuple);
            }
            // An iterator of C's ends where what it calls raises StopIteration.
            Intrinsic1::StopIterationError if self.ends_iterator(&value.obj) => {
                return Ok(Flow::Return(Obj::none().into()));
            }
            Intrinsic1::StopIterationError => {
                let error = self.stop_iteration_error(&value.obj)?;
                self.push(error);
            }
            other => return Err(PyRuntimeError::new_err(format!("oxytorch: the intrinsic {other} outside of a module"))),
        }
        Ok(Flow::Next)
    }

    pub(super) fn import_name(&mut self, n: Name) -> R<()> {
        let (names, level, name) = (self.pop(), self.pop(), self.name(n));
        let globals = self.frame().globals.clone();
        let import = Obj::from(self.frame().builtins.clone().bind().get_item("__import__")?);
        let modules: Obj = py().import("sys")?.getattr("modules")?.into();
        self.pinned(modules.clone());
        let answering = match whole(&level.obj) {
            Some(0) if names.obj.class_is(types().tuple) => self.answering_module(&modules, &name),
            _ => None,
        };
        let module = match answering {
            Some(module) => {
                self.ask_for_names(&module, &names, &import)?;
                module
            }
            None => import.call(&[name.clone(), globals, Obj::none(), names.obj, level.obj], None).inspect_err(|_| {
                if crate::obj::dict_get(&modules, &name).is_none() {
                    self.recorded(|rec| rec.check_no_key(&modules, &name));
                }
            })?,
        };
        // Another may be put there.
        let own =
            module.attr("__name__").quiet().filter(|own| crate::obj::dict_get(&modules, own).is_some_and(|at| at.is(&module)));
        let module = match own {
            Some(own) => self.found_at(&modules, &own, module, |of| Source::Value(of, Key(own.clone()))),
            None => self.pinned(module),
        };
        self.push(module);
        Ok(())
    }

    /// A module that is there already, and whose own code says which names it has.
    fn answering_module(&self, modules: &Obj, name: &Obj) -> Option<Obj> {
        let module = crate::obj::dict_get(modules, name).filter(|module| module.is_instance_of(types().module))?;
        self.rec.is_some().then(|| hook_of(&module)).flatten().map(|_| module)
    }

    /// What an import asks a module for the names that are to be read: done by the machine, since its code is the program's. What a package does not have is imported.
    fn ask_for_names(&mut self, module: &Obj, names: &Val, import: &Obj) -> R<()> {
        let lacking = self.now(|vm| vm.call_library("names_lacking", vec![module.clone().into(), names.clone()]))?;
        for name in items_of(&lacking.obj) {
            let full = format!("{}.{}", module.attr("__name__")?, name);
            if let Err(error) = import.call(&[Obj::str(&full)], None) {
                let is_it = |of: Bound<'_, PyAny>| of.extract::<String>().quiet().is_some_and(|of| of == full);
                if !error.is_instance_of::<PyModuleNotFoundError>(py())
                    || !error.value(py()).getattr("name").quiet().is_some_and(is_it)
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(super) fn import_from(&mut self, n: Name) -> R<()> {
        let (module, name) = (self.peek(1), self.name(n));
        let value = match self.now(|vm| vm.load_attr(&module.clone().into(), &name)) {
            Ok(value) => value,
            Err(_) => {
                let full = Obj::str(&format!("{}.{}", module.attr("__name__")?, name));
                let modules: Obj = py().import("sys")?.getattr("modules")?.into();
                match crate::obj::dict_get(&modules, &full) {
                    Some(found) => self.pinned(found),
                    None => {
                        self.pinned(modules.clone());
                        self.recorded(|rec| rec.check_no_key(&modules, &full));
                        // CPython's own words, which are others in each version.
                        let refuse = super::library::function("refused_import")?;
                        let found = refuse.call(&[module, name], None).inspect_err(|error| error.set_traceback(py(), None))?;
                        self.pinned(found)
                    }
                }
            }
        };
        self.push(value);
        Ok(())
    }

    pub fn name_error(&self, name: &Obj) -> PyErr {
        named_error(format!("name '{}' is not defined", name), name)
    }
}

/// A NameError that knows the name.
pub(super) fn named_error(text: String, name: &Obj) -> PyErr {
    let error = PyNameError::new_err(text);
    // What cannot be told is left out, as CPython does it.
    error.value(py()).setattr("name", name.bind()).quiet();
    error
}
