//! What a recording took, for people: counted also where the call goes on without the recording.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

/// By both clocks: that of the thread stands still while others have the processor.
#[derive(Clone, Copy)]
pub struct Moment {
    wall: Instant,
    thread: f64,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { wall: Instant::now(), thread: crate::callable::thread_time() }
    }

    pub fn since(self, earlier: Moment) -> Seconds {
        Seconds { wall: (self.wall - earlier.wall).as_secs_f64(), thread: self.thread - earlier.thread }
    }
}

#[derive(Clone, Copy, Default)]
pub struct Seconds {
    pub wall: f64,
    pub thread: f64,
}

impl std::ops::Add for Seconds {
    type Output = Seconds;

    fn add(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall + other.wall, thread: self.thread + other.thread }
    }
}

impl std::ops::Sub for Seconds {
    type Output = Seconds;

    fn sub(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall - other.wall, thread: self.thread - other.thread }
    }
}

#[derive(Default)]
pub struct Spent {
    pub ops: Cell<usize>,
    /// In compiling graphs and running them for the first time.
    pub computing: Cell<Seconds>,
    /// Seconds of that, by the stages of the compiler.
    pub stages: RefCell<Vec<(&'static str, f64)>>,
    ended: Cell<Option<Moment>>,
}

impl Spent {
    /// When recording ended; now, if it goes on.
    pub fn ended(&self) -> Moment {
        self.ended.get().unwrap_or_else(Moment::now)
    }

    pub fn computed(&self, since: Moment, stages: impl IntoIterator<Item = (&'static str, f64)>) {
        self.computing.update(|computing| computing + Moment::now().since(since));
        self.stages.borrow_mut().extend(stages);
    }
}

/// What is spent as long as this lives.
#[derive(Default)]
pub struct Spending(pub Rc<Spent>);

impl Drop for Spending {
    fn drop(&mut self) {
        self.0.ended.set(Some(Moment::now()));
    }
}
