//! Never slower than eager: the first calls of a graph are timed beside eager's, and eager gets the graph if it is faster every time.
//!
//! Eager runs for its time alone: what a call returns is computed by our program until eager has won. So there is no race where a second
//! run would show (inputs that are written, random numbers, calls of unknown effect) or where times say little (a GPU runs behind; sizes
//! that vary; the half of a graph that gradients need).

use ox_ir::graph::Op;
use ox_ir::{Device, Graph};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Eager must win so many times in a row: on a machine that does other things too, one time says nothing.
const ROUNDS: u32 = 5;

/// And by so much.
const MARGIN: f64 = 0.9;

/// Graphs that compute less than this need no look at how much memory is free.
const SMALL: i64 = 64 << 20;

pub struct Race {
    open: AtomicBool,
    tally: Mutex<Tally>,
}

/// What has been timed so far. Ours and eager's runs take turns, a call each: our run is slower where eager has just been in the caches.
#[derive(Default)]
pub struct Tally {
    calls: u32,
    /// Our time of the call before.
    own: Duration,
    losses: u32,
}

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The first one.
    Untimed,
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
            1 => Turn::Untimed,
            n if n % 2 == 0 => Turn::Eagers,
            _ => Turn::Own,
        }
    }

    pub fn own(&self) -> Duration {
        self.own
    }

    pub fn count_own(&mut self, time: Duration) {
        self.own = time;
    }

    /// Eager's first run says nothing: its code is made then.
    fn count_eagers(&mut self, time: Duration) -> Outcome {
        if self.calls <= 2 {
            return Outcome::Open;
        }
        if self.own.as_secs_f64() * MARGIN <= time.as_secs_f64() {
            return Outcome::Ours;
        }
        self.losses += 1;
        if self.losses < ROUNDS { Outcome::Open } else { Outcome::Eagers }
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
        assert_eq!((tally.next_turn(), tally.next_turn()), (Turn::Untimed, Turn::Eagers));
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
    fn eager_must_win_every_time() {
        assert_eq!(run(&[(20, 10); 4]), Outcome::Open);
        assert_eq!(run(&[(20, 10); 5]), Outcome::Eagers);
        assert_eq!(run(&[(20, 10), (20, 10), (20, 10), (20, 10), (11, 10)]), Outcome::Ours);
    }

    #[test]
    fn one_round_that_is_not_lost_settles_it() {
        assert_eq!(run(&[(10, 10)]), Outcome::Ours);
        assert_eq!(run(&[(9, 99)]), Outcome::Ours);
    }
}
