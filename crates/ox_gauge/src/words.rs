//! Words of memory that must hold what they held: the cheapest check there is, for what CPython and torch do not tell us of. All are looked
//! at in every call, so no branch stands between two.

use crate::portrait::{Gallery, Portrait};

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

/// Words by depth, and tensors. Words of one depth are looked at only if all above are as they were, since they point to them.
#[derive(Default)]
pub struct Words {
    levels: [Vec<(*const usize, usize)>; 3],
    tensors: Gallery,
}

impl Words {
    /// # Safety
    /// There must be `len` words at `at` for as long as the words of lesser depth are as they are now.
    pub unsafe fn add(&mut self, depth: Depth, at: *const usize, len: usize) {
        // SAFETY: the caller's word.
        let words = (0..len).map(|n| unsafe { (at.add(n), *at.add(n)) });
        self.levels[depth as usize].extend(words);
    }

    /// # Safety
    /// As for `Gallery::add`, as long as the words of objects are as they are now.
    pub unsafe fn add_tensor(&mut self, body: *const usize, portrait: Portrait) {
        // SAFETY: the caller's word.
        unsafe { self.tensors.add(body, portrait) };
    }

    /// Each word once, in the order in which they lie.
    pub fn settle(&mut self) {
        for level in &mut self.levels {
            level.sort_unstable();
            level.dedup();
        }
        self.tensors.settle();
    }

    pub fn hold(&self) -> bool {
        self.levels.iter().all(|level| holds(level)) && self.tensors.holds()
    }
}

fn holds(words: &[(*const usize, usize)]) -> bool {
    // SAFETY: the words above hold, so these are there: `add` asks for it.
    words.iter().fold(0, |found, (at, wanted)| found | (unsafe { **at } ^ wanted)) == 0
}

#[cfg(test)]
mod tests {
    use super::{Depth, Words};

    #[test]
    fn every_word_counts() {
        for len in 1..12 {
            for changed in 0..=len {
                let mut memory: Vec<usize> = (0..len).collect();
                let mut words = Words::default();
                // SAFETY: the memory outlives the words.
                unsafe { words.add(Depth::Object, memory.as_ptr(), len) };
                assert!(words.hold());
                if changed < len {
                    memory[changed] += 1;
                    assert!(!words.hold(), "word {changed} of {len}");
                }
            }
        }
    }

    #[test]
    fn what_hangs_on_a_changed_word_is_not_looked_at() {
        let mut words = Words::default();
        // SAFETY: the second word is not looked at any more when the first has changed.
        unsafe {
            let (pointer, body) = (Box::into_raw(Box::new(1usize)), Box::into_raw(Box::new(7usize)));
            words.add(Depth::Object, pointer, 1);
            words.add(Depth::Body, body, 1);
            assert!(words.hold());
            *pointer = 2;
            drop(Box::from_raw(body));
            assert!(!words.hold());
            drop(Box::from_raw(pointer));
        }
    }
}
