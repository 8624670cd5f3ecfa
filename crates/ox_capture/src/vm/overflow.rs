//! Numbers that the type of a tensor does not hold, in the call that is traced.
//!
//! Shadows do not look at them, and a graph that is refused later would be behind what the program does meanwhile, and behind its clauses.
//! So the operation is tried here, for its exception alone, where a number is that large.

use super::failing::{filled, tensors_of};
use super::native::keywords;
use super::{Args, R, Vm};
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, py};
use crate::record::grad::GradMode;
use crate::record::{Recording, Val, plain};
use crate::types::types;
use ox_ops::surface::converts_numbers;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Every type holds the numbers from 0 to this one.
const SMALL: f64 = 127.0;

impl Vm {
    /// Raises what eager raises for a number among the arguments.
    pub fn refuse_numbers(&mut self, name: &str, callable: &Obj, args: &Args) -> R<()> {
        let Some(rec) = self.rec.as_mut().filter(|_| converts_numbers(plain(name))) else { return Ok(()) };
        let given = args.positional.iter().chain(args.keywords.iter().map(|(_, value)| value));
        let large: Vec<Obj> = given.map(|arg| arg.obj.clone()).filter(is_large).collect();
        if large.is_empty() || !large.iter().any(|number| is_too_large(number, args, rec)) {
            return Ok(());
        }
        let Some(tried) = stand_ins(args, rec) else { return Ok(()) };
        let _mode = GradMode::set(false)?;
        let positional: Vec<Obj> = tried.positional.into_iter().map(|arg| arg.obj).collect();
        if let Err(error) = callable.call(&positional, keywords(&tried.keywords)?.as_ref()) {
            // Another number passes the same checks.
            rec.contradicted = true;
            return Err(error);
        }
        Ok(())
    }
}

fn is_large(object: &Obj) -> bool {
    let is_number = object.class_is(types().int) || object.class_is(types().float);
    is_number && !object.bind().extract::<f64>().quiet().is_some_and(|number| (0.0..=SMALL).contains(&number))
}

/// Whether a type that is among the arguments, or a tensor's on the CPU, does not hold it.
fn is_too_large(number: &Obj, args: &Args, rec: &Recording) -> bool {
    let named =
        args.keywords.iter().filter(|(key, _)| key.to_str().as_deref() == Some("dtype")).map(|(_, dtype)| dtype.obj.clone());
    let mut dtypes = tensors_of(args).filter_map(|tensor| rec.dtype_on_cpu(&tensor)).chain(named);
    dtypes.any(|dtype| full_of(number, &dtype).quiet().is_none())
}

/// Of two elements: one alone is filled without a question.
fn full_of(number: &Obj, dtype: &Obj) -> PyResult<()> {
    let options = PyDict::new(py());
    options.set_item("dtype", dtype.bind())?;
    options.set_item("device", "cpu")?;
    py().import("torch")?.call_method("full", ((2,), number.bind()), Some(&options)).map(drop)
}

/// The arguments with tensors that nobody knows, which may be written. None where there is not one for each.
fn stand_ins(args: &Args, rec: &Recording) -> Option<Args> {
    let of = |tensor: &Obj| if is_lazy(tensor) { rec.stand_in(tensor) } else { Some(tensor.clone()) };
    let value = |tensor: &Obj| of(tensor)?.bind().call_method0("clone").quiet().map(Obj::from);
    let positional = args.positional.iter().map(|arg| filled(&arg.obj, &value).map(Val::from));
    let named = args.keywords.iter().map(|(key, arg)| Some((key.clone(), filled(&arg.obj, &value)?.into())));
    Some(Args { positional: positional.collect::<Option<_>>()?, keywords: named.collect::<Option<_>>()? })
}
