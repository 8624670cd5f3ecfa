//! Functions of C: pure ones run on the real objects, with checks for what they read from outside; torch's become nodes of the graph.

use super::reading::Read;
use super::{Args, Called, R, Vm};
use crate::found::Found;
use crate::obj::{Obj, py};
use crate::record::{DONE_FOR_REAL, NotRecorded, Origin, Shadow, Val};
use crate::source::{Key, Source, SourceId};
use crate::types::types;
use ox_ops::surface::{Place, takes_number};
use pyo3::prelude::*;

/// How many items of outside containers one call may rely on.
const BUDGET: usize = 4096;

/// Why a torch call was not recorded, and what it reads, if it is to stand between two graphs.
#[derive(Default)]
pub struct Refused {
    why: String,
    read: Option<Read>,
    /// Whether a tensor was asked for its number.
    wants_number: bool,
}

impl Refused {
    /// Whether it is to stand between two graphs.
    pub fn stands_apart(&self) -> bool {
        self.read.is_some()
    }
}

/// Sets a cell: an effect on a closure.
pub fn cell_setter() -> R<Obj> {
    static SETTER: Found<Obj> = Found::new();
    let setter = SETTER.or_try_find(|| -> R<Obj> {
        let setter = pyo3::types::PyCFunction::new_closure(py(), None, None, |args, _| -> PyResult<()> {
            args.get_item(0)?.setattr("cell_contents", args.get_item(1)?)
        })?;
        Ok(setter.into())
    })?;
    Ok(setter.clone())
}

impl Vm {
    /// A function of the operator module, on data.
    pub fn pure_call(&mut self, name: &str, args: &[Val]) -> R<Val> {
        let function = self.operator(name)?;
        if args.iter().any(|arg| self.is_size(arg)) {
            self.note_line();
        }
        if args.iter().any(|arg| self.is_size(arg))
            && let Ok(result) = function.call(&args.iter().map(|arg| arg.obj.clone()).collect::<Vec<_>>(), None)
            && let Some(value) = self.rec.as_mut().and_then(|rec| rec.size_call(name, args, &result))
        {
            return Ok(value);
        }
        self.pure(&function, args, &[])
    }

    pub fn pure_by_name(&mut self, name: &str, args: &[Val]) -> R<Val> {
        let function = self.builtin(name)?;
        self.pure(&function, args, &[])
    }

    /// A call without effects whose result depends on nothing but the data in its arguments.
    pub fn pure(&mut self, function: &Obj, args: &[Val], kwargs: &[(Obj, Val)]) -> R<Val> {
        let objects: Vec<Obj> = args.iter().map(|a| a.obj.clone()).collect();
        if self.rec.is_none() {
            return Ok(function.call(&objects, keywords(kwargs)?.as_ref())?.into());
        }
        // `int(size)`
        if let [size] = args
            && self.is_size(size)
            && function.ptr() == types().int.cast()
        {
            return Ok(size.clone());
        }
        let sources = if kwargs.is_empty() { self.pure_sources(args) } else { None };
        let Some(sources) = sources else { return self.pure_on_known(function, args, kwargs) };
        let result = match function.call(&objects, None) {
            Ok(result) => result,
            Err(_) => return self.pure_on_known(function, args, kwargs),
        };
        if !types().is_scalar(&result) {
            return self.pure_on_known(function, args, kwargs);
        }
        let is_number = result.class_is(types().int) || result.class_is(types().float);
        let is_free = is_number && args.iter().any(|a| a.free.is_some());
        let is_text = result.class_is(types().str) && args.iter().any(|arg| self.stays_free(arg) || self.is_free_text(arg));
        let rec = self.rec.as_mut().expect("checked above");
        let source = rec.source(Source::Compute(Key(function.clone()), sources));
        if is_text {
            rec.rely_on_type(source, &result);
            self.has_texts = true;
            return Ok(Val { obj: result, free: Some(source) });
        }
        if is_free {
            return Ok(rec.meet(result, source));
        }
        rec.check_equal(source, &result);
        Ok(result.into())
    }

    /// Sources for all arguments, if the function's result is best checked by calling it again. None where nothing comes from outside,
    /// or where something was made here or changed before.
    fn pure_sources(&mut self, args: &[Val]) -> Option<Vec<SourceId>> {
        let rec = self.rec.as_mut()?;
        let is_outside = |arg: &Val| arg.free.is_some() || matches!(rec.origin(&arg.obj), Origin::Outside(_));
        if !args.iter().any(is_outside) {
            return None;
        }
        if args.iter().any(|arg| rec.is_whole(&arg.obj) || rec.is_resized(&arg.obj)) {
            return None;
        }
        args.iter().map(|arg| rec.source_of(arg)).collect()
    }

    /// Relies on everything in the arguments, then calls.
    fn pure_on_known(&mut self, function: &Obj, args: &[Val], kwargs: &[(Obj, Val)]) -> R<Val> {
        let mut objects = Vec::with_capacity(args.len());
        for arg in args {
            objects.push(self.known_data(arg)?);
        }
        for (_, value) in kwargs {
            self.known_data(value)?;
        }
        let result = function.call(&objects, keywords(kwargs)?.as_ref())?;
        Ok(self.made(result))
    }

    /// The object, with everything in it relied on.
    pub fn known_data(&mut self, value: &Val) -> R<Obj> {
        let object = self.settled(value);
        self.recorded(|rec| rec.know_whole(&object, &mut BUDGET.clone()));
        Ok(object)
    }

    pub fn call_builtin(&mut self, name: &str, args: Vec<Val>) -> R<Called> {
        let function = self.builtin(name)?;
        self.call(&function.into(), Args::positional(args))
    }

    // Torch.

    pub fn torch_operator(&mut self, name: &str, args: &[Val]) -> R<Called> {
        let function = self.operator(name)?;
        self.torch_call(Shadow::Function(function.clone()), &function.into(), Args::positional(args.to_vec()))
    }

    /// Records a torch call, or does it behind a break.
    pub fn torch_call(&mut self, callee: Shadow, callable: &Val, args: Args) -> R<Called> {
        let name = callee.name();
        if name == "requires_grad_"
            && let Some(tensor) = self.set_requires_grad(&args)?
        {
            return Ok(Called::Value(tensor));
        }
        if name == "storage_offset"
            && let [tensor] = &args.positional[..]
            && let Some(offset) = self.storage_offset(tensor)?
        {
            return Ok(Called::Value(offset));
        }
        if let Some(read) = self.rec.as_ref().and_then(|rec| Read::by(rec, &name, &args)) {
            return self.read(callable, args, read, &format!("{name}, of which the values of a tensor decide the result"));
        }
        if name == "detach_" {
            self.refuse_view(&args)?;
        }
        if let (Some(rec), "set_", Some(tensor)) = (&mut self.rec, name.as_str(), args.positional.first()) {
            rec.restate(&tensor.obj);
        }
        if DONE_FOR_REAL.contains(&name.as_str()) {
            return self.opaque_call(callable, args, &format!("{name} looks at a tensor's values or memory"));
        }
        self.refuse_numbers(&name, &callable.obj, &args)?;
        let may_fail = self.may_fail(&callee, &args);
        if may_fail && self.must_be_seen(&callee, callable, &args)? {
            return self.opaque_call(callable, args, &format!("{name}, which fails for some values, in a try statement"));
        }
        match self.record_torch(&callee, &args, may_fail)? {
            Ok(value) => Ok(Called::Value(value)),
            Err(Refused { why, read: Some(read), .. }) if self.rec.is_some() => self.read(callable, args, read, &why),
            Err(Refused { why, wants_number, .. }) => {
                let read = if wants_number { self.with_numbers_read(&callee, callable, &args)? } else { None };
                read.map_or_else(|| self.opaque_call(callable, args, &why), Ok)
            }
        }
    }

    /// Records a torch call, or says why it cannot be. One that may fail is done even if nobody needs its result.
    pub fn record_torch(&mut self, callee: &Shadow, args: &Args, may_fail: bool) -> R<Result<Val, Refused>> {
        let name = callee.name();
        let mut positional = Vec::with_capacity(args.positional.len());
        for (n, arg) in args.positional.iter().enumerate() {
            positional.push(self.for_graph(&name, Place::Position(n), arg));
        }
        let mut keywords = Vec::with_capacity(args.keywords.len());
        for (key, arg) in &args.keywords {
            let place = key.to_str().unwrap_or_default();
            keywords.push((key.clone(), self.for_graph(&name, Place::Keyword(&place), arg)));
        }
        let (location, regions) = (self.torch_location(), self.regions());
        let Some(rec) = self.rec.as_mut() else { return Ok(Err(Refused::default())) };
        // Where Rust code waits for a frame nothing can stand between.
        rec.graph.may_stand_apart = self.waiting == 0 && regions.is_none();
        rec.graph.regions = regions;
        let recorded = rec.torch_call(callee, &positional, &keywords, &location);
        rec.graph.may_stand_apart = false;
        match recorded {
            Ok(value) => {
                if may_fail {
                    rec.must_run(&value.obj);
                }
                Ok(Ok(value))
            }
            Err(NotRecorded::Raise(error)) => Err(error),
            Err(NotRecorded::Break(why)) => Ok(Err(Refused { why, ..Refused::default() })),
            Err(NotRecorded::Number(why)) => Ok(Err(Refused { why, wants_number: true, read: None })),
            Err(NotRecorded::Decided(_)) => {
                let why = format!("{name}, of which the values of a tensor decide the result");
                Ok(Err(Refused { why, read: Some(Read::Sizes), ..Refused::default() }))
            }
            Err(NotRecorded::Varying) => {
                Ok(Err(Refused { why: of_varying(&name), read: Some(Read::Like(self.varying_in(args))), ..Refused::default() }))
            }
            Err(NotRecorded::ByTorch(why)) => {
                Ok(Err(Refused { why: format!("{name}, {why}"), read: Some(self.read_by_torch(args)), ..Refused::default() }))
            }
            Err(NotRecorded::Abandon(why)) => {
                self.give_up(&why);
                Ok(Err(Refused { why, ..Refused::default() }))
            }
        }
    }

    /// The sizes of the result vary as those of the arguments do.
    fn read_by_torch(&mut self, args: &Args) -> Read {
        let varying = self.varying_in(args);
        if varying.is_empty() { Read::Nothing } else { Read::Like(varying) }
    }

    /// An argument of a torch call. The value of a number is relied on, unless the graph can be given it with every call.
    fn for_graph(&mut self, function: &str, place: Place<'_>, arg: &Val) -> Val {
        if let Some(value) = self.row_for_graph(function, place, arg).or_else(|| self.size_for_graph(arg)) {
            return value;
        }
        let is_free = arg.free.is_some() && takes_number(function, place);
        // Whole powers are computed by other means than a general one.
        let is_whole_power = arg.obj.class_is(types().int) && function.contains("pow");
        if is_free && !is_whole_power && self.rec.as_ref().is_some_and(|rec| rec.is_run_time(arg).is_some()) {
            return arg.clone();
        }
        self.settled(arg).into()
    }

    /// As FX writes it.
    fn torch_location(&self) -> String {
        super::users_frame(&self.frames).map_or(String::new(), |(_, frame)| {
            let at = frame.pc.saturating_sub(1);
            format!("  File \"{}\", line {}, in {}\n", frame.code.file, frame.code.line(at), frame.code.name)
        })
    }

    /// `x.shape`, `x.T`
    pub fn tensor_field(&mut self, object: &Val, name: &Obj) -> R<Called> {
        self.note_line();
        let (location, regions) = (self.torch_location(), self.regions());
        let getattr = self.builtin("getattr")?;
        let args = Args::positional(vec![object.clone(), name.clone().into()]);
        let Some(rec) = self.rec.as_mut() else { return self.opaque_call(&getattr.into(), args, "") };
        rec.graph.may_stand_apart = self.waiting == 0 && regions.is_none();
        rec.graph.regions = regions;
        let recorded = rec.tensor_attribute(&object.obj, name, &location);
        rec.graph.may_stand_apart = false;
        match recorded {
            Ok(value) => Ok(Called::Value(value)),
            Err(NotRecorded::Raise(error)) => Err(error),
            Err(NotRecorded::Break(why) | NotRecorded::Decided(why) | NotRecorded::Number(why)) => {
                self.opaque_call(&getattr.into(), args, &why)
            }
            Err(NotRecorded::Varying) => {
                let read = Read::Like(self.varying_in(&args));
                self.read(&getattr.into(), args, read, &of_varying(&name.to_str().unwrap_or_default()))
            }
            Err(NotRecorded::ByTorch(why)) => {
                let read = self.read_by_torch(&args);
                self.read(&getattr.into(), args, read, &format!("{}, {why}", name.to_str().unwrap_or_default()))
            }
            Err(NotRecorded::Abandon(why)) => {
                self.give_up(&why);
                self.opaque_call(&getattr.into(), args, &why)
            }
        }
    }

    /// A function of the operator module that nobody can see into, for its value at once.
    pub fn opaque_now(&mut self, name: &str, args: &[Val], why: &str) -> R<Val> {
        let function = self.operator(name)?;
        self.now(|vm| vm.opaque_call(&function.into(), Args::positional(args.to_vec()), why))
    }
}

fn of_varying(name: &str) -> String {
    format!("{name}, of which nobody says what it does with sizes that vary")
}

pub fn keywords(kwargs: &[(Obj, Val)]) -> R<Option<Obj>> {
    if kwargs.is_empty() {
        return Ok(None);
    }
    let dict = pyo3::types::PyDict::new(py());
    for (key, value) in kwargs {
        dict.set_item(key.bind(), value.obj.bind())?;
    }
    Ok(Some(dict.into()))
}
