//! Many kernels, few translation units, on threads.

use crate::CodegenError;
use crate::emit::{Source, emit};
use crate::helpers::assemble;
use crate::nvrtc::Nvrtc;
use ox_ir::Kernel;
use ox_ir::abi::GpuKernel;
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Compute capability: 90 is 9.0.
    pub arch: u32,
    /// Writes to one place happen in order, and sums are rounded in one order: slow, but the same in every run.
    pub ordered: bool,
    /// How many the GPU has to keep busy.
    pub multiprocessors: u32,
    /// Buffers may begin anywhere, and sizes be large. Otherwise `GpuKernel` says where they must begin, and what must fit 32 bits: that is shorter by far, and
    /// holds for almost all.
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

    /// The kernels as text, in order. What cannot be compiled is known behind this.
    pub fn sources(kernels: &[Kernel], options: &Options) -> Result<Vec<Source>, CodegenError> {
        kernels.iter().enumerate().map(|(n, kernel)| emit(kernel, &symbol(kernel, n), options)).collect()
    }

    /// What the driver loads of a translation unit.
    pub fn image(&self, unit: &str, arch: u32) -> Result<Vec<u8>, CodegenError> {
        self.nvrtc.cubin(unit, self.target(arch))
    }

    /// What an image depends on besides its text: part of every cache key. None where it is not known which NVRTC this is.
    pub fn maker(&self, arch: u32) -> Option<String> {
        Some(format!("{} for {}", self.nvrtc.maker()?, self.target(arch)))
    }

    fn target(&self, arch: u32) -> u32 {
        self.nvrtc.target(arch).unwrap_or(arch)
    }

    /// An error where this NVRTC compiles nothing that such a GPU runs.
    pub fn check(&self, arch: u32) -> Result<(), CodegenError> {
        let missing = || {
            CodegenError::Missing(format!(
                "this NVRTC does not compile for a GPU of compute capability {}.{}",
                arch / 10,
                arch % 10
            ))
        };
        self.nvrtc.target(arch).map(drop).ok_or_else(missing)
    }

    /// The kernel as a person may read it, with the lines that it comes from.
    pub fn text<'a>(kernel: &Kernel, options: Options, lines: impl Iterator<Item = &'a str>) -> Result<String, CodegenError> {
        Ok(assemble([&emit(kernel, &symbol(kernel, 0), &options)?.from_lines(lines)]))
    }
}

/// How it is launched.
pub fn launched(source: &Source) -> GpuKernel {
    GpuKernel {
        symbol: source.symbol.clone(),
        threads: source.threads,
        points_per_block: source.points_per_block,
        points: source.points.clone(),
        shared_bytes: source.shared_bytes,
        aligned: source.aligned.clone(),
        narrow: source.narrow.clone(),
    }
}

fn symbol(kernel: &Kernel, n: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = kernel.name.chars().map(plain).take(LONGEST_NAME).collect();
    format!("oxytorch_{name}_{n}")
}

/// Units for each thread at most, but for the first kernels: fewer would leave threads idle in the end, and a unit costs time by itself.
const UNITS_EACH: usize = 2;
/// NVRTC reads one text at a time, whatever the number of threads (10 ms on a machine with an H200, of which our text is little); the rest of the way, by
/// kernel and with all threads at work, takes about so many times as long as that. There 28 units were ready sooner than 14 or as many as kernels, of
/// 54, 77 and 139 kernels on 16 threads: in 0.7, 0.8 and 0.75 s (14 units in 0.7, 1.0 and 1.1). This comes near to that.
const KERNEL_TO_READING: usize = 8;

/// The first kernels of many are units by themselves, so that the program can begin: the libraries that it calls next have much to do in their first calls.
const BY_THEMSELVES: usize = 3;

/// The sources in translation units. They stay in order: what is launched first is compiled first.
pub fn units(mut sources: Vec<Source>, threads: usize) -> Vec<Vec<Source>> {
    if sources.len() <= UNITS_EACH * threads {
        return of_like_length(sources, threads);
    }
    let others = sources.split_off(BY_THEMSELVES.min(sources.len()));
    sources.into_iter().map(|source| vec![source]).chain(of_like_length(others, threads)).collect()
}

/// In units of about the same length of text.
fn of_like_length(sources: Vec<Source>, threads: usize) -> Vec<Vec<Source>> {
    let all: usize = sources.iter().map(|source| source.text.len()).sum();
    let count = count_of_units(sources.len(), threads);
    let mut units: Vec<Vec<Source>> = Vec::new();
    let (mut before, mut last) = (0, None);
    for source in sources {
        // By the middle of its text.
        let unit = (2 * before + source.text.len()) * count / (2 * all).max(1);
        before += source.text.len();
        match units.last_mut() {
            Some(sources) if last == Some(unit) => sources.push(source),
            _ => units.push(vec![source]),
        }
        last = Some(unit);
    }
    units
}

/// All units are read one after the other, and then the last one is compiled: the number with which that is soonest.
fn count_of_units(kernels: usize, threads: usize) -> usize {
    let most = kernels.min(UNITS_EACH * threads.max(1));
    let time = |units: &usize| units + kernels.div_ceil(*units) * KERNEL_TO_READING;
    (1..=most).rev().min_by_key(time).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::Sym;

    fn source(n: usize, length: usize) -> Source {
        let (symbol, text) = (n.to_string(), "x".repeat(length));
        let (aligned, narrow) = (Vec::new(), Vec::new());
        Source { symbol, text, threads: 1, points_per_block: 1, points: Sym::ONE, shared_bytes: 0, aligned, narrow }
    }

    fn lengths(of: &[usize], threads: usize) -> Vec<Vec<usize>> {
        let sources = of.iter().enumerate().map(|(n, length)| source(n, *length)).collect();
        let made = units(sources, threads);
        let order: Vec<&str> = made.iter().flatten().map(|source| source.symbol.as_str()).collect();
        assert_eq!(order, (0..of.len()).map(|n| n.to_string()).collect::<Vec<_>>());
        made.iter().map(|unit| unit.iter().map(|source| source.text.len()).collect()).collect()
    }

    #[test]
    fn few_kernels_are_units_by_themselves() {
        assert_eq!(lengths(&[10, 20, 10], 16), [[10], [20], [10]]);
    }

    #[test]
    fn many_kernels_share_units_in_order() {
        assert_eq!(lengths(&[10; 11], 2), [vec![10], vec![10], vec![10], vec![10, 10], vec![10, 10], vec![10, 10], vec![10, 10]]);
        assert_eq!(lengths(&[5, 5, 5, 50, 10, 10, 10], 1), [vec![5], vec![5], vec![5], vec![50], vec![10, 10, 10]]);
        for (kernels, units) in [(54, 20), (77, 28), (139, 31)] {
            let made = lengths(&vec![10; kernels], 16);
            assert_eq!(made.len(), units, "more would wait for their text to be read, fewer for the last of them");
        }
    }

    #[test]
    fn nothing_makes_no_unit() {
        assert!(lengths(&[], 4).is_empty());
    }
}
