//! Launches that follow one another in every run. Each run says what they are called with; where little of it has changed, the driver is asked for all of
//! them at once.

use super::driver::Stream;
use super::launched::{Launched, Refused, What, alone, in_order};
use super::row::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// Launched in this process.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// How often launches were done in a row.
pub fn launched_rows() -> u64 {
    ROWS.load(Ordering::Relaxed)
}

pub struct Chain<R = Row> {
    row: R,
    nodes: Vec<Node>,
    /// How many this run has told of, and how many of those are not what they were in the last one.
    told: usize,
    changed: usize,
}

struct Node {
    launched: Launched,
    /// The row has other words.
    stale: bool,
}

/// What does launches in a row: the driver, but for tests.
pub trait InRow {
    /// Whether launch number `n` is this one from now on.
    fn set(&mut self, n: usize, launched: &mut Launched) -> bool;

    /// Whether all of them are on the stream.
    ///
    /// SAFETY: what they are called with must live until the stream has done them.
    unsafe fn launch(&self, stream: Stream) -> bool;
}

impl Chain {
    /// The device must be current. What the driver does not do in a row is given back.
    pub fn of(device: u8, mut launches: Vec<Launched>) -> Result<Chain, Vec<Launched>> {
        match Row::of(device, &mut launches) {
            Some(row) => Ok(Chain::new(row, launches)),
            None => Err(launches),
        }
    }
}

impl<R: InRow> Chain<R> {
    fn new(row: R, launches: Vec<Launched>) -> Chain<R> {
        let told = launches.len();
        let nodes = launches.into_iter().map(|launched| Node { launched, stale: false }).collect();
        Chain { row, nodes, told, changed: 0 }
    }

    /// A run begins to tell of its launches.
    pub fn begin(&mut self) {
        (self.told, self.changed) = (0, 0);
    }

    /// Whether the next launch is what it was in the runs before, but for its words.
    pub fn tell(&mut self, what: &What, words: &[u64]) -> bool {
        let Some(Node { launched, stale }) = self.nodes.get_mut(self.told) else { return false };
        if launched.what != *what || launched.words.len() != words.len() {
            return false;
        }
        if launched.words != words {
            launched.words.copy_from_slice(words);
            *stale = true;
            self.changed += 1;
        }
        self.told += 1;
        true
    }

    /// How many launches this run has told of.
    pub fn told(&self) -> usize {
        self.told
    }

    /// The last of them are not made after all.
    pub fn take_back(&mut self, told: usize) {
        self.told = told;
    }

    /// Puts on the stream what was told of.
    ///
    /// SAFETY: it must live until the stream has done it.
    pub unsafe fn launch(&mut self, stream: Stream) -> Result<(), Refused> {
        let told = std::mem::take(&mut self.told);
        // To exchange the words of a launch takes about half as long as the launch.
        let in_row = told == self.nodes.len() && 2 * self.changed <= told && self.refresh();
        let _alone = alone();
        // SAFETY: the caller's promise.
        if in_row && unsafe { self.row.launch(stream) } {
            ROWS.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { in_order(self.nodes[..told].iter_mut().map(|node| &mut node.launched), stream) }
    }

    /// Whether the row has all words now.
    fn refresh(&mut self) -> bool {
        let Chain { row, nodes, .. } = self;
        nodes.iter_mut().enumerate().filter(|(_, node)| node.stale).all(|(n, node)| {
            node.stale = !row.set(n, &mut node.launched);
            !node.stale
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::launched::Geometry;
    use std::cell::Cell;
    use std::ptr::null_mut;

    /// What it would launch, and how often it did.
    #[derive(Default)]
    struct Fake {
        words: Vec<u64>,
        exchanged: usize,
        launched: Cell<usize>,
    }

    impl InRow for Fake {
        fn set(&mut self, n: usize, launched: &mut Launched) -> bool {
            self.exchanged += 1;
            self.words[n] = launched.words[0];
            true
        }

        unsafe fn launch(&self, _: Stream) -> bool {
            self.launched.set(self.launched.get() + 1);
            true
        }
    }

    fn kernel(function: usize) -> What {
        What::Kernel { function, geometry: Geometry::default(), attributes: Vec::new(), bytes: 8 }
    }

    fn chain(words: &[u64]) -> Chain<Fake> {
        let launches = words.iter().map(|word| Launched { what: kernel(7), words: vec![*word] }).collect();
        Chain::new(Fake { words: words.to_vec(), ..Fake::default() }, launches)
    }

    /// Whether a row was launched, and what is exchanged for it.
    fn run(chain: &mut Chain<Fake>, words: &[u64]) -> (bool, usize) {
        let before = (chain.row.launched.get(), chain.row.exchanged);
        chain.begin();
        assert!(words.iter().all(|word| chain.tell(&kernel(7), &[*word])));
        // SAFETY: nothing is launched: without a driver launches one by one are errors.
        let _ = unsafe { chain.launch(Stream(null_mut())) };
        let in_row = chain.row.launched.get() > before.0;
        assert!(!in_row || chain.row.words == words, "a row has the words of its run");
        (in_row, chain.row.exchanged - before.1)
    }

    #[test]
    fn what_has_changed_is_exchanged() {
        let mut chain = chain(&[1, 2, 3, 4]);
        assert_eq!(run(&mut chain, &[1, 2, 3, 4]), (true, 0));
        assert_eq!(run(&mut chain, &[1, 2, 3, 9]), (true, 1));
        assert_eq!(run(&mut chain, &[1, 2, 3, 9]), (true, 0));
    }

    #[test]
    fn where_most_has_changed_launches_are_single_until_it_stays() {
        let mut chain = chain(&[1, 2, 3, 4]);
        assert_eq!(run(&mut chain, &[5, 6, 7, 4]), (false, 0));
        assert_eq!(run(&mut chain, &[8, 9, 10, 4]), (false, 0));
        assert_eq!(run(&mut chain, &[8, 9, 10, 4]), (true, 3));
        assert_eq!(run(&mut chain, &[8, 9, 10, 4]), (true, 0));
    }

    #[test]
    fn a_run_that_ends_early_or_differs_has_no_row() {
        let mut chain = chain(&[1, 2, 3, 4]);
        assert_eq!(run(&mut chain, &[1, 2]), (false, 0));
        chain.begin();
        assert!(!chain.tell(&kernel(7), &[1, 2]) && !chain.tell(&kernel(8), &[1]));
        assert!([1, 2, 3, 4].iter().all(|word| chain.tell(&kernel(7), &[*word])) && !chain.tell(&kernel(7), &[5]));
    }
}
