//! What hangs on tensors and is found by them: gradients, and the entries of dicts whose keys are tensors, as optimizers keep them.

use super::operators::is_tensor;
use super::read::is_key;
use super::store::name_of;
use super::{Args, Called, R, Vm};
use crate::attr::type_lookup;
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, items_of};
use crate::record::{Origin, Shadow, Val, is_python_instance};
use crate::source::{Key, Source, generic_attr};
use crate::types::types;
use ox_bytecode::Instruction;
use pyo3::prelude::*;

impl Vm {
    /// A key that dicts compare without asking the program, and that is the same in every call. A tensor is its own key: later calls
    /// must come with the same one.
    pub fn is_fixed_key(&mut self, key: &Obj) -> bool {
        if is_key(key) || types().is_enum(key) || self.origin(key) == Origin::Const || self.is_known_value(key) {
            return true;
        }
        // `registry[type(p), type(q)]`
        if key.class_is(types().tuple) && self.is_ours(key) && !self.holds_sizes(key) && items_of(key).iter().all(is_key) {
            return true;
        }
        let plain = key.class_is(types().tensor) || key.class_is(types().parameter);
        let Origin::Outside(source) = self.origin(key) else { return false };
        if plain {
            self.recorded(|rec| {
                rec.rely_on_identity(key, source);
                Ok(())
            });
        }
        plain
    }

    /// Whether `object * x` is what the object's class says, and so is `x * object`: a tensor knows nothing of objects that are no numbers, and leaves it
    /// to them. Those that have a word in torch's own functions are torch's to ask.
    pub(super) fn is_objects_business(&mut self, method: &str, in_place: bool, left: &Val, right: &Val) -> bool {
        const LEFT_TO_OTHERS: &[&str] = &["add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow"];
        let is_left = !is_tensor(&left.obj);
        let object = if is_left { &left.obj } else { &right.obj };
        let has = |name: &str| type_lookup(&object.class(), &Obj::str(name)).is_some();
        if is_tensor(object) || !is_python_instance(object) || has("__torch_function__") {
            return false;
        }
        let by = |name: String| type_lookup(&object.class(), &Obj::str(&name)).is_some_and(|own| own.class_is(types().function));
        match is_left {
            true => by(format!("__{method}__")) || in_place && by(format!("__i{method}__")),
            false => LEFT_TO_OTHERS.contains(&method) && by(format!("__r{method}__")),
        }
    }

    /// `p.grad` of a tensor from outside: an object that it holds, like an attribute of any other.
    pub fn stored_field(&mut self, object: &Val, name: &Obj) -> R<Option<Val>> {
        let this = &object.obj;
        let Origin::Outside(source) = self.origin(this) else { return Ok(None) };
        match name.to_str().as_deref() {
            Some("grad") => {}
            // A leaf has no history.
            Some("grad_fn") if generic_attr(this, name).is_some_and(|f| f.is_none()) => {
                let leaf = generic_attr(this, &Obj::str("requires_grad")).is_some_and(|r| !r.truth().quiet().unwrap_or(true));
                if leaf {
                    self.recorded(|rec| {
                        rec.checks.push(Check::RequiresGrad(source, false));
                        Ok(())
                    });
                    return Ok(Some(Obj::none().into()));
                }
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let found = this.get_attr(name)?;
        Ok(Some(self.found_at(this, name, found, |of| Source::Attr(of, Key(name.clone())))))
    }

    /// `p.grad = value` on a tensor from outside, where later calls find the value again: done, and true.
    pub fn store_gradient(&mut self, object: &Val, name: &Obj, value: &Val) -> R<bool> {
        let this = &object.obj;
        let known = value.obj.is_none() || matches!(self.origin(&value.obj), Origin::Outside(_));
        if !known || is_lazy(this) || !self.is_seen_by_others(this) || name.to_str().as_deref() != Some("grad") {
            return Ok(false);
        }
        let setattr = self.builtin("setattr")?;
        if let Some(rec) = &mut self.rec {
            rec.tell_tensors_apart();
            rec.note_change(setattr, vec![object.clone(), name.clone().into(), value.clone()]);
            rec.mark_written(this, name);
        }
        this.bind().setattr(name_of(name)?, value.obj.bind())?;
        Ok(true)
    }

    /// `requires_grad_`, where later calls can do it again; the tensor is given back.
    pub fn set_requires_grad(&mut self, args: &Args) -> R<Option<Val>> {
        if let Some(tensor) = self.requires_as_wanted(args)? {
            return Ok(Some(tensor));
        }
        let tensor = args.positional[0].clone();
        let wanted = args.positional.get(1).or_else(|| args.keywords.first().map(|(_, value)| value));
        if self.rec.is_none() || wanted.is_some_and(|wanted| !wanted.obj.is(&Obj::bool(true))) {
            return Ok(None);
        }
        Ok(self.make_leaf(&tensor)?.then_some(tensor))
    }

    /// A tensor that requires grad from here on. One from outside only where no graph of this segment knows of grad: such a graph would see it.
    fn make_leaf(&mut self, tensor: &Val) -> R<bool> {
        let this = &tensor.obj;
        let about_to_go = self.about_to_go();
        let Some(rec) = &mut self.rec else { return Ok(false) };
        let plain = this.class_is(types().tensor) && matches!(rec.origin(this), Origin::Outside(_)) && !rec.knows_grad();
        if rec.has_views(this, about_to_go) {
            return self.leave_to_python("requires_grad_ of a tensor that has views").map(|()| false);
        }
        if !(is_lazy(this) || plain) || rec.becomes_leaf(this).is_err() {
            return Ok(false);
        }
        // SAFETY: types live as long as torch.
        let setter = unsafe { Obj::borrowed(types().tensor.cast()) }.attr("requires_grad_")?;
        rec.tell_tensors_apart();
        rec.note_change(setter.clone(), vec![tensor.clone()]);
        rec.mark_written(this, &Obj::str("requires_grad"));
        if plain {
            setter.call(std::slice::from_ref(this), None)?;
        }
        Ok(true)
    }

    /// What stands in the variable that gets what is called here: `a = a.detach().requires_grad_()`.
    fn about_to_go(&mut self) -> Option<usize> {
        let frame = self.frame();
        let Some(Instruction::StoreFast(local)) = frame.code.code.instructions.get(frame.pc) else { return None };
        frame.locals[local.index()].as_ref().map(|value| value.obj.id())
    }

    /// `requires_grad_` of a tensor that is so already: nothing is done, and the tensor is given back.
    fn requires_as_wanted(&mut self, args: &Args) -> R<Option<Val>> {
        let wanted = match (&args.positional[..], &args.keywords[..]) {
            ([_], []) => Obj::bool(true),
            ([_, wanted], []) | ([_], [(_, wanted)]) => self.settled(wanted),
            _ => return Ok(None),
        };
        if self.rec.is_none() {
            return Ok(None);
        }
        let tensor = args.positional[0].clone();
        let now = self.requires_grad(&tensor)?;
        Ok(wanted.is(&Obj::bool(now)).then_some(tensor))
    }

    /// Relied on. None where the tensor is a part of an input: its shadow begins elsewhere.
    pub fn storage_offset(&mut self, tensor: &Val) -> R<Option<Val>> {
        if let Some(rec) = &mut self.rec
            && let Some(offset) = rec.varying_offset(&tensor.obj)?
        {
            return Ok(Some(offset));
        }
        // SAFETY: types live as long as torch.
        let question = unsafe { Obj::borrowed(types().tensor.cast()) }.attr("storage_offset")?;
        self.ask_memory(&question, tensor)
    }

    /// A question about where a tensor lies.
    pub fn ask_memory(&mut self, question: &Obj, tensor: &Val) -> R<Option<Val>> {
        let Some(rec) = &self.rec else { return Ok(None) };
        if !is_lazy(&tensor.obj) {
            return self.pure(question, std::slice::from_ref(tensor), &[]).map(Some);
        }
        let shadow = rec.shadow_of_its_own(&tensor.obj)?;
        shadow.map(|shadow| Ok(question.call(&[shadow], None)?.into())).transpose()
    }

    /// A view may not be detached in place. One that the trace has made is a tensor of its own once it is computed: its shadow refuses.
    pub fn refuse_view(&self, args: &Args) -> R<()> {
        let is_view = |tensor: &Obj| tensor.attr("_is_view")?.call(&[], None)?.truth();
        let shadow = self.rec.as_ref().zip(args.positional.first()).and_then(|(rec, tensor)| rec.shadow_of(&tensor.obj));
        match shadow {
            Some(shadow) if is_view(&shadow)? => shadow.attr("detach_")?.call(&[], None).map(drop),
            _ => Ok(()),
        }
    }

    /// Relied on.
    pub fn requires_grad(&mut self, tensor: &Val) -> R<bool> {
        self.now(|vm| vm.tensor_field(tensor, &Obj::str("requires_grad")))?.obj.truth()
    }

    /// Lists of tensors by device and type.
    pub fn group_tensors(&mut self, callable: &Val, args: &[Val]) -> R<Val> {
        let objects = args.iter().map(|arg| self.known_data(arg)).collect::<R<Vec<Obj>>>()?;
        for tensor in objects.iter().flat_map(crate::record::tensors_in) {
            if let Origin::Outside(source) = self.origin(&tensor) {
                self.recorded(|rec| rec.rely_on_tensor(&tensor, source));
            }
        }
        let groups = callable.obj.call(&objects, None)?;
        Ok(self.made(groups))
    }

    /// The value of a step counter: what is computed from it stays in the graph, in a float's precision.
    pub fn step_value(&mut self, object: &Val) -> R<Called> {
        if !super::operators::is_tensor(&object.obj) {
            return Ok(Called::Value(object.clone()));
        }
        let double = Shadow::Method(Obj::str("double"));
        // SAFETY: types live as long as torch.
        let callable = unsafe { Obj::borrowed(types().tensor.cast()) }.attr("double")?;
        self.torch_call(double, &callable.into(), Args::positional(vec![object.clone()]))
    }
}
