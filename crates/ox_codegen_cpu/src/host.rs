//! What the machine that we run on can do.

use crate::CodegenError;
use crate::error::llvm;
use crate::targets;
use inkwell::OptimizationLevel;
use inkwell::targets::{CodeModel, RelocMode, Target, TargetMachine, TargetTriple};
use llvm_sys::support::LLVMParseCommandLineOptions;
use std::sync::Once;

/// Once a process.
fn initialise() {
    targets::initialise_native();
    // The emitter already moves addresses out of loops; LLVM's pass for that takes a quarter of the time and changes nothing.
    let options = [c"ox_codegen_cpu".as_ptr(), c"-disable-lsr".as_ptr()];
    // SAFETY: an argument list as `main` gets it; this copy of LLVM is ours alone.
    unsafe { LLVMParseCommandLineOptions(options.len() as i32, options.as_ptr(), std::ptr::null()) };
}

fn native_triple() -> String {
    TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned()
}

#[derive(Clone, Debug)]
pub struct Host {
    /// LLVM's name of the architecture and system.
    pub triple: String,
    pub cpu: String,
    pub features: String,
    /// The widest vector register, in bits.
    pub vector_bits: u32,
    /// AVX-512 F, VL, BW and DQ: masks, gathers and scatters of 32- and 64-bit elements are instructions.
    pub has_avx512: bool,
    /// Besides AVX-512, conversion of vectors to bf16.
    pub has_bf16: bool,
    /// Conversion between f16 and f32 is an instruction.
    pub has_f16: bool,
}

impl Host {
    pub fn detect() -> Result<Host, CodegenError> {
        static INITIALISED: Once = Once::new();
        INITIALISED.call_once(initialise);
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        let features = TargetMachine::get_host_cpu_features().to_string();
        Ok(Host::of(native_triple(), cpu, features))
    }

    /// A CPU of this machine's architecture by LLVM's names; what the features do not list is not used.
    pub fn named(cpu: &str, features: &str) -> Result<Host, CodegenError> {
        Host::detect()?;
        Ok(Host::of(native_triple(), cpu.to_string(), features.to_string()))
    }

    /// A CPU of any architecture that we know.
    #[cfg(feature = "foreign")]
    pub fn foreign(triple: &str, cpu: &str, features: &str) -> Result<Host, CodegenError> {
        Host::detect()?;
        targets::initialise_x86();
        targets::initialise_arm();
        Ok(Host::of(triple.to_string(), cpu.to_string(), features.to_string()))
    }

    fn of(triple: String, cpu: String, features: String) -> Host {
        let has = |name: &str| features.split(',').any(|f| f.strip_prefix('+') == Some(name));
        let has_avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
        let has_bf16 = has_avx512 && has("avx512bf16");
        let vector_bits = if has_avx512 {
            512
        } else if has("avx2") {
            256
        } else {
            128
        };
        let has_f16 = !triple.starts_with("x86_64") || has("f16c");
        Host { triple, cpu, features, vector_bits, has_avx512, has_bf16, has_f16 }
    }

    pub fn machine(&self) -> Result<TargetMachine, CodegenError> {
        let triple = TargetTriple::create(&self.triple);
        let target = Target::from_triple(&triple).map_err(llvm)?;
        target
            .create_target_machine(
                &triple,
                &self.cpu,
                &self.features,
                OptimizationLevel::Default,
                RelocMode::PIC,
                CodeModel::Default,
            )
            .ok_or_else(|| llvm(format!("no code generator for {}", self.cpu)))
    }
}
