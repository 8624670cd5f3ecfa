//! Instructions, one element at a time or for a few neighbours at once.
//!
//! For several lanes the body has three parts: what is the same for all of them, loads of whole vectors, and a loop over the lanes that
//! the compiler unrolls; stores of whole vectors come last.

use super::cache::Cached;
use super::ctype::{self, held, stored};
use super::{Emitter, index, point, quick, reduce};
use crate::CodegenError;
use crate::geometry::differing;
use ox_ir::kernel::{Axis, Inst, Val};
use ox_ir::sym::{Sym, Var};
use ox_ir::{DType, PointOp};
use rustc_hash::FxHashSet;

impl Emitter<'_> {
    /// One element: the instructions in order.
    pub fn plain_body(&mut self, body: &[Val]) -> Result<(), CodegenError> {
        body.iter().try_for_each(|val| self.inst(*val, None))
    }

    /// `item` is the variable that counts the rounds of a row's loop, if that is unrolled.
    pub fn body(&mut self, body: &[Val], item: Option<&str>) -> Result<(), CodegenError> {
        let lanes = self.g.lanes;
        let Some(lane) = self.lane.clone().filter(|_| lanes > 1) else {
            body.iter().try_for_each(|val| self.fill(*val, item))?;
            return body.iter().try_for_each(|val| self.inst(*val, item));
        };
        let varying = self.varying(body, &lane);
        for val in body.iter().filter(|val| !varying.contains(val)) {
            self.inst(*val, None)?;
        }
        self.packs = self.choose_packs(body, &lane, &varying);
        let packs: Vec<Val> = body.iter().copied().filter(|val| self.packs.contains(val)).collect();
        packs.iter().try_for_each(|val| self.load_pack(*val, item))?;
        let name = index::name(&lane);
        let online = body.iter().copied().find(|val| self.is_online(*val));
        if let Some(Val(n)) = online {
            self.line(format!("float x{n}[{lanes}];"));
        }
        self.line(format!("const idx {name}_0 = {name};"));
        self.line("#pragma unroll");
        self.open(format!("for (int l = 0; l < {lanes}; ++l) {{"));
        self.line(format!("const idx {name} = {name}_0 + l;"));
        for val in body.iter().filter(|val| varying.contains(val)) {
            self.inst(*val, item)?;
        }
        self.close();
        if let Some(Val(n)) = online {
            self.line(format!("a{n} = max_sum_of(a{n}, x{n});"));
        }
        packs.iter().try_for_each(|val| self.store_pack(*val))?;
        self.packs.clear();
        Ok(())
    }

    /// The instructions that must be done for each lane.
    fn varying(&self, body: &[Val], lane: &Var) -> FxHashSet<Val> {
        let mut vars: FxHashSet<Var> = FxHashSet::from_iter([lane.clone()]);
        // What other passes left is there for each lane, and what they will need is left so.
        let mut out: FxHashSet<Val> = self.carried.values().into_iter().filter(|val| !self.is_shared(*val)).collect();
        for val in body {
            let by_index = |sym: &Sym| sym.vars().iter().any(|v| vars.contains(v));
            let varies = match &self.kernel.inst(*val).inst {
                Inst::Const(_) => false,
                Inst::Index(sym) => by_index(sym),
                Inst::Load { buf, index, mask } => {
                    let scratch = self.scratch.contains_key(buf);
                    scratch || by_index(index) || mask.is_some_and(|(m, _)| out.contains(&m)) || self.is_written(*buf, body)
                }
                Inst::Point(_, args) => args.iter().any(|a| out.contains(a)) && !self.is_shared(*val),
                Inst::Cast(arg) => out.contains(arg),
                Inst::CheckIndex { value, var, .. } => {
                    let varies = out.contains(value);
                    if varies {
                        vars.insert(var.clone());
                    }
                    varies
                }
                _ => true,
            };
            if varies {
                out.insert(*val);
            }
        }
        out
    }

    fn is_written(&self, buf: u32, body: &[Val]) -> bool {
        body.iter().any(|val| matches!(self.kernel.inst(*val).inst, Inst::Store { buf: b, .. } if b == buf))
    }

    /// Whether it is a maximum that is found together with a sum.
    pub fn is_online(&self, val: Val) -> bool {
        self.online.is_some_and(|online| online.max == val)
    }

    pub fn value(&self, val: Val) -> String {
        if self.carried.comes_from_elsewhere(val) { self.kept(val) } else { format!("v{}", val.0) }
    }

    /// Where a value stands that passes leave for others.
    fn kept(&self, val: Val) -> String {
        format!("w{}[{}]", val.0, if self.is_shared(val) { "0" } else { "l" })
    }

    /// Whether all lanes have this value in common, although they stand at other places.
    fn is_shared(&self, val: Val) -> bool {
        self.lane.is_some() && self.g.lanes > 1 && !self.differing.contains(&val)
    }

    /// The lanes of what comes next run along this axis.
    pub fn set_lane(&mut self, lane: Option<&Axis>) {
        self.lane = lane.map(|axis| axis.var.clone());
        self.differing = match &self.lane {
            Some(lane) if self.g.lanes > 1 => differing(self.kernel, lane, self.g.lanes),
            _ => FxHashSet::default(),
        };
    }

    /// Where the running result of a reduction stands.
    pub fn running(&self, val: Val) -> String {
        if self.has_column_lanes() { format!("a{}[l]", val.0) } else { format!("a{}", val.0) }
    }

    fn inst(&mut self, val: Val, item: Option<&str>) -> Result<(), CodegenError> {
        let kernel = self.kernel;
        let typed = kernel.inst(val);
        let dtype = typed.dtype;
        let text = match &typed.inst {
            _ if self.sure == Some(val) => "true".into(),
            Inst::Const(scalar) => ctype::constant(*scalar, dtype),
            Inst::Index(sym) => index_value(sym, dtype),
            Inst::Load { buf, index, mask } => self.load(val, *buf, index, mask.as_ref(), dtype, item)?,
            Inst::Point(op, args) => self.operation(val, *op, args)?,
            Inst::Cast(arg) => ctype::convert(&self.value(*arg), self.dtype(*arg), dtype),
            Inst::Reduce { value, .. } if !self.in_loop => ctype::convert(&self.value(*value), self.dtype(*value), dtype),
            Inst::ReduceArg { position, .. } if !self.in_loop => format!("(long long)({})", index::text(position)),
            Inst::Reduce { .. } | Inst::ReduceArg { .. } => return self.accumulate(val),
            Inst::Scan { value, decay, .. } => self.scan(val, *value, *decay),
            Inst::CheckIndex { value, var, extent, wrap, check } => {
                self.check_index(val, *value, var, extent, *wrap, *check);
                return Ok(());
            }
            Inst::CheckNonZero { value, check } => {
                self.line(format!("if ({0} == 0) complain(report, {check}, {0}, 0);", self.value(*value)));
                return Ok(());
            }
            Inst::Store { buf, index, value, combine, mask } => {
                return self.store(val, *buf, index, *value, *combine, *mask, item);
            }
        };
        self.line(format!("const {} v{} = {text};", held(dtype), val.0));
        if self.carried.found(val) {
            self.line(format!("{} = v{};", self.kept(val), val.0));
        }
        Ok(())
    }

    fn operation(&self, val: Val, op: PointOp, args: &[Val]) -> Result<String, CodegenError> {
        if args.len() != op.arity() {
            return Err(self.malformed(format!("{} takes {} arguments, not {}", op.name(), op.arity(), args.len())));
        }
        let (operand, dtype) = (self.dtype(args[args.len() - 1]), self.dtype(val));
        if !op.accepts(operand) {
            return Err(self.malformed(format!("{} of {operand}", op.name())));
        }
        let is_quick = self.quick.is(val);
        if let (true, Some(x)) = (is_quick, quick::erf_and_one(self.kernel, op, args)) {
            return Ok(format!("one_plus_erf({})", self.value(x)));
        }
        let is_shared = self.is_shared(val);
        let name = |arg: &Val| match &self.kernel.inst(*arg).inst {
            // That of the first lane.
            Inst::Index(place) if is_shared && !self.is_shared(*arg) => index_value(place, self.dtype(*arg)),
            _ => self.value(*arg),
        };
        let names: Vec<String> = args.iter().map(name).collect();
        point::apply(op, &names, operand, dtype, is_quick || operand.size() == 2)
            .ok_or_else(|| self.unsupported(format!("{} of {operand}", op.name())))
    }

    /// One element into its accumulator.
    fn accumulate(&mut self, val: Val) -> Result<(), CodegenError> {
        if let (true, Inst::Reduce { value, .. }) = (self.is_online(val), &self.kernel.inst(val).inst) {
            let (n, x) = (val.0, self.value(*value));
            self.line(match self.g.lanes {
                1 => format!("a{n} = JoinMaxSum()(a{n}, {{{x}, 1.0f}});"),
                _ => format!("x{n}[l] = {x};"),
            });
            return Ok(());
        }
        let (op, dtype) = self.reduction(val);
        let element = match &self.kernel.inst(val).inst {
            Inst::ReduceArg { value, position, .. } => {
                let ty = reduce::running(op, dtype);
                format!("{ty}{{{}, (long long)({})}}", self.value(*value), index::text(position))
            }
            Inst::Reduce { value, .. } => ctype::convert(&self.value(*value), self.dtype(*value), dtype),
            _ => unreachable!("only reductions accumulate"),
        };
        let functor = reduce::functor(op, dtype);
        let guard = if self.guards.contains(&"here") { "if (here) " } else { "" };
        self.line(format!("{guard}{0} = {functor}({0}, {element});", self.running(val)));
        Ok(())
    }

    fn scan(&mut self, val: Val, value: Val, decay: Option<Val>) -> String {
        let (op, dtype) = self.reduction(val);
        let element = ctype::convert(&self.value(value), self.dtype(value), dtype);
        if !self.in_loop {
            return element;
        }
        let functor = reduce::functor(op, dtype);
        let y = self.g.y;
        if y == 1 {
            if let Some(decay) = decay {
                self.line(format!("a{0} = {1} * a{0};", val.0, self.value(decay)));
            }
            self.line(format!("a{0} = {functor}(a{0}, {element});", val.0));
            return reduce::finished(op, format!("a{}", val.0), dtype);
        }
        let identity = reduce::identity(op, dtype);
        let ty = held(dtype);
        let all = format!("scan_block<{y}>(here ? ({ty})({element}) : ({ty}){identity}, {functor}, shared, a{})", val.0);
        reduce::finished(op, all, dtype)
    }

    fn check_index(&mut self, val: Val, value: Val, var: &Var, extent: &Sym, wrap: bool, check: u32) {
        let given = ctype::convert(&self.value(value), self.dtype(value), DType::I64);
        let (n, name, size) = (val.0, index::name(var), index::text(extent));
        self.line(format!("const long long v{n} = checked({given}, (long long)({size}), {wrap}, report, {check});"));
        self.line(format!("const idx {name} = (idx)v{n};"));
        if !extent.is_positive() {
            let valid = format!("has_{name}");
            self.line(format!("const bool {valid} = {size} > 0;"));
            self.validity.insert(var.clone(), valid);
        }
    }

    /// Fills the place in the cache that this load has, if it is the first to have it.
    fn fill(&mut self, val: Val, item: Option<&str>) -> Result<(), CodegenError> {
        match (self.cache.load(val), item) {
            (Some(Cached::Fill(_)), Some(_)) => self.load_pack(val, item),
            _ => Ok(()),
        }
    }

    /// A load of neighbours, into the cache if it has a place there; and room for a store of neighbours.
    fn load_pack(&mut self, val: Val, item: Option<&str>) -> Result<(), CodegenError> {
        let kernel = self.kernel;
        let lanes = self.g.lanes;
        match &kernel.inst(val).inst {
            Inst::Load { buf, index, mask: Some((mask, _)) } => {
                let (text, here) = (self.packed(*buf, index), self.value(*mask));
                let none = format!("Pack<{}, {lanes}>{{}}", stored(kernel.bufs[*buf as usize].dtype));
                self.line(format!("const auto q{} = {here} ? {text} : {none};", val.0))
            }
            Inst::Load { buf, index, .. } => match (self.cache.load(val), item) {
                (Some(Cached::Fill(slot)), Some(k)) => {
                    let text = self.packed(*buf, index);
                    self.line(format!("c{slot}[{k}] = {text};"))
                }
                (Some(Cached::Use(slot)), Some(k)) if self.g.is_long_row() => {
                    self.line(format!("keep_packed(c{slot}[{k}], report);"))
                }
                (Some(Cached::Use(_)), Some(_)) => {}
                _ => {
                    let text = self.packed(*buf, index);
                    self.line(format!("const auto q{} = {text};", val.0))
                }
            },
            Inst::Store { buf, .. } => match kernel.bufs[*buf as usize].dtype {
                DType::BF16 => self.line(format!("float f{}[{lanes}];", val.0)),
                dtype => self.line(format!("Pack<{}, {lanes}> q{};", stored(dtype), val.0)),
            },
            _ => unreachable!("only loads and stores move packs"),
        }
        Ok(())
    }

    fn packed(&mut self, buf: u32, index: &Sym) -> String {
        let lanes = self.g.lanes;
        if lanes > 1 {
            self.moved_whole.insert(buf);
        }
        let whole = if lanes > 1 { format!("whole{buf}") } else { "false".into() };
        format!("load_pack<{lanes}>(b{buf} + {}, {whole})", index::factor(index))
    }

    fn store_pack(&mut self, val: Val) -> Result<(), CodegenError> {
        if let Inst::Store { buf, index, value, combine, .. } = &self.kernel.inst(val).inst {
            self.moved_whole.insert(*buf);
            let guard = self.guard();
            let pack = match self.kernel.bufs[*buf as usize].dtype {
                DType::BF16 if self.unrounded(*value).is_some() => format!("pack_bf16(f{})", val.0),
                DType::BF16 => format!("join_bf16(f{})", val.0),
                _ => format!("q{}", val.0),
            };
            let store = match self.adds_packs(*buf, *combine) {
                true => format!("atomic_pack_{}", self.kernel.bufs[*buf as usize].dtype),
                false => "store_pack".into(),
            };
            self.line(format!("{guard}{store}(b{buf} + {}, {pack}, whole{buf});", index::factor(index)));
        }
        Ok(())
    }

    /// `if (...) ` around a write, where this thread may not always write.
    pub fn guard(&self) -> String {
        if self.guards.is_empty() { String::new() } else { format!("if ({}) ", self.guards.join(" && ")) }
    }
}

fn index_value(place: &Sym, dtype: DType) -> String {
    ctype::convert(&format!("(long long)({})", index::text(place)), DType::I64, dtype)
}
