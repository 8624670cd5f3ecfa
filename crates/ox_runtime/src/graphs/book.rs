//! Which calls are recorded and which are replayed: the state machine alone, without a GPU.
//!
//! A list of sizes is seen first (warm up), recorded when it comes again, and replayed from then on. Inputs that lie at the same address are
//! part of what is recorded; those that move are copied to a place of the recording's own. All of it can be refused, with a reason.

use rustc_hash::FxHasher;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Recordings that one graph may have, over all sizes and addresses.
const MOST_RECORDINGS: usize = 32;
/// Lists of sizes that are remembered.
const MOST_FAMILIES: usize = 64;
/// Recordings of one call that lend out their results. One more copies them.
const LENDING: usize = 2;
/// Sets of addresses that are remembered: what comes again is recorded.
const RECENT: usize = 8;
/// A recording that was replayed less often was not worth its making.
const WORTH: u64 = 4;
/// So many of those, and nothing is recorded any more.
const MOST_WASTED: u32 = 8;
/// A large input that was taken for moving and lies at the same address so often in a row has come to rest.
const REST: u32 = 2;

/// What the book must know of a recording.
pub trait Recorded {
    /// Whether somebody holds memory that a replay would write.
    fn is_held(&self) -> bool;

    /// Whether it is held only by the results of another recording in its memory.
    fn is_outlived(&self) -> bool {
        false
    }

    /// Whether it will never be replayed again, or should be made anew.
    fn is_over(&self) -> bool {
        false
    }
}

/// A call before it runs.
pub struct Call<'a> {
    pub sizes: &'a [i64],
    /// Of the inputs that may lie elsewhere in another call.
    pub addresses: &'a [usize],
    /// Whether an input that has moved is never copied: a weight, one that is written, results of other recordings.
    pub is_pinned: &'a dyn Fn(usize) -> bool,
    /// Whether an input is so large that a copy of it is better avoided.
    pub is_large: &'a dyn Fn(usize) -> bool,
    /// It can be recorded in the memory of another recording, which is replayed in every step from now on.
    pub follows: bool,
}

/// What is done with a call.
#[derive(PartialEq, Eq, Debug)]
pub enum Turn {
    /// As without graphs.
    Plain,
    Record(Wanted),
    Replay(Place),
}

/// A recording that should be made.
#[derive(PartialEq, Eq, Debug)]
pub struct Wanted {
    family: usize,
    addresses: Vec<usize>,
    /// By input: it moves, and is copied.
    pub moving: Vec<bool>,
    /// Its results may be handed out as they are. Otherwise the caller holds those of all others.
    pub lends: bool,
    /// The one that follows may lie in its memory.
    pub shares: bool,
}

/// A recording in the book, until the book changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    family: usize,
    variant: usize,
    slot: usize,
}

pub struct Book<R> {
    families: Vec<Family<R>>,
    refusal: Option<String>,
    clock: u64,
    wasted: u32,
}

/// Calls with the same sizes.
struct Family<R> {
    sizes: Box<[i64]>,
    last: Vec<usize>,
    moving: Vec<bool>,
    /// Inputs that were taken for moving once and have come to rest since. If they move again, that is for good.
    rested: Vec<bool>,
    /// How often each lay where it lay before.
    still: Vec<u32>,
    recent: Vec<u64>,
    used: u64,
    /// The results of those that followed outlived the next call: each has its own memory from then on.
    apart: bool,
    variants: Vec<Variant<R>>,
}

/// Calls with the same addresses of all inputs that do not move.
struct Variant<R> {
    addresses: Vec<usize>,
    slots: Vec<R>,
    replays: u64,
    used: u64,
}

impl<R> Default for Book<R> {
    fn default() -> Book<R> {
        Book { families: Vec::new(), refusal: None, clock: 0, wasted: 0 }
    }
}

impl<R: Recorded> Book<R> {
    pub fn turn(&mut self, call: &Call<'_>) -> Turn {
        if self.refusal.is_some() {
            self.families.clear();
            return Turn::Plain;
        }
        self.clock += 1;
        let Some(at) = self.families.iter().position(|family| *family.sizes == *call.sizes) else {
            self.meet(call);
            return Turn::Plain;
        };
        let (family, clock) = (&mut self.families[at], self.clock);
        family.used = clock;
        family.notice_moves(call);
        family.drop_what_is_over();
        let wanted = |family: &Family<R>, lends| {
            let (addresses, moving) = (call.addresses.to_vec(), family.moving.clone());
            Turn::Record(Wanted { family: at, addresses, moving, lends, shares: !family.apart })
        };
        let Some(variant) = family.find(call.addresses) else {
            // Without recordings of both, a step needs the memory of either way.
            if call.follows && family.is_settled(call) {
                return wanted(family, true);
            }
            let comes_again = family.has_come_before(call.addresses);
            return if comes_again && !family.is_coming_to_rest(call) { wanted(family, true) } else { Turn::Plain };
        };
        let slots = &mut family.variants[variant].slots;
        match slots.iter().position(|recording| !recording.is_held()) {
            Some(slot) => {
                let used = &mut family.variants[variant];
                (used.replays, used.used) = (used.replays + 1, clock);
                Turn::Replay(Place { family: at, variant, slot })
            }
            None => {
                let before = slots.len();
                slots.retain(|recording| !recording.is_outlived());
                let (left, some_went) = (slots.len(), slots.len() < before);
                family.apart |= some_went;
                wanted(family, left < LENDING)
            }
        }
    }

    /// The first call with these sizes.
    fn meet(&mut self, call: &Call<'_>) {
        if self.families.len() == MOST_FAMILIES {
            let oldest = (0..self.families.len()).min_by_key(|n| self.families[*n].used).unwrap_or(0);
            let family = self.families.swap_remove(oldest);
            family.variants.iter().for_each(|variant| self.count_waste(variant.replays));
        }
        let mut family = Family {
            sizes: call.sizes.into(),
            last: call.addresses.to_vec(),
            moving: vec![false; call.addresses.len()],
            rested: vec![false; call.addresses.len()],
            still: vec![0; call.addresses.len()],
            recent: Vec::new(),
            used: self.clock,
            apart: false,
            variants: Vec::new(),
        };
        family.has_come_before(call.addresses);
        self.families.push(family);
    }

    /// What `turn` asked for has been recorded.
    pub fn add(&mut self, wanted: Wanted, recording: R) -> Place {
        self.make_room(&wanted);
        let (used, family) = (self.clock, &mut self.families[wanted.family]);
        let variant = family.find(&wanted.addresses).unwrap_or_else(|| {
            family.variants.push(Variant { addresses: wanted.addresses, slots: Vec::new(), replays: 0, used });
            family.variants.len() - 1
        });
        let slots = &mut family.variants[variant].slots;
        slots.push(recording);
        Place { family: wanted.family, variant, slot: slots.len() - 1 }
    }

    /// The variant that was not used for longest makes room; never the one that is added to.
    fn make_room(&mut self, wanted: &Wanted) {
        if self.len() < MOST_RECORDINGS {
            return;
        }
        let own = self.families[wanted.family].find(&wanted.addresses);
        let all = self.families.iter().enumerate().flat_map(|(f, family)| (0..family.variants.len()).map(move |v| (f, v)));
        let others = all.filter(|place| Some(place.1) != own || place.0 != wanted.family);
        if let Some((family, variant)) = others.min_by_key(|(f, v)| self.families[*f].variants[*v].used) {
            let gone = self.families[family].variants.remove(variant);
            self.count_waste(gone.replays);
        }
    }

    fn count_waste(&mut self, replays: u64) {
        self.wasted += u32::from(replays < WORTH);
        if self.wasted >= MOST_WASTED {
            self.refuse("sizes or addresses of inputs that are not copied change too often for recordings to be of use".into());
        }
    }

    pub fn get_mut(&mut self, place: Place) -> &mut R {
        &mut self.families[place.family].variants[place.variant].slots[place.slot]
    }

    /// Begins anew.
    pub fn forget(&mut self) {
        self.families.clear();
    }

    /// Nothing is recorded or replayed any more.
    pub fn refuse(&mut self, why: String) {
        self.refusal = Some(why);
        self.families.iter_mut().for_each(|family| family.variants.clear());
    }

    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    pub fn len(&self) -> usize {
        self.families.iter().flat_map(|family| &family.variants).map(|variant| variant.slots.len()).sum()
    }
}

impl<R: Recorded> Family<R> {
    fn drop_what_is_over(&mut self) {
        self.variants.iter_mut().for_each(|variant| variant.slots.retain(|recording| !recording.is_over()));
        self.variants.retain(|variant| !variant.slots.is_empty());
    }
}

impl<R> Family<R> {
    /// Whether no large input moves. Small ones that may move are copied then: they have not been seen often enough.
    fn is_settled(&mut self, call: &Call<'_>) -> bool {
        let may_move: Vec<usize> = (0..self.moving.len()).filter(|n| !(call.is_pinned)(*n)).collect();
        let (large, small): (Vec<usize>, Vec<usize>) = may_move.into_iter().partition(|n| (call.is_large)(*n));
        if large.iter().any(|n| self.moving[*n]) {
            return false;
        }
        if small.iter().any(|n| !self.moving[*n]) {
            small.iter().for_each(|n| self.moving[*n] = true);
            self.variants.clear();
            self.recent.clear();
        }
        true
    }

    /// Whether an input that would be copied now need not be soon.
    fn is_coming_to_rest(&self, call: &Call<'_>) -> bool {
        (0..self.moving.len()).any(|n| self.moving[n] && !self.rested[n] && self.still[n] > 0 && (call.is_large)(n))
    }

    /// An input that lies elsewhere than before is copied from now on, and recordings that read it where it lay are of no use. What a forward pass
    /// has saved moves until that pass is recorded itself, and what torch allocates for a loss until all around it is: then it lies at the same
    /// place in every step, and is neither copied nor held twice.
    fn notice_moves(&mut self, call: &Call<'_>) {
        let mut changed = false;
        for (n, address) in call.addresses.iter().enumerate() {
            let has_moved = self.last[n] != *address;
            self.still[n] = if has_moved { 0 } else { self.still[n].saturating_add(1) };
            let rests = || (call.is_pinned)(n) || self.still[n] >= REST && (call.is_large)(n);
            let moves = match self.moving[n] {
                false => has_moved && !(call.is_pinned)(n),
                true => self.rested[n] || !rests(),
            };
            changed |= moves != self.moving[n];
            self.rested[n] |= self.moving[n] && !moves;
            self.moving[n] = moves;
        }
        if changed {
            self.variants.clear();
            self.recent.clear();
        }
        self.last.copy_from_slice(call.addresses);
    }

    fn find(&self, addresses: &[usize]) -> Option<usize> {
        let fits = |known: &[usize]| known.iter().zip(addresses).zip(&self.moving).all(|((a, b), moving)| *moving || a == b);
        self.variants.iter().position(|variant| fits(&variant.addresses))
    }

    /// Whether inputs lay there in one of the last calls; it is remembered that they do now.
    fn has_come_before(&mut self, addresses: &[usize]) -> bool {
        let mut hasher = FxHasher::default();
        let fixed = addresses.iter().zip(&self.moving).filter(|(_, moving)| !**moving);
        fixed.for_each(|(address, _)| address.hash(&mut hasher));
        let key = hasher.finish();
        let known = self.recent.contains(&key);
        if !known {
            self.recent.insert(0, key);
            self.recent.truncate(RECENT);
        }
        known
    }
}

/// What is known of each list of sizes.
impl<R: Recorded> fmt::Display for Book<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.refusal {
            return write!(f, "refused: {why}");
        }
        for (n, family) in self.families.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            let copied: Vec<String> = family.moving.iter().enumerate().filter(|(_, m)| **m).map(|(n, _)| n.to_string()).collect();
            write!(f, "{separator}sizes {:?}, copied [{}]: ", family.sizes, copied.join(" "))?;
            match family.variants.is_empty() {
                true => write!(f, "warming up")?,
                false => family.variants.iter().try_for_each(|variant| write!(f, "{variant}"))?,
            }
        }
        Ok(())
    }
}

impl<R: Recorded> fmt::Display for Variant<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.slots.iter().filter(|slot| slot.is_held()).count();
        write!(f, "({} recordings, {held} held, {} replays)", self.slots.len(), self.replays)
    }
}

#[cfg(test)]
mod tests;
