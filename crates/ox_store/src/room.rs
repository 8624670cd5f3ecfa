//! What was not used for longest goes when there are too many.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Names of files that are being written begin so.
pub const UNFINISHED: &str = ".new-";
/// A file that is still being written after this time is a dead process'.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Three quarters of what there may be are left, so that this is not needed again at once. Another process may do the same at the same time, and files
/// may go under our hands: whatever fails is left.
pub fn make(folder: &Path, most_bytes: u64) {
    let mut entries = entries(folder);
    let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    if bytes <= most_bytes {
        return;
    }
    entries.sort_by_key(|entry| entry.used);
    for entry in entries {
        if bytes <= most_bytes / 4 * 3 {
            return;
        }
        let _ = fs::remove_file(&entry.path);
        bytes -= entry.bytes;
    }
}

/// The artifacts. What dead processes have left unfinished goes.
fn entries(folder: &Path) -> Vec<Entry> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.filter_map(|file| entry(file.path(), file.metadata().ok()?)).collect()
}

fn entry(path: PathBuf, found: fs::Metadata) -> Option<Entry> {
    let used = found.modified().ok()?;
    let name = path.file_name()?.to_str()?;
    if name.starts_with(UNFINISHED) {
        if used.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(&path);
        }
        return None;
    }
    // Nothing but our own is deleted, wherever the user has put the folder.
    let is_ours = found.is_file() && name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit());
    is_ours.then_some(Entry { bytes: found.len(), used, path })
}
