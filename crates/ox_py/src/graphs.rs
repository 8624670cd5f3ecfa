//! Recording of CUDA graphs, through torch: its allocator must keep what is allocated meanwhile, its generators must know that they are drawn
//! from. Python is needed for that alone; a replay goes to the driver.

use crate::tensor::Crossing;
use ox_capture::Found;
use ox_runtime::{Capture, Captured, PoolId, Reserved, RunError, TensorRef};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use std::ffi::c_void;
use std::sync::Arc;

/// A recording under way.
struct Recording {
    device: u8,
    graph: Py<PyAny>,
    pool: Py<PyAny>,
    /// What the stream of this thread was.
    before: Py<PyAny>,
    stream: usize,
    is_open: bool,
}

struct Recorded {
    /// `torch.cuda.CUDAGraph`, which holds the memory.
    graph: Py<PyAny>,
    handle: usize,
    /// If others may lie in it.
    pool: Option<PoolId>,
}

pub fn begin(device: u8, pool: Option<PoolId>) -> Result<Box<dyn Capture>, RunError> {
    Python::attach(|py| Recording::begin(py, device, pool))
        .map(|recording| Box::new(recording) as Box<dyn Capture>)
        .map_err(refused)
}

/// torch refuses while another thread records: then that memory stays.
pub fn empty_cache() {
    let _ = Python::attach(|py| cuda(py)?.call_method0(intern!(py, "empty_cache")).map(drop));
}

/// The call is done without a graph, so that torch's words are a reason and no exception.
fn refused(error: PyErr) -> RunError {
    RunError::torch(format!("torch could not record it: {error}"))
}

fn cuda(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "torch.cuda"))
}

/// The stream that everything is recorded on. It is never launched on.
fn side_stream<'py>(py: Python<'py>, device: u8) -> PyResult<Bound<'py, PyAny>> {
    static STREAMS: Found<Py<PyDict>> = Found::new();
    let streams = STREAMS.or_find(|| PyDict::new(py).unbind()).bind(py);
    if let Some(known) = streams.get_item(device)? {
        return Ok(known);
    }
    let fresh = cuda(py)?.call_method1(intern!(py, "Stream"), (device,))?;
    streams.set_item(device, &fresh)?;
    Ok(fresh)
}

impl Recording {
    fn begin(py: Python<'_>, device: u8, pool: Option<PoolId>) -> PyResult<Recording> {
        let cuda = cuda(py)?;
        let graph = cuda.call_method0(intern!(py, "CUDAGraph"))?;
        let pool = match pool {
            Some(known) => known.into_pyobject(py)?.into_any(),
            None => cuda.call_method0(intern!(py, "graph_pool_handle"))?,
        };
        let before = cuda.call_method1(intern!(py, "current_stream"), (device,))?;
        let side = side_stream(py, device)?;
        let stream = side.getattr(intern!(py, "cuda_stream"))?.extract()?;
        cuda.call_method1(intern!(py, "set_stream"), (side,))?;
        if let Err(error) = begin_on_current(&graph, &pool) {
            cuda.call_method1(intern!(py, "set_stream"), (before,))?;
            return Err(error);
        }
        Ok(Recording { device, graph: graph.unbind(), pool: pool.unbind(), before: before.unbind(), stream, is_open: true })
    }

    /// The thread is as it was, whether the recording is good or not.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.is_open = false;
        let ended = self.graph.call_method0(py, intern!(py, "capture_end"));
        // What torch has allocated for cuBLAS meanwhile belongs to the recording. Kept, it would only be memory that nobody uses.
        let _ = py.import(intern!(py, "torch._C")).and_then(|own| own.call_method0(intern!(py, "_cuda_clearCublasWorkspaces")));
        let mended = if ended.is_err() { self.mend(py) } else { Ok(()) };
        cuda(py)?.call_method1(intern!(py, "set_stream"), (&self.before,))?;
        ended.map(drop).and(mended)
    }

    /// torch leaves its allocator and its generator in the middle of a recording that became invalid.
    fn mend(&self, py: Python<'_>) -> PyResult<()> {
        let own = py.import(intern!(py, "torch._C"))?;
        let allocates = own.call_method1(intern!(py, "_cuda_endAllocateToPool"), (self.device, &self.pool));
        let released = own.call_method1(intern!(py, "_cuda_releasePool"), (self.device, &self.pool));
        let emptied = quietly(py, || record_nothing(py));
        allocates.and(released).map(drop).and(emptied)
    }
}

/// A recording that is good, though of nothing: the generator is as before one.
fn record_nothing(py: Python<'_>) -> PyResult<()> {
    let (graph, pool) = (cuda(py)?.call_method0("CUDAGraph")?, cuda(py)?.call_method0("graph_pool_handle")?);
    begin_on_current(&graph, &pool)?;
    graph.call_method0("capture_end").map(drop)
}

/// Without warnings; if they cannot be turned off, with them.
fn quietly<T>(py: Python<'_>, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let quiet = silence(py);
    let done = body();
    if let Ok(quiet) = quiet {
        quiet.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    }
    done
}

fn silence(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let warnings = py.import("warnings")?;
    let quiet = warnings.call_method0("catch_warnings")?;
    quiet.call_method0("__enter__")?;
    // The context is left, whether it ignores them or not.
    let _ = warnings.call_method1("simplefilter", ("ignore",));
    Ok(quiet)
}

/// Other threads may do what they like meanwhile.
fn begin_on_current(graph: &Bound<'_, PyAny>, pool: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = graph.py();
    let kwargs =
        [("pool", pool.clone()), ("capture_error_mode", "thread_local".into_pyobject(py)?.into_any())].into_py_dict(py)?;
    graph.call_method(intern!(py, "capture_begin"), (), Some(&kwargs)).map(drop)
}

impl Capture for Recording {
    fn stream(&self) -> *mut c_void {
        self.stream as *mut c_void
    }

    fn end(mut self: Box<Self>) -> Result<Box<dyn Captured>, RunError> {
        let recorded = Python::attach(|py| -> PyResult<Recorded> {
            self.close(py)?;
            let handle = self.graph.call_method0(py, intern!(py, "raw_cuda_graph_exec"))?.extract(py)?;
            let pool = if keeps_pools(py)? { Some(self.pool.extract(py)?) } else { None };
            Ok(Recorded { graph: self.graph.clone_ref(py), handle, pool })
        });
        recorded.map(|recorded| Box::new(recorded) as Box<dyn Captured>).map_err(refused)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.is_open {
            // What went wrong is known to whoever drops it.
            let _ = Python::attach(|py| self.close(py));
        }
    }
}

impl Captured for Recorded {
    fn handle(&self) -> *mut c_void {
        self.handle as *mut c_void
    }

    fn pool(&self) -> Option<PoolId> {
        self.pool
    }

    fn replay(&self) -> Result<(), RunError> {
        Python::attach(|py| self.graph.call_method0(py, intern!(py, "replay"))).map(drop).map_err(RunError::host)
    }
}

/// Memory in a pool of its own: the tensor that it was allocated as is gone, the pool stays.
pub fn reserve(device: u8, bytes: usize) -> Result<Option<Reserved>, RunError> {
    Python::attach(|py| reserve_by(py, device, bytes)).map_err(refused)
}

/// Whether torch's allocator keeps what is freed in a pool. Those of CUDA (`backend:cudaMallocAsync`) and of others give it away.
fn keeps_pools(py: Python<'_>) -> PyResult<bool> {
    let backend = cuda(py)?.call_method0(intern!(py, "get_allocator_backend"))?;
    Ok(backend.extract::<String>()? == "native")
}

fn reserve_by(py: Python<'_>, device: u8, bytes: usize) -> PyResult<Option<Reserved>> {
    if !keeps_pools(py)? {
        return Ok(None);
    }
    let (torch, cuda) = (py.import(intern!(py, "torch"))?, cuda(py)?);
    let pool = cuda.call_method0(intern!(py, "MemPool"))?;
    let scope = cuda.call_method1(intern!(py, "use_mem_pool"), (&pool, device))?;
    scope.call_method0(intern!(py, "__enter__"))?;
    let kwargs = [
        ("dtype", torch.getattr(intern!(py, "uint8"))?),
        ("device", torch.call_method1(intern!(py, "device"), (intern!(py, "cuda"), device))?),
    ];
    let tensor = kwargs.into_py_dict(py).and_then(|kwargs| torch.call_method(intern!(py, "empty"), (bytes,), Some(&kwargs)));
    scope.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    let start = tensor?.call_method0(intern!(py, "data_ptr"))?.extract()?;
    Ok(Some((start, Arc::new(pool.unbind()))))
}

/// Counts up the versions of tensors that a replay has written.
pub fn tell_written(tensors: &[TensorRef<'_>]) -> Result<(), RunError> {
    let tell = |py: Python<'_>| -> PyResult<()> {
        let crossing = Crossing::get(py)?;
        let tensors = tensors.iter().map(|tensor| crossing.wrap(py, *tensor)).collect::<PyResult<Vec<_>>>()?;
        let own = py.import(intern!(py, "torch._C"))?;
        own.call_method1(intern!(py, "_increment_version"), (PyList::new(py, tensors)?,)).map(drop)
    };
    Python::attach(tell).map_err(RunError::host)
}

/// By torch's own tags: an operator that waits for the GPU, or whose result has a size that only the GPU knows.
pub fn is_unsafe(operator: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = operator.py();
    let (known, tags) = (py.import(intern!(py, "torch"))?.getattr(intern!(py, "Tag"))?, operator.getattr(intern!(py, "tags"))?);
    for name in ["cudagraph_unsafe", "data_dependent_output", "dynamic_output_shape"] {
        if let Some(tag) = known.getattr_opt(name)?
            && tags.contains(tag)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
