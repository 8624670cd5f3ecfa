//! Plans, tensors and kernels for tests.

use ox_ir::abi::{KernelError, KernelFn};
use ox_ir::graph::{Post, Shape, contiguous_strides};
use ox_ir::kernel::{Axis, BufParam, BufRole, Lanes};
use ox_ir::plan::{BufId, Buffer, Call, Place, PlanOutput, Step, View};
use ox_ir::{DType, Device, Kernel, Plan, Scalar, Sym, Var};
use ox_runtime::{Executable, HostCalls, LoadedFn, NoHost, RunError, Tensor, TensorRef, abi};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether libtorch is there; says so once if it is not.
pub fn torch() -> bool {
    let Some(path) = libtorch() else {
        eprintln!("skipped: no libtorch (set OXYTORCH_TEST_LIBTORCH)");
        return false;
    };
    abi::init(Some(&path)).expect("libtorch must load");
    true
}

fn libtorch() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("OXYTORCH_TEST_LIBTORCH") {
        return Some(path.into());
    }
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let pythons = here.ancestors().filter_map(|dir| std::fs::read_dir(dir.join(".venv/lib")).ok()).flatten().flatten();
    pythons.map(|python| python.path().join("site-packages/torch/lib/libtorch_cpu.so")).find(|file| file.exists())
}

#[derive(Default)]
pub struct Builder {
    pub plan: Plan,
    functions: Vec<LoadedFn>,
    inputs: u32,
    outputs: u32,
    arena: i64,
}

pub fn shape(sizes: &[i64]) -> Shape {
    sizes.iter().map(|&n| Sym::from(n)).collect()
}

impl Builder {
    fn buffer(&mut self, place: Place, dtype: DType, sizes: &[i64], strides: Option<&[i64]>) -> BufId {
        let shape_ = shape(sizes);
        let strides = strides.map_or_else(|| contiguous_strides(&shape_), shape);
        self.plan.buffers.push(Buffer { dtype, device: Device::Cpu, shape: shape_, strides, place, packed: false });
        BufId(self.plan.buffers.len() as u32 - 1)
    }

    pub fn input(&mut self, sizes: &[i64]) -> BufId {
        self.typed_input(DType::F32, sizes, None)
    }

    pub fn typed_input(&mut self, dtype: DType, sizes: &[i64], strides: Option<&[i64]>) -> BufId {
        self.inputs += 1;
        self.buffer(Place::Input(self.inputs - 1), dtype, sizes, strides)
    }

    pub fn arena(&mut self, dtype: DType, sizes: &[i64]) -> BufId {
        let offset = self.arena;
        let bytes = sizes.iter().product::<i64>() * dtype.size() as i64;
        self.arena += (bytes + 63) / 64 * 64;
        self.plan.arena_bytes = Some(Sym::from(self.arena));
        self.buffer(Place::Arena(Sym::from(offset)), dtype, sizes, None)
    }

    /// A buffer that is also a result.
    pub fn output(&mut self, sizes: &[i64]) -> BufId {
        self.typed_output(DType::F32, sizes, None)
    }

    pub fn typed_output(&mut self, dtype: DType, sizes: &[i64], strides: Option<&[i64]>) -> BufId {
        self.outputs += 1;
        let buf = self.buffer(Place::Output(self.outputs - 1), dtype, sizes, strides);
        self.plan.outputs.push(PlanOutput::Buffer(buf));
        buf
    }

    pub fn library(&mut self, dtype: DType, sizes: &[i64], strides: Option<&[i64]>) -> BufId {
        self.buffer(Place::Library, dtype, sizes, strides)
    }

    /// A weight that a call of this plan packs.
    pub fn packed(&mut self, sizes: &[i64]) -> BufId {
        let buf = self.library(DType::F32, sizes, None);
        self.plan.buffers[buf.index()].packed = true;
        buf
    }

    /// A weight that comes packed.
    pub fn packed_input(&mut self, sizes: &[i64]) -> BufId {
        let buf = self.input(sizes);
        self.plan.buffers[buf.index()].packed = true;
        buf
    }

    pub fn whole(&self, buf: BufId) -> View {
        let buffer = &self.plan.buffers[buf.index()];
        View { buf, shape: buffer.shape.clone(), strides: buffer.strides.clone(), offset: Sym::ZERO }
    }

    pub fn view(&self, buf: BufId, sizes: &[i64], strides: &[i64], offset: i64) -> View {
        View { buf, shape: shape(sizes), strides: shape(strides), offset: Sym::from(offset) }
    }

    /// Launches `function` on these buffers over `points`; the last buffer is the one that it writes.
    pub fn launch(&mut self, function: KernelFn, points: Sym, bufs: &[BufId]) {
        let roles = (0..bufs.len()).map(|at| if at + 1 == bufs.len() { BufRole::Out } else { BufRole::In });
        let types = bufs.iter().map(|b| self.plan.buffers[b.index()].dtype);
        let bufs_ = types.zip(roles).map(|(dtype, role)| BufParam { dtype, role }).collect();
        let axes = vec![Axis { var: Var::axis(0, points.clone()), extent: points }];
        self.plan.kernels.push(Kernel {
            name: "test".into(),
            sizes: self.plan.sizes.clone(),
            bufs: bufs_,
            axes,
            insts: Vec::new(),
            passes: Vec::new(),
            lanes: Lanes::Outer,
            parallel: true,
            usual: Default::default(),
        });
        self.functions.push(LoadedFn { function, sizes: None, keep: Arc::new(()) });
        self.plan.steps.push(Step::Launch { kernel: self.functions.len() as u32 - 1, bufs: bufs.to_vec(), checks: 0 });
    }

    pub fn call(&mut self, call: Call, ins: Vec<View>, outs: &[BufId]) {
        self.plan.steps.push(Step::Call { call, ins, outs: outs.to_vec(), location: 0 });
    }

    pub fn build(self) -> Executable {
        self.build_with(Arc::new(NoHost)).unwrap()
    }

    pub fn build_with(self, host: Arc<dyn HostCalls>) -> Result<Executable, RunError> {
        Executable::new(self.plan, self.functions, host)
    }
}

/// A contiguous f32 tensor of torch's.
pub fn tensor(sizes: &[i64], values: &[f32]) -> Tensor {
    let strides: Vec<i64> = contiguous_strides(&shape(sizes)).iter().map(|s| s.as_const().unwrap()).collect();
    strided(sizes, &strides, values)
}

/// With `values` as its memory, from the first element on.
pub fn strided(sizes: &[i64], strides: &[i64], values: &[f32]) -> Tensor {
    of_type(DType::F32, sizes, strides, values)
}

pub fn of_type<T: Copy>(dtype: DType, sizes: &[i64], strides: &[i64], values: &[T]) -> Tensor {
    assert_eq!(dtype.size(), size_of::<T>());
    let tensor = Tensor::empty_strided(sizes, strides, dtype, Device::Cpu).unwrap();
    if !values.is_empty() {
        // SAFETY: the tests pass as many values as the tensor spans.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), tensor.as_ref().data_ptr().unwrap().cast(), values.len()) };
    }
    tensor
}

/// The elements in row-major order.
pub fn values<T: Copy>(tensor: &Tensor) -> Vec<T> {
    let tensor = tensor.as_ref();
    assert_eq!(tensor.dtype().unwrap().unwrap().size(), size_of::<T>());
    let (sizes, strides, data) = (tensor.sizes().unwrap(), tensor.strides().unwrap(), tensor.data_ptr().unwrap() as *const T);
    let count: i64 = sizes.iter().product();
    let at = |mut flat: i64| {
        let mut offset = 0;
        for d in (0..sizes.len()).rev() {
            offset += flat % sizes[d] * strides[d];
            flat /= sizes[d];
        }
        // SAFETY: an element of the tensor.
        unsafe { *data.offset(offset as isize) }
    };
    (0..count).map(at).collect()
}

pub fn floats(tensor: &Tensor) -> Vec<f32> {
    values::<f32>(tensor)
}

/// Numbers that are small, exact and all different enough.
pub fn sample(count: i64) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 29) as f32 / 8.0 - 1.5).collect()
}

pub fn run(executable: &Executable, inputs: &[&Tensor]) -> Vec<Tensor> {
    try_run(executable, inputs).unwrap()
}

pub fn try_run(executable: &Executable, inputs: &[&Tensor]) -> Result<Vec<Tensor>, RunError> {
    let refs: Vec<TensorRef<'_>> = inputs.iter().map(|t| t.as_ref()).collect();
    executable.run(&refs, &[])
}

pub fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (at, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-4 + 1e-4 * w.abs(), "element {at}: got {g}, want {w}");
    }
}

/// `out[i] = 2 * in[i] + 1`.
pub unsafe extern "C" fn twice_plus_one(bufs: *const *mut u8, _: *const i64, begin: i64, end: i64, _: *mut KernelError) {
    // SAFETY: two f32 buffers with at least `end` elements.
    unsafe {
        let (x, out) = (*bufs as *const f32, *bufs.add(1) as *mut f32);
        for i in begin as usize..end as usize {
            *out.add(i) = 2.0 * *x.add(i) + 1.0;
        }
    }
}

pub fn naive_product(a: &[f32], b: &[f32], m: i64, k: i64, n: i64) -> Vec<f32> {
    let mut out = vec![0.0; (m * n) as usize];
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|l| a[(i * k + l) as usize] as f64 * b[(l * n + j) as usize] as f64);
            out[(i * n + j) as usize] = products.sum::<f64>() as f32;
        }
    }
    out
}

/// y = (2x + 1) @ x, through an arena of `n * n` elements.
pub fn product_plan(n: i64) -> Executable {
    let mut b = Builder::default();
    let (x, t, y) = (b.input(&[n, n]), b.arena(DType::F32, &[n, n]), b.output(&[n, n]));
    b.launch(twice_plus_one, Sym::from(n * n), &[x, t]);
    let ins = vec![b.whole(t), b.whole(x)];
    let call = Call::Matmul { bias: false, add: false, alpha: Scalar::Float(1.0), beta: Scalar::Float(1.0), post: Post::None };
    b.call(call, ins, &[y]);
    b.build()
}
