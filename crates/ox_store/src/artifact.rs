//! How an artifact lies in its file.

use crate::key::Key;

/// Another layout has another number.
const MAGIC: &[u8; 16] = b"oxytorch store 1";
const SUM_BYTES: usize = 32;

pub fn file(key: &Key, bytes: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), sum(key, bytes).as_bytes(), bytes].concat()
}

/// The bytes of an artifact; None if the file is not what was written under this key, as a whole.
pub fn body(key: &Key, mut file: Vec<u8>) -> Option<Vec<u8>> {
    let rest = file.strip_prefix(MAGIC)?;
    let (written, bytes) = rest.split_at_checked(SUM_BYTES)?;
    (sum(key, bytes).as_bytes() == written).then_some(())?;
    file.drain(..MAGIC.len() + SUM_BYTES);
    Some(file)
}

/// Of a file under another name it is another.
fn sum(key: &Key, bytes: &[u8]) -> blake3::Hash {
    blake3::keyed_hash(key.bytes(), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let key = Key::new("test", "", &1);
        for bytes in [b"".as_slice(), b"x", &[7; 5000]] {
            assert_eq!(body(&key, file(&key, bytes)).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn every_change_is_seen() {
        let key = Key::new("test", "", &1);
        let file = file(&key, b"artifact");
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert_eq!(body(&key, changed), None, "byte {at}");
            assert_eq!(body(&key, file[..at].to_vec()), None, "the first {at} bytes");
        }
        assert_eq!(body(&key, [file.clone(), vec![0]].concat()), None);
        assert_eq!(body(&Key::new("test", "", &2), file), None);
    }
}
