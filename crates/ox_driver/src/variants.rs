//! Kernels for sizes that recur, as the runtime asks for them.

use crate::cache;
use crate::pipeline::backend;
use ox_codegen_cpu::tidy;
use ox_ir::Kernel;
use ox_runtime::{LoadedFn, Specialise};

pub(crate) struct AtSizes;

impl Specialise for AtSizes {
    fn compile(&self, kernel: &Kernel) -> Option<LoadedFn> {
        let loaded = cache::load_at_sizes(backend().ok()?, kernel).ok()?;
        Some(LoadedFn { function: loaded.function, sizes: None, keep: loaded.keep })
    }

    fn finish(&self) {
        tidy::give_back();
    }
}
