//! Random kernels whose every access lies inside its buffer and whose stores go to places of their own.

use ox_ir::graph::{Combine, ReduceOp};
use ox_ir::kernel::{Axis, BufParam, BufRole, Inst, Kernel, Lanes, Pass, TypedInst, Val};
use ox_ir::{DType, PointOp, Scalar, Sym, Var};
use ox_testing::TensorData;

pub struct Case {
    pub kernel: Kernel,
    pub buffers: Vec<TensorData>,
    pub sizes: Vec<i64>,
    pub points: i64,
    pub cuts: Vec<i64>,
}

struct Maker {
    state: u64,
    kernel: Kernel,
    /// Elements of each buffer.
    lengths: Vec<i64>,
    sizes: Vec<i64>,
    next_axis: u32,
    /// Values that the rest of the kernel can see.
    lasting: Vec<Val>,
}

const EXTENTS: [i64; 10] = [1, 2, 3, 5, 8, 15, 16, 17, 33, 40];
const TYPES: [DType; 6] = [DType::F32, DType::F32, DType::BF16, DType::I64, DType::I32, DType::F64];

pub fn case(seed: u64) -> Case {
    let kernel = Kernel {
        name: format!("random {seed}"),
        sizes: vec![],
        bufs: vec![],
        axes: vec![],
        insts: vec![],
        passes: vec![],
        lanes: [Lanes::Outer, Lanes::Inner, Lanes::None][seed as usize % 3],
        parallel: false,
        usual: Default::default(),
    };
    let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut maker = Maker { state, kernel, lengths: vec![], sizes: vec![], next_axis: 0, lasting: vec![] };
    for _ in 0..maker.below(3) + 1 {
        let axis = maker.axis(&maker.kernel.axes.clone());
        maker.kernel.axes.push(axis);
    }
    for _ in 0..maker.below(3) + 1 {
        maker.pass();
    }
    maker.finish()
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % n
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A third of the extents are sizes that the code does not know. `others` are the axes around this one: the interpreter is slow.
    fn axis(&mut self, others: &[Axis]) -> Axis {
        let around: i64 = others.iter().map(|a| self.extent(a)).product();
        let fitting: Vec<i64> = EXTENTS.into_iter().filter(|e| *e <= 3 || e * around <= 2000).collect();
        let extent = self.pick(&fitting);
        let sym = if self.below(3) == 0 {
            let var = Var::size(self.sizes.len() as u32, 0, i64::MAX, 1);
            self.sizes.push(extent);
            self.kernel.sizes.push(var.clone());
            Sym::var(&var)
        } else {
            Sym::from(extent)
        };
        self.next_axis += 1;
        Axis { var: Var::axis(self.next_axis - 1, sym.clone()), extent: sym }
    }

    fn extent(&self, axis: &Axis) -> i64 {
        axis.extent.eval(&|v| self.sizes.get(v.id() as usize).copied()).expect("all sizes are known")
    }

    fn push(&mut self, inst: Inst, dtype: DType, pass: &mut Pass) -> Val {
        self.kernel.insts.push(TypedInst { inst, dtype });
        let val = Val(self.kernel.insts.len() as u32 - 1);
        pass.body.push(val);
        val
    }

    fn buffer(&mut self, dtype: DType, role: BufRole, length: i64) -> u32 {
        self.kernel.bufs.push(BufParam { dtype, role });
        self.lengths.push(length);
        self.kernel.bufs.len() as u32 - 1
    }

    /// An index that is linear in some axes, forwards or backwards, perhaps divided; and how many elements that needs.
    fn index(&mut self, axes: &[Axis]) -> (Sym, i64) {
        let (mut index, mut length) = (Sym::ZERO, 1);
        for axis in axes {
            let (var, extent) = (Sym::var(&axis.var), self.extent(axis));
            let (part, count) = match self.below(6) {
                0 => continue,
                1 => (&(&axis.extent - &var) - 1, extent),
                2 => (var.div(&Sym::from(3i64)), (extent + 2) / 3),
                3 => (var.rem(&Sym::from(4i64)), extent.min(4)),
                _ => (var, extent),
            };
            index = &index + &(&part * length);
            length *= count.max(1);
        }
        (index, length)
    }

    fn load(&mut self, axes: &[Axis], pass: &mut Pass) -> Val {
        let dtype = self.pick(&TYPES);
        let (index, length) = self.index(axes);
        let buf = self.buffer(dtype, BufRole::In, length);
        let mask = self.mask(&index, length, pass).map(|mask| (mask, Scalar::Int(3)));
        self.push(Inst::Load { buf, index, mask }, dtype, pass)
    }

    /// Sometimes a condition that cuts off the upper part of an index.
    fn mask(&mut self, index: &Sym, length: i64, pass: &mut Pass) -> Option<Val> {
        if self.below(4) != 0 {
            return None;
        }
        let at = self.push(Inst::Index(index.clone()), DType::I64, pass);
        let limit = self.below(length as usize + 1) as i64;
        let limit = self.push(Inst::Const(Scalar::Int(limit)), DType::I64, pass);
        Some(self.push(Inst::Point(PointOp::Lt, [at, limit].into_iter().collect()), DType::Bool, pass))
    }

    /// Sometimes a condition on the outermost axis alone, which is the same for all lanes.
    fn outer_mask(&mut self, pass: &mut Pass) -> Option<Val> {
        let axis = self.kernel.axes[0].clone();
        let extent = self.extent(&axis);
        self.mask(&Sym::var(&axis.var), extent, pass)
    }

    fn cast(&mut self, val: Val, dtype: DType, pass: &mut Pass) -> Val {
        if self.kernel.inst(val).dtype == dtype { val } else { self.push(Inst::Cast(val), dtype, pass) }
    }

    fn point(&mut self, seen: &[Val], pass: &mut Pass) -> Val {
        use PointOp::*;
        let (a, b) = (self.pick(seen), self.pick(seen));
        let dtype = self.pick(&TYPES);
        let (a, b) = (self.cast(a, dtype, pass), self.cast(b, dtype, pass));
        let op = self.pick(&[Add, Sub, Mul, Maximum, Minimum, Neg, Abs, Where]);
        match op {
            Neg | Abs => self.push(Inst::Point(op, [a].into_iter().collect()), dtype, pass),
            Where => {
                let less = self.push(Inst::Point(Lt, [a, b].into_iter().collect()), DType::Bool, pass);
                self.push(Inst::Point(Where, [less, b, a].into_iter().collect()), dtype, pass)
            }
            _ => self.push(Inst::Point(op, [a, b].into_iter().collect()), dtype, pass),
        }
    }

    fn reduce(&mut self, seen: &[Val], axes: &[Axis], pass: &mut Pass) -> Val {
        let value = self.pick(seen);
        let dtype = self.kernel.inst(value).dtype;
        match self.below(5) {
            0 => {
                let op = self.pick(&[ReduceOp::ArgMax, ReduceOp::ArgMin]);
                let position = axes.iter().fold(Sym::ZERO, |sum, a| &(&sum * &a.extent) + &Sym::var(&a.var));
                self.push(Inst::ReduceArg { op, value, position }, DType::I64, pass)
            }
            n => {
                let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum][n - 1];
                self.push(Inst::Reduce { op, value }, dtype, pass)
            }
        }
    }

    fn pass(&mut self) {
        let mut pass = Pass::default();
        for _ in 0..self.below(3) {
            let around: Vec<Axis> = self.kernel.axes.iter().chain(&pass.axes).cloned().collect();
            let axis = self.axis(&around);
            pass.axes.push(axis);
        }
        let axes: Vec<Axis> = self.kernel.axes.iter().chain(&pass.axes).cloned().collect();
        let mut seen = self.lasting.clone();
        for _ in 0..self.below(3) + 1 {
            let val = self.load(&axes, &mut pass);
            seen.push(val);
        }
        for _ in 0..self.below(4) {
            let val = self.point(&seen, &mut pass);
            seen.push(val);
        }
        if !pass.axes.is_empty() && self.below(4) == 0 {
            let value = self.pick(&seen);
            let op = self.pick(&[ReduceOp::Max, ReduceOp::Min]);
            let dtype = self.kernel.inst(value).dtype;
            let val = self.push(Inst::Scan { op, value, decay: None }, dtype, &mut pass);
            seen.push(val);
        }
        let stored = *seen.last().expect("at least one load");
        self.store(stored, &axes, &mut pass);
        let reduces = if pass.axes.is_empty() { 0 } else { self.below(3) };
        let inner = pass.axes.clone();
        let made: Vec<Val> = (0..reduces).map(|_| self.reduce(&seen, &inner, &mut pass)).collect();
        self.lasting = if pass.axes.is_empty() { seen } else { [self.lasting.clone(), made].concat() };
        self.kernel.passes.push(pass);
    }

    /// Each point to an element of its own, the axes in any order, some of them backwards.
    fn store(&mut self, value: Val, axes: &[Axis], pass: &mut Pass) {
        let mut order = axes.to_vec();
        if self.below(3) == 0 {
            let by = self.below(order.len());
            order.rotate_left(by);
        }
        let (mut index, mut length) = (Sym::ZERO, 1);
        for axis in order.iter().rev() {
            let var = Sym::var(&axis.var);
            let part = if self.below(5) == 0 { &(&axis.extent - &var) - 1 } else { var };
            index = &index + &(&part * length);
            length *= self.extent(axis);
        }
        let dtype = self.kernel.inst(value).dtype;
        let buf = self.buffer(dtype, BufRole::Out, length);
        let mask = if self.below(2) == 0 { self.outer_mask(pass) } else { self.mask(&index, length, pass) };
        self.push(Inst::Store { buf, index, value, combine: Combine::Set, mask }, dtype, pass);
    }

    fn finish(mut self) -> Case {
        if !self.lasting.is_empty() {
            let mut pass = Pass::default();
            let axes = self.kernel.axes.clone();
            for val in self.lasting.clone() {
                self.store(val, &axes, &mut pass);
            }
            self.kernel.passes.push(pass);
        }
        let points: i64 = self.kernel.axes.iter().map(|a| self.extent(a)).product();
        let cuts: Vec<i64> = {
            let mut cuts: Vec<i64> = (0..self.below(3)).map(|_| self.below(points as usize + 1) as i64).collect();
            cuts.sort_unstable();
            cuts
        };
        let buffers = (0..self.lengths.len()).map(|n| self.contents(n)).collect();
        Case { kernel: self.kernel, buffers, sizes: self.sizes, points, cuts }
    }

    /// Small numbers with few digits: sums of them are exact in any order, in every type.
    fn contents(&mut self, buf: usize) -> TensorData {
        let dtype = self.kernel.bufs[buf].dtype;
        let count = self.lengths[buf] as usize;
        let data: Vec<Scalar> = (0..count).map(|_| Scalar::Int(self.below(9) as i64 - 4)).collect();
        TensorData::new(dtype, &[count], data)
    }
}
