//! Which of torch's fused kernels attention may be on the GPU at hand, by the rules and the settings that eager goes by.

use ox_driver::FusedAttention;
use ox_ir::{Device, Graph};
use pyo3::prelude::*;

/// Where eager prefers cuDNN's kernels to its own.
const HOPPER: (u32, u32) = (9, 0);

/// `deterministic`: only flash has a derivative that adds in one order.
pub fn fused_attention(py: Python<'_>, graph: &Graph, deterministic: bool) -> FusedAttention {
    let device = graph.inputs.iter().find_map(|input| if let Device::Cuda(n) = input.ty.device { Some(n) } else { None });
    let may = device.map_or_else(FusedAttention::default, |device| allowed(py, device));
    FusedAttention { cudnn: may.cudnn && !deterministic, efficient: may.efficient && !deterministic, ..may }
}

fn allowed(py: Python<'_>, device: u8) -> FusedAttention {
    let enabled = |name: &str| -> PyResult<bool> {
        py.import("torch.backends.cuda")?.call_method0(format!("{name}_sdp_enabled").as_str())?.is_truthy()
    };
    let capability = || -> PyResult<(u32, u32)> {
        py.import("torch")?.getattr("cuda")?.call_method1("get_device_capability", (device,))?.extract()
    };
    let is_hopper = capability().is_ok_and(|found| found == HOPPER);
    let [cudnn, flash, efficient] = ["cudnn", "flash", "mem_efficient"].map(|name| enabled(name).unwrap_or(false));
    FusedAttention { cudnn: cudnn && is_hopper, flash, efficient }
}
