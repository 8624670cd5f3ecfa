//! Runs LLVM over kernels, on threads.

use crate::CodegenError;
use crate::emit;
use crate::error::llvm;
use crate::host::Host;
use crate::load::{self, Code, SYMBOL};
use crate::tidy;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use ox_ir::Kernel;
use ox_ir::abi::KernelFn;
use ox_ir::failure::{Panic, fault, guarded};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Few, because the emitter already writes vectors and rotated loops: the passes fold what fell out of unrolled index arithmetic and
/// hoist what does not change in a loop.
const PASSES: &str = "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";

/// A kernel in executable memory. The function may be called from any thread for as long as `keep` (or a clone of it) lives.
#[derive(Clone)]
pub struct LoadedKernel {
    pub function: KernelFn,
    pub keep: Arc<dyn Any + Send + Sync>,
}

/// The code generator for the CPU that we run on.
#[derive(Clone, Debug)]
pub struct Backend {
    host: Host,
    sums: Sums,
}

/// In which order a sum is added up whose length is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sums {
    /// The fastest.
    Best,
    /// That of code for any length, so that both give the same bits.
    OfAnyLength,
}

impl Backend {
    pub fn new() -> Result<Backend, CodegenError> {
        Ok(Backend { host: Host::detect()?, sums: Sums::Best })
    }

    /// For another CPU of this architecture, by LLVM's names: `("haswell", "+avx2,+fma,+f16c")`. The code must not be run where these
    /// features are missing.
    pub fn for_cpu(cpu: &str, features: &str) -> Result<Backend, CodegenError> {
        Ok(Backend { host: Host::named(cpu, features)?, sums: Sums::Best })
    }

    /// For another architecture, to look at the code or carry it there: `("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")`.
    #[cfg(feature = "foreign")]
    pub fn for_target(triple: &str, cpu: &str, features: &str) -> Result<Backend, CodegenError> {
        Ok(Backend { host: Host::foreign(triple, cpu, features)?, sums: Sums::Best })
    }

    /// For kernels at some of their sizes (`Kernel::at`), which take the place of the general one: the same results, bit for bit.
    pub fn for_known_sizes(&self) -> Backend {
        Backend { sums: Sums::OfAnyLength, ..self.clone() }
    }

    /// What the generated code depends on besides the kernel: part of every cache key.
    pub fn host_key(&self) -> String {
        format!("{} {} {}", self.host.triple, self.host.cpu, self.host.features)
    }

    /// Compiles and loads the kernels, each distinct one once, on up to `threads` threads.
    pub fn compile(&self, kernels: &[Kernel], threads: usize) -> Result<Vec<LoadedKernel>, CodegenError> {
        self.compile_and(kernels, threads, |_, _| ())
    }

    /// `keep` is shown the object code of each, for `load_object`, on the thread that has compiled it.
    pub fn compile_and(
        &self,
        kernels: &[Kernel],
        threads: usize,
        keep: impl Fn(&Kernel, &[u8]) + Sync,
    ) -> Result<Vec<LoadedKernel>, CodegenError> {
        let (distinct, places) = distinct(kernels);
        // The process is at its largest in a compile, which needs little of the code that was read since the last one (measured: 7 to 12 MB).
        tidy::forget_code();
        let loaded = run_on_threads(
            &distinct,
            threads,
            || self.host.machine(),
            |machine, kernel| self.compile_with(machine, kernel, &keep),
        );
        tidy::give_back();
        let loaded = loaded?;
        Ok(places.into_iter().map(|n| loaded[n].clone()).collect())
    }

    /// One kernel, on this thread. What the compile leaves behind is not given back.
    pub fn compile_one(&self, kernel: &Kernel) -> Result<LoadedKernel, CodegenError> {
        self.compile_with(&self.host.machine()?, kernel, &|_, _| ())
    }

    /// A panic belongs to the compile, not to the thread that it happens on.
    fn compile_with(
        &self,
        machine: &TargetMachine,
        kernel: &Kernel,
        keep: &impl Fn(&Kernel, &[u8]),
    ) -> Result<LoadedKernel, CodegenError> {
        let compile = || {
            fault("kernel");
            let object = self.object_with(machine, kernel)?;
            let loaded = self.load_object(&object)?;
            keep(kernel, &object);
            Ok(loaded)
        };
        guarded(compile).unwrap_or_else(|Panic(text)| Err(CodegenError::Panic(text)))
    }

    /// Relocatable object code, for `load_object` on a machine with the same `host_key`.
    pub fn compile_object(&self, kernel: &Kernel) -> Result<Vec<u8>, CodegenError> {
        self.object_with(&self.host.machine()?, kernel)
    }

    /// A code generator works out what its processor can do in its first use, which takes 8 % of a kernel's instructions; so it is used for many.
    fn object_with(&self, machine: &TargetMachine, kernel: &Kernel) -> Result<Vec<u8>, CodegenError> {
        let context = Context::create();
        let module = self.build(&context, machine, kernel)?;
        optimise(&module, machine)?;
        let code = machine.write_to_memory_buffer(&module, FileType::Object).map_err(llvm)?;
        Ok(code.as_slice().to_vec())
    }

    /// # Safety of the result
    /// The bytes must come from `compile_object` with the same `host_key`: they are machine code.
    pub fn load_object(&self, object: &[u8]) -> Result<LoadedKernel, CodegenError> {
        let (function, code): (KernelFn, Code) = load::load(object)?;
        Ok(LoadedKernel { function, keep: Arc::new(code) })
    }

    /// The kernel as LLVM IR, before any pass: for people and golden tests.
    pub fn emit_ir(&self, kernel: &Kernel) -> Result<String, CodegenError> {
        let context = Context::create();
        let machine = self.host.machine()?;
        Ok(self.build(&context, &machine, kernel)?.print_to_string().to_string())
    }

    /// The kernel as the host's assembly.
    pub fn emit_assembly(&self, kernel: &Kernel) -> Result<String, CodegenError> {
        let context = Context::create();
        let machine = self.host.machine()?;
        let module = self.build(&context, &machine, kernel)?;
        optimise(&module, &machine)?;
        let text = machine.write_to_memory_buffer(&module, FileType::Assembly).map_err(llvm)?;
        Ok(String::from_utf8_lossy(text.as_slice()).trim_end_matches('\0').to_string())
    }

    fn build<'c>(&self, context: &'c Context, machine: &TargetMachine, kernel: &Kernel) -> Result<Module<'c>, CodegenError> {
        let module = context.create_module("kernel");
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        emit::emit(context, &module, SYMBOL, kernel, &self.host, self.sums)?;
        if cfg!(debug_assertions) {
            module.verify().map_err(|e| llvm(format!("{e}\n{}", module.print_to_string())))?;
        }
        Ok(module)
    }
}

fn optimise(module: &Module<'_>, machine: &TargetMachine) -> Result<(), CodegenError> {
    module.run_passes(PASSES, machine, PassBuilderOptions::create()).map_err(llvm)
}

/// The kernels without repetition, and for each kernel its place among them.
fn distinct(kernels: &[Kernel]) -> (Vec<&Kernel>, Vec<usize>) {
    let mut found: FxHashMap<Kernel, usize> = FxHashMap::default();
    let mut list = Vec::new();
    let mut place = |kernel| {
        *found.entry(identity(kernel)).or_insert_with(|| {
            list.push(kernel);
            list.len() - 1
        })
    };
    let places = kernels.iter().map(&mut place).collect();
    (list, places)
}

/// The kernel without what does not matter to its code.
///
/// Size variables compare by number alone, but the code relies on their bounds too, so these are written into the name.
fn identity(kernel: &Kernel) -> Kernel {
    let facts = kernel.sizes.iter().map(|v| format!("{v} {} {} {};", v.lo(), v.hi(), v.divisor())).collect();
    Kernel { name: facts, ..kernel.clone() }
}

/// `work` on every item, with a tool that each thread makes for itself. The results are in the order of the items; the first error wins. This thread
/// works, too: the C library has a heap for each thread, and what LLVM keeps for good holds pages of each of them.
fn run_on_threads<T: Sync, S, R: Send, E: Send + Clone>(
    items: &[T],
    threads: usize,
    tool: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&S, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = threads.clamp(1, items.len().max(1));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R, E>>>> = Mutex::new(items.iter().map(|_| None).collect());
    let worker = || {
        let tool = tool();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { return };
            let result = tool.as_ref().map_err(E::clone).and_then(|tool| work(tool, item));
            results.lock().expect("no worker panics while it holds the lock")[n] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread the work is done all the same.
            drop(std::thread::Builder::new().spawn_scoped(scope, worker));
        }
        worker();
    });
    let results = results.into_inner().expect("all workers are done");
    results.into_iter().map(|r| r.expect("every item was worked on")).collect()
}
