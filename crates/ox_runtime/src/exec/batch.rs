//! Launches that do not need one another, done in one parallel region: waking the pool costs more than many a kernel, and an optimizer
//! has hundreds of them.

use super::frame::Run;
use super::launch::{Launch, SHARE};
use super::prepare::{Action, Buffer, Home};
use crate::error::RunError;
use ox_ir::abi::KernelError;
use rustc_hash::FxHashSet;
use std::ffi::{CStr, c_void};

/// Work for one thread before it asks for more.
const CHUNK: i64 = 2 * SHARE;

pub struct Batch {
    launches: Vec<Launch>,
    /// Parts of launches, in order.
    pieces: Vec<Piece>,
    /// Where the pieces of each chunk of work begin; one more for the end.
    chunks: Vec<usize>,
    pub writes_input: bool,
}

struct Piece {
    launch: usize,
    begin: i64,
    end: i64,
}

/// Joins launches that stand side by side and touch nothing that another of them writes.
pub fn together(actions: Vec<Action>, buffers: &[Buffer]) -> Vec<Action> {
    let mut out = Vec::with_capacity(actions.len());
    let mut group = Group::default();
    for action in actions {
        match action {
            Action::Launch(launch) if !launch.checked => {
                match group.admits(&launch, buffers) {
                    true => group.go_on(&mut out),
                    false => std::mem::take(&mut group).finish(&mut out),
                }
                group.push(launch, buffers);
            }
            Action::Allocate(_) | Action::Drop(_) if !group.launches.is_empty() => group.behind.push(action),
            other => {
                std::mem::take(&mut group).finish(&mut out);
                out.push(other);
            }
        }
    }
    group.finish(&mut out);
    out
}

/// Memory that launches touch. Inputs that are written overlap no others: whoever calls sees to that.
#[derive(Default)]
struct Memory {
    buffers: FxHashSet<u32>,
    arena: Vec<(usize, usize)>,
}

impl Memory {
    fn meets(&self, buf: u32, buffers: &[Buffer]) -> bool {
        match range(&buffers[buf as usize]) {
            Some((start, end)) => self.arena.iter().any(|(from, to)| *from < end && start < *to),
            None => self.buffers.contains(&buf),
        }
    }

    fn add(&mut self, buf: u32, buffers: &[Buffer]) {
        match range(&buffers[buf as usize]) {
            Some(range) => self.arena.push(range),
            None => drop(self.buffers.insert(buf)),
        }
    }
}

/// The bytes of the arena that a buffer takes.
fn range(buffer: &Buffer) -> Option<(usize, usize)> {
    let Home::Arena(offset) = buffer.home else { return None };
    Some((offset, offset + buffer.layout.bytes()))
}

#[derive(Default)]
struct Group {
    launches: Vec<Launch>,
    read: Memory,
    written: Memory,
    /// Buffers that nobody needs behind them.
    dead: Vec<usize>,
    /// What is done with memory behind the last of them.
    behind: Vec<Action>,
}

impl Group {
    fn admits(&self, launch: &Launch, buffers: &[Buffer]) -> bool {
        launch
            .bufs
            .iter()
            .zip(&launch.written)
            .all(|(buf, written)| !(self.written.meets(*buf, buffers) || *written && self.read.meets(*buf, buffers)))
    }

    fn push(&mut self, launch: Launch, buffers: &[Buffer]) {
        for (buf, written) in launch.bufs.iter().zip(&launch.written) {
            let memory = if *written { &mut self.written } else { &mut self.read };
            memory.add(*buf, buffers);
        }
        self.launches.push(launch);
    }

    /// Another launch follows: memory may as well be made before all of them, and let go behind.
    fn go_on(&mut self, out: &mut Vec<Action>) {
        for action in self.behind.drain(..) {
            match action {
                Action::Drop(buf) => self.dead.push(buf),
                made => out.push(made),
            }
        }
    }

    fn finish(mut self, out: &mut Vec<Action>) {
        match self.launches.len() {
            0 => {}
            1 => out.extend(self.launches.pop().map(Action::Launch)),
            _ => out.push(Action::Batch(Batch::new(self.launches))),
        }
        out.extend(self.dead.into_iter().map(Action::Drop));
        out.append(&mut self.behind);
    }
}

impl Batch {
    fn new(launches: Vec<Launch>) -> Batch {
        let (mut pieces, mut chunks, mut work) = (Vec::new(), vec![0], 0i64);
        for (n, launch) in launches.iter().enumerate() {
            let step = match launch.grain {
                Some(_) => ((CHUNK / launch.cost.max(1)).max(1) as u64).next_multiple_of(launch.block as u64) as i64,
                None => launch.points.max(1),
            };
            let mut begin = 0;
            while begin < launch.points {
                let end = (begin + step).min(launch.points);
                pieces.push(Piece { launch: n, begin, end });
                work = work.saturating_add((end - begin).saturating_mul(launch.cost));
                if work >= CHUNK {
                    chunks.push(pieces.len());
                    work = 0;
                }
                begin = end;
            }
        }
        if chunks.last() != Some(&pieces.len()) {
            chunks.push(pieces.len());
        }
        let writes_input = launches.iter().any(|launch| launch.writes_input);
        Batch { launches, pieces, chunks, writes_input }
    }

    /// The first stands for all.
    pub fn range(&self) -> Option<&CStr> {
        self.launches.first().map(|launch| &*launch.range)
    }

    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    pub fn len(&self) -> usize {
        self.launches.len()
    }

    pub fn run(&self, run: &Run<'_>) -> Result<(), RunError> {
        let (mut buffers, mut starts) = (Vec::new(), Vec::with_capacity(self.launches.len()));
        for launch in &self.launches {
            starts.push(buffers.len());
            buffers.extend(launch.bufs.iter().map(|&buf| run.frame.data[buf as usize]));
        }
        let task = Task { batch: self, buffers: &buffers, starts: &starts };
        let chunks = self.chunks.len() as i64 - 1;
        match run.abi.torch_parallel_for {
            Some(parallel_for) if run.threads > 1 && chunks > 1 => {
                let context = &task as *const Task as *mut c_void;
                // SAFETY: the pool calls `run_chunks` with this context until parallel_for returns, and not after.
                let code = unsafe { parallel_for(0, chunks, 1, run_chunks, context) };
                crate::tensor::check(code, "parallel_for")
            }
            _ => {
                task.chunks(0, chunks);
                Ok(())
            }
        }
    }
}

struct Task<'a> {
    batch: &'a Batch,
    buffers: &'a [*mut u8],
    starts: &'a [usize],
}

impl Task<'_> {
    fn chunks(&self, begin: i64, end: i64) {
        // Launches without checks report nothing.
        let mut error = KernelError::default();
        let pieces = self.batch.chunks[begin as usize]..self.batch.chunks[end as usize];
        for piece in &self.batch.pieces[pieces] {
            let launch = &self.batch.launches[piece.launch];
            let buffers = &self.buffers[self.starts[piece.launch]..];
            // SAFETY: the kernel was compiled for these parameters; the pieces cover its points, each once.
            unsafe { (launch.function())(buffers.as_ptr(), launch.sizes.as_ptr(), piece.begin, piece.end, &mut error) };
        }
    }
}

unsafe extern "C" fn run_chunks(begin: i64, end: i64, context: *mut c_void) {
    // SAFETY: `Batch::run` passes a Task that outlives the loop.
    let task = unsafe { &*(context as *const Task) };
    task.chunks(begin, end);
}
