//! The kernels of a compile, as `OXYTORCH_LOGS=kernels` shows them.

use ox_capture::{Topic, log};
use ox_driver::{Options, Report};
use ox_ir::kernel::Kernel;
use ox_ir::plan::Step;
use ox_ir::{Graph, Plan};

pub fn log_kernels(graph: &Graph, plan: &Plan) {
    log(Topic::Kernels, || kernel_lines(graph, plan));
}

/// Where they came from, as `OXYTORCH_LOGS=cache` shows it.
pub fn log_cache(report: &Report, options: &Options, on_cpu: bool) {
    log(Topic::Cache, || {
        let Report { kernels, kernels_compiled: compiled, kernels_read: read, .. } = report;
        let folder = ox_driver::disk_folder(options);
        match on_cpu {
            true => format!("of {kernels} kernels {read} were read from {folder}, {compiled} compiled"),
            false => format!("of {kernels} kernels {compiled} are read from {folder} or compiled while the program goes on"),
        }
    });
}

/// A line for each kernel, with the first of the user's lines that it comes from, or that the graph begins with.
fn kernel_lines(graph: &Graph, plan: &Plan) -> String {
    let place = graph.locations.iter().find(|line| !line.is_empty()).map_or("", String::as_str);
    let line = |(n, kernel): (usize, &Kernel)| {
        let launches =
            plan.steps.iter().filter(|step| matches!(step, Step::Launch { kernel, .. } if *kernel as usize == n)).count();
        let axes: Vec<String> = kernel.axes.iter().map(|axis| axis.extent.to_string()).collect();
        let place = plan.lines_of(n).next().unwrap_or(place);
        format!("{place}: {} over [{}], {} buffers, launched {launches} times", kernel.name, axes.join(", "), kernel.bufs.len())
    };
    plan.kernels.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}
