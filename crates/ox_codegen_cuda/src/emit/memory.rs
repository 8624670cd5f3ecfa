//! Loads, stores and scatters.

use super::cache::Cached;
use super::ctype::{self, from_memory, held, stored, to_memory};
use super::{Emitter, Scratch, index, reduce};
use crate::CodegenError;
use crate::geometry::is_pack;
use ox_ir::graph::{Combine, ReduceOp};
use ox_ir::kernel::{Inst, Val};
use ox_ir::sym::{Sym, Var};
use ox_ir::{DType, Scalar};
use rustc_hash::FxHashSet;

impl Emitter<'_> {
    fn buffer_dtype(&self, buf: u32) -> Result<DType, CodegenError> {
        let param = self.kernel.bufs.get(buf as usize);
        param.map(|b| b.dtype).ok_or_else(|| self.malformed(format!("there is no buffer b{buf}")))
    }

    pub fn load(
        &mut self,
        val: Val,
        buf: u32,
        index: &Sym,
        mask: Option<&(Val, Scalar)>,
        dtype: DType,
        item: Option<&str>,
    ) -> Result<String, CodegenError> {
        let memory = self.buffer_dtype(buf)?;
        let lane = if self.lane.is_some() && self.g.lanes > 1 { "l" } else { "0" };
        if let Some(place) = self.scratch_place(buf, index, item) {
            return Ok(self.masked(ctype::convert(&place, memory, dtype), index, mask, dtype));
        }
        let pack = match (self.cache.load(val), item) {
            (Some(Cached::Fill(slot) | Cached::Use(slot)), Some(k)) => Some(format!("c{slot}[{k}]")),
            _ => self.packs.contains(&val).then(|| format!("q{}", val.0)),
        };
        let element = match pack {
            Some(pack) if memory == DType::BF16 => format!("bf16_at({pack}, {lane})"),
            Some(pack) => from_memory(&format!("{pack}.at[{lane}]"), memory),
            None => from_memory(&format!("b{buf}[{}]", index::text(index)), memory),
        };
        let value = ctype::convert(&element, memory, dtype);
        Ok(self.masked(value, index, mask, dtype))
    }

    /// The value where the mask holds and there is something to index; nothing is read elsewhere.
    fn masked(&self, value: String, index: &Sym, mask: Option<&(Val, Scalar)>, dtype: DType) -> String {
        let mut conditions = self.valid(index);
        conditions.extend(mask.map(|(m, _)| self.value(*m)));
        if conditions.is_empty() {
            return value;
        }
        let other = mask.map_or(Scalar::Int(0), |(_, other)| *other);
        format!("{} ? {value} : {}", conditions.join(" && "), ctype::constant(other, dtype))
    }

    /// What must hold for the loaded indices in an expression to index anything at all.
    fn valid(&self, index: &Sym) -> Vec<String> {
        index.vars().iter().filter_map(|var| self.validity.get(var).cloned()).collect()
    }

    fn scratch_place(&self, buf: u32, index: &Sym, item: Option<&str>) -> Option<String> {
        let lanes = self.g.lanes;
        Some(match (self.scratch.get(&buf)?, item) {
            (Scratch::Registers, Some(k)) if lanes > 1 => format!("t{buf}[{k} * {lanes} + l]"),
            (Scratch::Registers, Some(k)) => format!("t{buf}[{k}]"),
            _ => format!("t{buf}[{}]", index::text(index)),
        })
    }

    #[allow(clippy::too_many_arguments)]
    pub fn store(
        &mut self,
        val: Val,
        buf: u32,
        index: &Sym,
        value: Val,
        combine: Combine,
        mask: Option<Val>,
        item: Option<&str>,
    ) -> Result<(), CodegenError> {
        let memory = self.buffer_dtype(buf)?;
        if self.packs.contains(&val) && memory == DType::BF16 {
            let exact = self.unrounded(value).map(|arg| self.value(arg));
            self.line(format!(
                "f{}[l] = {};",
                val.0,
                exact.unwrap_or_else(|| ctype::convert(&self.value(value), self.dtype(value), memory))
            ));
            return Ok(());
        }
        let value = ctype::convert(&self.value(value), self.dtype(value), memory);
        if let Some(place) = self.scratch_place(buf, index, item) {
            self.line(format!("{place} = {value};"));
            return Ok(());
        }
        if self.packs.contains(&val) {
            self.line(format!("q{}.at[l] = {};", val.0, to_memory(&value, memory)));
            return Ok(());
        }
        let mut conditions: Vec<String> = self.guards.iter().map(|g| g.to_string()).collect();
        conditions.extend(self.valid(index));
        conditions.extend(mask.map(|m| self.value(m)));
        let guard = if conditions.is_empty() { String::new() } else { format!("if ({}) ", conditions.join(" && ")) };
        let text = self.write(buf, index, &value, combine, memory)?;
        self.line(format!("{guard}{text}"));
        Ok(())
    }

    /// What a value of bf16 was rounded from, if that is there: two are rounded at once when they are packed.
    pub fn unrounded(&self, value: Val) -> Option<Val> {
        match self.kernel.inst(value).inst {
            Inst::Cast(arg) if self.dtype(value) == DType::BF16 && self.dtype(arg) == DType::F32 => {
                (!self.carried.comes_from_elsewhere(value)).then_some(arg)
            }
            _ => None,
        }
    }

    fn write(&self, buf: u32, index: &Sym, value: &str, combine: Combine, memory: DType) -> Result<String, CodegenError> {
        let place = format!("b{buf}[{}]", index::text(index));
        let op = match combine {
            Combine::Set => return Ok(format!("{place} = {};", to_memory(value, memory))),
            Combine::With(op) if op.is_arg() => {
                return Err(self.malformed(format!("a store cannot combine by {}", op.name())));
            }
            Combine::With(op) => op,
        };
        let functor = reduce::functor(op, memory);
        let combined = |old: &str| to_memory(&ctype::rounded(format!("{functor}({old}, {value})"), memory), memory);
        if !self.atomic {
            return Ok(format!("{place} = {};", combined(&from_memory(&place, memory))));
        }
        if functor == "Sum()" && matches!(memory, DType::F32 | DType::F64 | DType::I32 | DType::I64) {
            return Ok(format!("atomic_add(&{place}, ({}){value});", held(memory)));
        }
        if functor == "Sum()" && memory.is_float() {
            return Ok(format!("atomic_add_{memory}(&{place}, {value});"));
        }
        let old = from_memory("old", memory);
        Ok(format!("atomic_update(&{place}, [&]({} old) {{ return ({0}){}; }});", stored(memory), combined(&old)))
    }

    /// The loads and stores of a body that move whole vectors. They are done before and after the lanes' loop, so nothing else in
    /// the body may touch what they write.
    pub fn choose_packs(&self, body: &[Val], lane: &Var, varying: &FxHashSet<Val>) -> FxHashSet<Val> {
        let loaded: FxHashSet<&Var> = body
            .iter()
            .filter(|val| varying.contains(val))
            .filter_map(|val| match &self.kernel.inst(*val).inst {
                Inst::CheckIndex { var, .. } => Some(var),
                _ => None,
            })
            .collect();
        let steady = |index: &Sym| {
            is_pack(index, lane, self.g.lanes) && self.valid(index).is_empty() && !index.vars().iter().any(|v| loaded.contains(v))
        };
        let stores = |buf: u32| {
            body.iter().filter(|val| matches!(self.kernel.inst(**val).inst, Inst::Store { buf: b, .. } if b == buf)).count()
        };
        let loads_behind = |buf: u32, at: usize| {
            body[at..].iter().any(|val| matches!(self.kernel.inst(*val).inst, Inst::Load { buf: b, .. } if b == buf))
        };
        let is_chosen = |(at, val): (usize, &Val)| match &self.kernel.inst(*val).inst {
            Inst::Load { buf, index, mask } => {
                let together = mask.is_none_or(|(mask, _)| !varying.contains(&mask));
                together && !self.scratch.contains_key(buf) && steady(index) && !self.stores_before(body, at, *buf)
            }
            Inst::Store { buf, index, combine, mask: None, .. } => {
                let whole = *combine == Combine::Set || self.adds_packs(*buf, *combine);
                whole && !self.scratch.contains_key(buf) && steady(index) && stores(*buf) == 1 && !loads_behind(*buf, at)
            }
            _ => false,
        };
        body.iter().enumerate().filter(|pair| is_chosen(*pair)).map(|(_, val)| *val).collect()
    }

    /// Whether neighbours are added to memory at once.
    pub fn adds_packs(&self, buf: u32, combine: Combine) -> bool {
        let dtype = self.kernel.bufs[buf as usize].dtype;
        self.atomic && combine == Combine::With(ReduceOp::Sum) && matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
    }

    fn stores_before(&self, body: &[Val], at: usize, buf: u32) -> bool {
        body[..at].iter().any(|val| matches!(self.kernel.inst(*val).inst, Inst::Store { buf: b, .. } if b == buf))
    }
}
