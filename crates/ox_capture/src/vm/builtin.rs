//! Built-in functions, as the machine does them.

use super::{Args, Called, R, Vm};
use crate::builtins::{Known, is_of_torch};
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, py};
use crate::record::grad::GradMode;
use crate::record::{Origin, Val};
use crate::state::Autocast;
use crate::types::types;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

impl Vm {
    pub fn builtin_call(&mut self, known: Known, callable: &Val, args: Args) -> R<Called> {
        let positional = args.positional.clone();
        let native = |vm: &mut Vm, why: &str| vm.opaque_call(callable, args.clone(), why);
        let value = match (known, &positional[..]) {
            (Known::Len, [object]) => return self.len(callable, object),
            (Known::IsInstance | Known::IsSubclass, [object, class]) => return self.is_kind(known, callable, object, class),
            (Known::Callable, [object]) => callable.obj.call(std::slice::from_ref(&object.obj), None)?.into(),
            (Known::HasAttr, [object, name]) => {
                let name = self.settled(name);
                Obj::bool(self.try_attr(object, &name)?.is_some()).into()
            }
            (Known::GetAttr, [object, name]) => {
                let name = self.settled(name);
                return self.load_attr(object, &name);
            }
            (Known::GetAttr, [object, name, default]) => {
                let name = self.settled(name);
                match self.try_attr(object, &name)? {
                    Some(found) => found,
                    None => default.clone(),
                }
            }
            (Known::SetAttr, [object, name, value]) => {
                let name = self.settled(name);
                let called = self.store_attr(object, &name, value.clone())?;
                return Ok(self.as_none(called));
            }
            (Known::DelAttr, [object, name]) => {
                let name = self.settled(name);
                let called = self.delete_attr(object, &name)?;
                return Ok(self.as_none(called));
            }
            (Known::Next, [iterator]) => return self.next_call(callable, iterator),
            (Known::Next, [iterator, default]) => match self.is_own_iterator(&iterator.obj) {
                true => self.next_of(iterator)?.unwrap_or_else(|| default.clone()),
                false => return self.call_library("next_or", vec![iterator.clone(), default.clone()]),
            },
            (Known::Iter, [object]) => return self.iter(object),
            (Known::Iter, [function, sentinel]) => return self.call_library("until", vec![function.clone(), sentinel.clone()]),
            (Known::Any, [iterable]) => return self.call_library("is_any", vec![iterable.clone()]),
            (Known::All, [iterable]) => return self.call_library("are_all", vec![iterable.clone()]),
            (Known::Sum, [iterable, rest @ ..]) => match self.call_with_list(callable, &args, 0)? {
                Some(called) => return Ok(called),
                None => return self.sum(iterable, rest.first(), &args),
            },
            (Known::Min | Known::Max, [_, ..]) => return self.extreme(known, callable, &args),
            (Known::Sorted, [iterable]) => match self.call_with_list(callable, &args, 0)? {
                Some(called) => return Ok(called),
                None => return self.sorted(callable, iterable, &args),
            },
            (Known::Vars, [object]) if !has_dict(&object.obj) => {
                return Err(pyo3::exceptions::PyTypeError::new_err("vars() argument must have __dict__ attribute"));
            }
            (Known::Vars, [object]) => return self.load_attr(object, &Obj::str("__dict__")),
            (Known::Format, [object, ..]) => return self.format_object(callable, object, &args),
            (Known::Apply, [class, inputs @ ..]) => return self.apply_function(callable, class, inputs, &args),
            (Known::Mode, []) => callable.obj.call(&[], None)?.into(),
            (Known::Autocast, _) if args.keywords.is_empty() && is_followed(&positional) => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                let state = callable.obj.call(&objects, None)?;
                // Types are there where autocast is off, too, and come back when the program leaves it.
                let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
                let is_on = matches!(name.as_str(), "is_autocast_enabled" | "is_autocast_cpu_enabled");
                if let Some(rec) = self.rec.as_mut().filter(|rec| !is_on && !rec.autocast_is_set) {
                    rec.rely_on_state(&callable.obj, &objects, &state);
                }
                state.into()
            }
            // The autocast of other kinds of devices converts nothing here, and is a state like any.
            (Known::State | Known::Autocast, _) if args.keywords.is_empty() => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                let state = callable.obj.call(&objects, None)?;
                if !types().is_scalar(&state) {
                    return native(self, "a mode of torch's that is no plain value");
                }
                if let Some(rec) = &mut self.rec {
                    rec.rely_on_state(&callable.obj, &objects, &state);
                }
                state.into()
            }
            (Known::SetAutocast, _) if args.keywords.is_empty() && is_followed(&positional) => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                if let Some(rec) = &mut self.rec {
                    rec.note_change(callable.obj.clone(), objects.iter().cloned().map(Val::from).collect());
                    rec.autocast_is_set = true;
                }
                callable.obj.call(&objects, None)?.into()
            }
            (Known::SetMode, []) => self.pass_border(callable, &[])?,
            (Known::SetMode, [value]) => {
                let object = self.settled(value);
                if let Some(rec) = &mut self.rec {
                    rec.note_change(callable.obj.clone(), vec![object.clone().into()]);
                }
                callable.obj.call(&[object], None)?.into()
            }
            (Known::SetLibrary, _) => return self.action(callable, args, "a choice among torch's kernels", None),
            (Known::EnterMode, [manager]) => self.pass_border(callable, std::slice::from_ref(&manager.obj))?,
            (Known::LeaveMode, [manager, ..]) => {
                self.pass_border(callable, &[manager.obj.clone(), Obj::none(), Obj::none(), Obj::none()])?
            }
            (Known::No, _) if !self.has_other_tensor(&args) => Obj::bool(false).into(),
            (Known::Signature, [function])
                if args.keywords.is_empty() && self.rely_on_signature(function, &mut Vec::new())? =>
            {
                let signature = callable.obj.call(std::slice::from_ref(&function.obj), None)?;
                // Nobody changes the dict behind its parameters.
                if let Some(parameters) = signature.attr("parameters").quiet() {
                    crate::record::referents(&parameters).into_iter().for_each(|dict| drop(self.pinned(dict)));
                }
                self.pinned(signature)
            }
            (Known::ByName, names) if args.keywords.is_empty() && names.iter().all(|name| types().is_scalar(&name.obj)) => {
                let names: Vec<Obj> = names.iter().map(|name| self.settled(name)).collect();
                let found = callable.obj.call(&names, None)?;
                self.pinned(found)
            }
            (Known::IsEnabled, [_, _]) if args.keywords.is_empty() => {
                // What it answers stands in a cache of the logger's then.
                callable.obj.call(&positional.iter().map(|arg| arg.obj.clone()).collect::<Vec<_>>(), None)?;
                return self.call_function(callable, args);
            }
            (Known::Logs, [logger, ..]) => {
                return match is_enabled(logger, &callable.obj)? {
                    true => self.call_from_here(callable, args, "a function of logging"),
                    false => self.call_function(callable, args),
                };
            }
            (Known::OfCallers, _) if self.is_in_what_torch_gives_up(&args)? => {
                return self.warn_behind_graph(callable, args).map(Called::Value);
            }
            (Known::OfCallers, _) => {
                let why = format!("the function {} of C", crate::source::short(&callable.obj));
                return self.call_from_here(callable, args, &why);
            }
            (Known::Copy, _) if args.keywords.is_empty() => return self.copy(callable, args.clone()),
            (Known::SizeOf, [size, of]) => Obj::int(self.size_relation(size, of)).into(),
            (Known::Yes, _) => Obj::bool(!self.is_in_call_with_lasting_hooks()?).into(),
            (Known::Nothing, _) => Obj::none().into(),
            (Known::Itself, [first, ..]) => first.clone(),
            (Known::Value, [object]) => return self.step_value(object),
            (Known::Grouped, [_, ..]) if args.keywords.is_empty() => self.group_tensors(callable, &positional)?,
            _ => return native(self, "a built-in function with unusual arguments"),
        };
        Ok(Called::Value(value))
    }

    /// A warning with which nothing but an exception comes back: an effect like a store. Where it is raised nothing is kept: other filters would let it pass.
    fn warn_behind_graph(&mut self, warn: &Val, args: Args) -> R<Val> {
        let named = args.keywords.into_iter().map(|(_, value)| value);
        let args = Args::positional(args.positional.into_iter().chain(named).collect());
        let (from_here, args) = self.calling_from_here(warn, args)?;
        let objects: Vec<Obj> = args.positional.iter().map(|arg| arg.obj.clone()).collect();
        if let Some(rec) = &mut self.rec {
            rec.note_change(from_here.clone(), args.positional);
        }
        match from_here.call(&objects, None) {
            Err(raised) => self.stop_recording().and(Err(raised)),
            warned => warned.map(Val::from),
        }
    }

    /// Whether the innermost frame says of a function of torch's that torch will drop it, by filters that are those of the caller.
    fn is_in_what_torch_gives_up(&mut self, args: &Args) -> R<bool> {
        let frame = self.frame();
        let module = dict_get(&frame.globals, &Obj::str("__name__")).and_then(|name| name.to_str());
        let is_decorator = matches!(module.as_deref(), Some("typing_extensions" | "warnings"));
        let names: Vec<Option<String>> = args.keywords.iter().map(|(name, _)| name.to_str()).collect();
        let in_order =
            names.iter().map(Option::as_deref).eq([Some("category"), Some("stacklevel")]) && args.positional.len() == 1;
        // The `__new__` that a class has from `object` says of itself that it is `object`'s.
        let first = frame.locals.first().and_then(Option::as_ref).map(|first| &first.obj);
        let is_class_s = first.is_some_and(|class| class.is_instance_of(types().type_) && is_of_torch(class));
        let is_of_torch = is_class_s || is_of_torch(&frame.function);
        if !is_decorator || !in_order || !is_of_torch || frame.function.attr("__deprecated__").quiet().is_none() {
            return Ok(false);
        }
        let module: Obj = py().import("warnings")?.into();
        let (name, filters) = (Obj::str("filters"), module.attr("filters")?);
        Ok(self.rec.as_ref().is_some_and(|rec| !rec.is_written(&module, &name) && !rec.is_resized(&filters)))
    }

    /// Whether a module asks that has hooks which are called behind an exception, too: it leaves them out where it is compiled.
    fn is_in_call_with_lasting_hooks(&mut self) -> R<bool> {
        let of_all = Obj::str("_global_forward_hooks_always_called");
        let frame = self.frame();
        if &*frame.code.name != "_call_impl" || dict_get(&frame.globals, &of_all).is_none() {
            return Ok(false);
        }
        // It is a cell, which functions inside share.
        let module = frame.locals.first().and_then(Option::as_ref).map(|module| module.obj.clone());
        let module = module.map(|module| module.attr("cell_contents").quiet().unwrap_or(module));
        let of_all = self.load_global(&of_all)?;
        if self.truth(&of_all)? {
            return Ok(true);
        }
        let Some(module) = module else { return Ok(false) };
        match self.plain_attr(&module.into(), &Obj::str("_forward_hooks_always_called"))? {
            Called::Value(hooks) => self.truth(&hooks),
            Called::Pushed => {
                let hooks = self.finish_pushed()?;
                self.truth(&hooks)
            }
        }
    }

    /// Enters a mode, or leaves it.
    fn pass_border(&mut self, function: &Val, args: &[Obj]) -> R<Val> {
        if let Some(rec) = &mut self.rec {
            rec.note_change(function.obj.clone(), args.iter().cloned().map(Val::from).collect());
        }
        Ok(function.obj.call(args, None)?.into())
    }

    /// Relies on what the signature of a function (or a method of one) is made of. False for other objects, and for those that wrap themselves.
    fn rely_on_signature(&mut self, object: &Val, wrapping: &mut Vec<Obj>) -> R<bool> {
        let function = match object.obj.class_is(types().method) {
            true => self.member(&object.obj, "__func__")?,
            false => object.clone(),
        };
        let is_outside = matches!(self.origin(&function.obj), Origin::Const | Origin::Outside(_));
        if !function.obj.class_is(types().function) || !is_outside || wrapping.iter().any(|known| known.is(&function.obj)) {
            return Ok(false);
        }
        wrapping.push(function.obj.clone());
        let mut parts = Vec::new();
        for name in ["__defaults__", "__kwdefaults__"] {
            parts.push(self.member(&function.obj, name)?);
        }
        let hints = self.member(&function.obj, "__annotations__")?;
        self.know_all(&hints.obj);
        for (name, _) in crate::obj::entries_of(&hints.obj) {
            parts.extend(self.dict_value(&hints.obj, &name));
        }
        let wrapped = self.try_attr(&function, &Obj::str("__wrapped__"))?;
        parts.extend(self.try_attr(&function, &Obj::str("__signature__"))?);
        for part in &parts {
            self.known_data(part)?;
            self.recorded(|rec| {
                if let Origin::Outside(source) = rec.origin(&part.obj) {
                    rec.rely_on_identity(&part.obj, source);
                }
                Ok(())
            });
        }
        wrapped.map_or(Ok(true), |wrapped| self.rely_on_signature(&wrapped, wrapping))
    }

    /// A tensor of a class that changes what torch does with it.
    fn has_other_tensor(&self, args: &Args) -> bool {
        let types = types();
        let other =
            |o: &Obj| types.is_tensor(o) && !crate::lazy::is_lazy(o) && !o.class_is(types.tensor) && !o.class_is(types.parameter);
        let inside: Vec<Obj> = args.positional.iter().flat_map(|a| crate::record::tensors_in(&a.obj)).collect();
        inside.iter().any(other)
    }

    /// None if there is no such attribute.
    pub fn try_attr(&mut self, object: &Val, name: &Obj) -> R<Option<Val>> {
        let depth = self.frames.len();
        match self.now(|vm| vm.load_attr(object, name)) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_instance_of::<PyAttributeError>(crate::obj::py()) && !self.fatal => {
                self.frames.truncate(depth);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// `torch.autograd.Function.apply` where nobody asks for gradients: its `forward`, with a context that nobody reads.
    fn apply_function(&mut self, callable: &Val, class: &Val, inputs: &[Val], args: &Args) -> R<Called> {
        let function = py().import("torch.autograd.function")?;
        let plain_setup = Obj::from(function.getattr("Function")?.getattr("setup_context")?);
        let has_setup = !class.obj.attr("setup_context")?.is(&plain_setup);
        let wants_gradients = GradMode::is_on()?;
        if wants_gradients || has_setup || !args.keywords.is_empty() {
            return self.opaque_call(callable, args.clone(), "a torch.autograd.Function that may need gradients");
        }
        let context = function.getattr("FunctionCtx")?.call0()?;
        context.setattr("needs_input_grad", pyo3::types::PyTuple::new(py(), vec![false; inputs.len()])?)?;
        let context = self.made(context.into());
        self.recorded(|rec| Ok(rec.rely_on_class(&class.obj)));
        let forward = self.pinned(class.obj.attr("forward")?);
        self.call(&forward, Args::positional([&[context], inputs].concat()))
    }
}

/// Whether autocast's state is that of a kind of devices that is followed, or of all.
fn is_followed(args: &[Val]) -> bool {
    let kind = args.first().filter(|device| device.obj.class_is(types().str)).and_then(|device| device.obj.to_str());
    kind.is_none_or(|kind| Autocast::KINDS.contains(&&*kind))
}

/// Whether a logger writes what this method of it is given; false where a class of the program's decides.
fn is_enabled(logger: &Val, method: &Obj) -> R<bool> {
    let question = Obj::str("isEnabledFor");
    let asked = crate::attr::type_lookup(&logger.obj.class(), &question);
    if asked.and_then(|asked| crate::builtins::known(&asked)) != Some(Known::IsEnabled) {
        return Ok(false);
    }
    let name = method.attr("__name__")?.to_str().unwrap_or_default().to_uppercase();
    let level = py().import("logging")?.getattr(name.as_str())?;
    logger.obj.bind().call_method1("isEnabledFor", (level,))?.is_truthy()
}

/// Whether `vars()` has something to ask for.
fn has_dict(object: &Obj) -> bool {
    ["__dict__", "__getattr__"].into_iter().any(|name| crate::attr::type_lookup(&object.class(), &Obj::str(name)).is_some())
        || !crate::attr::is_generic(&object.class())
        || crate::source::instance_dict(object).is_some()
}
