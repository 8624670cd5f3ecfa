//! Many kernels, few translation units, on threads.

use crate::CodegenError;
use crate::emit::{Source, emit};
use crate::helpers::assemble;
use crate::nvrtc::Nvrtc;
use ox_ir::Kernel;
use ox_ir::abi::GpuKernel;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Compute capability: 90 is 9.0.
    pub arch: u32,
    /// Writes to one place happen in order, and sums are rounded in one order: slow, but the same in every run.
    pub ordered: bool,
    /// How many the GPU has to keep busy.
    pub multiprocessors: u32,
    /// Buffers may begin anywhere. Otherwise `GpuKernel::aligned` says where they must: that is shorter by far, and holds for almost all.
    pub careful: bool,
}

pub struct Backend {
    nvrtc: Nvrtc,
}

/// An architecture that every version of NVRTC knows that torch comes with.
const OLDEST: u32 = 80;
/// Characters of a kernel's name that become part of its symbol.
const LONGEST_NAME: usize = 80;

impl Backend {
    /// `folders` are searched for NVRTC too, as folders of Python packages.
    pub fn new(folders: &[PathBuf]) -> Result<Backend, CodegenError> {
        Ok(Backend { nvrtc: Nvrtc::find(folders)? })
    }

    /// Compiles something small: what NVRTC does once in a process is done then.
    pub fn warm_up(&self) {
        let _ = self.nvrtc.cubin("extern \"C\" __global__ void nothing(float* x) { x[threadIdx.x] = 0.0f; }", OLDEST);
    }

    /// The kernels in order, compiled on up to `threads` threads: one translation unit for each, since a unit costs time by itself.
    pub fn compile(&self, kernels: &[Kernel], options: Options, threads: usize) -> Result<Vec<GpuKernel>, CodegenError> {
        let named = |(n, kernel)| emit(kernel, &symbol(kernel, n), &options);
        let sources = kernels.iter().enumerate().map(named).collect::<Result<Vec<Source>, _>>()?;
        let units = units(&sources, threads.clamp(1, kernels.len().max(1)));
        let compile = |unit: &Vec<usize>| self.unit(&sources, unit, options.arch);
        let images: Vec<Result<Arc<[u8]>, CodegenError>> = std::thread::scope(|scope| {
            let workers: Vec<_> = units.iter().map(|unit| scope.spawn(|| compile(unit))).collect();
            let join =
                |w: std::thread::ScopedJoinHandle<'_, _>| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            workers.into_iter().map(join).collect()
        });
        let mut compiled: Vec<Option<GpuKernel>> = vec![None; sources.len()];
        for (unit, image) in units.iter().zip(images) {
            let image = image?;
            unit.iter().for_each(|n| compiled[*n] = Some(loadable(&sources[*n], image.clone())));
        }
        Ok(compiled.into_iter().map(|kernel| kernel.expect("every kernel is in a unit")).collect())
    }

    fn unit(&self, sources: &[Source], unit: &[usize], arch: u32) -> Result<Arc<[u8]>, CodegenError> {
        let text = assemble(unit.iter().map(|n| &sources[*n]));
        self.nvrtc.cubin(&text, arch).map(Arc::from)
    }

    /// The kernel as a person may read it.
    pub fn text(kernel: &Kernel, options: Options) -> Result<String, CodegenError> {
        Ok(assemble([&emit(kernel, &symbol(kernel, 0), &options)?]))
    }
}

fn loadable(source: &Source, image: Arc<[u8]>) -> GpuKernel {
    GpuKernel {
        image,
        symbol: source.symbol.clone(),
        threads: source.threads,
        points_per_block: source.points_per_block,
        points: source.points.clone(),
        shared_bytes: source.shared_bytes,
        aligned: source.aligned.clone(),
    }
}

fn symbol(kernel: &Kernel, n: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = kernel.name.chars().map(plain).take(LONGEST_NAME).collect();
    format!("oxytorch_{name}_{n}")
}

/// The sources by number, in `count` groups of about the same length of text.
fn units(sources: &[Source], count: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|n| std::cmp::Reverse(sources[*n].text.len()));
    let mut units: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new()); count];
    for n in order {
        let (length, unit) = units.iter_mut().min_by_key(|(length, _)| *length).expect("at least one unit");
        *length += sources[n].text.len();
        unit.push(n);
    }
    units.into_iter().map(|(_, unit)| unit).filter(|unit| !unit.is_empty()).collect()
}
