//! Where torch's fake kernels give a result another memory order than eager's: padding by reflection and replication, and a shuffle of
//! channels, keep channels-last in eager. What comes behind may depend on it, so such a graph is left alone.

use super::call::Request;
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use ox_capture::PlainSizes;
use ox_ops::ValueOf;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

const KEEPING: &[&str] = &[
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad2d",
    "replication_pad3d",
    "channel_shuffle",
    "native_channel_shuffle",
];

impl<'py> Importer<'py> {
    pub(super) fn check_memory_order(&self, request: &Request<'py>) -> Import<()> {
        let Some(example) = request.example.as_ref().filter(|_| keeps_memory_order(request)) else { return Ok(()) };
        let py = self.py;
        let first = request.node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?.get_item(0)?;
        let Some(input) = self.meta(&first)? else { return Ok(()) };
        let suggest = py.import(intern!(py, "torch._prims_common"))?.getattr(intern!(py, "suggest_memory_format"))?;
        let _plain = PlainSizes::stand_in()?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "memory_format"), suggest.call1((input,))?)?;
        if example.call_method(intern!(py, "is_contiguous"), (), Some(&options))?.is_truthy()? {
            return Ok(());
        }
        Err(Refusal::unsupported(format!(
            "{} of a channels-last tensor, whose memory order torch foretells wrongly",
            request.name
        )))
    }
}

fn keeps_memory_order(request: &Request<'_>) -> bool {
    if request.name.name != "pad" {
        return KEEPING.contains(&request.name.name.as_str());
    }
    let named = request.kwargs.iter().find(|(key, _)| key == "mode").map(|(_, value)| value);
    let mode = request.args.get(2).or(named);
    matches!(mode, Some(ValueOf::Str(mode)) if mode == "reflect" || mode == "replicate")
}
