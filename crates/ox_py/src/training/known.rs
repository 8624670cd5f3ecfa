//! What was found out for some keys.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many are kept.
const MOST: usize = 256;

/// When it is full, a new one takes the place of any other: whoever asks for more than these in turn would find none if the oldest went.
pub struct Known<K, V>(Mutex<Vec<(u64, K, V)>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Known<K, V> {
        Known(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Known<K, V> {
    pub fn get(&self, key: &K) -> Option<V> {
        let hash = hash(key);
        self.lock().iter().find(|(known, of, _)| *known == hash && of == key).map(|(_, _, value)| value.clone())
    }

    pub fn put(&self, key: K, value: V) {
        let (hash, mut known) = (hash(&key), self.lock());
        let fresh = (hash, key, value);
        let _old = match known.len() {
            MOST => Some(std::mem::replace(&mut known[(hash >> 32) as usize % MOST], fresh)),
            _ => {
                known.push(fresh);
                None
            }
        };
        // In front of what goes: that may run code.
        drop(known);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, K, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(key: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_when_it_is_full() {
        let known = Known::default();
        let mut found = 0;
        for _ in 0..2 {
            found = 0;
            for n in 0..MOST + 50 {
                match known.get(&n) {
                    Some(of) => found += usize::from(of == n),
                    None => known.put(n, n),
                }
                assert_eq!(known.get(&n), Some(n));
            }
        }
        assert!(found > MOST / 2, "{found} of them were found again");
    }
}
