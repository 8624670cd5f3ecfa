//! Launches in a row that the driver does at once: to launch one kernel takes the processor longer than many a kernel runs.

use super::chain::InRow;
use super::driver::{Driver, Stream, driver};
use super::launched::{Launched, What, extra, launch};
use super::watch::{FillNode, Graph, Handle, KernelNode};
use ox_ir::failure::is_refused;
use std::ptr::null_mut;

/// Their words can be exchanged.
pub struct Row {
    exec: Handle,
    /// And the functions that they launch, as the driver names them there.
    nodes: Vec<(Handle, Handle)>,
    graph: Graph,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Row {}

impl Row {
    /// The device must be current.
    pub fn of(device: u8, launches: &mut [Launched]) -> Option<Row> {
        // SAFETY: nothing runs on a stream that is recorded.
        let graph = Graph::of(device, |stream| launches.iter_mut().all(|launched| unsafe { launch(launched, stream) }.is_ok()))?;
        let nodes: Vec<(Handle, Handle)> = graph.nodes()?.into_iter().map(|node| (node, graph.function(node))).collect();
        (nodes.len() == launches.len()).then_some(())?;
        let mut exec = null_mut();
        // SAFETY: a live graph; one pointer is written.
        let made = driver().ok()?.beside_captures(|| unsafe { (graph.0.instantiate)(&mut exec, graph.1, 0) });
        (made == 0).then_some(Row { exec, nodes, graph })
    }
}

impl InRow for Row {
    fn set(&mut self, n: usize, launched: &mut Launched) -> bool {
        let (functions, (node, function)) = (self.graph.0, self.nodes[n]);
        let Launched { what, words } = launched;
        // SAFETY: live handles, and descriptions whose lists live until the driver has copied them.
        let code = unsafe {
            match what {
                What::Fill { value, element, count } => {
                    let (value, element) = (*value, *element);
                    let fill = FillNode { to: words[0], pitch: 0, value, element, width: *count, height: 1 };
                    (functions.set_fill)(self.exec, node, &fill, driver().map_or(null_mut(), Driver::context))
                }
                What::Kernel { geometry, bytes, .. } => {
                    let extra = extra(words, bytes);
                    let mut kernel = KernelNode::new(geometry);
                    (kernel.function, kernel.extra) = (function, extra.as_ptr().cast());
                    (functions.set_kernel)(self.exec, node, &kernel)
                }
            }
        };
        code == 0
    }

    unsafe fn launch(&self, stream: Stream) -> bool {
        // SAFETY: the caller's promise.
        !is_refused("launch")
            && driver().is_ok_and(|driver| unsafe { driver.launch_graph(self.exec, stream, "kernels in a row") }.is_ok())
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        // SAFETY: made by `of`, destroyed once; the driver frees it when it has run.
        let destroy = || unsafe { (self.graph.0.drop_exec)(self.exec) };
        if let Ok(driver) = driver() {
            driver.beside_captures(destroy);
        }
    }
}
