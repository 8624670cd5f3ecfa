//! One call of an Executable, before it is decided how it is done.

use super::frame::{Frame, Inputs, Run};
use super::heap;
use super::known::Known;
use super::layout::Env;
use super::prepare::Prepared;
use super::{Executable, execute};
use crate::cuda::{Stream, driver};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::Device;
use ox_ir::failure::{Panic, guarded};
use std::sync::Arc;

pub struct Job<'a> {
    pub executable: &'a Executable,
    pub prepared: &'a Arc<Prepared>,
    pub inputs: Inputs<'a>,
    pub sizes: &'a [i64],
    pub known: Option<&'a Known>,
    pub device: Device,
    /// On a GPU: torch's current stream.
    pub stream: Option<Stream>,
    pub inference: bool,
}

/// So many runs of a plan make things that stay: the first, and the first that knows its inputs.
const MAKING: u32 = 2;

impl<'a> Job<'a> {
    /// The same call, with others in the place of its inputs.
    pub fn with_inputs<'b>(&'b self, all: &'b [TensorRef<'b>]) -> Job<'b>
    where
        'a: 'b,
    {
        let &Job { executable, prepared, sizes, known, device, stream, inference, .. } = self;
        Job { executable, prepared, inputs: Inputs { all, given: &[] }, sizes, known, device, stream, inference }
    }
}

impl Job<'_> {
    /// A run of it, without an arena.
    pub fn run<'a>(&'a self, inputs: Inputs<'a>, frame: Frame) -> Result<Run<'a>, RunError> {
        let executable = self.executable;
        let profiled = executable.abi.is_profiled();
        Ok(Run {
            abi: executable.abi,
            plan: &executable.plan,
            prepared: self.prepared,
            device: self.device,
            ops: executable.abi.ops(self.device)?,
            stream: self.stream,
            host: &*executable.host,
            inputs,
            held: Vec::new(),
            known: None,
            env: Env { vars: &executable.plan.sizes, values: self.sizes },
            threads: executable.abi.num_threads(),
            frame,
            arena: None,
            // Who watches torch's allocator sees results come and go.
            keeper: executable.keeper.as_ref().filter(|_| !profiled),
            scratch: Vec::new(),
            spent: false,
            large: false,
            recorded_later: executable.graphs.is_some(),
            profiled,
        })
    }

    /// Step by step. What is held is let go when it is not needed any more.
    pub fn run_plainly(&self, held: Vec<Option<Tensor>>) -> Result<Vec<Tensor>, RunError> {
        let executable = self.executable;
        let first = executable.begins_first_run();
        let large = self.prepared.large;
        if first.is_some() {
            heap::give_back_if_grown();
        }
        let _nursery = first.filter(|n| large && *n < MAKING).map(|_| heap::Nursery::new());
        let arena = match (&self.prepared.late, self.prepared.arena_bytes) {
            (Some(late), _) => {
                executable.pool.let_go(late.idle_bytes);
                None
            }
            (None, 0) => None,
            (None, bytes) => {
                if large {
                    heap::keep_ends_together();
                }
                Some(executable.pool.take(bytes, self.device)?)
            }
        };
        let frames = Known::frames_for(self.known, self.prepared);
        let idle = frames.take(self.inference);
        let fresh = idle.is_none();
        let frame = idle.unwrap_or_else(|| Frame::new(self.prepared));
        let mut run = Run { arena, held, known: self.known, large, ..self.run(self.inputs, frame)? };
        if fresh && large {
            run.make_lasting_handles()?;
        }
        let results =
            guarded(|| execute(&mut run, executable.profile.as_ref())).unwrap_or_else(|Panic(text)| Err(RunError::Bug(text)));
        if self.prepared.late.is_some() {
            run.arena = None;
        }
        run.clear_frame();
        let Run { frame, arena, spent, .. } = run;
        frames.give(self.inference, frame);
        if let Some(arena) = arena {
            executable.pool.give(arena);
        }
        results.map_err(|error| if spent { RunError::Spent(Box::new(error)) } else { error })
    }

    pub fn idle_frame(&self) -> Frame {
        self.prepared.frames.take(self.inference).unwrap_or_else(|| Frame::new(self.prepared))
    }

    pub fn give_back(&self, frame: Frame) {
        self.prepared.frames.give(self.inference, frame);
    }

    /// Whether somebody else records what is launched now.
    pub fn is_being_recorded(&self) -> bool {
        self.stream.is_some_and(|stream| driver().is_ok_and(|driver| driver.is_capturing(stream)))
    }

    /// Whether the Plan writes this input.
    pub fn writes(&self, input: usize) -> bool {
        self.prepared.write_backs.iter().any(|write| write.input == input)
    }

    /// A replay has written inputs, and torch has not seen it. Tensors of inference mode count no versions.
    pub fn tell_written(&self) -> Result<(), RunError> {
        if self.stream.is_none() || self.prepared.write_backs.is_empty() || self.inference {
            return Ok(());
        }
        let written: Vec<_> = self.prepared.write_backs.iter().map(|write| self.inputs.get(write.input)).collect();
        self.executable.host.tell_written(&written)
    }

    /// Tells something, with the user's line that the Plan begins with.
    pub fn note_graphs(&self, text: &str) {
        let place = self.executable.plan.locations.iter().find(|line| !line.is_empty()).map_or("", String::as_str);
        self.executable.host.note_graphs(&format!("{place}: {text}"));
    }

    /// The graph as messages name it: by its first kernels.
    pub fn describe(&self) -> String {
        let kernels = &self.executable.plan.kernels;
        let names: Vec<&str> = kernels.iter().take(3).map(|kernel| kernel.name.as_str()).collect();
        let more = if kernels.len() > names.len() { ", ..." } else { "" };
        format!("the graph of {} steps ({}{more})", self.executable.plan.steps.len(), names.join(", "))
    }
}
