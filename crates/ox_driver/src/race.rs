//! Never slower than eager: the first calls of a graph are timed beside eager's, and eager gets the graph if it is faster.
//!
//! Eager runs for its time alone: what a call returns is computed by our program until eager has won. So there is no race where a second
//! run would show (inputs that are written, random numbers, calls of unknown effect) or where times say little (a GPU runs behind; sizes
//! that vary; the half of a graph that gradients need).

use ox_ir::graph::Op;
use ox_ir::{Device, Graph};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// So many rounds at most, each a call of ours and one of eager's.
const ROUNDS: u32 = 5;

/// A difference that one round is enough to believe; and what eager must win by in the end.
const CLEAR: f64 = 0.9;

/// A call that takes longer is not done twice: people would wait for it.
const LONGEST: Duration = Duration::from_secs(1);

/// Graphs that compute less than this need no look at how much memory is free.
const SMALL: i64 = 64 << 20;

pub struct Race {
    open: AtomicBool,
    tally: Mutex<Tally>,
}

/// What has been timed so far. Ours and eager's runs take turns, a call each: our run is slower where eager has just been in the caches.
/// Of either the shortest time counts: whatever else a machine does makes times longer, never shorter.
pub struct Tally {
    calls: u32,
    own: Duration,
    eager: Duration,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { calls: 0, own: Duration::MAX, eager: Duration::MAX }
    }
}

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It is the first: its time says only how long a call may be.
    First,
    Own,
    Eagers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Open,
    Ours,
    Eagers,
}

impl Tally {
    pub fn next_turn(&mut self) -> Turn {
        self.calls += 1;
        match self.calls {
            1 => Turn::First,
            n if n % 2 == 0 => Turn::Eagers,
            _ => Turn::Own,
        }
    }

    /// The shortest times: ours and eager's.
    pub fn times(&self) -> (Duration, Duration) {
        (self.own, self.eager)
    }

    pub fn count_own(&mut self, time: Duration) {
        self.own = self.own.min(time);
    }

    /// Eager's first run says nothing: its code is made then.
    fn count_eagers(&mut self, time: Duration) -> Outcome {
        if self.calls <= 2 {
            return Outcome::Open;
        }
        self.eager = self.eager.min(time);
        let (own, eager) = (self.own.as_secs_f64(), self.eager.as_secs_f64());
        match self.calls / 2 - 1 {
            _ if own <= eager * CLEAR => Outcome::Ours,
            1 => Outcome::Open,
            _ if own <= eager => Outcome::Ours,
            rounds if rounds < ROUNDS => Outcome::Open,
            _ if eager <= own * CLEAR => Outcome::Eagers,
            _ => Outcome::Ours,
        }
    }
}

impl Race {
    pub fn new(graph: &Graph, wanted: bool) -> Race {
        Race { open: AtomicBool::new(wanted && is_fair(graph)), tally: Mutex::default() }
    }

    /// All that later calls look at.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// None while another thread's call is timed.
    pub fn enter(&self) -> Option<MutexGuard<'_, Tally>> {
        self.tally.try_lock().ok()
    }

    /// After the first call, which took so long.
    pub fn count_first(&self, time: Duration) {
        if time > LONGEST {
            self.close();
        }
    }

    pub fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    pub fn count_eagers(&self, tally: &mut Tally, time: Duration) -> Outcome {
        let outcome = tally.count_eagers(time);
        if outcome != Outcome::Open {
            self.close();
        }
        outcome
    }
}

fn is_fair(graph: &Graph) -> bool {
    let on_cpu = graph.nodes.iter().all(|node| node.ty.device == Device::Cpu);
    let has_effects = graph.nodes.iter().any(|node| matches!(&node.op, Op::Library(library) if library.effect));
    on_cpu && graph.mutations.is_empty() && graph.sizes.is_empty() && !has_effects && leaves_room(graph)
}

/// Whether eager's intermediates would fit into half of the free memory, even if it kept them all: our program may have been chosen
/// because they do not.
fn leaves_room(graph: &Graph) -> bool {
    let computed = graph.nodes.iter().filter(|node| !node.op.is_view());
    let bytes = computed.filter_map(|node| Some(node.ty.numel().as_const()?.saturating_mul(node.ty.dtype.size() as i64)));
    let bytes = bytes.fold(0i64, i64::saturating_add);
    bytes < SMALL || free_memory().is_some_and(|free| bytes < free / 2)
}

fn free_memory() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(times: &[(u64, u64)]) -> Outcome {
        let mut tally = Tally::default();
        assert_eq!((tally.next_turn(), tally.next_turn()), (Turn::First, Turn::Eagers));
        assert_eq!(tally.count_eagers(Duration::ZERO), Outcome::Open);
        for (own, eager) in times {
            assert_eq!(tally.next_turn(), Turn::Own);
            tally.count_own(Duration::from_micros(*own));
            assert_eq!(tally.next_turn(), Turn::Eagers);
            let outcome = tally.count_eagers(Duration::from_micros(*eager));
            if outcome != Outcome::Open {
                return outcome;
            }
        }
        Outcome::Open
    }

    #[test]
    fn eager_must_win_clearly_and_more_than_once() {
        assert_eq!(run(&[(20, 10); 4]), Outcome::Open);
        assert_eq!(run(&[(20, 10); 5]), Outcome::Eagers);
        assert_eq!(run(&[(21, 20); 5]), Outcome::Ours);
    }

    #[test]
    fn what_is_clear_is_settled_at_once_and_what_is_close_a_round_later() {
        assert_eq!(run(&[(8, 10)]), Outcome::Ours);
        assert_eq!(run(&[(10, 10)]), Outcome::Open);
        assert_eq!(run(&[(10, 10), (11, 10)]), Outcome::Ours);
    }

    #[test]
    fn a_time_that_something_else_made_longer_decides_nothing() {
        assert_eq!(run(&[(90, 10), (8, 10)]), Outcome::Ours);
        assert_eq!(run(&[(20, 19), (20, 10), (20, 90), (20, 90), (20, 90)]), Outcome::Eagers);
    }

    #[test]
    fn a_long_call_is_not_done_twice() {
        let race = Race { open: AtomicBool::new(true), tally: Mutex::default() };
        race.count_first(LONGEST);
        assert!(race.is_open());
        race.count_first(LONGEST * 2);
        assert!(!race.is_open());
    }
}
