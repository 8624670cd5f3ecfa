//! What somebody puts on a stream: recorded on a stream of our own, where nothing runs, and read from the recording.

use super::driver::{Stream, driver};
use super::launched::{Attribute, Config, Geometry, Launched, What};
use super::repeat::Extent;
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

pub(super) type Code = c_int;
pub(super) type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl Functions {
            /// SAFETY: `library` must be libcuda.
            unsafe fn load(library: &Library) -> Option<Functions> {
                // SAFETY: the functions have the types that cuda.h declares under these names.
                unsafe { Some(Functions { $($field: *library.get(concat!($name, "\0").as_bytes()).ok()?,)* }) }
            }
        }
    };
}

functions! {
    new_stream "cuStreamCreate" (*mut Handle, c_uint);
    begin "cuStreamBeginCapture_v2" (Handle, c_int);
    end "cuStreamEndCapture" (Handle, *mut Handle);
    drop_graph "cuGraphDestroy" (Handle);
    nodes "cuGraphGetNodes" (Handle, *mut Handle, *mut usize);
    dependencies "cuGraphNodeGetDependencies_v2" (Handle, *mut Handle, *mut u64, *mut usize);
    kind "cuGraphNodeGetType" (Handle, *mut c_int);
    kernel "cuGraphKernelNodeGetParams_v2" (Handle, *mut KernelNode);
    attribute "cuGraphKernelNodeGetAttribute" (Handle, c_int, *mut [u64; 8]);
    fill "cuGraphMemsetNodeGetParams" (Handle, *mut FillNode);
    parameter "cuFuncGetParamInfo" (Handle, usize, *mut usize, *mut usize);
    instantiate "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
    drop_exec "cuGraphExecDestroy" (Handle);
    set_kernel "cuGraphExecKernelNodeSetParams_v2" (Handle, Handle, *const KernelNode);
    set_fill "cuGraphExecMemsetNodeSetParams" (Handle, Handle, *const FillNode, Handle);
    pointer "cuPointerGetAttribute" (*mut c_void, c_int, u64);
    name "cuFuncGetName" (*mut *const c_char, Handle);
    launch "cuLaunchKernelEx" (*const Config, Handle, *mut *mut c_void, *mut *mut c_void);
    fill_bytes "cuMemsetD8Async" (u64, u8, usize, Handle);
    fill_words "cuMemsetD32Async" (u64, c_uint, usize, Handle);
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) function: Handle,
    pub(super) blocks: [c_uint; 3],
    pub(super) threads: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    /// One address for each parameter, or null: then `extra` names one piece of memory with all of them.
    pub(super) parameters: *const *const c_void,
    pub(super) extra: *const *const c_void,
    pub(super) kernel: Handle,
    pub(super) context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Default)]
pub(super) struct FillNode {
    pub(super) to: u64,
    pub(super) pitch: usize,
    pub(super) value: c_uint,
    pub(super) element: c_uint,
    pub(super) width: usize,
    pub(super) height: usize,
}

const MEMORY_TYPE: c_int = 2;
const RANGE_START: c_int = 11;
const RANGE_BYTES: c_int = 12;
const ON_DEVICE: u64 = 2;
const NON_BLOCKING: c_uint = 1;
const RELAXED: c_int = 2;
const KERNEL: c_int = 0;
const FILL: c_int = 2;
/// What `extra` is made of.
pub(super) const END: usize = 0;
pub(super) const MEMORY: usize = 1;
pub(super) const LENGTH: usize = 2;

/// Of a launch: whether its blocks may wait for one another, how many of them are a cluster, or best are, and how clusters are spread.
const HANDED_ON: [u32; 4] = [2, 4, 5, 11];
/// A window of the cache, a priority, a domain of memory, updates from the device: nobody asks for them here, and who did is not followed.
const UNHEARD_OF: [c_int; 4] = [1, 8, 10, 13];

/// Drivers before CUDA 12.4 lack some of them.
pub(super) fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let find = || {
        driver().ok()?;
        // SAFETY: the driver is loaded, and stays so; the functions are its own.
        unsafe {
            let library = Library::new("libcuda.so.1").ok()?;
            let found = Functions::load(&library);
            std::mem::forget(library);
            found
        }
    };
    FUNCTIONS.get_or_init(find).as_ref()
}

/// By device. Whoever records on one holds the lock.
static STREAMS: Mutex<Vec<(u8, Stream)>> = Mutex::new(Vec::new());

/// What `call` puts on a stream of the current device; nothing of it runs. None where it fails, or does what cannot be repeated.
pub fn watch(device: u8, call: impl FnOnce(Stream) -> bool) -> Option<Vec<Launched>> {
    let graph = Graph::of(device, call)?;
    graph.nodes()?.into_iter().map(|node| graph.0.launched(node)).collect()
}

/// The memory of a device that a word points into, as the driver allocated it. None for other words.
pub fn allocation(word: u64) -> Option<Extent> {
    let functions = functions()?;
    let get = |attribute: c_int| {
        let mut value = 0u64;
        // SAFETY: at most eight bytes are written; the driver looks the word up, whatever it is.
        (unsafe { (functions.pointer)((&raw mut value).cast(), attribute, word) } == 0).then_some(value)
    };
    (get(MEMORY_TYPE)? == ON_DEVICE).then_some(())?;
    Some(Extent { start: get(RANGE_START)?, bytes: get(RANGE_BYTES)? })
}

/// A recording.
pub(super) struct Graph(pub(super) &'static Functions, pub(super) Handle);

impl Graph {
    /// Of what `call` puts on a stream.
    pub(super) fn of(device: u8, call: impl FnOnce(Stream) -> bool) -> Option<Graph> {
        let functions = functions()?;
        let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match streams.iter().find(|(known, _)| *known == device) {
            Some((_, stream)) => *stream,
            None => {
                let fresh = functions.new_stream()?;
                streams.push((device, fresh));
                fresh
            }
        };
        // SAFETY: a stream of ours that nobody else uses. Relaxed: nothing that other threads do ends the recording, or is kept from them by it.
        (unsafe { (functions.begin)(stream.0, RELAXED) } == 0).then_some(())?;
        let taken = call(stream);
        let mut graph = null_mut();
        // SAFETY: it was begun above; one pointer is written.
        let ended = unsafe { (functions.end)(stream.0, &mut graph) } == 0 && !graph.is_null();
        let graph = ended.then(|| Graph(functions, graph))?;
        taken.then_some(graph)
    }

    /// In order. None if some of them may run side by side.
    pub(super) fn nodes(&self) -> Option<Vec<Handle>> {
        let Graph(functions, graph) = self;
        // SAFETY: a live graph, and nodes of it.
        let mut nodes = listed(|list, count| unsafe { (functions.nodes)(*graph, list, count) })?;
        // How a kernel waits for another is not asked: one that may begin while the other ends may as well wait for its end.
        let mut ways = vec![0u64; nodes.len()];
        let mut depends = |node: Handle| {
            listed(|list, count| {
                let ways = if list.is_null() { null_mut() } else { ways.as_mut_ptr() };
                // SAFETY: there is room for as many as there are nodes.
                unsafe { (functions.dependencies)(node, list, ways, count) }
            })
        };
        // The driver gives them in the order in which they came.
        for n in 0..nodes.len() {
            let before = if n == 0 { &[][..] } else { &nodes[n - 1..n] };
            let next = (n..nodes.len()).find(|next| depends(nodes[*next]).as_deref() == Some(before))?;
            nodes.swap(n, next);
        }
        Some(nodes)
    }

    /// What a kernel's node launches; null for others.
    pub(super) fn function(&self, node: Handle) -> Handle {
        let mut found = KernelNode::new(&Geometry::default());
        // SAFETY: a node of this graph; one description is written, of a kernel's.
        unsafe { (self.0.kernel)(node, &mut found) };
        found.function
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: a graph of ours, destroyed once.
        unsafe { (self.0.drop_graph)(self.1) };
    }
}

/// A list that the driver writes when it has been asked how long it is.
fn listed(mut ask: impl FnMut(*mut Handle, *mut usize) -> Code) -> Option<Vec<Handle>> {
    let mut count = 0;
    (ask(null_mut(), &mut count) == 0).then_some(())?;
    let mut list = vec![null_mut(); count];
    (count == 0 || ask(list.as_mut_ptr(), &mut count) == 0).then_some(list)
}

impl KernelNode {
    pub(super) fn new(geometry: &Geometry) -> KernelNode {
        let Geometry { blocks, threads, shared_bytes } = *geometry;
        let none = null_mut();
        KernelNode {
            function: none,
            blocks,
            threads,
            shared_bytes,
            parameters: null(),
            extra: null(),
            kernel: none,
            context: none,
        }
    }
}

impl Functions {
    fn new_stream(&self) -> Option<Stream> {
        let mut stream = null_mut();
        // SAFETY: one pointer is written.
        let made = driver().ok()?.beside_captures(|| unsafe { (self.new_stream)(&mut stream, NON_BLOCKING) });
        (made == 0).then_some(Stream(stream))
    }

    fn launched(&self, node: Handle) -> Option<Launched> {
        let mut kind = 0;
        // SAFETY: a node of a live graph (likewise below); one int is written.
        (unsafe { (self.kind)(node, &mut kind) } == 0).then_some(())?;
        match kind {
            KERNEL => self.kernel(node),
            FILL => self.fill(node),
            _ => None,
        }
    }

    fn fill(&self, node: Handle) -> Option<Launched> {
        let mut fill = FillNode::default();
        // SAFETY: one description is written.
        (unsafe { (self.fill)(node, &mut fill) } == 0).then_some(())?;
        let FillNode { to, value, element, width, height, .. } = fill;
        let what = What::Fill { value, element, count: width };
        (height == 1 && matches!(element, 1 | 4)).then(|| Launched { what, words: vec![to] })
    }

    fn kernel(&self, node: Handle) -> Option<Launched> {
        let mut found = KernelNode::new(&Geometry::default());
        // SAFETY: one description is written; what it points to lives as long as the graph.
        (unsafe { (self.kernel)(node, &mut found) } == 0 && !found.function.is_null()).then_some(())?;
        let (words, bytes) = match (found.parameters.is_null(), found.extra.is_null()) {
            // SAFETY: the driver's own lists.
            (false, _) => unsafe { self.gathered(found.function, found.parameters)? },
            (true, false) => unsafe { whole(found.extra)? },
            (true, true) => (Vec::new(), 0),
        };
        let geometry = Geometry { blocks: found.blocks, threads: found.threads, shared_bytes: found.shared_bytes };
        let attributes = self.attributes(node)?;
        Some(Launched { what: What::Kernel { function: found.function as usize, geometry, attributes, bytes }, words })
    }

    /// SAFETY: `parameters` must be those of the function.
    unsafe fn gathered(&self, function: Handle, parameters: *const *const c_void) -> Option<(Vec<u64>, usize)> {
        let (mut words, mut bytes) = (Vec::new(), 0);
        for n in 0.. {
            let (mut offset, mut length) = (0, 0);
            // SAFETY: two numbers are written.
            if unsafe { (self.parameter)(function, n, &mut offset, &mut length) } != 0 {
                break;
            }
            bytes = offset + length;
            words.resize(bytes.div_ceil(8), 0);
            // SAFETY: there is room for it, and the driver keeps so many bytes.
            unsafe { copy(*parameters.add(n), &mut words, offset, length) };
        }
        (bytes > 0).then_some((words, bytes))
    }

    fn attributes(&self, node: Handle) -> Option<Vec<Attribute>> {
        let get = |id: c_int| {
            let mut value = [0; 8];
            // SAFETY: at most 64 bytes are written.
            (unsafe { (self.attribute)(node, id, &mut value) } == 0).then_some(value).filter(|value| *value != [0; 8])
        };
        let handed_on = HANDED_ON.iter().filter_map(|id| get(*id as c_int).map(|value| Attribute { id: *id, pad: 0, value }));
        UNHEARD_OF.iter().all(|id| get(*id).is_none()).then(|| handed_on.collect())
    }
}

/// SAFETY: `from` must be valid for so many bytes, and `words` have room for them behind `offset`.
unsafe fn copy(from: *const c_void, words: &mut [u64], offset: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), words.as_mut_ptr().cast::<u8>().add(offset), length) };
}

/// All parameters, in one piece.
///
/// SAFETY: `extra` must be a list as the driver's launches take it.
unsafe fn whole(extra: *const *const c_void) -> Option<(Vec<u64>, usize)> {
    let (mut memory, mut length) = (null(), None);
    let mut at = extra;
    // SAFETY: pairs, up to the end.
    unsafe {
        while *at as usize != END {
            match *at as usize {
                MEMORY => memory = *at.add(1),
                LENGTH => length = Some(*(*at.add(1)).cast::<usize>()),
                _ => return None,
            }
            at = at.add(2);
        }
    }
    let bytes = length.filter(|_| !memory.is_null())?;
    let mut words = vec![0; bytes.div_ceil(8)];
    // SAFETY: the driver keeps so many bytes there.
    unsafe { copy(memory, &mut words, 0, bytes) };
    Some((words, bytes))
}
