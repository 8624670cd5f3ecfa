//! Kernel to CUDA C++.
//!
//! The text follows the kernel: a value `v7` is the variable `v7`, an axis `i1` the variable `i1`, and a pass is a loop (or a block). What a
//! pass may see of the passes before it is what C++ lets it see.

mod body;
mod cache;
mod carried;
mod ctype;
mod filled;
mod index;
mod memory;
mod outline;
mod passes;
mod point;
mod quick;
mod reduce;

use crate::flatten::flatten;
use crate::geometry::{self, Geometry, Spread};
use crate::joined::joined;
use crate::online::{self, Online};
use crate::written::in_order_of_writing;
use crate::{CodegenError, Options};
use cache::Cache;
use carried::Carried;
use ox_ir::kernel::{BufRole, Inst, Kernel, Val};
use ox_ir::sym::Var;
use ox_ir::{DType, Sym};
use quick::Quick;
use rustc_hash::{FxHashMap, FxHashSet};

/// One kernel as text: what NVRTC compiles after `assemble` has put the helpers in front, and how it is to be launched.
#[derive(Clone, Debug)]
pub struct Source {
    pub symbol: String,
    pub text: String,
    pub threads: u32,
    pub points_per_block: i64,
    pub points: Sym,
    pub shared_bytes: u32,
    pub aligned: Vec<(usize, usize)>,
    pub narrow: Vec<Sym>,
}

/// Where scratch memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scratch {
    /// An element of the row for each place of the thread's part of it.
    Registers,
    /// The thread's own array.
    Local,
    /// At this byte of the block's shared memory.
    Shared(i64),
}

pub(crate) struct Emitter<'k> {
    kernel: &'k Kernel,
    g: Geometry,
    /// Writes that combine may meet: they must be atomic.
    atomic: bool,
    /// Buffers may begin anywhere.
    careful: bool,
    /// What is rounded to 16 bits in the end.
    quick: Quick,
    scratch: FxHashMap<u32, Scratch>,
    shared_bytes: i64,
    cache: Cache,
    carried: Carried,
    /// Two reductions that are done in one pass.
    online: Option<Online>,
    /// For a loaded index whose extent may be zero: the variable that says whether there is anything to index.
    validity: FxHashMap<Var, String>,
    /// What must hold for this thread to write here.
    guards: Vec<&'static str>,
    /// Buffers written since the block's threads last waited for one another.
    dirty: FxHashSet<u32>,
    /// Whether the code under construction is inside of a pass's loop.
    in_loop: bool,
    /// What is true in every round of the loop under construction.
    sure: Option<Val>,
    /// The axis that the lanes of the loop under construction run along.
    lane: Option<Var>,
    /// What may be another value for each of them.
    differing: FxHashSet<Val>,
    /// Loads and stores of the body under construction that move whole vectors.
    packs: FxHashSet<Val>,
    /// Buffers that some body moves in whole vectors.
    moved_whole: FxHashSet<u32>,
    text: String,
    depth: usize,
}

impl Source {
    /// With the user's lines that it comes from in front. What they are called has no meaning in C++.
    pub fn from_lines<'a>(mut self, lines: impl Iterator<Item = &'a str>) -> Source {
        let plain = |c: char| if c.is_control() || c == '\\' { '_' } else { c };
        let comment: String = lines.map(|line| format!("// {}\n", line.chars().map(plain).collect::<String>())).collect();
        self.text.insert_str(0, &comment);
        self
    }
}

/// Shared memory that reductions pass values through: 16 bytes for each thread that takes part.
const SLOT: i64 = 16;
/// What a block can have on every GPU from sm_80 on, with leave to use more than 48 KiB.
const MOST_SHARED: i64 = 96 << 10;

/// The kernel as CUDA C++, with `symbol` as its name.
pub fn emit(kernel: &Kernel, symbol: &str, options: &Options) -> Result<Source, CodegenError> {
    let has_scratch = kernel.bufs.iter().any(|b| matches!(b.role, BufRole::Scratch(_)));
    let flat = if options.ordered || has_scratch { None } else { flatten(kernel) };
    let scatters = flat.is_none() && is_scatter(kernel);
    let atomic = flat.is_some() && is_scatter(kernel);
    let kernel = flat.as_ref().unwrap_or(kernel);
    let written = if options.ordered { None } else { in_order_of_writing(kernel) };
    let kernel = written.as_ref().unwrap_or(kernel);
    let joined = if options.ordered { None } else { joined(kernel) };
    let kernel = joined.as_ref().unwrap_or(kernel);
    let geometry = geometry::choose(kernel, scatters, options.multiprocessors);
    Emitter::new(kernel, geometry, atomic, options.careful)?.source(symbol)
}

/// Whether a loop writes to places that it may write to again.
fn is_scatter(kernel: &Kernel) -> bool {
    kernel.insts.iter().any(|i| match &i.inst {
        Inst::Store { index, combine, .. } => {
            let loaded = index.vars().iter().any(|v| v.kind() == ox_ir::sym::VarKind::Loaded);
            loaded || *combine != ox_ir::graph::Combine::Set
        }
        _ => false,
    })
}

impl<'k> Emitter<'k> {
    fn new(kernel: &'k Kernel, g: Geometry, atomic: bool, careful: bool) -> Result<Emitter<'k>, CodegenError> {
        let mut emitter = Emitter {
            kernel,
            g,
            atomic,
            careful,
            quick: Quick::of(kernel),
            scratch: FxHashMap::default(),
            shared_bytes: 0,
            cache: Cache::of(kernel, &g),
            carried: Carried::of(kernel, &g),
            online: online::find(kernel).filter(|online| g.spread == Spread::Rows && (online.is_all || g.items.is_none())),
            validity: FxHashMap::default(),
            guards: Vec::new(),
            dirty: FxHashSet::default(),
            in_loop: false,
            sure: None,
            lane: None,
            differing: FxHashSet::default(),
            packs: FxHashSet::default(),
            moved_whole: FxHashSet::default(),
            text: String::new(),
            depth: 0,
        };
        emitter.place_scratch()?;
        Ok(emitter)
    }

    fn place_scratch(&mut self) -> Result<(), CodegenError> {
        let reduces =
            self.kernel.insts.iter().any(|i| matches!(i.inst, Inst::Reduce { .. } | Inst::ReduceArg { .. } | Inst::Scan { .. }));
        let slots = match self.g.spread {
            Spread::Rows if self.g.y > 32 => self.g.threads() / 32,
            Spread::Columns if self.g.y > 1 => self.g.threads(),
            _ => 0,
        };
        self.shared_bytes = if reduces { slots * SLOT } else { 0 };
        for (n, param) in self.kernel.bufs.iter().enumerate() {
            let BufRole::Scratch(count) = param.role else { continue };
            let place = if self.cache.in_registers(n as u32) {
                Scratch::Registers
            } else if self.g.y == 1 {
                Scratch::Local
            } else {
                let at = self.shared_bytes;
                let bytes = count.max(1) * param.dtype.compute().size() as i64 * self.g.x;
                self.shared_bytes = (at + bytes + SLOT - 1) / SLOT * SLOT;
                Scratch::Shared(at)
            };
            self.scratch.insert(n as u32, place);
        }
        if self.shared_bytes > MOST_SHARED {
            return Err(self.unsupported(format!("{} bytes of shared memory", self.shared_bytes)));
        }
        Ok(())
    }

    /// Whether a thread has several columns side by side.
    fn has_column_lanes(&self) -> bool {
        self.g.spread == Spread::Columns && self.g.lanes > 1
    }

    fn unsupported(&self, what: String) -> CodegenError {
        CodegenError::Unsupported { kernel: self.kernel.name.clone(), what }
    }

    fn malformed(&self, what: String) -> CodegenError {
        CodegenError::Malformed { kernel: self.kernel.name.clone(), what }
    }

    fn dtype(&self, val: Val) -> DType {
        self.kernel.inst(val).dtype
    }

    fn line(&mut self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            self.text.push_str(&"  ".repeat(self.depth));
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn open(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }
}
