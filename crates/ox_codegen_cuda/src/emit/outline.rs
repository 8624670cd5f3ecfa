//! The function around the passes: its parameters, and which point a thread stands at.

use super::ctype::{held, stored};
use super::index::Width;
use super::{Emitter, Scratch, Source, index};
use crate::CodegenError;
use crate::geometry::Spread;
use ox_ir::Sym;
use ox_ir::kernel::{Axis, BufRole};

impl Emitter<'_> {
    pub fn source(mut self, symbol: &str) -> Result<Source, CodegenError> {
        let kernel = self.kernel;
        if let Some(param) = kernel.bufs.iter().find(|b| b.dtype.is_complex()) {
            return Err(self.unsupported(format!("a buffer of {}", param.dtype)));
        }
        self.line(format!("// {}: {}", kernel.name, self.in_words()));
        let params = self.parameters();
        // Two rows for each multiprocessor: one is read while the other one is worked on.
        let bounds = match self.g.threads() {
            threads if self.g.is_long_row() => format!("{threads}, {}", 1024 / threads),
            threads => threads.to_string(),
        };
        self.open(format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {symbol}({params}) {{"));
        let (idx, narrow) = match index::width(kernel, self.careful) {
            Width::Narrow(limits) => ("int", limits),
            Width::Wide => ("long long", Vec::new()),
        };
        self.line(format!("using idx = {idx};"));
        for var in &kernel.sizes {
            let name = index::name(var);
            self.line(format!("const idx {name} = (idx){name}_;"));
        }
        self.stand();
        let alignments = self.text.len();
        self.memory();
        match self.g.spread {
            Spread::Points | Spread::Tiles(_) => self.point()?,
            Spread::Rows | Spread::Columns => {
                let done = self.online.map(|online| online.second);
                let passes = kernel.passes.iter().enumerate().filter(|(n, _)| Some(*n) != done);
                passes.map(|(_, pass)| pass).try_for_each(|pass| self.pass(pass))?;
            }
        }
        let aligned = self.aligned();
        self.text.insert_str(alignments, &self.alignments(&aligned));
        self.close();
        Ok(Source {
            symbol: symbol.to_string(),
            threads: self.g.threads() as u32,
            points_per_block: self.g.points_per_block(),
            points: self.g.points(kernel),
            shared_bytes: self.shared_bytes as u32,
            narrow,
            aligned: if self.careful { Vec::new() } else { aligned.iter().map(|(place, _, bytes)| (*place, *bytes)).collect() },
            text: self.text,
        })
    }

    fn in_words(&self) -> String {
        let (x, y, lanes) = (self.g.x, self.g.y, self.g.lanes);
        let each = if lanes > 1 { format!(", {lanes} elements at once") } else { String::new() };
        match self.g.spread {
            Spread::Points => format!("a thread for each point{each}"),
            Spread::Tiles(n) => format!("tiles along {}{each}", index::name(&self.kernel.axes[n].var)),
            Spread::Rows => format!("{y} threads for a row, {x} rows for a block{each}"),
            Spread::Columns => format!("{y} threads for a column, {x} columns for a block{each}"),
        }
    }

    fn parameters(&self) -> String {
        let mut params = Vec::new();
        for (n, param) in self.kernel.bufs.iter().enumerate() {
            let constant = if param.role == BufRole::In { "const " } else { "" };
            if !matches!(param.role, BufRole::Scratch(_)) {
                params.push(format!("{constant}{}* __restrict__ b{n}", stored(param.dtype)));
            }
        }
        params.extend(self.kernel.sizes.iter().map(|var| format!("const long long {}_", index::name(var))));
        params.push("Report* report".into());
        params.join(", ")
    }

    /// Which outer point this thread works on, and as which of its threads.
    fn stand(&mut self) {
        let (x, y, lanes) = (self.g.x, self.g.y, self.g.lanes);
        let points = self.kernel.points();
        let count = index::factor(&points);
        if self.g.spread == Spread::Points {
            let times = if lanes > 1 { format!(" * {lanes}") } else { String::new() };
            self.line(format!("const idx p = ((idx)blockIdx.x * {x} + threadIdx.x){times};"));
            self.line(format!("if (p >= {count}) return;"));
            return self.decode(&self.kernel.axes.clone(), "p");
        }
        if let Spread::Tiles(across) = self.g.spread {
            return self.stand_in_tile(across);
        }
        let (at, share) = match self.g.spread {
            Spread::Rows => (format!("threadIdx.x / {y}"), format!("threadIdx.x % {y}")),
            _ => (format!("threadIdx.x % {x}"), format!("threadIdx.x / {x}")),
        };
        self.line(format!("const int x = {}, y = {};", if x == 1 { "0" } else { &at }, if y == 1 { "0" } else { &share }));
        let lanes = if self.g.spread == Spread::Columns { lanes } else { 1 };
        let point = match (x, lanes) {
            (1, _) => "(idx)blockIdx.x".into(),
            (_, 1) => format!("(idx)blockIdx.x * {x} + x"),
            _ => format!("((idx)blockIdx.x * {x} + x) * {lanes}"),
        };
        if x == 1 || points.is_multiple_of(x * lanes) {
            self.line(format!("const idx p = {point};"));
        } else {
            // Threads behind the last point do its work again, so that all can wait for one another, but write nothing.
            self.line(format!("const bool active = {point} < {count};"));
            self.line(format!("const idx p = active ? {point} : {count} - {lanes};"));
            self.guards.push("active");
        }
        self.decode(&self.kernel.axes.clone(), "p");
    }

    /// The place in the tile from the thread, which tile from the block.
    fn stand_in_tile(&mut self, across: usize) {
        let (x, y, lanes) = (self.g.x, self.g.y, self.g.lanes);
        let last = self.kernel.axes.len() - 1;
        self.line("idx t = (idx)blockIdx.x;");
        for (n, axis) in self.kernel.axes.clone().iter().enumerate().rev() {
            let (name, extent) = (index::name(&axis.var), index::factor(&axis.extent));
            let (step, offset) = match n {
                _ if n == last => (x, format!(" + threadIdx.x % {x}")),
                _ if n == across => (y * lanes, format!(" + (int)(threadIdx.x / {x}) * {lanes}")),
                _ => (1, String::new()),
            };
            let count = index::text(&axis.extent.div_ceil(&Sym::from(step)));
            let times = if step > 1 { format!(" * {step}") } else { String::new() };
            self.line(format!("const idx {name} = rem(t, idx({count})){times}{offset};"));
            self.line(format!("t = quot(t, idx({count}));"));
            if step > 1 && !axis.extent.is_multiple_of(step) {
                self.line(format!("if ({name} >= {extent}) return;"));
            }
        }
    }

    /// The position along each axis of the element with number `from`.
    pub fn decode(&mut self, axes: &[Axis], from: &str) {
        let mut rest = from.to_string();
        for (n, axis) in axes.iter().enumerate().rev() {
            let name = index::name(&axis.var);
            if n == 0 {
                self.line(format!("const idx {name} = {rest};"));
                break;
            }
            let extent = index::text(&axis.extent);
            self.line(format!("const idx {name} = rem({rest}, idx({extent}));"));
            if n > 1 || axes.len() > 2 {
                let next = format!("{from}{n}");
                self.line(format!("const idx {next} = quot({rest}, idx({extent}));"));
                rest = next;
            } else {
                rest = format!("quot({rest}, idx({extent}))");
            }
        }
    }

    /// Whether vectors are moved whole. A careful kernel looks where its buffers begin; others are launched only on those that begin where they may.
    fn alignments(&self, aligned: &[(usize, usize, usize)]) -> String {
        let line = |(_, n, bytes): &(usize, usize, usize)| match self.careful {
            true => format!("  const bool whole{n} = is_aligned(b{n}, {bytes});\n"),
            false => format!("  const bool whole{n} = true;\n"),
        };
        aligned.iter().map(line).collect()
    }

    /// Buffers that the text moves in vectors: which argument, which buffer, how many bytes.
    fn aligned(&self) -> Vec<(usize, usize, usize)> {
        let params = self.kernel.bufs.iter().enumerate().filter(|(_, param)| !matches!(param.role, BufRole::Scratch(_)));
        let moved = params.enumerate().filter(|(_, (n, _))| self.moved_whole.contains(&(*n as u32)));
        moved.map(|(place, (n, param))| (place, n, (self.g.lanes as usize * param.dtype.size()).min(16))).collect()
    }

    fn memory(&mut self) {
        if self.shared_bytes > 0 {
            self.line("extern __shared__ __align__(16) unsigned char shared[];");
        }
        let (items, lanes) = (self.g.items.unwrap_or(1), self.g.lanes);
        for (slot, val) in self.cache.filling() {
            let ox_ir::kernel::Inst::Load { buf, .. } = self.kernel.inst(val).inst else { continue };
            self.line(format!("Pack<{}, {lanes}> c{slot}[{items}];", stored(self.kernel.bufs[buf as usize].dtype)));
        }
        for val in self.carried.values() {
            self.line(format!("{} w{}[{lanes}];", held(self.dtype(val)), val.0));
        }
        for (n, param) in self.kernel.bufs.iter().enumerate() {
            let BufRole::Scratch(count) = param.role else { continue };
            let ty = held(param.dtype);
            let text = match self.scratch[&(n as u32)] {
                Scratch::Registers => format!("{ty} t{n}[{}];", items * lanes),
                Scratch::Local => format!("{ty} t{n}[{}];", count.max(1)),
                Scratch::Shared(at) => format!("{ty}* const t{n} = ({ty}*)(shared + {at}) + x * {};", count.max(1)),
            };
            self.line(text);
        }
    }
}

/// How often the loop over `length` packs of `lanes` goes around is the same for all threads.
pub fn is_even(length: &Sym, lanes: i64, y: i64) -> bool {
    length.is_multiple_of(lanes * y)
}
