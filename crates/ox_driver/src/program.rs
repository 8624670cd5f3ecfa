//! What a compile gives: the Plan that runs at every call, and for frozen weights the one that runs before the first.

use ox_ir::Plan;
use ox_ir::graph::Callee;
use ox_ir::plan::{Call, Step};
use ox_runtime::{Executable, Input, RunError, Tensor, TensorRef};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Program {
    pub(crate) main: Executable,
    pub(crate) prelude: Option<Prelude>,
}

/// What depends on frozen weights only. It runs once, and again if a weight has been replaced by another tensor.
pub(crate) struct Prelude {
    executable: Executable,
    /// Its n-th input is this one of the whole.
    inputs: Vec<u32>,
    results: Mutex<Option<Results>>,
}

#[derive(Clone)]
struct Results {
    /// The weights that they were made of: tensor and memory.
    key: Vec<(usize, usize)>,
    /// The same, held: as long as they live nothing else can have their addresses.
    _weights: Arc<Vec<Tensor>>,
    tensors: Arc<Vec<Tensor>>,
}

impl Prelude {
    pub(crate) fn new(executable: Executable, inputs: Vec<u32>) -> Prelude {
        Prelude { executable, inputs, results: Mutex::new(None) }
    }

    /// Whether no code of Python's runs in it.
    fn is_native(&self) -> bool {
        let is_python = |step: &Step| match step {
            Step::Call { call: Call::Library(library), .. } => matches!(library.callee, Callee::Python { .. }),
            _ => false,
        };
        !self.executable.plan().steps.iter().any(is_python)
    }

    fn results(&self, inputs: &[TensorRef<'_>], sizes: &[i64]) -> Result<Arc<Vec<Tensor>>, RunError> {
        let own: Vec<TensorRef<'_>> = self.inputs.iter().map(|n| inputs[*n as usize]).collect();
        let mut key = Vec::with_capacity(own.len());
        for tensor in &own {
            key.push((tensor.impl_ptr() as usize, tensor.data_ptr()? as usize));
        }
        let known = self.results.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(known.tensors);
        }
        let tensors = Arc::new(self.executable.run(&own, sizes)?);
        let weights = Arc::new(own.iter().copied().map(|weight| weight.to_owned()).collect::<Result<Vec<_>, _>>()?);
        let fresh = Results { key, _weights: weights, tensors: tensors.clone() };
        *self.results.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        Ok(tensors)
    }
}

impl Program {
    pub fn plan(&self) -> &Plan {
        self.main.plan()
    }

    /// Runs it. Many threads may do so at once.
    pub fn run(&self, inputs: &[TensorRef<'_>], sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        let Some(prelude) = &self.prelude else { return self.main.run(inputs, sizes) };
        let prepared = prelude.results(inputs, sizes)?;
        let mut all: Vec<TensorRef<'_>> = inputs.to_vec();
        all.extend(prepared.iter().map(|tensor| tensor.as_ref()));
        self.main.run(&all, sizes)
    }

    /// As `run`, with inputs that are let go as soon as they are not needed any more; not for frozen weights.
    pub fn run_given(&self, inputs: Vec<Input<'_>>, sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        match self.prelude {
            None => self.main.run_given(inputs, sizes),
            Some(_) => Err(RunError::bug("inputs are given to a program with frozen weights")),
        }
    }

    /// What runs at every call: it takes the inputs, and what is prepared of them.
    pub fn main(&self) -> &Executable {
        &self.main
    }

    /// What is computed of frozen weights, for calls in which the fixed inputs stay what they are. None if it depends on others, or if
    /// Python would be asked.
    pub fn prepare(
        &self,
        inputs: &[TensorRef<'_>],
        sizes: &[i64],
        is_fixed: impl Fn(usize) -> bool,
    ) -> Result<Option<Arc<Vec<Tensor>>>, RunError> {
        let Some(prelude) = &self.prelude else { return Ok(Some(Arc::default())) };
        if !prelude.is_native() || !prelude.inputs.iter().all(|n| is_fixed(*n as usize)) {
            return Ok(None);
        }
        prelude.results(inputs, sizes).map(Some)
    }
}
