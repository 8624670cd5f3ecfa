//! Writes to memory that is shared. A Graph says what a tensor's value becomes; where eager's result depends on the order in which
//! elements are read and written, or where eager refuses, nothing is recorded.

use super::{FrontValue, Recorder, TensorRef};
use crate::error::{OpError, OpResult};
use crate::functional::{Chain, are_apart, are_disjoint, chain_between, overlap_error};
use crate::surface::{self, Bound, Sharing, Slots, Surface};
use ox_ir::Sym;
use std::borrow::Cow;

/// Memory that a tensor reaches: what its chain of views leaves of its base.
#[derive(PartialEq)]
struct Region<'a> {
    base: usize,
    chain: Cow<'a, Chain>,
}

impl Region<'_> {
    fn meets(&self, other: &Region<'_>) -> bool {
        self.base == other.base && !are_disjoint(&self.chain, &other.chain)
    }
}

fn shared_write_error() -> OpError {
    OpError::unsupported("an argument that is written and overlaps another")
}

impl Recorder {
    /// An input whose elements may share memory among themselves is not written: its new value would not say what eager leaves there.
    /// Where sizes are symbols, whoever runs the Graph has to look.
    pub(super) fn check_overlap(&self, base: usize) -> OpResult<()> {
        let Some(place) = self.bases[base].input else { return Ok(()) };
        let input = &self.builder.graph().inputs[place as usize];
        let numbers = |syms: &[Sym]| syms.iter().map(Sym::as_const).collect::<Option<Vec<i64>>>();
        match (numbers(&input.ty.shape), numbers(&input.strides)) {
            (Some(sizes), Some(strides)) if !are_apart(&sizes, &strides) => Err(overlap_error()),
            _ => Ok(()),
        }
    }

    /// A call is handed copies of what it writes: another argument would not see what it writes to memory that they share.
    pub(super) fn check_alone(&self, args: &[TensorRef], written: usize) -> OpResult<()> {
        let own = self.region(args[written]);
        let mut others = args.iter().enumerate().filter(|(n, _)| *n != written);
        if others.any(|(_, other)| own.meets(&self.region(*other))) { Err(shared_write_error()) } else { Ok(()) }
    }

    fn region(&self, tensor: TensorRef) -> Region<'_> {
        let data = &self.refs[tensor.0 as usize];
        Region { base: data.base, chain: Cow::Borrowed(&data.chain) }
    }

    /// Eager writes while it reads. So an argument that shares a part of what is written is either refused by eager or read in an
    /// order that a Graph does not have. One that is all of it is read element by element before it is written.
    fn check_apart(&self, written: &Region<'_>, others: &[TensorRef]) -> OpResult<()> {
        let mut others = others.iter().map(|other| self.region(*other));
        if others.any(|other| other != *written && written.meets(&other)) { Err(shared_write_error()) } else { Ok(()) }
    }

    /// The part of the first argument that an assignment to a subscript writes.
    fn assigned(&mut self, tensor: TensorRef, bound: &Bound) -> OpResult<Region<'static>> {
        let from = self.read(tensor)?;
        let to = surface::assigned(&mut self.builder, bound)?;
        let steps =
            chain_between(self.builder.graph(), from, to).ok_or_else(|| OpError::bug("a subscript that is not a view"))?;
        let data = &self.refs[tensor.0 as usize];
        let chain: Chain = data.chain.iter().cloned().chain(steps).collect();
        Ok(Region { base: data.base, chain: Cow::Owned(chain) })
    }

    /// Before a call that writes its first argument or `outs` is recorded.
    pub(super) fn check_writes(
        &mut self,
        slots: &Slots<TensorRef>,
        bound: &Bound,
        row: &Surface,
        outs: &[TensorRef],
    ) -> OpResult<()> {
        let arguments = |slots: &[(&str, FrontValue)]| slots.iter().flat_map(|(_, v)| v.tensors()).collect::<Vec<_>>();
        for out in outs {
            let others: Vec<TensorRef> = outs.iter().filter(|other| *other != out).copied().chain(arguments(slots)).collect();
            self.check_apart(&self.region(*out), &others)?;
        }
        let first = Self::first_tensor(slots).filter(|_| outs.is_empty());
        let Some(first) = first else { return Ok(()) };
        match row.sharing {
            Sharing::View => Ok(()),
            Sharing::Assign => {
                let target = self.assigned(first, bound)?;
                self.check_apart(&target, &arguments(&slots[1..]))
            }
            _ => self.check_apart(&self.region(first), &arguments(&slots[1..])),
        }
    }
}
