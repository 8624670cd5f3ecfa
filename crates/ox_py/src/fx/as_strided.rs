//! `as_strided`: the one function that sees how a tensor lies in memory, which a Graph does not say.

use super::call::Request;
use super::fake::place;
use super::importer::{Importer, Pinned};
use super::refusal::{Import, Refusal};
use ox_ir::Sym;
use ox_ops::{FrontValue, OpError, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Those that say what they make by places in memory.
pub(super) const BY_PLACE: &[&str] = &["as_strided", "as_strided_copy", "as_strided_scatter"];

impl<'py> Importer<'py> {
    /// `None` for other functions, and where Python is handed the very memory of an input.
    pub(super) fn as_strided(&mut self, request: &Request<'py>) -> Import<Option<FrontValue>> {
        let py = self.py;
        let [ValueOf::Tensor(tensor), ..] = request.args[..] else { return Ok(None) };
        let name = request.name.name.as_str();
        if !BY_PLACE.contains(&name) {
            return Ok(None);
        }
        let unknown = || Refusal::unsupported("as_strided of memory that is not known");
        let node = request.node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?.get_item(0)?;
        let of = self.meta(&node)?.ok_or_else(unknown)?;
        let result = request.example.clone().ok_or_else(unknown)?;
        let from = place(&self.symbols, &of)?.ok_or_else(unknown)?;
        let to = place(&self.symbols, &result)?.ok_or_else(unknown)?;
        let of_input = self.inputs.iter().any(|input| input.storage == from.storage);
        if of_input && name == "as_strided" && has_offset(request) {
            self.pin(from.storage)?;
        }
        if of_input && !self.recorder.is_written(tensor) {
            return Ok(None);
        }
        if name != "as_strided" {
            return Err(Refusal::unsupported(format!("{name} of memory that eager has laid out")));
        }
        // Of a shadow, what is known of memory that eager has laid out is known of the sizes that it had.
        if self.has_sizes(request) {
            let why = format!("as_strided of what is computed ({})", self.location);
            return Err(Refusal::Fixed { sizes: self.sizes_in(request).into_iter().collect(), why });
        }
        let order = self.dense_order(&of)?.ok_or_else(unknown)?;
        self.note_opaque_view(request)?;
        let wanted = self.describe(&result)?;
        let offset = &to.offset - &from.offset;
        let value = self
            .recorder
            .read(tensor)
            .and_then(|node| self.recorder.builder().as_strided(node, &order, &wanted.ty.shape, &wanted.strides, &offset));
        match value {
            Ok(value) => Ok(Some(ValueOf::Tensor(self.recorder.fresh(value)))),
            Err(OpError::Bug(text)) => Err(Refusal::Bug(text)),
            Err(other) => Err(Refusal::unsupported(other.to_string())),
        }
    }

    /// Where an input begins may change from call to call, but not what a given offset is counted from: the storage.
    fn pin(&mut self, storage: usize) -> Import<()> {
        for (place, input) in self.inputs.iter().enumerate().filter(|(_, input)| input.storage == storage) {
            let offset = input.offset.as_const();
            let offset = offset.ok_or_else(|| Refusal::unsupported("as_strided of an input at a symbolic offset"))?;
            self.pinned.push(Pinned { input: place, offset });
        }
        Ok(())
    }

    /// The dimensions from the slowest to the fastest, if the tensor fills its storage without gaps.
    fn dense_order(&self, tensor: &Bound<'py, PyAny>) -> Import<Option<Vec<usize>>> {
        let py = self.py;
        let fake = self.describe(tensor)?;
        let bytes = tensor.call_method0(intern!(py, "untyped_storage"))?.call_method0(intern!(py, "nbytes"))?;
        let filled = self.symbols.to_sym(&bytes)? == Some(&fake.ty.numel() * fake.ty.dtype.size() as i64);
        let Some(hints) = fake.strides.iter().map(|s| self.symbols.hint(s)).collect::<Option<Vec<i64>>>() else {
            return Ok(None);
        };
        let mut order: Vec<usize> = (0..hints.len()).collect();
        order.sort_by_key(|dim| std::cmp::Reverse((hints[*dim], !fake.ty.shape[*dim].is_one())));
        let mut expected = Sym::ONE;
        for dim in order.iter().rev() {
            let size = &fake.ty.shape[*dim];
            if !size.is_one() && fake.strides[*dim] != expected {
                return Ok(None);
            }
            expected = &expected * size;
        }
        Ok(filled.then_some(order))
    }
}

fn has_offset(request: &Request<'_>) -> bool {
    let named = request.kwargs.iter().find(|(key, _)| key == "storage_offset").map(|(_, value)| value);
    request.args.get(3).or(named).is_some_and(|value| !value.is_none())
}
