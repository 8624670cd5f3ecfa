//! Reading names: globals and cells.

use super::function::named_error;
use super::{R, Vm};
use crate::obj::{Obj, dict_get, items_of};
use crate::record::{Origin, Val};
use crate::source::{Key, Source, cell_contents};
use crate::types::types;
use ox_bytecode::Local;
use pyo3::exceptions::PyUnboundLocalError;
use pyo3::prelude::*;

impl Vm {
    pub fn load_global(&mut self, name: &Obj) -> R<Val> {
        let (globals, builtins) = (self.frame().globals.clone(), self.frame().builtins.clone());
        if self.frame().code.hidden
            && let Some(found) = dict_get(&globals, name).or_else(|| dict_get(&builtins, name))
        {
            return Ok(self.pinned(found));
        }
        self.pinned(globals.clone());
        if let Some(found) = dict_get(&globals, name) {
            return Ok(self.found_at(&globals, name, found, |of| Source::Value(of, Key(name.clone()))));
        }
        self.recorded(|rec| rec.check_no_key(&globals, name));
        self.pinned(builtins.clone());
        match dict_get(&builtins, name) {
            Some(found) => Ok(self.found_at(&builtins, name, found, |of| Source::Value(of, Key(name.clone())))),
            None => {
                self.recorded(|rec| rec.check_no_key(&builtins, name));
                Err(self.name_error(name))
            }
        }
    }

    // Cells.

    pub fn copy_free_vars(&mut self, n: usize) -> R<()> {
        let function = self.frame().function.clone();
        let closure = function.attr("__closure__")?;
        let cells = items_of(&closure);
        let at = self.frame().locals.len() - n;
        for (k, cell) in cells.into_iter().enumerate() {
            let value = match self.origin(&function) {
                Origin::Outside(id) => {
                    let rec = self.rec.as_mut().expect("an origin is a recording's");
                    let tuple = rec.source(Source::Member(id, "__closure__"));
                    let source = rec.source(Source::Item(tuple, k as u32));
                    rec.meet(cell, source)
                }
                Origin::Const => self.pinned(cell),
                _ => cell.into(),
            };
            self.frame().locals[at + k] = Some(value);
        }
        Ok(())
    }

    pub fn load_cell(&mut self, n: Local) -> R<Val> {
        let Some(cell) = self.frame().locals[n.index()].clone() else { return Err(self.empty_cell(n)) };
        if !cell.obj.class_is(types().cell) {
            return Ok(cell);
        }
        match cell_contents(&cell.obj) {
            Some(content) => Ok(self.found_at(&cell.obj, &Obj::str("cell_contents"), content, Source::Cell)),
            None => {
                self.know_empty(&cell.obj)?;
                Err(self.empty_cell(n))
            }
        }
    }

    /// That nothing is in a cell is relied on, unless it was this call that emptied it.
    fn know_empty(&mut self, cell: &Obj) -> R<()> {
        let Origin::Outside(of) = self.origin(cell) else { return Ok(()) };
        self.recorded(|rec| {
            if !rec.is_written(cell, &Obj::str("cell_contents")) {
                rec.rely_on_empty(of);
            }
            Ok(())
        });
        Ok(())
    }

    fn empty_cell(&mut self, n: Local) -> PyErr {
        let variable = self.frame().code.code.variables[n.index()].clone();
        let name = variable.name;
        match variable.kind {
            ox_bytecode::VariableKind::Free => named_error(
                format!("cannot access free variable '{name}' where it is not associated with a value in enclosing scope"),
                &Obj::str(&name),
            ),
            _ => PyUnboundLocalError::new_err(format!(
                "cannot access local variable '{name}' where it is not associated with a value"
            )),
        }
    }
}
