//! One instruction.

use super::{Args, Called, Flow, R, Vm};
use crate::obj::{Obj, list_of, py};
use crate::record::Val;
use crate::types::types;
use ox_bytecode::{Condition, Const, Conversion, FunctionAttribute, Instruction, Intrinsic1, Label, Local, Name, UnaryOp};
use pyo3::exceptions::{PyNameError, PyRuntimeError, PyUnboundLocalError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};

impl Vm {
    pub fn step(&mut self) -> R<Flow> {
        let frame = self.frame();
        let instruction = frame.code.code.instructions[frame.pc];
        frame.pc += 1;
        self.execute(instruction)
    }

    fn constant(&mut self, n: Const) -> Obj {
        self.frame().code.consts[n.index()].clone()
    }

    fn name(&mut self, n: Name) -> Obj {
        self.frame().code.names[n.index()].clone()
    }

    fn execute(&mut self, instruction: Instruction) -> R<Flow> {
        use Instruction::*;
        match instruction {
            PopTop => drop(self.pop_slot()),
            PushNull => self.push_slot(None),
            Copy(n) => {
                let stack = &mut self.frame().stack;
                let slot = stack[stack.len() - n as usize].clone();
                stack.push(slot);
            }
            Swap(n) => {
                let stack = &mut self.frame().stack;
                let top = stack.len() - 1;
                stack.swap(top, top + 1 - n as usize);
            }
            LoadConst(n) => {
                let object = self.constant(n);
                self.push(object);
            }
            LoadFast(n) => self.load_fast(n)?,
            StoreFast(n) => {
                let slot = self.pop_slot();
                self.frame().locals[n.index()] = slot;
            }
            DeleteFast(n) => {
                if self.frame().locals[n.index()].take().is_none() {
                    return Err(self.unbound(n));
                }
            }
            LoadFastAndClear(n) => {
                let slot = self.frame().locals[n.index()].take();
                self.push_slot(slot);
            }
            MakeCell(n) => self.make_cell(n)?,
            CopyFreeVars(n) => self.copy_free_vars(n as usize)?,
            LoadDeref(n) => {
                let value = self.load_cell(n)?;
                self.push(value);
            }
            StoreDeref(n) => self.store_cell(n)?,
            DeleteDeref(n) => self.delete_cell(n)?,
            LoadGlobal(n) => {
                let name = self.name(n);
                let value = self.load_global(&name)?;
                self.push(value);
            }
            StoreGlobal(n) => {
                let (name, value) = (self.name(n), self.pop());
                let globals = self.frame().globals.clone();
                self.pinned(globals.clone());
                self.store_item(&globals.into(), &name.into(), value)?;
            }
            DeleteGlobal(n) => {
                let name = self.name(n);
                let globals = self.frame().globals.clone();
                self.pinned(globals.clone());
                if crate::obj::dict_get(&globals, &name).is_none() {
                    self.recorded(|rec| rec.check_no_key(&globals, &name));
                    return Err(self.name_error(&name));
                }
                self.delete_item(&globals.into(), &name.into())?;
            }
            LoadBuildClass => {
                let builtins = self.frame().builtins.clone();
                self.push(Obj::from(builtins.bind().get_item("__build_class__")?));
            }
            LoadAssertionError => self.push(Obj::from(py().get_type::<pyo3::exceptions::PyAssertionError>())),
            LoadAttr(n) => return self.op_load_attr(n),
            LoadMethod(n) => return self.op_load_method(n),
            StoreAttr(n) => {
                let (object, value, name) = (self.pop(), self.pop(), self.name(n));
                let called = self.store_attr(&object, &name, value)?;
                self.drop_result(called);
            }
            DeleteAttr(n) => {
                let (object, name) = (self.pop(), self.name(n));
                self.delete_attr(&object, &name)?;
            }
            LoadSuperAttr { name, method, arguments } => return self.op_load_super(name, method, arguments),
            BinarySubscr => {
                let (key, object) = (self.pop(), self.pop());
                let called = self.load_item(&object, &key)?;
                return self.take(called);
            }
            StoreSubscr => {
                let (key, object, value) = (self.pop(), self.pop(), self.pop());
                let called = self.store_item(&object, &key, value)?;
                self.drop_result(called);
            }
            DeleteSubscr => {
                let (key, object) = (self.pop(), self.pop());
                let called = self.delete_item(&object, &key)?;
                self.drop_result(called);
            }
            BuildSlice(n) => self.build_slice(n as usize)?,
            Unary(op) => {
                let value = self.pop();
                if op == UnaryOp::Not
                    && let Some(flow) = self.ask_tensor(&value)?
                {
                    return Ok(flow);
                }
                let called = self.unary(op, &value)?;
                return self.take(called);
            }
            Binary { op, in_place } => {
                let (right, left) = (self.pop(), self.pop());
                let called = self.binary(op, in_place, &left, &right)?;
                return self.take(called);
            }
            Compare(op) => {
                let (right, left) = (self.pop(), self.pop());
                let called = self.compare(op, &left, &right)?;
                return self.take(called);
            }
            Is { negated } => {
                let (right, left) = (self.pop(), self.pop());
                let same = self.is_same(&left, &right);
                self.push(Obj::bool(same != negated));
            }
            Contains { negated } => return self.op_contains(negated),
            ToBool => {
                let value = self.pop();
                if let Some(flow) = self.ask_tensor(&value)? {
                    return Ok(flow);
                }
                let truth = self.truth(&value)?;
                self.push(Obj::bool(truth));
            }
            BuildTuple(n) => {
                let values = self.pop_many(n as usize);
                let tuple = self.argument_tuple(values)?;
                self.push(tuple);
            }
            BuildList(n) => {
                let values = self.pop_many(n as usize);
                let list = self.list(&values)?;
                self.push(list);
            }
            BuildSet(n) => {
                let items: Vec<Obj> = self.pop_settled(n as usize);
                let set = PySet::empty(py())?;
                for item in items {
                    set.add(item.bind())?;
                }
                let set = self.made(set.into());
                self.push(set);
            }
            BuildMap(n) => {
                let items = self.pop_many(2 * n as usize);
                let entries: Vec<(Obj, Val)> = items.chunks(2).map(|pair| (self.settled(&pair[0]), pair[1].clone())).collect();
                let dict = self.argument_dict(&entries)?;
                self.push(dict);
            }
            BuildConstKeyMap(n) => {
                let keys = self.pop();
                let items = self.pop_many(n as usize);
                let entries: Vec<(Obj, Val)> = crate::obj::items_of(&keys.obj).into_iter().zip(items).collect();
                let dict = self.argument_dict(&entries)?;
                self.push(dict);
            }
            BuildString(n) => {
                let items = self.pop_settled(n as usize);
                let joined = Obj::str("").attr("join")?.call(&[list_of(&items)?], None)?;
                self.push(joined);
            }
            ListAppend(n) => {
                let value = self.pop();
                let list = self.peek(n as usize);
                self.append(&list, &value)?;
            }
            SetAdd(n) => {
                let value = self.pop();
                let (set, item) = (self.peek(n as usize), self.settled(&value));
                self.grow(&set, "add", &[item])?;
            }
            MapAdd(n) => {
                let (value, key) = (self.pop(), self.pop());
                let (value, key, dict) = (self.settled(&value), self.settled(&key), self.peek(n as usize));
                self.grow(&dict, "__setitem__", &[key, value])?;
            }
            ListExtend(n) => {
                if self.collect_first(None)? {
                    return Ok(Flow::Next);
                }
                let iterable = self.pop();
                let items = self.iterate_all(&iterable)?;
                let list = self.peek(n as usize);
                for item in &items {
                    self.append(&list, item)?;
                }
            }
            SetUpdate(n) => {
                if self.collect_first(None)? {
                    return Ok(Flow::Next);
                }
                let iterable = self.pop();
                let items = self.iterate_all(&iterable)?;
                let set = self.peek(n as usize);
                for item in &items {
                    let item = self.settled(item);
                    self.grow(&set, "add", &[item])?;
                }
            }
            DictUpdate(n) => {
                let mapping = self.pop();
                let entries = self.mapping_items(&mapping)?;
                let dict = self.peek(n as usize);
                for (key, value) in &entries {
                    let value = self.settled(value);
                    self.grow(&dict, "__setitem__", &[key.clone(), value])?;
                }
            }
            DictMerge(n) => self.dict_merge(n as usize)?,
            UnpackSequence(n) => self.unpack(n as usize)?,
            UnpackEx { before, after } => self.unpack_ex(before as usize, after as usize)?,
            ConvertValue(conversion) => return self.op_convert(conversion),
            FormatSimple => {
                let value = self.pop();
                return self.format(&value, None);
            }
            FormatWithSpec => {
                let (spec, value) = (self.pop(), self.pop());
                return self.format(&value, Some(&spec));
            }
            Call { arguments, keywords } => return self.op_call(arguments as usize, keywords),
            CallFunctionEx { keywords } => return self.op_call_ex(keywords),
            MakeFunction => self.make_function()?,
            SetFunctionAttribute(attribute) => self.set_function_attribute(attribute)?,
            CallIntrinsic1(intrinsic) => self.intrinsic(intrinsic)?,
            Jump(Label(label)) => {
                let label = label as usize;
                if label < self.frame().pc {
                    self.breathe()?;
                }
                self.frame().pc = label;
            }
            JumpIf { condition, label } => return self.op_jump_if(condition, label),
            GetIter => {
                let value = self.pop();
                let called = self.iter(&value)?;
                return self.take(called);
            }
            ForIter(Label(label)) => return self.for_iter(label as usize),
            ReturnValue => return Ok(Flow::Return(self.pop())),
            ReturnGenerator => return self.return_generator(),
            YieldValue => return Ok(Flow::Yield(self.pop())),
            Resume(_) => self.breathe()?,
            GetYieldFromIter => {
                let value = self.pop();
                if value.obj.bind().is_instance_of::<super::VmGenerator>() {
                    self.push(value);
                } else {
                    let called = self.iter(&value)?;
                    return self.take(called);
                }
            }
            Send(Label(label)) => return self.send(label as usize),
            CleanupThrow => self.cleanup_throw()?,
            PushExcInfo => self.push_exc_info(),
            PopExcept => self.pop_except(),
            CheckExcMatch => self.check_exc_match()?,
            Raise(n) => return self.raise(n as usize),
            Reraise(n) => return self.reraise(n as usize),
            BeforeWith => return self.before_with(),
            WithExceptStart => return self.with_except_start(),
            GetLen => {
                let object = self.peek(1);
                let len = self.pure_by_name("len", &[object.into()])?;
                self.push(len);
            }
            MatchKeys => {
                let (keys, subject) = (self.peek(1), self.peek(2));
                let called = self.call_library("match_keys", vec![subject.into(), keys.into()])?;
                return self.take(called);
            }
            MatchClass(n) => {
                let (names, class, subject) = (self.pop(), self.pop(), self.pop());
                let called = self.call_library("match_class", vec![subject, class, names, Obj::int(n.into()).into()])?;
                return self.take(called);
            }
            CheckEgMatch => self.check_group_match()?,
            CallIntrinsic2(_) => {
                let (raised, original) = (self.pop(), self.pop());
                let left = super::library::function("end_of_groups")?.call(&[original.obj, raised.obj], None)?;
                self.made_group(&left);
                self.push(left);
            }
            MatchMapping | MatchSequence => self.match_kind(instruction == MatchMapping)?,
            ImportName(n) => self.import_name(n)?,
            ImportFrom(n) => self.import_from(n)?,
            other => return Err(PyRuntimeError::new_err(format!("oxytorch: {other:?} was let through"))),
        }
        Ok(Flow::Next)
    }

    /// A call's value is pushed, now or when its frame returns.
    pub fn take(&mut self, called: Called) -> R<Flow> {
        if let Called::Value(value) = called {
            self.push(value);
        }
        Ok(Flow::Next)
    }

    pub fn pop_settled(&mut self, count: usize) -> Vec<Obj> {
        let values = self.pop_many(count);
        values.iter().map(|v| self.settled(v)).collect()
    }

    /// The object `n` below the top, which is 1.
    fn peek(&mut self, n: usize) -> Obj {
        let stack = &self.frame().stack;
        stack[stack.len() - n].as_ref().expect("a value").obj.clone()
    }

    /// A container that this code is filling gets something. If it lived through a break, later calls find it as it was there, and do this
    /// again.
    pub fn list(&mut self, values: &[Val]) -> R<Val> {
        let items = self.all_but_sizes(values);
        let list = list_of(&items)?;
        let made = self.made(list.clone());
        self.keep_sizes(&list, 0, values);
        Ok(made)
    }

    /// `list.append`. What others see is given the number itself.
    fn append(&mut self, list: &Obj, value: &Val) -> R<()> {
        let is_ours = self.is_ours(list);
        let item = if is_ours { self.settled_but_sizes(value) } else { self.settled(value) };
        let at = list.bind().len()?;
        self.grow(list, "append", &[item])?;
        if is_ours {
            self.keep_sizes(list, at, std::slice::from_ref(value));
        }
        Ok(())
    }

    fn grow(&mut self, container: &Obj, method: &str, args: &[Obj]) -> R<()> {
        let function = container.class().attr(method)?;
        let objects = [std::slice::from_ref(container), args].concat();
        if matches!(self.origin(container), crate::record::Origin::Outside(_))
            && let Some(rec) = &mut self.rec
        {
            rec.tell_apart(container);
            rec.note_change(function.clone(), objects.iter().cloned().map(Val::from).collect());
            match method {
                "__setitem__" => {
                    rec.mark_keys_changed(container);
                    rec.mark_written(container, &args[0]);
                }
                _ => rec.mark_opaque(container),
            }
        }
        function.call(&objects, None).map(drop)
    }

    fn unbound(&mut self, n: Local) -> PyErr {
        let name = self.frame().code.code.variables[n.index()].name.clone();
        PyUnboundLocalError::new_err(format!("cannot access local variable '{name}' where it is not associated with a value"))
    }

    fn load_fast(&mut self, n: Local) -> R<()> {
        match self.frame().locals[n.index()].clone() {
            Some(value) => self.push(value),
            None => return Err(self.unbound(n)),
        }
        Ok(())
    }

    fn op_jump_if(&mut self, condition: Condition, Label(label): Label) -> R<Flow> {
        let value = self.pop();
        if matches!(condition, Condition::True | Condition::False)
            && let Some(flow) = self.ask_tensor(&value)?
        {
            return Ok(flow);
        }
        let jump = match condition {
            Condition::None => value.obj.is_none(),
            Condition::NotNone => !value.obj.is_none(),
            Condition::True | Condition::False => self.truth(&value)? == (condition == Condition::True),
        };
        if jump {
            if (label as usize) < self.frame().pc {
                self.breathe()?;
            }
            self.frame().pc = label as usize;
        }
        Ok(Flow::Next)
    }

    /// The truth of a tensor is asked for by a break, that of the program's objects in a frame; then the instruction comes again, with the
    /// answer on the stack.
    fn ask_tensor(&mut self, value: &Val) -> R<Option<Flow>> {
        if let Some(called) = self.truth_by_method(value)? {
            return self.again(called).map(Some);
        }
        if self.rec.is_none() || !super::operators::is_tensor(&value.obj) {
            return Ok(None);
        }
        let truth = self.operator("truth")?;
        self.frame().pc -= 1;
        let called = self.opaque_call(&truth.into(), Args::positional(vec![value.clone()]), "the truth of a tensor")?;
        self.take(called).map(Some)
    }

    fn op_call(&mut self, count: usize, keywords: Option<Const>) -> R<Flow> {
        let mut positional = self.pop_many(count);
        let (second, first) = (self.pop_slot(), self.pop_slot());
        let mut args = Args::default();
        if let Some(names) = keywords {
            let names = crate::obj::items_of(&self.constant(names));
            let values = positional.split_off(positional.len() - names.len());
            args.keywords = names.into_iter().zip(values).collect();
        }
        let callable = match (first, second) {
            (Some(function), Some(this)) => {
                positional.insert(0, this);
                function
            }
            (_, Some(callable)) => callable,
            (Some(callable), None) => callable,
            (None, None) => return Err(PyRuntimeError::new_err("oxytorch: a call of nothing")),
        };
        args.positional = positional;
        let called = self.call(&callable, args)?;
        self.take(called)
    }

    fn op_call_ex(&mut self, keywords: bool) -> R<Flow> {
        if !keywords && self.collect_first(None)? {
            return Ok(Flow::Next);
        }
        let mapping = if keywords { Some(self.pop()) } else { None };
        let (positional, callable) = (self.pop(), self.pop());
        self.pop_slot();
        if types().is_scalar(&positional.obj) && !positional.obj.class_is(types().str) && !positional.obj.class_is(types().bytes)
        {
            let (name, class) = (called_name(&callable.obj), positional.obj.class_name());
            let text = format!("{name} argument after * must be an iterable, not {class}");
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        let args = self.spread(&positional, mapping.as_ref())?;
        let called = self.call(&callable, args)?;
        self.take(called)
    }

    fn make_cell(&mut self, n: Local) -> R<()> {
        let content = self.frame().locals[n.index()].take();
        let content = content.map(|value| self.settled(&value));
        // SAFETY: a new cell with a live object or nothing.
        let cell = unsafe { Obj::owned(ffi::PyCell_New(content.as_ref().map_or(std::ptr::null_mut(), |c| c.ptr())))? };
        let cell = self.made(cell);
        self.frame().locals[n.index()] = Some(cell);
        Ok(())
    }

    fn build_slice(&mut self, n: usize) -> R<()> {
        let values = self.pop_many(n);
        let slice = self.slice(&values)?;
        self.push(slice);
        Ok(())
    }

    /// Of a start, an end, and perhaps a step.
    pub fn slice(&mut self, values: &[Val]) -> R<Val> {
        let mut parts = self.all_but_sizes(values);
        parts.resize(3, Obj::none());
        // SAFETY: three live objects.
        let slice = unsafe { Obj::owned(ffi::PySlice_New(parts[0].ptr(), parts[1].ptr(), parts[2].ptr()))? };
        for (name, value) in ["start", "stop", "step"].iter().zip(values) {
            if self.is_size(value) {
                self.stow(&slice, Obj::str(name), value);
            }
        }
        Ok(slice.into())
    }

    fn dict_merge(&mut self, n: usize) -> R<()> {
        let mapping = self.pop();
        let entries = self.mapping_items(&mapping)?;
        let dict = self.peek(n);
        for (key, value) in &entries {
            if dict.bind().contains(key.bind())? {
                let function = self.peek(n + 2);
                let text = format!("{} got multiple values for keyword argument {}", called_name(&function), key.text());
                return Err(pyo3::exceptions::PyTypeError::new_err(text));
            }
            self.grow(&dict, "__setitem__", &[key.clone(), value.obj.clone()])?;
            self.stow(&dict, key.clone(), value);
        }
        Ok(())
    }

    fn unpack(&mut self, n: usize) -> R<()> {
        if self.collect_first(Some(n + 1))? {
            return Ok(());
        }
        let value = self.pop();
        let is_scalar = types().is_scalar(&value.obj) && !value.obj.class_is(types().str) && !value.obj.class_is(types().bytes);
        if is_scalar {
            let text = format!("cannot unpack non-iterable {} object", value.obj.class_name());
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        let items = self.iterate_all(&value)?;
        if items.len() != n {
            let text = match items.len() < n {
                true => format!("not enough values to unpack (expected {n}, got {})", items.len()),
                false => format!("too many values to unpack (expected {n})"),
            };
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        items.into_iter().rev().for_each(|item| self.push(item));
        Ok(())
    }

    fn unpack_ex(&mut self, before: usize, after: usize) -> R<()> {
        if self.collect_first(None)? {
            return Ok(());
        }
        let value = self.pop();
        let mut items = self.iterate_all(&value)?;
        if items.len() < before + after {
            let text = format!("not enough values to unpack (expected at least {}, got {})", before + after, items.len());
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        let tail = items.split_off(items.len() - after);
        let middle = items.split_off(before);
        tail.into_iter().rev().for_each(|item| self.push(item));
        let middle = self.list(&middle)?;
        self.push(middle);
        items.into_iter().rev().for_each(|item| self.push(item));
        Ok(())
    }

    fn op_convert(&mut self, conversion: Conversion) -> R<Flow> {
        let value = self.pop();
        let called = self.call_builtin(conversion.text(), vec![value])?;
        self.take(called)
    }

    fn format(&mut self, value: &Val, spec: Option<&Val>) -> R<Flow> {
        if spec.is_none() && value.obj.class_is(types().str) {
            self.push(value.clone());
            return Ok(Flow::Next);
        }
        let mut args = vec![value.clone()];
        args.extend(spec.cloned());
        let called = self.call_builtin("format", args)?;
        self.take(called)
    }

    fn make_function(&mut self) -> R<()> {
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

    fn set_function_attribute(&mut self, attribute: FunctionAttribute) -> R<()> {
        let (function, value) = (self.pop(), self.pop());
        let object = self.settled(&value);
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
                function.obj.bind().setattr("__annotations__", dict)?;
            }
        }
        self.push(function);
        Ok(())
    }

    fn intrinsic(&mut self, intrinsic: Intrinsic1) -> R<()> {
        let value = self.pop();
        match intrinsic {
            Intrinsic1::ListToTuple => {
                let items = self.items_made_here(&value.obj);
                let tuple = self.tuple(items)?;
                self.push(tuple);
            }
            Intrinsic1::StopIterationError => {
                let error = self.stop_iteration_error(&value.obj)?;
                self.push(error);
            }
            other => return Err(PyRuntimeError::new_err(format!("oxytorch: the intrinsic {other} outside of a module"))),
        }
        Ok(())
    }

    fn match_kind(&mut self, mapping: bool) -> R<()> {
        let object = self.peek(1);
        let flag = if mapping { 1 << 6 } else { 1 << 5 };
        // SAFETY: a live type.
        let matches = unsafe { ffi::PyType_HasFeature(object.class_ptr(), flag) != 0 };
        self.push(Obj::bool(matches));
        Ok(())
    }

    fn import_name(&mut self, n: Name) -> R<()> {
        let (names, level, name) = (self.pop(), self.pop(), self.name(n));
        let globals = self.frame().globals.clone();
        let import = Obj::from(self.frame().builtins.clone().bind().get_item("__import__")?);
        let module = import.call(&[name, globals, Obj::none(), names.obj, level.obj], None)?;
        let module = self.pinned(module);
        self.push(module);
        Ok(())
    }

    fn import_from(&mut self, n: Name) -> R<()> {
        let (module, name) = (self.peek(1), self.name(n));
        let value = match self.now(|vm| vm.load_attr(&module.clone().into(), &name)) {
            Ok(value) => value,
            Err(_) => {
                let full = format!("{}.{}", module.attr("__name__")?.bind(), name.bind());
                match py().import("sys")?.getattr("modules")?.get_item(&full) {
                    Ok(found) => self.pinned(found.into()),
                    Err(_) => {
                        let text = format!("cannot import name {} from '{}'", name.text(), module.attr("__name__")?.bind());
                        return Err(pyo3::exceptions::PyImportError::new_err(text));
                    }
                }
            }
        };
        self.push(value);
        Ok(())
    }

    pub fn name_error(&self, name: &Obj) -> PyErr {
        PyNameError::new_err(format!("name '{}' is not defined", name.bind()))
    }
}

/// How CPython names what `f(*args, **kwargs)` calls: with its module, unless that is the built-ins'.
fn called_name(callable: &Obj) -> String {
    let text = |name: &str| callable.attr(name).ok().and_then(|part| part.to_str());
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) if module != "builtins" => format!("{module}.{name}()"),
        (_, Some(name)) => format!("{name}()"),
        _ => callable.text(),
    }
}
