//! A library's call that we make ourselves from the second time on. What it puts on a stream is the same every time but for the addresses of
//! its operands; where those stand is found by watching it with other addresses. A library works that out anew in every call, which takes longer than many a
//! kernel runs.

use super::driver::Stream;
use super::launched::{Launched, launch};
use super::watch::watch;

/// A word that is the address of an operand, or lies behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    launched: usize,
    word: usize,
    operand: usize,
    behind: u64,
}

/// What a call puts on a stream, with operands wherever they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repeat {
    all: Vec<Launched>,
    places: Vec<Place>,
    /// What the address of each operand must be a multiple of: the library may have looked.
    aligned: Vec<u64>,
}

/// What counts of how an address is aligned.
const MOST_ALIGNED: u64 = 256;

impl Repeat {
    /// Watches a call that has been made before with these addresses: `call` makes it with the addresses that it is given. Twice to find the places, and once
    /// to see that they are all.
    pub fn of(device: u8, addresses: &[u64], mut call: impl FnMut(&[u64], Stream) -> bool) -> Option<Repeat> {
        // As far apart as memory may be, each by another distance.
        let moved = |step: u64| addresses.iter().zip(1..).map(|(address, n)| address + n * step).collect::<Vec<u64>>();
        let tried = [addresses.to_vec(), moved(1 << 30), moved((3 << 28) + (MOST_ALIGNED << 4))];
        let [first, second, third] = watch::<3>(device, |n, stream| call(&tried[n], stream))?;
        let mut found = Repeat::between(first, &second, &tried[0], &tried[1])?;
        found.set(&tried[2]);
        (found.all == third).then_some(found)
    }

    /// None where something else differs than addresses.
    fn between(first: Vec<Launched>, second: &[Launched], from: &[u64], to: &[u64]) -> Option<Repeat> {
        let alike = |(a, b): (&Launched, &Launched)| a.what == b.what && a.words.len() == b.words.len();
        (first.len() == second.len() && first.iter().zip(second).all(alike)).then_some(())?;
        let mut places = Vec::new();
        for (launched, (a, b)) in first.iter().zip(second).enumerate() {
            for (word, (a, b)) in a.words.iter().zip(&b.words).enumerate().filter(|(_, (a, b))| a != b) {
                let operand = (0..from.len()).find(|n| to[*n] - from[*n] == b.wrapping_sub(*a))?;
                places.push(Place { launched, word, operand, behind: a.wrapping_sub(from[operand]) });
            }
        }
        let aligned = from.iter().map(|address| (1 << address.trailing_zeros().min(63)).min(MOST_ALIGNED)).collect();
        Some(Repeat { all: first, places, aligned })
    }

    fn set(&mut self, addresses: &[u64]) {
        for Place { launched, word, operand, behind } in &self.places {
            self.all[*launched].words[*word] = addresses[*operand].wrapping_add(*behind);
        }
    }

    /// Whether it can be made with operands there.
    pub fn takes(&self, addresses: &[u64]) -> bool {
        addresses.iter().zip(&self.aligned).all(|(address, aligned)| address.is_multiple_of(*aligned))
    }

    /// What it puts on a stream, with operands there.
    pub fn at(&mut self, addresses: &[u64]) -> &[Launched] {
        self.set(addresses);
        &self.all
    }

    /// Whether the driver took all of it.
    ///
    /// SAFETY: the operands must be those of the call that was watched, but for their addresses, and live until the stream has done it.
    pub unsafe fn run(&mut self, addresses: &[u64], stream: Stream) -> bool {
        self.set(addresses);
        // SAFETY: the caller's promise.
        self.all.iter_mut().all(|launched| unsafe { launch(launched, stream) }.is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::launched::{Geometry, What};

    const GEOMETRY: Geometry = Geometry { blocks: [2, 64, 1], threads: [384, 1, 1], shared_bytes: 1024 };

    fn kernel(words: &[u64]) -> Launched {
        let what = What::Kernel { function: 7, geometry: GEOMETRY, attributes: Vec::new(), bytes: 8 * words.len() };
        Launched { what, words: words.to_vec() }
    }

    fn fill(to: u64) -> Launched {
        Launched { what: What::Fill { value: 0, element: 4, count: 16 }, words: vec![to] }
    }

    #[test]
    fn addresses_are_found_by_what_moves_with_them() {
        let call = |a: u64, b: u64| vec![fill(b + 32), kernel(&[3, a, 0, b, a + 64])];
        let (from, to) = ([0x1000, 0x8040], [0x5000, 0x9040]);
        let mut repeat =
            Repeat::between(call(from[0], from[1]), &call(to[0], to[1]), &from, &to).unwrap_or_else(|| panic!("it repeats"));
        repeat.set(&[0x100, 0x300]);
        assert_eq!(repeat.all, call(0x100, 0x300));
        assert!(repeat.takes(&[0x100, 0x340]) && !repeat.takes(&[0x80, 0x340]) && !repeat.takes(&[0x100, 0x320]));
    }

    #[test]
    fn what_moves_otherwise_is_not_repeated() {
        let (from, to) = ([0x1000], [0x5000]);
        let between = |a: Launched, b: Launched| Repeat::between(vec![a], &[b], &from, &to);
        assert!(between(kernel(&[0x1000]), kernel(&[0x5000])).is_some());
        // Half of an address; another kernel; a count that is not the same.
        assert!(between(kernel(&[0x10]), kernel(&[0x50])).is_none());
        assert!(between(kernel(&[0x1000]), fill(0x5000)).is_none());
        assert!(between(kernel(&[0x1000]), kernel(&[0x5000, 1])).is_none());
    }
}
