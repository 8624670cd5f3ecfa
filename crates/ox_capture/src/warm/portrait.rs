//! What torch keeps of many tensors, compared in one pass.
//!
//! Most parameters of a model are like one another in all but their memory: what is common is kept once, so that a tensor costs two words
//! here, and its own memory is what a comparison reads.

use std::ops::Range;

/// What says what a tensor is and where its memory lies. Places are in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Portrait {
    pub class: usize,
    /// In the Python object: the pointer to the body.
    pub body: usize,
    /// In the body: the pointer to the storage.
    pub storage: usize,
    /// In the storage: the address of the memory.
    pub data: usize,
    /// In the body: what must stand where.
    pub words: Vec<(usize, usize)>,
}

/// The word of a Python object that names its class.
const CLASS: usize = 1;

/// Tensors that are alike.
struct Group {
    portrait: Portrait,
    /// The Python object and the memory of each.
    members: Vec<(*const usize, usize)>,
}

#[derive(Default)]
pub struct Gallery {
    groups: Vec<Group>,
}

impl Gallery {
    /// # Safety
    /// The object must be a tensor that lives as long as this, and the places be those at which torch keeps things in all tensors.
    pub unsafe fn add(&mut self, object: *const usize, portrait: Portrait) {
        // SAFETY: the caller's word: a tensor has a body, and one with memory a storage.
        let memory = unsafe { portrait.storage_of(object).map_or(0, |storage| *storage.add(portrait.data)) };
        match self.groups.iter_mut().find(|group| group.portrait == portrait) {
            Some(group) => group.members.push((object, memory)),
            None => self.groups.push(Group { portrait, members: vec![(object, memory)] }),
        }
    }

    /// Whether all are what they were. Whatever was done to a tensor, its object holds a body, and that a storage or none.
    pub fn holds(&self) -> bool {
        // SAFETY: `add` asks for live tensors.
        self.groups.iter().all(|group| unsafe { group.holds() })
    }
}

impl Portrait {
    /// # Safety
    /// A live tensor.
    unsafe fn storage_of(&self, object: *const usize) -> Option<*const usize> {
        // SAFETY: the caller's word.
        let storage = unsafe { *(*object.add(self.body) as *const usize).add(self.storage) } as *const usize;
        (!storage.is_null()).then_some(storage)
    }
}

impl Group {
    /// # Safety
    /// All members must be live tensors.
    unsafe fn holds(&self) -> bool {
        // SAFETY: passed on.
        unsafe {
            match self.portrait.words.len() {
                0..=8 => self.holds_by::<8>(0..8),
                9..=12 => self.holds_by::<12>(0..12),
                len => (0..len).step_by(16).all(|from| self.holds_by::<16>(from..from + 16)),
            }
        }
    }

    /// By some of the words. Their number is known to the compiler, so that the loop over members holds no other.
    ///
    /// # Safety
    /// As above.
    unsafe fn holds_by<const N: usize>(&self, range: Range<usize>) -> bool {
        let Portrait { class, body, storage, data, ref words } = self.portrait;
        // Where there are fewer, the last stands for the others.
        let last = words.last().copied().unwrap_or((storage, 0));
        let chosen: [(usize, usize); N] = std::array::from_fn(|n| words.get(range.start + n).copied().unwrap_or(last));
        let mut found = 0;
        for (object, memory) in &self.members {
            // SAFETY: an object, its body and its storage.
            unsafe {
                let body = *object.add(body) as *const usize;
                let storage = *body.add(storage) as *const usize;
                if storage.is_null() {
                    return false;
                }
                found |= (*object.add(CLASS) ^ class) | (*storage.add(data) ^ memory);
                for (place, wanted) in chosen {
                    found |= *body.add(place) ^ wanted;
                }
            }
        }
        found == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Gallery, Portrait};

    const BODY: usize = 2;
    const WORDS: usize = 24;

    /// As torch might keep a tensor.
    struct Fake {
        storage: Box<[usize; 4]>,
        body: Box<[usize; WORDS]>,
        object: Box<[usize; 4]>,
    }

    impl Fake {
        fn new(memory: usize) -> Fake {
            let storage = Box::new([0, 0, memory, 0]);
            let mut body = Box::new([7; WORDS]);
            body[1] = storage.as_ptr() as usize;
            let object = Box::new([1, 99, body.as_ptr() as usize, 0]);
            Fake { storage, body, object }
        }
    }

    /// Of all words from the fourth to this one.
    fn portrait(last: usize) -> Portrait {
        Portrait { class: 99, body: BODY, storage: 1, data: 2, words: (4..=last).map(|place| (place, 7)).collect() }
    }

    fn is_seen(last: usize, change: impl FnOnce(&mut Fake)) -> bool {
        let mut tensors: Vec<Fake> = (1..4).map(Fake::new).collect();
        let mut gallery = Gallery::default();
        // SAFETY: the tensors outlive the gallery, and look as the portrait says.
        tensors.iter().for_each(|tensor| unsafe { gallery.add(tensor.object.as_ptr(), portrait(last)) });
        assert!(gallery.holds());
        assert_eq!(gallery.groups.len(), 1);
        change(&mut tensors[1]);
        !gallery.holds()
    }

    #[test]
    fn every_change_is_seen() {
        for last in 4..WORDS {
            assert!(is_seen(last, |tensor| tensor.object[1] = 98));
            assert!(is_seen(last, |tensor| tensor.storage[2] = 5));
            assert!(is_seen(last, |tensor| tensor.body[1] = 0));
            assert!((4..=last).all(|place| is_seen(last, |tensor| tensor.body[place] = 1)));
        }
    }

    #[test]
    fn what_says_nothing_of_the_tensor_may_change() {
        assert!(!is_seen(9, |tensor| tensor.body[0] = 1));
        assert!(!is_seen(9, |tensor| tensor.body[10] = 1));
        // Another body that says the same of the same memory.
        assert!(!is_seen(9, |tensor| {
            let other = Box::leak(tensor.body.clone());
            tensor.object[BODY] = other.as_ptr() as usize;
        }));
    }
}
