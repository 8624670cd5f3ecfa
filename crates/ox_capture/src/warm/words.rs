//! Words of memory that must hold what they held: the cheapest check there is, for what CPython and torch do not tell us of.

/// Where a word lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// In an object that is kept alive.
    Object,
    /// Where words of objects point to.
    Body,
    /// Where words of bodies point to.
    Storage,
}

/// Words by depth. Those of one depth are looked at only if all above are as they were, since they point to them; among themselves they
/// are looked at all at once, without a branch between two.
#[derive(Default)]
pub struct Words {
    levels: [Level; 3],
}

#[derive(Default)]
struct Level {
    words: Vec<(*const usize, usize)>,
}

impl Words {
    /// # Safety
    /// There must be `len` words at `at` for as long as the words of lesser depth are as they are now.
    pub unsafe fn add(&mut self, depth: Depth, at: *const usize, len: usize) {
        // SAFETY: the caller's word.
        let words = (0..len).map(|n| unsafe { (at.add(n), *at.add(n)) });
        self.levels[depth as usize].words.extend(words);
    }

    pub fn hold(&self) -> bool {
        self.levels.iter().all(Level::holds)
    }
}

impl Level {
    fn holds(&self) -> bool {
        const LANES: usize = 4;
        let mut lanes = [0; LANES];
        let chunks = self.words.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, (at, wanted)) in lanes.iter_mut().zip(chunk) {
                // SAFETY: the words above hold, so these are there: `add` asks for it.
                *lane |= unsafe { **at } ^ wanted;
            }
        }
        // SAFETY: as above.
        let rest = rest.iter().fold(0, |found, (at, wanted)| found | (unsafe { **at } ^ wanted));
        lanes.iter().fold(rest, |found, lane| found | lane) == 0
    }
}
