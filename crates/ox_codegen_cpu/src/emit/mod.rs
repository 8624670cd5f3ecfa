//! Kernel to LLVM IR.
//!
//! A value of the kernel is a scalar where it is the same in all lanes and a vector where it is not; nothing else distinguishes the
//! lane modes below the level of loops.

mod bits;
mod checks;
mod convert;
mod hoist;
mod index;
mod integer;
mod loads;
mod loops;
mod near;
mod outer;
mod pieces;
mod point;
mod reduce;
mod rows;
mod scatter;
mod stores;
mod stream;
mod tiles;
mod width;
mod woven;

use crate::CodegenError;
use crate::backend::Sums;
use crate::host::Host;
use crate::ir::{Access, Elem, Ir, Scopes, V};
use inkwell::context::Context;
use inkwell::module::Module;
use ox_ir::kernel::{BufRole, Inst, Kernel, Lanes, Val};
use ox_ir::sym::Var;
use ox_ir::{DType, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Scratch memory lies on the stack of a worker thread, so it must stay small.
const MOST_SCRATCH_BYTES: i64 = 2 << 20;
/// A cache line and the widest vector.
const SCRATCH_ALIGN: u32 = 64;
/// Addresses of buffers that are kept in registers.
const MOST_KEPT: usize = 10;

/// Writes `kernel` as the function `symbol` into `module`.
pub fn emit(
    context: &Context,
    module: &Module<'_>,
    symbol: &str,
    kernel: &Kernel,
    host: &Host,
    sums: Sums,
) -> Result<(), CodegenError> {
    // SAFETY: `ir` is dropped at the end of this function, before context and module.
    let ir = unsafe { Ir::new(context, module, symbol, host) };
    let mut emitter = Emitter::new(&ir, kernel, host, sums)?;
    emitter.kernel_body()?;
    if emitter.streamed {
        // Streaming stores are not ordered by what the threads synchronise with afterwards.
        ir.store_fence();
    }
    ir.finish();
    Ok(())
}

/// A variable of index expressions.
#[derive(Clone, Copy)]
struct Bound<'a> {
    value: V<'a>,
    /// Where it is defined: the higher, the further inside. Terms are added from the outside in, so that what does not change
    /// in a loop is one value.
    depth: u32,
    /// For a loaded index whose extent may be zero: whether there is anything to index.
    valid: Option<V<'a>>,
}

/// The axis along which the lanes run, in code that is vectorised.
#[derive(Clone)]
struct Lane<'a> {
    var: Var,
    /// The lanes that exist; None is all.
    mask: Option<V<'a>>,
}

#[derive(Clone, Copy)]
struct Buffer<'a> {
    number: u32,
    pointer: V<'a>,
    /// Whether `pointer` is where the address stands. The address is loaded where it is used: in front of the kernel's loops it would be loaded, put
    /// on the stack, and loaded from there.
    is_elsewhere: bool,
    dtype: DType,
    access: Access,
    /// Scratch under vectorised outer points: element k of lane l lies at `k * width + l`.
    per_lane: bool,
}

struct Emitter<'a> {
    ir: &'a Ir,
    kernel: &'a Kernel,
    host: &'a Host,
    order: Sums,
    width: u32,
    error: V<'a>,
    buffers: Vec<Buffer<'a>>,
    vars: FxHashMap<Var, Bound<'a>>,
    depth: u32,
    values: Vec<Option<V<'a>>>,
    /// What the reductions and scans of the current pass have so far.
    running: FxHashMap<Val, SmallVec<[V<'a>; 2]>>,
    lane: Option<Lane<'a>>,
    /// The stores that go past the caches in the loop under construction.
    streaming: Vec<Val>,
    streamed: bool,
    /// Where in their tiles the loads of the vector under construction find their elements.
    in_tile: Vec<(Val, V<'a>)>,
    /// The stores of the vector under construction and their values, where these are to be woven with those of other rows.
    held: Option<Vec<(Val, V<'a>)>>,
    /// The answers in the piece under construction.
    known: pieces::Known,
    hoisted: hoist::Hoisted<'a>,
    /// What was done in front of the loop under construction.
    settled: Vec<Val>,
    of_lane_axis: Vec<bool>,
    /// Whether the loop of the only pass that has one is outside of that over the lanes.
    in_step: bool,
}

impl<'a> Emitter<'a> {
    fn new(ir: &'a Ir, kernel: &'a Kernel, host: &'a Host, order: Sums) -> Result<Emitter<'a>, CodegenError> {
        let params = ir.params();
        let mut emitter = Emitter {
            ir,
            kernel,
            host,
            order,
            width: width::pick(kernel, host),
            error: params.error,
            buffers: Vec::new(),
            vars: FxHashMap::default(),
            depth: 0,
            values: vec![None; kernel.insts.len()],
            running: FxHashMap::default(),
            lane: None,
            streaming: Vec::new(),
            streamed: false,
            in_tile: Vec::new(),
            held: None,
            known: pieces::Known::default(),
            hoisted: hoist::Hoisted::default(),
            settled: Vec::new(),
            of_lane_axis: near::of_lane_axis(kernel),
            in_step: false,
        };
        for (n, var) in kernel.sizes.iter().enumerate() {
            let value = params.sizes.offset(Elem::I64, ir.index(n as i64)).load(Elem::I64, 1, 8, Access::UNKNOWN);
            emitter.vars.insert(var.clone(), Bound { value, depth: 0, valid: None });
        }
        emitter.bind_buffers(params.buffers)?;
        Ok(emitter)
    }

    fn bind_buffers(&mut self, pointers: V<'a>) -> Result<(), CodegenError> {
        let scopes = Scopes::new(self.ir, self.kernel.bufs.len());
        let mut passed = 0;
        for (n, param) in self.kernel.bufs.iter().enumerate() {
            if param.dtype.is_complex() {
                return Err(self.unsupported(format!("a buffer of {}", param.dtype)));
            }
            if param.dtype == DType::F16 && !self.host.has_f16 {
                return Err(self.unsupported("f16 on a CPU without its conversions".into()));
            }
            let access = match param.role {
                BufRole::In => scopes.access(n).invariant(),
                BufRole::Out | BufRole::InOut | BufRole::Scratch(_) => scopes.access(n),
            };
            let per_lane = matches!(param.role, BufRole::Scratch(_)) && self.kernel.lanes == Lanes::Outer && self.width > 1;
            let pointer = match param.role {
                BufRole::Scratch(count) => self.scratch(param.dtype, if per_lane { count * self.width as i64 } else { count })?,
                _ => {
                    passed += 1;
                    let place = pointers.offset(Elem::Ptr, self.ir.index(passed - 1));
                    let is_kept = passed as usize <= MOST_KEPT;
                    if is_kept { place.load(Elem::Ptr, 1, 8, Access::UNKNOWN.invariant()) } else { place }
                }
            };
            let is_elsewhere = !matches!(param.role, BufRole::Scratch(_)) && passed as usize > MOST_KEPT;
            self.buffers.push(Buffer { number: n as u32, pointer, is_elsewhere, dtype: param.dtype, access, per_lane });
        }
        Ok(())
    }

    fn scratch(&self, dtype: DType, count: i64) -> Result<V<'a>, CodegenError> {
        if count.saturating_mul(dtype.size() as i64) > MOST_SCRATCH_BYTES {
            return Err(self.unsupported(format!("{count} elements of scratch")));
        }
        Ok(self.ir.alloca(convert::memory_elem(dtype), count.max(1), SCRATCH_ALIGN))
    }

    fn unsupported(&self, what: String) -> CodegenError {
        CodegenError::Unsupported { kernel: self.kernel.name.clone(), what }
    }

    fn malformed(&self, what: String) -> CodegenError {
        CodegenError::Malformed { kernel: self.kernel.name.clone(), what }
    }

    fn bind(&mut self, var: &Var, value: V<'a>) {
        self.depth += 1;
        self.vars.insert(var.clone(), Bound { value, depth: self.depth, valid: None });
    }

    fn value(&self, val: Val) -> Result<V<'a>, CodegenError> {
        let value = self.values.get(val.index()).copied().flatten();
        value.ok_or_else(|| self.malformed(format!("v{} is used before it is made", val.0)))
    }

    fn dtype(&self, val: Val) -> DType {
        self.kernel.inst(val).dtype
    }

    /// The lanes of a value that differs from lane to lane here.
    fn lanes(&self) -> u32 {
        if self.lane.is_some() { self.width } else { 1 }
    }

    fn lane_mask(&self) -> Option<V<'a>> {
        self.lane.as_ref().and_then(|lane| lane.mask)
    }

    fn constant(&self, scalar: Scalar, dtype: DType) -> V<'a> {
        let elem = convert::compute_elem(dtype);
        match dtype {
            DType::Bool => self.ir.bool(scalar.as_bool()),
            _ if elem.is_float() => bits::round_to(self.ir.float(elem, scalar.as_f64()), dtype),
            _ => self.ir.int(elem, scalar.as_i64()),
        }
    }

    fn body(&mut self, body: &[Val]) -> Result<(), CodegenError> {
        body.iter().try_for_each(|val| self.inst(*val))
    }

    fn inst(&mut self, val: Val) -> Result<(), CodegenError> {
        let kernel = self.kernel;
        if self.settled.contains(&val) {
            return Ok(());
        }
        let typed = kernel.inst(val);
        let dtype = typed.dtype;
        if let Some(value) = self.without_asking(val)? {
            self.values[val.index()] = Some(value);
            return Ok(());
        }
        let value = match &typed.inst {
            Inst::Const(scalar) => self.constant(*scalar, dtype),
            Inst::Index(sym) => convert::convert(self.sym(sym, index::At::Lanes, Elem::I64)?, DType::I64, dtype),
            Inst::Load { buf, index, mask } => match self.tiled_load(val, dtype) {
                Some(value) => value,
                None => self.load(*buf, index, mask.as_ref(), dtype)?,
            },
            Inst::Point(op, args) => self.point(*op, args, dtype)?,
            Inst::Cast(arg) => convert::convert(self.value(*arg)?, self.dtype(*arg), dtype),
            Inst::Reduce { .. } | Inst::ReduceArg { .. } => return self.accumulate(val),
            Inst::Scan { .. } => self.scan(val)?,
            Inst::CheckIndex { value, var, extent, wrap, check } => self.check_index(*value, var, extent, *wrap, *check)?,
            Inst::CheckNonZero { value, check } => return self.check_non_zero(*value, *check),
            Inst::Store { .. } if self.hold(val)? => return Ok(()),
            Inst::Store { buf, index, value, combine, mask } => {
                let stream = self.streaming.contains(&val).then(|| self.stream_align(val));
                return self.store(*buf, index, *value, *combine, *mask, stream);
            }
        };
        self.values[val.index()] = Some(value);
        Ok(())
    }
}
