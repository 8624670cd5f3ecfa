//! What an artifact was made of.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Whoever has the same key has been given the same parts in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key([u8; 32]);

impl Key {
    /// `kind` says what sort of artifact it is, and `made_by` everything that the maker is besides what it was given: its version, its machine. How a
    /// value hashes is that maker's affair, too: another build may do it otherwise.
    pub fn new(kind: &str, made_by: &str, of: &impl Hash) -> Key {
        let mut all = Bytes(Vec::new());
        (kind, made_by, of).hash(&mut all);
        Key(*blake3::hash(&all.0).as_bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// One of so many keys, whatever they are of and in whichever part they lie.
    pub(crate) fn is_one_of(&self, many: u8) -> bool {
        self.0[1].is_multiple_of(many)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// All that a value tells a hasher of itself.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Nobody asks: the bytes are what is wanted.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_apart_what_was_given() {
        let key = Key::new("code", "build 1", &("add", 7));
        assert_eq!(key, Key::new("code", "build 1", &("add", 7)));
        for other in [
            Key::new("text", "build 1", &("add", 7)),
            Key::new("code", "build 2", &("add", 7)),
            Key::new("code", "build 1", &("add", 8)),
            Key::new("codeb", "uild 1", &("add", 7)),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn a_key_is_a_name() {
        let name = Key::new("code", "", &0).to_string();
        assert!(name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit()));
    }
}
