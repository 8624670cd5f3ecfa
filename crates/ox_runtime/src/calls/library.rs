//! Calls of any operator: through the dispatcher where the ABI can carry the arguments, else by the host.

use super::dispatch::{self, call};
use super::fused_attention::FusedAttention;
use super::learned::{self, Learned};
use super::schema::{Kind, Schema};
use super::stable_ivalue::{Value, take_tensor, take_tensor_list};
use super::{CallStep, InGraphs};
use crate::abi::{Abi, Handle};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::prepare::{Operand, Preparing};
use crate::exec::rows::Hears;
use crate::graphs::{Capture, PoolId};
use crate::tensor::{Tensor, TensorRef};
use ox_ir::graph::{Callee, Library};
use ox_ir::plan::View;
use ox_ir::{Device, Var};
use std::any::Any;
use std::ffi::CString;
use std::sync::Arc;

/// What only the program around us (Python) can do.
pub trait HostCalls: Send + Sync {
    /// Makes the call on these tensors (the places that `Arg::Tensor` names) and returns its results, one for each of `call.outs`.
    fn call(
        &self,
        call: &Library,
        tensors: &[TensorRef<'_>],
        sizes: &dyn Fn(&Var) -> Option<i64>,
    ) -> Result<Vec<Tensor>, RunError>;

    /// An operator's schema as torch prints it. Without one (or where `supports` is false) `call` is used for it.
    fn schema(&self, name: &str, overload: &str) -> Option<String>;

    /// Whether one of torch's own operators may draw random numbers.
    fn is_random(&self, _name: &str, _overload: &str) -> bool {
        true
    }

    /// Whether a callable of the host's only computes what it returns and what it writes into the arguments that it is known to write: given
    /// others of those, it may be called again.
    fn only_computes(&self, _object: u32) -> bool {
        false
    }

    /// Whether one of torch's own operators may wait for a GPU, so that it cannot be recorded.
    fn waits(&self, _name: &str, _overload: &str) -> bool {
        true
    }

    /// Gives back memory that torch keeps though no tensor has it: a recording takes its own from the GPU.
    fn empty_cache(&self) {}

    /// Begins to record what this thread launches on a GPU; in a memory pool of its own, or in that of another recording.
    fn begin_capture(&self, _device: u8, _pool: Option<PoolId>) -> Result<Box<dyn Capture>, RunError> {
        Err(RunError::torch("there is nobody who could record a graph"))
    }

    /// So many bytes of a GPU's memory, from an address on, for as long as what comes with it is kept. None where they must be a tensor.
    fn reserve(&self, _device: u8, _bytes: usize) -> Result<Option<Reserved>, RunError> {
        Ok(None)
    }

    /// These tensors have been written behind autograd's back.
    fn tell_written(&self, _tensors: &[TensorRef<'_>]) -> Result<(), RunError> {
        Ok(())
    }

    /// Something that the user may want to know of recorded graphs.
    fn note_graphs(&self, _text: &str) {}
}

/// Where memory begins, and what keeps it.
pub type Reserved = (usize, Arc<dyn Any + Send + Sync>);

/// A host that can do nothing.
pub struct NoHost;

impl HostCalls for NoHost {
    fn call(&self, call: &Library, _: &[TensorRef<'_>], _: &dyn Fn(&Var) -> Option<i64>) -> Result<Vec<Tensor>, RunError> {
        Err(RunError::bug(format!("there is no host for {:?}", call.callee)))
    }

    fn schema(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

struct Native {
    name: CString,
    overload: CString,
    values: Vec<Value>,
    returns: Vec<Kind>,
}

pub struct LibraryStep {
    library: Library,
    native: Option<Native>,
    attention: Option<FusedAttention>,
    ins: Vec<Operand>,
    outs: Vec<usize>,
    /// Something complex goes in or comes out.
    complex: bool,
    /// The callee may keep its arguments: they must own their memory.
    lasting: bool,
    once: bool,
    in_graphs: InGraphs,
    /// On a GPU, in 16 bits: what is known of it, and what it depends on besides its operands.
    learned: Option<(Learned, Settings)>,
}

/// Which of the user's settings decide how a call is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Settings {
    OfConvolutions,
    OfAttention,
}

impl Settings {
    /// Of the calls whose launches are learned: cuDNN's in training.
    fn of(library: &Library) -> Option<Settings> {
        match library.callee.name() {
            "aten::convolution_backward" => Some(Settings::OfConvolutions),
            "aten::_scaled_dot_product_cudnn_attention" => Some(Settings::OfAttention),
            "aten::_scaled_dot_product_cudnn_attention_backward" => Some(Settings::OfAttention),
            _ => None,
        }
    }

    fn read(self, abi: &Abi) -> Option<u64> {
        match self {
            Settings::OfConvolutions => abi.convolution_settings(),
            // Of convolutions are those that say whether results must be the same every time.
            Settings::OfAttention => Some(abi.attention_settings()? ^ abi.convolution_settings()?.rotate_left(32)),
        }
    }
}

impl LibraryStep {
    pub fn prepare(p: &mut Preparing<'_>, library: &Library, ins: &[View], outs: &[usize]) -> Result<LibraryStep, RunError> {
        if outs.len() != library.outs.len() + library.mutates.len() || library.mutates.iter().any(|&m| m as usize >= ins.len()) {
            return Err(RunError::bug(format!("{:?} has {} outputs and {} inputs", library.callee, outs.len(), ins.len())));
        }
        let native = native(p, library);
        let attention = FusedAttention::of(library);
        let lasting = native.is_none() && attention.is_none() || !is_builtin(library);
        let bufs = ins.iter().map(|v| v.buf.index()).chain(outs.iter().copied());
        let complex = bufs.filter_map(|b| p.buffers.get(b)).any(|b| b.layout.dtype.is_complex());
        let ins = ins.iter().map(|v| p.operand_of(v)).collect::<Result<_, _>>()?;
        let once = library.effect && !is_repeatable(p.host, library);
        let in_graphs = in_graphs(p, library, native.is_some() || attention.is_some(), once);
        let learned = if lasting || once { None } else { learned(p, library, outs) };
        let (library, outs) = (library.clone(), outs.to_vec());
        Ok(LibraryStep { library, native, attention, ins, outs, complex, lasting, once, in_graphs, learned })
    }

    /// By ourselves, if it is known what it launches; None where nobody looks.
    fn run_learned(&self, run: &mut Run<'_>) -> Option<Result<(), RunError>> {
        let (known, settings) = self.learned.as_ref()?;
        let (settings, abi) = (settings.read(run.abi)?, run.abi);
        let missing = || Err(RunError::bug("a call of Python's is not learned"));
        let call = |tensors: &[Handle]| self.call_torch(abi, tensors).unwrap_or_else(missing);
        let results = known.run(run, &self.ins, settings, call);
        Some(results.and_then(|results| {
            self.check_count(results.len())?;
            learned::deliver(run, &self.outs, results)
        }))
    }

    /// Without the host; None where only that can.
    fn call_torch(&self, abi: &Abi, tensors: &[Handle]) -> Option<Result<Vec<Tensor>, RunError>> {
        match (&self.attention, &self.native) {
            (Some(attention), _) => Some(attention.call(tensors)),
            // SAFETY: the values were bound to the operator's schema.
            (None, Some(native)) => Some(unsafe { native.call(abi, tensors) }),
            (None, None) => None,
        }
    }

    fn check_count(&self, got: usize) -> Result<(), RunError> {
        let want = self.library.outs.len();
        if got == want {
            Ok(())
        } else {
            Err(RunError::bug(format!("{:?} returned {got} tensors, not {want}", self.library.callee)))
        }
    }

    /// What an operator of the program's returns is planned as its fake kernel says, which the program has written, too.
    fn blamed(&self, error: RunError) -> RunError {
        match error {
            RunError::Bug(message) if !is_builtin(&self.library) => RunError::Bug(format!(
                "{} returns something else than its fake kernel (torch.library.register_fake) says: {message}",
                self.library.callee.name()
            )),
            error => error,
        }
    }

    fn call(&self, run: &Run<'_>, tensors: &[Handle]) -> Result<Vec<Tensor>, RunError> {
        self.call_torch(run.abi, tensors).unwrap_or_else(|| {
            // SAFETY: the handles live through the call.
            let tensors: Vec<TensorRef<'_>> = tensors.iter().map(|&h| unsafe { TensorRef::from_handle(h) }).collect();
            run.host.call(&self.library, &tensors, &|var| run.env.value(var))
        })
    }

    /// A copy for each argument that the callee changes, laid out as the buffer that it ends up in.
    fn copies(&self, run: &mut Run<'_>) -> Result<Vec<Tensor>, RunError> {
        let targets = &self.outs[self.library.outs.len()..];
        let mut copies = Vec::with_capacity(targets.len());
        for (&arg, &buf) in self.library.mutates.iter().zip(targets) {
            let layout = &run.prepared.buffers[buf].layout;
            let copy = Tensor::empty_strided(&layout.sizes, &layout.strides, layout.dtype, run.device)?;
            let source = run.operand(self.ins[arg as usize])?;
            // SAFETY: the source lives in the frame.
            copy.as_ref().copy_from(unsafe { TensorRef::from_handle(source) })?;
            copies.push(copy);
        }
        Ok(copies)
    }

    /// What a callee returned might be one of its arguments or a view of it: then it needs memory of its own.
    fn detach(&self, run: &Run<'_>, result: Tensor, copies: &[Tensor]) -> Result<Tensor, RunError> {
        let tensor = result.as_ref();
        if tensor.numel()? == 0 {
            return Ok(result);
        }
        let data = tensor.data_ptr()?;
        let shares = run.is_borrowed(data) || copies.iter().any(|c| c.as_ref().data_ptr().is_ok_and(|d| d == data));
        if shares {
            return tensor.duplicate();
        }
        // Lazy conjugation and negation are bits of the tensor that its memory does not show.
        if self.complex { dispatch::resolve(result) } else { Ok(result) }
    }
}

impl CallStep for LibraryStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if let Some(done) = self.run_learned(run) {
            return done;
        }
        let copies = self.copies(run)?;
        let mut kept: Vec<Tensor> = Vec::new();
        let mut tensors: Vec<Handle> = Vec::with_capacity(self.ins.len());
        for (at, &operand) in self.ins.iter().enumerate() {
            if let Some(copy) = self.library.mutates.iter().position(|&m| m as usize == at) {
                tensors.push(copies[copy].as_ref().handle());
            } else if self.lasting {
                kept.push(run.lasting_operand(operand)?);
                tensors.push(kept[kept.len() - 1].as_ref().handle());
            } else {
                tensors.push(run.operand(operand)?);
            }
        }
        let results = self.call(run, &tensors)?;
        self.check_count(results.len())?;
        let results = results.into_iter().map(|r| self.detach(run, r, &copies)).collect::<Result<Vec<_>, _>>()?;
        let mut pairs = self.outs.iter().zip(results.into_iter().chain(copies));
        pairs.try_for_each(|(&buf, tensor)| run.deliver(buf, tensor)).map_err(|error| self.blamed(error))
    }

    fn tell(&self, run: &mut Run<'_>, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let Some((learned, settings)) = &self.learned else { return Ok(false) };
        let Some(settings) = settings.read(run.abi) else { return Ok(false) };
        learned.tell(run, &self.ins, settings, &self.outs, hears)
    }

    fn is_once(&self) -> bool {
        self.once
    }

    fn in_graphs(&self) -> InGraphs {
        self.in_graphs.clone()
    }
}

impl Native {
    /// SAFETY: the values must have been bound to the operator's schema.
    unsafe fn call(&self, abi: &Abi, tensors: &[Handle]) -> Result<Vec<Tensor>, RunError> {
        // SAFETY: the caller's promise.
        let words = unsafe { call(abi, &self.name, &self.overload, &self.values, tensors, self.returns.len())? };
        let mut results = Vec::with_capacity(words.len());
        for (word, ty) in words.into_iter().zip(&self.returns) {
            // SAFETY: the schema says what each word is; `native` admits tensors and lists of them only.
            unsafe {
                match ty {
                    Kind::Tensor => results.push(take_tensor(word)),
                    _ => take_tensor_list(abi, word, &mut results)?,
                }
            }
        }
        Ok(results)
    }
}

/// Results of these calls are new tensors, which need no look at what they share.
fn learned(p: &Preparing<'_>, library: &Library, outs: &[usize]) -> Option<(Learned, Settings)> {
    let settings = Settings::of(library).filter(|_| p.device != Device::Cpu && library.mutates.is_empty())?;
    let layouts = || outs.iter().map(|out| &p.buffers[*out].layout);
    let is_half = layouts().next().is_some_and(|first| first.dtype.size() == 2);
    is_half.then(|| (Learned::new(layouts().map(|layout| layout.bytes()).sum()), settings))
}

fn native(p: &Preparing<'_>, library: &Library) -> Option<Native> {
    let Callee::Dispatcher { name, overload } = &library.callee else { return None };
    let schema = Schema::parse(&p.host.schema(name, overload)?).filter(Schema::returns_tensors)?;
    let values = schema.bind(library, &|sym| p.env.eval(sym).ok(), crate::abi::abi().ok()?)?;
    let (name, overload) = (CString::new(name.as_str()).ok()?, CString::new(overload.as_str()).ok()?);
    Some(Native { name, overload, values, returns: schema.returns })
}

fn in_graphs(p: &Preparing<'_>, library: &Library, native: bool, once: bool) -> InGraphs {
    let name = library.callee.name();
    let Callee::Dispatcher { name, overload } = &library.callee else {
        return InGraphs::No(format!("Python is called for {name}"));
    };
    match is_builtin(library) {
        _ if !native => InGraphs::No(format!("Python is called for {name}")),
        // On the CPU there are no graphs, but in tests; torch is not asked there.
        _ if p.device == Device::Cpu && !once => InGraphs::Yes,
        false if once => InGraphs::No(format!("nobody knows what {name} does besides its result")),
        _ if p.device != Device::Cpu && p.host.waits(name, overload) => InGraphs::No(format!("{name} waits for the GPU")),
        _ if once => InGraphs::Draws,
        _ => InGraphs::Yes,
    }
}

/// What a callee writes is a copy of ours (`LibraryStep::copies`): that alone does not keep it from being called again.
fn is_repeatable(host: &dyn HostCalls, library: &Library) -> bool {
    match &library.callee {
        Callee::Dispatcher { name, overload } => is_builtin(library) && !host.is_random(name, overload),
        Callee::Python { object, .. } => host.only_computes(*object),
    }
}

/// torch's own operators keep no reference to their arguments; a custom one may.
fn is_builtin(library: &Library) -> bool {
    matches!(&library.callee, Callee::Dispatcher { name, .. } if name.starts_with("aten::") || name.starts_with("prims::"))
}
