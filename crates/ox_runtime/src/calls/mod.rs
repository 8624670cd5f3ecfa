//! The steps that torch's library does.

mod attention;
mod conv;
mod direct_matmul;
pub(crate) mod dispatch;
pub(crate) mod fused_attention;
mod learned;
pub(crate) mod library;
mod matmul;
pub(crate) mod pack;
mod packed_matmul;
mod post;
pub(crate) mod schema;
mod stable_ivalue;

use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::prepare::Preparing;
use crate::exec::rows::Hears;
use ox_ir::plan::{Call, View};

/// A library call with all sizes known.
pub trait CallStep: Send + Sync {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError>;

    /// Whether `hears` has heard of all that it puts on a GPU's stream, which is left to it then.
    fn tell(&self, _run: &mut Run<'_>, _hears: &mut Hears<'_>) -> Result<bool, RunError> {
        Ok(false)
    }

    /// Whether doing it again would show: it draws random numbers, or nobody knows what it does.
    fn is_once(&self) -> bool {
        false
    }

    /// Whether a recorded graph may do it.
    fn in_graphs(&self) -> InGraphs {
        InGraphs::Yes
    }
}

/// Whether a call can be part of a recorded graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InGraphs {
    Yes,
    /// It draws from torch's generator, which must be told of each replay.
    Draws,
    No(String),
}

/// Whether the call returns new tensors, rather than write into memory that it is given.
pub fn fresh_result(p: &Preparing<'_>, call: &Call, ins: &[View]) -> bool {
    !matches!(call, Call::Matmul { .. }) || packed_matmul::returns_new(p, ins)
}

/// `ins` and `outs` are those of the step; `outs` are places of buffers.
pub fn prepare_call(p: &mut Preparing<'_>, call: &Call, ins: &[View], outs: &[usize]) -> Result<Box<dyn CallStep>, RunError> {
    if let Some(bad) = outs.iter().find(|&&buf| buf >= p.buffers.len()) {
        return Err(RunError::bug(format!("buffer {bad} does not exist")));
    }
    Ok(match call {
        Call::Matmul { bias, add, alpha, beta, post } => {
            let attrs = matmul::Attrs { bias: *bias, add: *add, alpha: alpha.as_f64(), beta: beta.as_f64(), post };
            match ins.get(1).and_then(|weight| p.packed(weight)) {
                Some(weight) => packed_matmul::prepare(p, attrs, weight, ins, outs)?,
                None => matmul::prepare(p, attrs, ins, outs)?,
            }
        }
        Call::Pack(packing) => Box::new(pack::PackStep::prepare(p, packing, ins, outs)?),
        Call::Conv(attrs) => Box::new(conv::ConvStep::prepare(p, attrs, ins, outs)?),
        Call::Attention(attrs) => Box::new(attention::AttentionStep::prepare(p, attrs, ins, outs)?),
        Call::Library(library) => Box::new(library::LibraryStep::prepare(p, library, ins, outs)?),
    })
}

/// The one output of a call that has only one.
fn single(outs: &[usize]) -> Result<usize, RunError> {
    match outs {
        [out] => Ok(*out),
        _ => Err(RunError::bug(format!("{} outputs where one was expected", outs.len()))),
    }
}

/// The views at fixed places, then the optional ones that are there.
fn arguments<const N: usize>(ins: &[View], present: [bool; N], fixed: usize) -> Result<(&[View], [Option<&View>; N]), RunError> {
    let expected = fixed + present.iter().filter(|p| **p).count();
    if ins.len() != expected {
        return Err(RunError::bug(format!("{} arguments where {expected} were expected", ins.len())));
    }
    let mut rest = ins[fixed..].iter();
    Ok((&ins[..fixed], present.map(|p| if p { rest.next() } else { None })))
}
