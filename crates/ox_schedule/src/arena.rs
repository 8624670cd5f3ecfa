//! Places in one piece of memory for buffers that are not all in use at the same time.

use ox_ir::Sym;

/// Every place is a multiple of this.
const ALIGN: i64 = 64;

/// The first and the last step at which a buffer's contents matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub first: usize,
    pub last: usize,
}

impl Life {
    pub fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn contains(self, step: usize) -> bool {
        (self.first..=self.last).contains(&step)
    }
}

/// What a buffer takes.
pub fn padded_bytes(shape: &[Sym], element: i64) -> Sym {
    let bytes = &shape.iter().product::<Sym>() * element;
    &(bytes + (ALIGN - 1)).div(&Sym::from(ALIGN)) * ALIGN
}

/// Buffers of known sizes. Whoever fills it brings the largest first.
#[derive(Default)]
pub struct Arena {
    placed: Vec<Placed>,
    pub bytes: i64,
}

struct Placed {
    life: Life,
    begin: i64,
    end: i64,
}

impl Arena {
    /// Where a buffer would lie: at the lowest place at which nothing that lives at the same time is in the way.
    pub fn room(&self, life: Life, bytes: i64) -> i64 {
        let in_the_way = self.placed.iter().filter(|placed| placed.life.meets(life));
        let mut taken: Vec<(i64, i64)> = in_the_way.map(|placed| (placed.begin, placed.end)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (begin, end) in taken {
            if begin - at >= bytes {
                break;
            }
            at = at.max(end);
        }
        at
    }

    /// Puts a buffer there.
    pub fn place(&mut self, life: Life, bytes: i64) -> i64 {
        let begin = self.room(life, bytes);
        let end = begin + bytes;
        self.placed.push(Placed { life, begin, end });
        self.bytes = self.bytes.max(end);
        begin
    }
}
