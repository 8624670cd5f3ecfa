//! The machine: frames of Python code, run one instruction at a time on real objects.
//!
//! With a recording it also notes where objects come from and what it relies on. Without one (`rec` is None) it is a plain interpreter:
//! whatever cannot be recorded ends the recording, and the call goes on all the same.

mod abandoned;
mod aggregate;
mod array;
mod asking;
mod attribute;
mod attribute_of;
mod bind;
mod bounds;
mod break_;
mod breathe;
mod build;
mod builtin;
pub mod cached;
mod call;
mod checkpoint;
mod class_attribute;
mod closed;
mod code;
mod construct;
mod container;
mod copy;
mod crumbs;
mod entries;
mod escape;
mod exception;
mod failing;
mod finalised;
mod flow;
mod frame_functions;
mod function;
mod generator;
mod handled;
mod iterate;
mod kinds;
mod known_code;
pub mod library;
mod mark;
mod methods;
mod moving;
mod names;
mod native;
mod new;
mod number_tensors;
mod operators;
mod overflow;
mod own_derivative;
mod question;
mod read;
mod reading;
mod rows;
mod seen;
mod sizes;
pub mod snapshot;
mod step;
mod store;
mod tensor;
mod text;
mod texts;

pub use bind::Args;
pub use break_::Refused;
pub use code::{CodeInfo, asks_for_frames, code_info};
pub use escape::Escape;
pub use exception::{Line, at_line, exception_of, handled, lines_of, set_handled, with_lines};
pub use finalised::{finaliser, is_spent, spender};
pub use generator::{State, VmGenerator};
pub use iterate::{Kind, VmIterator};
pub use library::load as load_library;
pub use moving::{is_moved, stands};

use crate::callable::Settings;
use crate::lazy::Pending;
use crate::obj::{Obj, py};
use crate::record::{Abandon, Origin, Place, Rec, Recording, Val};
use crate::tree::{Branches, GraphCall, Segment, Tree};
use crate::undone::{Offer, undone};
use pyo3::prelude::*;
use std::rc::Rc;

pub type R<T> = PyResult<T>;

/// What happens with the value that a frame returns.
#[derive(Clone, Debug)]
pub enum After {
    /// It is pushed on the caller's stack.
    Push,
    /// The frame was `__init__`: this object is pushed.
    Instance(Val),
    /// The frame was `__new__`: what it returns is initialised with these arguments, if it is of the class, and pushed.
    New(Val, Args),
    /// Nothing is pushed.
    Drop,
    /// None is pushed.
    Nothing,
    /// It goes to the Rust function that runs the frame.
    Hand,
    /// The frame is a generator's: its end is the end of this loop.
    ForIter(usize),
    /// The frame is a generator's that `yield from` waits for.
    Send(usize),
    /// The frame is a generator's that was asked for its next value: its end is a StopIteration.
    Next,
    /// It is pushed on the caller's stack, and the caller's instruction comes again.
    Again,
}

#[derive(Clone)]
pub struct Frame {
    pub code: Rc<CodeInfo>,
    pub function: Obj,
    pub globals: Obj,
    pub builtins: Obj,
    pub locals: Vec<Option<Val>>,
    pub stack: Vec<Option<Val>>,
    pub pc: usize,
    pub after: After,
    /// The generator whose frame it is.
    pub generator: Option<Obj>,
    pub handled: handled::Handled,
    /// What `exec` and `eval` see and leave behind, where that is one dict for all of them.
    pub scope: Option<Obj>,
}

/// The innermost frame of the program's own code, with its number; of torch's or Python's where there is none.
fn users_frame(frames: &[Frame]) -> Option<(usize, &Frame)> {
    let seen = || frames.iter().enumerate().rev().filter(|(_, frame)| !frame.code.hidden);
    seen().find(|(_, frame)| !frame.code.foreign).or_else(|| seen().next())
}

impl Frame {
    /// Whether it is of this function of the library.
    pub fn is_of_library(&self, name: &str) -> bool {
        self.code.hidden && self.code.name == name
    }

    pub fn new(code: Rc<CodeInfo>, function: &Obj, locals: Vec<Option<Val>>) -> R<Frame> {
        let globals = function.attr("__globals__")?;
        let builtins = function.attr("__builtins__")?;
        let stack = Vec::with_capacity(code.code.stack_size as usize);
        Ok(Frame {
            code,
            function: function.clone(),
            globals,
            builtins,
            locals,
            stack,
            pc: 0,
            after: After::Push,
            generator: None,
            handled: Default::default(),
            scope: None,
        })
    }

    pub fn location(&self) -> String {
        self.code.location(self.pc.saturating_sub(1))
    }
}

/// What an instruction or call led to.
pub enum Flow {
    Next,
    /// The frame is left with this value.
    Return(Val),
    /// The generator's frame is suspended with this value.
    Yield(Val),
}

/// What a call led to.
pub enum Called {
    Value(Val),
    /// A frame was pushed; its value comes when it returns.
    Pushed,
}

/// A place where the graph ended before the function did.
#[derive(Clone, Debug)]
pub struct Break {
    pub reason: String,
    /// The user's lines, outermost first.
    pub stack: Vec<String>,
}

impl Break {
    pub fn location(&self) -> String {
        self.stack.last().cloned().unwrap_or_default()
    }
}

/// Where finished segments go.
#[derive(Clone)]
pub enum Attach {
    Root,
    Action(Rc<Segment>),
}

impl Attach {
    pub fn branches<'a>(&'a self, tree: &'a Tree) -> &'a Branches {
        match self {
            Attach::Root => &tree.branches,
            Attach::Action(parent) => parent.branches().expect("an action has branches"),
        }
    }
}

pub struct Vm {
    pub rec: Option<Pending>,
    pub frames: Vec<Frame>,
    pub tree: Rc<Tree>,
    pub attach: Attach,
    /// How many Rust functions wait for a frame: then the machine's state is not all in its frames.
    pub waiting: usize,
    /// The exception that the caller handles.
    pub entered: Obj,
    /// The exception in flight is not for the program's handlers.
    pub fatal: bool,
    /// What a `__del__` is still to be called of when the call ends: later calls make it, too.
    pub told: Vec<Obj>,
    /// The exception in flight has its line already.
    pub reraising: bool,
    pub settings: Settings,
    /// Messages come with the whole stack.
    pub verbose: bool,
    /// Why recording was given up.
    pub gave_up: Option<String>,
    pub breaks: Vec<Break>,
    /// Where the data was asked, between two graphs.
    pub reads: Vec<String>,
    /// The graphs of this trace that ended before it did.
    crumbs: Vec<crumbs::Crumb>,
    /// Comparisons of sizes that the program has not acted upon yet.
    questions: Vec<question::Question>,
    /// Some text of this call is made of numbers that vary.
    has_texts: bool,
    breath: breathe::Breath,
    suspended: abandoned::Suspended,
}

impl Vm {
    pub fn new(tree: Rc<Tree>, rec: Option<Recording>, attach: Attach) -> Vm {
        let rec = rec.map(Pending::new);
        let (frames, breaks) = (Vec::new(), Vec::new());
        let entered = exception::handled();
        Vm {
            rec,
            frames,
            tree,
            attach,
            waiting: 0,
            entered,
            fatal: false,
            told: Vec::new(),
            reraising: false,
            settings: Settings::default(),
            verbose: false,
            gave_up: None,
            breaks,
            reads: Vec::new(),
            crumbs: Vec::new(),
            questions: Vec::new(),
            has_texts: false,
            breath: breathe::Breath::new(),
            suspended: Default::default(),
        }
    }

    /// A machine that records nothing.
    pub fn plain() -> Vm {
        Vm::new(Rc::new(Tree::default()), None, Attach::Root)
    }

    pub fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a frame is running")
    }

    /// The user's line.
    pub fn location(&self) -> String {
        self.frames.iter().rev().find(|frame| !frame.code.hidden).map(Frame::location).unwrap_or_default()
    }

    pub fn push(&mut self, value: impl Into<Val>) {
        let value = value.into();
        self.frame().stack.push(Some(value));
    }

    pub fn push_slot(&mut self, slot: Option<Val>) {
        self.frame().stack.push(slot);
    }

    pub fn pop(&mut self) -> Val {
        self.pop_slot().expect("the decoder checked that a value is there")
    }

    pub fn pop_slot(&mut self) -> Option<Val> {
        self.frame().stack.pop().expect("the decoder checked the depth")
    }

    pub fn pop_many(&mut self, count: usize) -> Vec<Val> {
        let frame = self.frame();
        let at = frame.stack.len() - count;
        frame.stack.split_off(at).into_iter().map(|v| v.expect("a value")).collect()
    }

    /// The object, its value relied on.
    pub fn settled(&mut self, value: &Val) -> Obj {
        self.note_line();
        match &mut self.rec {
            Some(rec) => rec.settle(value),
            None => value.obj.clone(),
        }
    }

    /// Whoever relies on a size is named.
    pub fn note_line(&mut self) {
        if self.rec.as_ref().is_some_and(|rec| rec.sizing.is_in_use()) {
            let line = users_frame(&self.frames).map(|(_, frame)| frame.location()).unwrap_or_default();
            if let Some(rec) = &mut self.rec {
                rec.sizing.line = line;
            }
        }
    }

    /// The object, to be looked at by the machine, which asks where the numbers inside of it came from.
    pub fn settled_number(&mut self, value: &Val) -> Obj {
        if value.free.is_some() { self.settled(value) } else { value.obj.clone() }
    }

    /// Whether the call can still be made from its beginning: no action was done, nothing that others see was changed or computed.
    pub fn has_done_nothing(&self) -> bool {
        self.rec.as_ref().is_some_and(|rec| self.did_nothing(rec))
    }

    fn did_nothing(&self, rec: &Recording) -> bool {
        matches!(self.attach, Attach::Root) && rec.changes.is_empty() && rec.tainted.is_none()
    }

    /// Computes what was recorded; where that fails in a call of which nothing can be seen yet, it is `Undone`.
    pub fn compute(&self, rec: &mut Recording) -> R<Option<GraphCall>> {
        let _offer = Offer::new(self.did_nothing(rec));
        // Those that go on behind it.
        rec.graph.regions = self.regions();
        rec.compute()
    }

    /// Registers a new object.
    pub fn made(&mut self, object: Obj) -> Val {
        if let Some(rec) = &mut self.rec {
            rec.made(&object);
        }
        object.into()
    }

    /// Registers an object that is this one whenever the checks hold.
    pub fn pinned(&mut self, object: Obj) -> Val {
        if let Some(rec) = &mut self.rec
            && !crate::types::types().is_scalar(&object)
        {
            rec.pin(&object);
        }
        object.into()
    }

    /// Goes on without recording: the rest of this call is Python's. So are later calls that come here, unless they can go around.
    pub fn give_up(&mut self, why: &str) {
        self.give_up_in(self.depth_to_leave(), why);
    }

    /// The rest of this call, and later calls that come here, are Python's.
    pub(super) fn give_up_for_good(&mut self, why: &str) {
        if let Err(error) = self.try_give_up(why) {
            // The graph could not be computed: nothing that depends on it can go on.
            self.fatal = true;
            error.restore(py());
        }
    }

    fn try_give_up(&mut self, why: &str) -> R<()> {
        let Some(mut rec) = self.rec.take() else { return Ok(()) };
        let mut why = format!("{why} (at {})", self.location());
        if self.verbose {
            why.extend(self.frames.iter().map(|frame| format!("\n    {}", frame.location())));
        }
        self.gave_up = Some(why.clone());
        rec.graph.regions = self.regions();
        let computed = rec.compute();
        let segment = rec.gave_up(why);
        self.attach_segment(segment);
        drop(rec);
        self.forget_suspended();
        computed.map(drop)
    }

    /// What comes out of a graph would not do for what comes next: Python makes the whole call, as long as nothing can be seen of it.
    pub fn leave_to_python(&mut self, why: &str) -> R<()> {
        if !self.has_done_nothing() {
            return Ok(());
        }
        let why = format!("{why} (at {})", self.location());
        let Some(mut rec) = self.rec.take() else { return Ok(()) };
        self.gave_up = Some(why.clone());
        let segment = rec.gave_up(why);
        self.attach_segment(segment);
        self.fatal = true;
        Err(undone(None))
    }

    /// Goes on without recording, and keeps nothing of what was recorded: the next call is traced anew.
    pub fn stop_recording(&mut self) -> R<()> {
        let stopped = self.rec.take().map_or(Ok(()), |mut rec| rec.interrupted());
        self.forget_suspended();
        stopped
    }

    /// Runs `f` on the recording; where it cannot go on, recording ends.
    pub fn recorded<T>(&mut self, f: impl FnOnce(&mut Recording) -> Rec<T>) -> Option<T> {
        let rec = self.rec.as_mut()?;
        match f(rec) {
            Ok(value) => Some(value),
            Err(Abandon(why)) => {
                self.give_up(&why);
                None
            }
        }
    }

    pub fn attach_segment(&mut self, segment: Segment) -> Rc<Segment> {
        self.attach.branches(&self.tree).push(segment)
    }

    pub fn origin(&self, object: &Obj) -> Origin {
        self.rec.as_ref().map_or(Origin::Unknown, |rec| rec.origin(object))
    }

    /// Runs frames until the one at depth `base` has returned.
    pub fn run(&mut self, base: usize) -> R<Val> {
        loop {
            self.settle_questions();
            self.close_abandoned()?;
            let (depth, at) = (self.frames.len(), self.frame().pc);
            let flow = self.step();
            self.settle_changes(flow.is_ok());
            self.place_checks(depth, at);
            let flow = match (flow, PyErr::take(py()), self.late_interrupt()) {
                (_, _, Some(error)) | (Err(error), ..) | (_, Some(error), _) => Err(error),
                (flow, ..) => flow,
            };
            self.notice_taint();
            let result = match flow {
                Ok(Flow::Next) => continue,
                Ok(Flow::Return(value)) if self.lets_go_first(&value) => continue,
                Ok(Flow::Return(value)) => self.leave(base, value),
                Ok(Flow::Yield(value)) => self.suspend(base, value),
                Err(error) => self.unwind(base, error),
            };
            if let Some(ended) = result.transpose() {
                self.close_abandoned_at_the_end();
                return ended;
            }
        }
    }

    fn settle_changes(&mut self, were_made: bool) {
        if let Some(rec) = &mut self.rec {
            rec.settle_changes(were_made);
        }
    }

    /// What an instruction relied on, it relied on at the user's line. `depth` and `at`: where the machine stood before it.
    fn place_checks(&mut self, depth: usize, at: usize) {
        let Some(rec) = self.rec.as_mut().filter(|rec| rec.has_new_checks()) else { return };
        let place = users_frame(&self.frames[..depth.min(self.frames.len())]).map(|(n, frame)| {
            let pc = if n + 1 == depth { at } else { frame.pc.saturating_sub(1) };
            Place::new(&frame.code, pc)
        });
        rec.place_checks(place);
    }

    fn notice_taint(&mut self) {
        let tainted = self.rec.as_mut().and_then(|rec| rec.tainted.clone());
        if let Some(why) = tainted {
            self.give_up(&why);
        }
    }

    /// The running frame is done. The value, if the caller is not a frame.
    pub(super) fn leave(&mut self, base: usize, value: Val) -> R<Option<Val>> {
        let mut frame = self.frames.pop().expect("a frame is running");
        self.finished(&mut frame);
        self.leave_suspended(&frame);
        self.mark_results(&frame, &value)?;
        let done = self.frames.len() == base;
        let value = match &frame.after {
            After::Instance(_) if !value.obj.is_none() => {
                let name = value.obj.class_name();
                let error = pyo3::exceptions::PyTypeError::new_err(format!("__init__() should return None, not '{name}'"));
                return if done { Err(error) } else { self.unwind(base, error) };
            }
            After::Instance(object) => object.clone(),
            After::New(class, args) => match self.now_initialised(class, args, value) {
                Ok(Called::Value(object)) => object,
                Ok(Called::Pushed) => return Ok(None),
                Err(error) if done => return Err(error),
                Err(error) => return self.unwind(base, error),
            },
            After::Nothing => Obj::none().into(),
            _ => value,
        };
        match frame.after {
            After::Hand => return Ok(Some(value)),
            After::Next if done => return Err(generator::stop_iteration(&value.obj)),
            _ if done => return Ok(Some(value)),
            After::Push | After::Instance(_) | After::New(..) | After::Nothing => self.push(value),
            After::Again => {
                self.push(value);
                self.frame().pc -= 1;
            }
            After::Next => return self.unwind(base, generator::stop_iteration(&value.obj)),
            After::Drop => {}
            After::ForIter(label) => {
                self.pop_slot();
                self.frame().pc = label;
            }
            After::Send(label) => {
                self.pop_slot();
                self.push(value);
                self.frame().pc = label;
            }
        }
        Ok(None)
    }

    /// Runs a call to its end.
    pub fn call_now(&mut self, callable: &Val, args: Args) -> R<Val> {
        self.now(|vm| vm.call(callable, args))
    }

    /// The value of something that may push a frame or break. While it is waited for, the machine's state is not all in its frames: a
    /// break inside ends the recording.
    pub fn now(&mut self, f: impl FnOnce(&mut Vm) -> R<Called>) -> R<Val> {
        self.waiting += 1;
        let called = f(self);
        self.settle_changes(called.is_ok());
        self.waiting -= 1;
        match called? {
            Called::Value(value) => Ok(value),
            Called::Pushed => self.finish_pushed(),
        }
    }

    /// Runs the frame that was just pushed.
    pub fn finish_pushed(&mut self) -> R<Val> {
        let base = self.frames.len() - 1;
        let after = std::mem::replace(&mut self.frame().after, After::Hand);
        self.waiting += 1;
        let result = self.run(base);
        self.waiting -= 1;
        let value = result?;
        match after {
            After::Instance(object) => Ok(object),
            After::New(class, args) => self.now(|vm| vm.initialise_made(&class, &args, value)),
            After::Nothing => Ok(Obj::none().into()),
            _ => Ok(value),
        }
    }
}
