//! What was not used for longest goes when there are too many.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// What names of artifacts end in: nothing else is ever deleted, wherever the user has put the folder.
pub const SUFFIX: &str = ".oxytorch";
/// And names of those that are being written.
pub const UNFINISHED: &str = ".oxytorch-new";
/// A file that is still being written after this time is a dead process'.
const ABANDONED: Duration = Duration::from_secs(60 * 60);
/// Blocks are counted in this unit, whatever their size.
const BLOCK: u64 = 512;

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Three quarters of what there may be are left, so that this is not needed again at once. One thread at a time; another process may do the same meanwhile,
/// and files may go under our hands: whatever fails is left.
pub fn make(folder: &Path, most_bytes: u64) {
    static AT_IT: Mutex<()> = Mutex::new(());
    let Ok(_alone) = AT_IT.try_lock() else { return };
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
    if name.ends_with(UNFINISHED) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
        let _ = fs::remove_file(&path);
    }
    (found.is_file() && name.ends_with(SUFFIX)).then(|| Entry { bytes: found.blocks() * BLOCK, used, path })
}
