//! What torch keeps of many tensors, compared in one pass.
//!
//! Most parameters of a model are like one another in all but their memory: what is common is kept once, so that a tensor costs a few
//! words here, and its own memory is what a comparison reads.

/// What the body of a tensor says of it, and where its memory lies. Places are in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Portrait {
    /// In the body: the pointer to the storage.
    pub storage: usize,
    /// In the storage: the address of the memory.
    pub data: usize,
    /// In the body: what must stand where.
    pub words: Vec<(usize, usize)>,
}

/// Tensors that are alike.
struct Group {
    portrait: Portrait,
    /// The words of the portrait, by rows that hold them all.
    rows: Vec<Row>,
    members: Vec<Member>,
}

/// A tensor by its addresses. With all of them known, nothing that is loaded waits for what was loaded before: the processor looks at many
/// tensors at once, and takes the comparison of addresses for granted meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    body: *const usize,
    storage: *const usize,
    memory: usize,
}

/// Words side by side are compared at once, in one register. More would be read than say something of most tensors: what a comparison costs is
/// the lines of memory that it reads.
const LANES: usize = 4;

/// A part of the body. Where a bit of the mask is unset the word says nothing of the tensor.
#[derive(Clone, Copy)]
struct Row {
    from: usize,
    wanted: [usize; LANES],
    mask: [usize; LANES],
}

#[derive(Default)]
pub struct Gallery {
    groups: Vec<Group>,
}

impl Gallery {
    /// # Safety
    /// It must be the body of a tensor with a storage, and live whenever this is asked; the places must be those at which torch keeps things in all tensors. A body
    /// has at least `LANES` words.
    pub unsafe fn add(&mut self, body: *const usize, portrait: Portrait) {
        // SAFETY: the caller's word.
        let member = unsafe { portrait.member(body) };
        match self.groups.iter_mut().find(|group| group.portrait == portrait) {
            Some(group) => group.members.push(member),
            None => self.groups.push(Group { rows: rows(&portrait.words), portrait, members: vec![member] }),
        }
    }

    /// In the order in which the bodies lie.
    pub fn settle(&mut self) {
        self.groups.iter_mut().for_each(|group| group.members.sort_unstable());
    }

    /// Whether all are what they were. Whatever was done to a tensor, its body has a storage or none.
    pub fn holds(&self) -> bool {
        // SAFETY: `add` asks for live bodies.
        self.groups.iter().all(|group| unsafe { group.holds() })
    }
}

impl Portrait {
    /// # Safety
    /// The body of a live tensor with memory.
    unsafe fn member(&self, body: *const usize) -> Member {
        // SAFETY: the caller's word: it has a storage.
        unsafe {
            let storage = *body.add(self.storage) as *const usize;
            Member { body, storage, memory: *storage.add(self.data) }
        }
    }
}

/// All rows end inside of the body, since they end with a word of the portrait.
fn rows(words: &[(usize, usize)]) -> Vec<Row> {
    let (mut rows, mut left) = (Vec::new(), words.to_vec());
    left.sort_unstable();
    while let Some((last, _)) = left.last().copied() {
        let from = (last + 1).saturating_sub(LANES);
        let mut row = Row { from, wanted: [0; LANES], mask: [0; LANES] };
        for (place, wanted) in left.iter().filter(|(place, _)| *place >= from) {
            row.wanted[place - from] = *wanted;
            row.mask[place - from] = usize::MAX;
        }
        left.retain(|(place, _)| *place < from);
        rows.push(row);
    }
    rows
}

impl Group {
    /// Most tensors need two rows.
    ///
    /// # Safety
    /// All members must be bodies of live tensors.
    unsafe fn holds(&self) -> bool {
        // SAFETY: passed on.
        match self.rows.len() {
            0..=2 => unsafe { self.hold::<2>(&self.rows) },
            _ => self.rows.chunks(4).all(|rows| unsafe { self.hold::<4>(rows) }),
        }
    }

    /// Whether all members agree in these rows, `N` at most.
    ///
    /// # Safety
    /// As above.
    unsafe fn hold<const N: usize>(&self, rows: &[Row]) -> bool {
        let rows = std::array::from_fn(|n| rows.get(n).copied().unwrap_or(Row::NONE));
        // SAFETY: passed on; the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512vl") {
            return unsafe { self.holds_widest::<N>(&rows) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            return unsafe { self.holds_wide::<N>(&rows) };
        }
        // SAFETY: passed on.
        unsafe { self.holds_by(&rows) }
    }

    /// The same, compiled for wider registers.
    ///
    /// # Safety
    /// As above, on a processor with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn holds_wide<const N: usize>(&self, rows: &[Row; N]) -> bool {
        // SAFETY: passed on.
        unsafe { self.holds_by(rows) }
    }

    /// For the newest: one instruction compares a row and gathers the differences.
    ///
    /// # Safety
    /// As above, on a processor with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl")]
    unsafe fn holds_widest<const N: usize>(&self, rows: &[Row; N]) -> bool {
        // SAFETY: passed on.
        unsafe { self.holds_by(rows) }
    }

    /// Differences are gathered by lane, and judged at the end: nothing but loads stands in the loop.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn holds_by<const N: usize>(&self, rows: &[Row; N]) -> bool {
        let Portrait { storage, data, .. } = self.portrait;
        let (mut found, mut others) = ([[0; LANES]; N], 0);
        for Member { body, storage: holder, memory } in &self.members {
            // SAFETY: a body, and its storage if it still has that.
            unsafe {
                if *body.add(storage) != *holder as usize {
                    return false;
                }
                others |= *holder.add(data) ^ memory;
                for (found, row) in found.iter_mut().zip(rows) {
                    let words = body.add(row.from).cast::<[usize; LANES]>().read();
                    (0..LANES).for_each(|n| found[n] |= words[n] ^ row.wanted[n]);
                }
            }
        }
        let differences = found.iter().zip(rows).flat_map(|(found, row)| (0..LANES).map(|n| found[n] & row.mask[n]));
        differences.fold(others, |all, difference| all | difference) == 0
    }
}

impl Row {
    /// Says nothing.
    const NONE: Row = Row { from: 0, wanted: [0; LANES], mask: [0; LANES] };
}

#[cfg(test)]
mod tests {
    use super::{Gallery, Portrait};

    const WORDS: usize = 40;

    /// As torch might keep a tensor.
    struct Fake {
        storage: Box<[usize; 4]>,
        body: Box<[usize; WORDS]>,
    }

    impl Fake {
        fn new(memory: usize) -> Fake {
            let storage = Box::new([0, 0, memory, 0]);
            let mut body = Box::new([7; WORDS]);
            body[1] = storage.as_ptr() as usize;
            Fake { storage, body }
        }
    }

    /// Of all words from the fourth to this one.
    fn portrait(last: usize) -> Portrait {
        Portrait { storage: 1, data: 2, words: (4..=last).map(|place| (place, 7)).collect() }
    }

    fn is_seen(last: usize, change: impl FnOnce(&mut Fake)) -> bool {
        let mut tensors: Vec<Fake> = (1..4).map(Fake::new).collect();
        let mut gallery = Gallery::default();
        // SAFETY: the tensors outlive the gallery, and look as the portrait says.
        tensors.iter().for_each(|tensor| unsafe { gallery.add(tensor.body.as_ptr(), portrait(last)) });
        assert!(gallery.holds());
        assert_eq!(gallery.groups.len(), 1);
        change(&mut tensors[1]);
        !gallery.holds()
    }

    #[test]
    fn every_change_is_seen() {
        for last in 4..WORDS {
            assert!(is_seen(last, |tensor| tensor.storage[2] = 5));
            assert!(is_seen(last, |tensor| tensor.body[1] = 0));
            // Another storage, though it has the same memory.
            assert!(is_seen(last, |tensor| tensor.body[1] = Box::leak(tensor.storage.clone()).as_ptr() as usize));
            assert!((4..=last).all(|place| is_seen(last, |tensor| tensor.body[place] = 1)));
        }
    }

    #[test]
    fn what_says_nothing_of_the_tensor_may_change() {
        assert!(!is_seen(9, |tensor| tensor.body[0] = 1));
        assert!(!is_seen(9, |tensor| tensor.body[10] = 1));
    }
}
