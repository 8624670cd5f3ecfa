//! NumPy's arrays that the program makes from what it knows.

use super::native::keywords;
use super::operators::is_tensor;
use super::{Args, Called, R, Vm};
use crate::numpy;
use crate::obj::{Obj, items_of, py};
use crate::record::{Origin, Val};
use crate::types::types;
use ox_bytecode::{BinaryOp, Instruction};
use pyo3::prelude::*;

impl Vm {
    /// An array of numbers that this segment made.
    pub fn is_own_array(&self, object: &Obj) -> bool {
        numpy::is_array(object) && self.origin(object) == Origin::Made && numpy::holds_numbers(object)
    }

    /// A function of NumPy's on data. None if it is another one, or if something in its arguments is not known.
    pub fn call_numpy(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        let this = &callable.obj;
        if let Some(number) = self.number_of_sizes(this, args)? {
            return Ok(Some(Called::Value(number)));
        }
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

    /// `int(np.prod(shape))`, `float(np.sqrt(n))`: as the arithmetic of Python's that it is, so that sizes stay expressions. A number of NumPy's
    /// that the program keeps has a class of its own, and is relied on.
    fn number_of_sizes(&mut self, function: &Obj, args: &Args) -> R<Option<Val>> {
        let ([of], [], true) = (&args.positional[..], &args.keywords[..], self.is_converted_at_once()) else { return Ok(None) };
        if !numpy::is_pure(function) {
            return Ok(None);
        }
        let name = function.attr("__name__").ok().and_then(|name| name.to_str()).unwrap_or_default();
        let items = if self.holds_sizes(&of.obj) { self.items_made_here(&of.obj) } else { Vec::new() };
        let are_whole = !items.is_empty() && items.iter().all(|item| item.obj.class_is(types().int));
        match name.as_str() {
            "prod" if are_whole => self.product(&items).map(Some),
            "sum" if are_whole => {
                let add = |all: Val, item: &Val| self.now(|vm| vm.binary(BinaryOp::Add, false, &all, item));
                items[1..].iter().try_fold(items[0].clone(), add).map(Some)
            }
            "ceil" | "floor" | "sqrt" if of.free.is_some() && of.obj.bind().gt(0)? => {
                let same = py().import("math")?.getattr(name.as_str())?.into();
                self.pure(&same, std::slice::from_ref(of), &[]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether what is called now is given to `int` or `float` alone, or stands behind a tensor and a sign, where its class makes no difference.
    fn is_converted_at_once(&self) -> bool {
        let Some(frame) = self.frames.last() else { return false };
        let types = types();
        let converts = |class: &Obj| class.ptr() == types.int.cast() || class.ptr() == types.float.cast();
        match (frame.code.code.instructions.get(frame.pc), &frame.stack[..]) {
            (Some(Instruction::Call { arguments: 1, keywords: None }), [.., None, Some(class)]) => converts(&class.obj),
            (Some(Instruction::Binary { .. }), [.., Some(left)]) => is_tensor(&left.obj),
            _ => false,
        }
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
