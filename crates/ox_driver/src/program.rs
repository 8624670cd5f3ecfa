//! What a compile gives: the Plan that runs at every call, and for frozen weights the one that runs before the first.

use ox_codegen_cpu::tidy::forget_code;
use ox_ir::Plan;
use ox_runtime::{Executable, GraphStatus, Input, RunError, Tensor, TensorRef};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Program {
    main: Executable,
    prelude: Option<Prelude>,
    /// It has run, or is about to.
    begun: AtomicBool,
}

/// What depends on frozen weights only. It runs once, and again if a weight has been replaced by another tensor.
pub(crate) struct Prelude {
    executable: Executable,
    /// Its n-th input is this one of the whole.
    inputs: Vec<u32>,
    results: Mutex<Option<Arc<Prepared>>>,
}

/// What was computed of frozen weights.
#[derive(Default)]
pub struct Prepared {
    /// The weights that it was made of: tensor and memory.
    key: Vec<(usize, usize)>,
    _held: Vec<Held>,
    tensors: Vec<Tensor>,
}

/// As long as this lives no other tensor has the weight's address, and no other storage that of its storage or of its memory: a tensor may be
/// given other memory (`weight.data = ...`), and would let the first go.
struct Held {
    _tensor: Tensor,
    _memory: Tensor,
}

impl Held {
    fn new(weight: TensorRef<'_>) -> Result<Held, RunError> {
        let memory = weight.reinterpret(weight.sizes()?, weight.strides()?, 0)?;
        Ok(Held { _tensor: weight.to_owned()?, _memory: memory })
    }
}

impl Prepared {
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}

impl Prelude {
    pub(crate) fn new(executable: Executable, inputs: Vec<u32>) -> Prelude {
        Prelude { executable, inputs, results: Mutex::new(None) }
    }

    fn results(&self, inputs: &[TensorRef<'_>]) -> Result<Arc<Prepared>, RunError> {
        let own: Vec<TensorRef<'_>> = self.inputs.iter().map(|n| inputs[*n as usize]).collect();
        let mut key = Vec::with_capacity(own.len());
        for tensor in &own {
            key.push((tensor.impl_ptr() as usize, tensor.data_ptr()? as usize));
        }
        let known = self.results.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(known);
        }
        let held = own.iter().map(|weight| Held::new(*weight)).collect::<Result<_, _>>()?;
        let fresh = Arc::new(Prepared { key, _held: held, tensors: self.executable.run(&own, &[])? });
        // Let go behind the lock: the last reference to a tensor may wait for Python's.
        let _old = self.results.lock().unwrap_or_else(PoisonError::into_inner).replace(fresh.clone());
        Ok(fresh)
    }
}

impl Program {
    pub(crate) fn new(main: Executable, prelude: Option<Prelude>) -> Program {
        Program { main, prelude, begun: AtomicBool::new(false) }
    }

    /// A run holds what it computes, and in the first one the libraries make what they keep: what captured, planned and loaded the graph is not needed
    /// for it.
    fn begin(&self) {
        if !self.begun.load(Ordering::Relaxed) && !self.begun.swap(true, Ordering::Relaxed) {
            forget_code();
        }
    }

    pub fn plan(&self) -> &Plan {
        self.main.plan()
    }

    /// Whether a kernel of it could not be compiled or loaded: then it is of no use.
    pub fn lacks_kernels(&self) -> bool {
        self.main.lacks_kernels() || self.prelude.as_ref().is_some_and(|prelude| prelude.executable.lacks_kernels())
    }

    /// Runs it. Many threads may do so at once.
    pub fn run(&self, inputs: &[TensorRef<'_>], sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        self.begin();
        let Some(prelude) = &self.prelude else { return self.main.run(inputs, sizes) };
        let prepared = prelude.results(inputs)?;
        let mut all: Vec<TensorRef<'_>> = inputs.to_vec();
        all.extend(prepared.tensors.iter().map(|tensor| tensor.as_ref()));
        self.main.run(&all, sizes)
    }

    /// As `run`, with inputs that are let go as soon as they are not needed any more; not for frozen weights.
    pub fn run_given(&self, inputs: Vec<Input<'_>>, sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        self.begin();
        match self.prelude {
            None => self.main.run_given(inputs, sizes),
            Some(_) => Err(RunError::bug("inputs are given to a program with frozen weights")),
        }
    }

    /// What became of recorded graphs; None where none are recorded.
    pub fn graph_status(&self) -> Option<GraphStatus> {
        self.main.graph_status().cloned()
    }

    /// What runs at every call: it takes the inputs, and what is prepared of them.
    pub fn main(&self) -> &Executable {
        &self.main
    }

    /// What is computed of frozen weights, for calls in which the fixed inputs stay what they are. None if it depends on others.
    pub fn prepare(&self, inputs: &[TensorRef<'_>], is_fixed: impl Fn(usize) -> bool) -> Result<Option<Arc<Prepared>>, RunError> {
        let Some(prelude) = &self.prelude else { return Ok(Some(Arc::default())) };
        if !prelude.inputs.iter().all(|n| is_fixed(*n as usize)) {
            return Ok(None);
        }
        prelude.results(inputs).map(Some)
    }
}
