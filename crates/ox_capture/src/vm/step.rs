//! One instruction.

use super::{Called, Flow, R, Vm};
use crate::obj::{Obj, py};
use crate::record::Val;
use ox_bytecode::{Const, Instruction, Label, Local, Name, UnaryOp};
use pyo3::exceptions::{PyRuntimeError, PyUnboundLocalError};
use pyo3::prelude::*;

impl Vm {
    pub fn step(&mut self) -> R<Flow> {
        let frame = self.frame();
        let instruction = frame.code.code.instructions[frame.pc];
        frame.pc += 1;
        self.execute(instruction)
    }

    pub(super) fn constant(&mut self, n: Const) -> Obj {
        self.frame().code.consts[n.index()].clone()
    }

    pub(super) fn name(&mut self, n: Name) -> Obj {
        self.frame().code.names[n.index()].clone()
    }

    fn execute(&mut self, instruction: Instruction) -> R<Flow> {
        use Instruction::*;
        if self.has_texts {
            self.settle_texts(&instruction);
        }
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
                self.class_is_made();
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
                let called = self.delete_attr(&object, &name)?;
                self.drop_result(called);
            }
            LoadSuperAttr { name, method, arguments } => return self.op_load_super(name, method, arguments),
            BinarySubscr => {
                if self.read_bounds_first()? {
                    return Ok(Flow::Next);
                }
                let (key, object) = (self.pop(), self.pop());
                let called = self.load_item(&object, &key)?;
                return self.take(called);
            }
            StoreSubscr => {
                if self.read_bounds_of_store()? {
                    return Ok(Flow::Next);
                }
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
            Compare(op) => return self.op_compare(op),
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
                let items: Vec<Obj> = self.pop_many(n as usize).iter().map(|item| self.as_key(item)).collect();
                let called = self.build_set(&items)?;
                return self.take(called);
            }
            BuildMap(n) => {
                let items = self.pop_many(2 * n as usize);
                let entries: Vec<(Obj, Val)> = items.chunks(2).map(|pair| (self.as_key(&pair[0]), pair[1].clone())).collect();
                let called = self.build_dict(&entries)?;
                return self.take(called);
            }
            BuildConstKeyMap(n) => {
                let keys = self.pop();
                let items = self.pop_many(n as usize);
                let entries: Vec<(Obj, Val)> = crate::obj::items_of(&keys.obj).into_iter().zip(items).collect();
                let dict = self.argument_dict(&entries)?;
                self.push(dict);
            }
            BuildString(n) => {
                let items = self.pop_many(n as usize);
                let joined = self.joined_texts(&items)?;
                self.push(joined);
            }
            ListAppend(n) => {
                let value = self.pop();
                let list = self.display(n as usize, std::slice::from_ref(&value))?;
                self.append(&list, &value)?;
            }
            SetAdd(n) => {
                let value = self.pop();
                let (set, item) = (self.peek(n as usize), self.as_key(&value));
                self.add_members(&set, vec![item])?;
            }
            MapAdd(n) => {
                let (value, key) = (self.pop(), self.pop());
                let (key, dict) = (self.as_key(&key), self.peek(n as usize));
                self.add_entries(&dict, &[(key, value)])?;
            }
            ListExtend(n) => {
                if self.collect_first(None)? {
                    return Ok(Flow::Next);
                }
                let iterable = self.pop();
                if !super::iterate::is_iterable(&iterable.obj) {
                    let text = format!("Value after * must be an iterable, not {}", iterable.obj.type_name());
                    return Err(pyo3::exceptions::PyTypeError::new_err(text));
                }
                let items = self.iterate_all(&iterable)?;
                let list = self.display(n as usize, &items)?;
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
                let items = items.iter().map(|item| self.as_key(item)).collect();
                self.add_members(&set, items)?;
            }
            DictUpdate(n) => {
                let mapping = self.pop();
                if super::build::is_no_mapping(&mapping.obj) {
                    let text = format!("'{}' object is not a mapping", mapping.obj.type_name());
                    return Err(pyo3::exceptions::PyTypeError::new_err(text));
                }
                let entries = self.mapping_items(&mapping)?;
                let dict = self.peek(n as usize);
                self.add_entries(&dict, &entries)?;
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
            CallIntrinsic1(intrinsic) => return self.intrinsic(intrinsic),
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
                let len = self.builtin("len")?.into();
                let called = self.len(&len, &object.into())?;
                return self.take(called);
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
    pub(super) fn peek(&mut self, n: usize) -> Obj {
        let stack = &self.frame().stack;
        stack[stack.len() - n].as_ref().expect("a value").obj.clone()
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
}
