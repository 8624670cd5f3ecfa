//! A library's call that we make ourselves from the second time on. What it puts on a stream is the same every time but for the addresses of
//! its operands; where those stand is found by watching it with other addresses. A library works that out anew in every call, which takes longer than many a
//! kernel runs.

use super::driver::Stream;
use super::launched::{Launched, launch_each};
use super::watch::{allocation, watch};

/// Memory on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub start: u64,
    pub bytes: u64,
}

impl Extent {
    fn contains(self, word: u64) -> bool {
        word.wrapping_sub(self.start) < self.bytes
    }
}

/// A word that is the address of an operand, or lies behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    launched: usize,
    word: usize,
    operand: usize,
    behind: u64,
}

/// What a call puts on a stream, with operands wherever they are: those that it is given, those that it has made, and memory that it works in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repeat {
    all: Vec<Launched>,
    places: Vec<Place>,
    /// What the address of each operand must be a multiple of: the library may have looked.
    aligned: Vec<u64>,
    /// The bytes of the memory that it works in, which is the last operand if there is any.
    pub scratch: usize,
}

/// A call, as it was seen.
struct Seen {
    launches: Vec<Launched>,
    operands: Vec<Extent>,
}

/// What counts of how an address is aligned, and what torch aligns all memory to.
const MOST_ALIGNED: u64 = 256;
const TORCHS: u64 = 512;
/// More memory to work in is not kept: torch asks the driver for so much at a time, and that is all that is known of what a library uses of it.
const MOST_SCRATCH: u64 = 24 << 20;

impl Repeat {
    /// Watches a call that has been made before: `call` makes it with operands that lie elsewhere, and says what it has made. By odd multiples of what counts, each
    /// by another: what torch allocates lies at even ones.
    pub fn of(device: u8, given: &[Extent], mut call: impl FnMut(&[Extent], Stream) -> Option<Vec<Extent>>) -> Option<Repeat> {
        let distances: [fn(u64) -> u64; 3] = [|_| 0, |n| 2 * n + 1, |n| 63 - 2 * n];
        let mut seen = Vec::new();
        for distance in distances {
            let moved = given.iter().zip(0..).map(|(e, n)| Extent { start: e.start + MOST_ALIGNED * distance(n), ..*e });
            let mut operands: Vec<Extent> = moved.collect();
            let mut made = None;
            let launches = watch(device, |stream| {
                made = call(&operands, stream);
                made.is_some()
            })?;
            operands.extend(made?);
            seen.push(Seen { launches, operands });
        }
        Repeat::found(&seen, given.len(), allocation)
    }

    /// `allocation`: the memory of the device that a word points into.
    fn found(seen: &[Seen], given: usize, allocation: impl Fn(u64) -> Option<Extent>) -> Option<Repeat> {
        let (first, operands) = (&seen[0].launches, &seen[0].operands);
        seen.iter().all(|other| other.looks_like(&seen[0])).then_some(())?;
        let allocates = operands.len() > given;
        let (mut places, mut inner) = (Vec::new(), Inner::default());
        for (launched, length) in first.iter().map(|l| l.words.len()).enumerate() {
            for word in 0..length {
                let values: Vec<u64> = seen.iter().map(|seen| seen.launches[launched].words[word]).collect();
                if let Some((operand, behind)) = operand_of(seen, &values) {
                    places.push(Place { launched, word, operand, behind });
                } else if moves_as_given(seen, given, &values) {
                    // In front of an operand, or behind its end.
                    return None;
                } else if values.iter().any(|value| *value != values[0]) {
                    let extents = values.iter().map(|value| allocation(*value)).collect::<Option<Vec<_>>>()?;
                    inner.add((launched, word), values, &extents);
                } else if allocates && allocation(values[0]).is_some() {
                    // Memory that happened to be given to it each time.
                    return None;
                }
            }
        }
        let scratch = inner.place(operands.len(), &mut places).filter(|bytes| *bytes <= MOST_SCRATCH)?;
        let aligned = operands.iter().map(|e| (1 << e.start.trailing_zeros().min(63)).min(MOST_ALIGNED)).collect();
        Some(Repeat { all: first.clone(), places, aligned, scratch: scratch as usize })
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
        unsafe { launch_each(&mut self.all, stream) }.is_ok()
    }
}

impl Seen {
    fn looks_like(&self, other: &Seen) -> bool {
        let alike = |(a, b): (&Launched, &Launched)| a.what == b.what && a.words.len() == b.words.len();
        self.launches.len() == other.launches.len()
            && self.operands.len() == other.operands.len()
            && self.launches.iter().zip(&other.launches).all(alike)
    }
}

/// The operand that a word points into, and how far behind its start, each time.
fn operand_of(seen: &[Seen], values: &[u64]) -> Option<(usize, u64)> {
    (0..seen[0].operands.len()).find_map(|n| {
        let behind = values[0].wrapping_sub(seen[0].operands[n].start);
        let fits = |(seen, value): (&Seen, &u64)| seen.operands[n].contains(*value) && value - seen.operands[n].start == behind;
        seen.iter().zip(values).all(fits).then_some((n, behind))
    })
}

/// Whether a word moves as one of the operands that were given: nothing that torch allocates does.
fn moves_as_given(seen: &[Seen], given: usize, values: &[u64]) -> bool {
    let moves = |n: usize| {
        let distance = |(seen, value): (&Seen, &u64)| value.wrapping_sub(seen.operands[n].start);
        let first = distance((&seen[0], &values[0]));
        seen.iter().zip(values).all(|pair| distance(pair) == first)
    };
    (0..given).any(moves)
}

/// Memory that a library asked for and gave back. Of each piece the first word that points into it is known, and how much may lie around that at most.
#[derive(Default)]
struct Inner(Vec<Piece>);

struct Piece {
    /// How it moved.
    moved: Vec<u64>,
    words: Vec<(usize, usize, u64)>,
    /// By time: the lowest address of those words.
    lowest: Vec<u64>,
    extents: Vec<Extent>,
}

impl Inner {
    fn add(&mut self, (launched, word): (usize, usize), values: Vec<u64>, extents: &[Extent]) {
        let moved: Vec<u64> = values.iter().map(|value| value.wrapping_sub(values[0])).collect();
        match self.0.iter_mut().find(|piece| piece.moved == moved && piece.extents == extents) {
            Some(piece) => {
                piece.words.push((launched, word, values[0]));
                piece.lowest.iter_mut().zip(&values).for_each(|(lowest, value)| *lowest = (*lowest).min(*value));
            }
            None => {
                let words = vec![(launched, word, values[0])];
                self.0.push(Piece { moved, words, lowest: values, extents: extents.to_vec() });
            }
        }
    }

    /// One piece behind the other in the memory that is operand number `operand`; how large it must be.
    fn place(self, operand: usize, places: &mut Vec<Place>) -> Option<u64> {
        let mut end = 0u64;
        for Piece { words, lowest, extents, .. } in self.0 {
            // It lay in its allocation each time: what the library uses of it is no more than there was room for.
            let before = lowest.iter().zip(&extents).map(|(at, e)| at.checked_sub(e.start)).min()??;
            let behind = lowest.iter().zip(&extents).map(|(at, e)| (e.start + e.bytes).checked_sub(*at)).min()??;
            let start = end.checked_add(before)?.next_multiple_of(TORCHS);
            let place = |(launched, word, value)| Place { launched, word, operand, behind: start + (value - lowest[0]) };
            places.extend(words.into_iter().map(place));
            end = start.checked_add(behind)?.next_multiple_of(TORCHS);
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::launched::{Geometry, What};

    const GEOMETRY: Geometry = Geometry { blocks: [2, 64, 1], threads: [384, 1, 1], shared_bytes: 1024 };
    const BYTES: u64 = 0x1000;

    fn kernel(words: &[u64]) -> Launched {
        let what = What::Kernel { function: 7, geometry: GEOMETRY, attributes: Vec::new(), bytes: 8 * words.len() };
        Launched { what, words: words.to_vec() }
    }

    fn fill(to: u64) -> Launched {
        Launched { what: What::Fill { value: 0, element: 4, count: 16 }, words: vec![to] }
    }

    fn seen(starts: &[u64], launches: Vec<Launched>) -> Seen {
        Seen { launches, operands: starts.iter().map(|start| Extent { start: *start, bytes: BYTES }).collect() }
    }

    /// Segments of 64 KiB, from 1 MiB on.
    fn allocation(word: u64) -> Option<Extent> {
        (word >= 1 << 20).then_some(Extent { start: word & !0xffff, bytes: 0x10000 })
    }

    #[test]
    fn addresses_are_found_by_what_moves_with_them() {
        let call = |a: u64, b: u64| vec![fill(b + 32), kernel(&[3, a, 0, b, a + 64])];
        let times = [[0x10000, 0x80040], [0x10100, 0x80340], [0x11f00, 0x81d40]].map(|[a, b]| seen(&[a, b], call(a, b)));
        let mut repeat = Repeat::found(&times, 2, allocation).unwrap_or_else(|| panic!("it repeats"));
        repeat.set(&[0x100, 0x300]);
        assert_eq!((repeat.all.clone(), repeat.scratch), (call(0x100, 0x300), 0));
        assert!(repeat.takes(&[0x100, 0x340]) && !repeat.takes(&[0x80, 0x340]) && !repeat.takes(&[0x100, 0x320]));
    }

    #[test]
    fn what_moves_otherwise_is_not_repeated() {
        let of = |words: [&[u64]; 2]| {
            Repeat::found(&[seen(&[0x1000], vec![kernel(words[0])]), seen(&[0x1100], vec![kernel(words[1])])], 1, allocation)
        };
        assert!(of([&[0x1000], &[0x1100]]).is_some());
        // Half of an address; behind the end, in front of it, and of memory that the driver knows; another number of words.
        assert!(of([&[0x10], &[0x11]]).is_none());
        assert!(of([&[0x2000], &[0x2100]]).is_none() && of([&[0xff0], &[0x10f0]]).is_none());
        assert!(of([&[0x30_1000], &[0x30_1100]]).is_none());
        assert!(of([&[0x1000], &[0x1100, 1]]).is_none());
    }

    #[test]
    fn memory_that_is_asked_for_and_given_back_is_ours() {
        let call = |a: u64, out: u64, inner: u64| vec![fill(inner + 512), kernel(&[a, out, inner, 5])];
        let times = [(0x10000, 0x200_0000, 0x310_0400), (0x10100, 0x200_0000, 0x310_0600), (0x11f00, 0x210_0000, 0x310_0800)];
        let times = times.map(|(a, out, inner)| seen(&[a, out], call(a, out, inner)));
        let mut repeat = Repeat::found(&times, 1, allocation).unwrap_or_else(|| panic!("it repeats"));
        // As much as there was room for behind it at least, and in front of it at most.
        assert_eq!(repeat.scratch, 0x400 + (0x10000 - 0x800));
        repeat.set(&[0x100, 0x300, 0x5000]);
        assert_eq!(repeat.all, call(0x100, 0x300, 0x5400));
    }

    #[test]
    fn memory_that_did_not_move_is_not_known_to_be_there() {
        let times = [0x10000, 0x10100].map(|a| seen(&[a, 0x200_0000], vec![kernel(&[a, 0x200_0000, 0x310_0400])]));
        assert!(Repeat::found(&times, 1, allocation).is_none());
        let times = [0x10000, 0x10100].map(|a| seen(&[a, 0x200_0000], vec![kernel(&[a, 0x200_0000, 17])]));
        assert!(Repeat::found(&times, 1, allocation).is_some());
    }
}
