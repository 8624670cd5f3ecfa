//! NumPy's arrays that the program makes from what it knows.

use super::native::keywords;
use super::{Args, Called, R, Vm};
use crate::numpy;
use crate::obj::{Obj, items_of};
use crate::record::{Origin, Val};
use crate::types::types;
use pyo3::prelude::*;

impl Vm {
    /// An array of numbers that this segment made.
    pub fn is_own_array(&self, object: &Obj) -> bool {
        numpy::is_array(object) && self.origin(object) == Origin::Made && numpy::holds_numbers(object)
    }

    /// A function of NumPy's on data. None if it is another one, or if something in its arguments is not known.
    pub fn call_numpy(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        let this = &callable.obj;
        if numpy::is_pure(this) && self.is_plain_data(args) {
            return self.on_arrays(this, args).map(|value| Some(Called::Value(value)));
        }
        if numpy::is_seed(this) && args.keywords.is_empty() && self.is_plain_data(args) {
            let objects: Vec<Obj> = args.positional.iter().map(|arg| arg.obj.clone()).collect();
            let nothing = this.call(&objects, None)?;
            if let Some(rec) = &mut self.rec {
                rec.note_change(this.clone(), args.positional.clone());
            }
            return Ok(Some(Called::Value(nothing.into())));
        }
        Ok(None)
    }

    /// A method of an array that this segment made, on data.
    pub fn call_array_method(&mut self, callable: &Val, class: &Obj, name: &str, args: &Args) -> R<Option<Called>> {
        let known = numpy::is_array_method(class, name) && self.is_own_array(&args.positional[0].obj) && self.is_plain_data(args);
        match known {
            true => self.on_arrays(&callable.obj, args).map(|value| Some(Called::Value(value))),
            false => Ok(None),
        }
    }

    /// `array[index]`
    pub fn array_item(&mut self, array: &Obj, index: &Val) -> R<Option<Val>> {
        let plain = Args::positional(vec![index.clone()]);
        if !self.is_own_array(array) || !self.is_plain_data(&plain) {
            return Ok(None);
        }
        let index = self.known_data(index)?;
        let item = Obj::from(array.bind().get_item(index.bind())?);
        Ok(Some(self.own_arrays(item)))
    }

    /// What iteration over an array comes to.
    pub fn next_row(&mut self, array: &Obj, at: usize) -> R<Val> {
        if self.rec.is_some() && !self.is_own_array(array) {
            self.give_up("an array of NumPy's that is read on behind a break");
        }
        let row = Obj::from(array.bind().get_item(at)?);
        Ok(self.own_arrays(row))
    }

    /// Calls with everything in the arguments relied on.
    pub fn on_arrays(&mut self, function: &Obj, args: &Args) -> R<Val> {
        let mut objects = Vec::with_capacity(args.positional.len());
        for arg in &args.positional {
            objects.push(self.known_data(arg)?);
        }
        for (_, value) in &args.keywords {
            self.known_data(value)?;
        }
        let result = function.call(&objects, keywords(&args.keywords)?.as_ref())?;
        Ok(self.own_arrays(result))
    }

    /// A field of an array: its shape, its type, its transpose.
    pub fn array_field(&mut self, found: Obj) -> Val {
        if numpy::is_dtype(&found) { self.pinned(found) } else { self.own_arrays(found) }
    }

    /// What a function of NumPy's gave, with the arrays inside.
    fn own_arrays(&mut self, result: Obj) -> Val {
        if result.class_is(types().tuple) || result.class_is(types().list) {
            for array in items_of(&result).into_iter().filter(numpy::is_array) {
                self.made_or_known(array);
            }
        }
        self.made_or_known(result)
    }
}
