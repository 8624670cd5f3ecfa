//! Find one, keep one.

use crate::folder::{self, Place, Read, Trouble};
use crate::key::Key;
use crate::{artifact, room};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A folder of artifacts. From any thread, and from as many processes as there are.
pub struct Store {
    place: Place,
    owner: u32,
    most_bytes: u64,
    /// What made it stop, once.
    trouble: OnceLock<Trouble>,
}

/// That it was used is noted about once in this time: a look would otherwise be a write.
const NOTED_EVERY: Duration = Duration::from_secs(60 * 60 * 24);
/// Whether there is room is asked about once for so many artifacts.
const ASKED_EVERY: u8 = 16;
/// Artifacts lie in as many folders, by the first byte of their key: what goes when there are too many is decided in one of them.
const PARTS: u64 = 256;

impl Store {
    /// `owner`: the user whose files are trusted. Nothing is looked at yet.
    pub fn new(place: Place, owner: u32, most_bytes: u64) -> Store {
        Store { place, owner, most_bytes, trouble: OnceLock::new() }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Why nothing is kept any more.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.get()
    }

    /// What somebody has kept. A file that is not what it says is taken away.
    pub fn find(&self, key: &Key) -> Option<Vec<u8>> {
        if !self.is_safe() {
            return None;
        }
        let path = self.path(key);
        let Read { file, about, bytes } = folder::read(&path, self.owner)?;
        let found = artifact::body(key, bytes);
        match &found {
            Some(_) => note_use(&file, &about),
            None => drop(fs::remove_file(&path)),
        }
        found
    }

    /// For whoever comes next. Where the system does not let us write, and will not in a while either, nothing more is tried.
    pub fn keep(&self, key: &Key, bytes: &[u8]) {
        if self.trouble().is_some() || !self.is_safe() {
            return;
        }
        match self.write(key, bytes) {
            Ok(()) if key.is_one_of(ASKED_EVERY) => room::make(&self.part(key), self.most_bytes / PARTS),
            Err(error) if lasts(&error) => drop(self.trouble.set(Trouble::system(&self.place.folder, error))),
            _ => {}
        }
    }

    /// Asked each time: the folder may be another by now.
    fn is_safe(&self) -> bool {
        let checked = folder::check(&self.place.folder, self.owner);
        checked.map_err(|trouble| self.trouble.set(trouble)).is_ok()
    }

    fn part(&self, key: &Key) -> PathBuf {
        self.place.folder.join(format!("{:02x}", key.bytes()[0]))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.part(key).join(format!("{key}{}", room::SUFFIX))
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        match self.write_and_rename(key, bytes) {
            // It has not been made yet, or somebody has deleted it.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.place.make(self.owner)?;
                folder::make(&self.part(key))?;
                self.write_and_rename(key, bytes)
            }
            done => done,
        }
    }

    /// Not forced to the disk: what a power cut leaves of it has another sum.
    fn write_and_rename(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let new = self.part(key).join(new_name());
        let mut file = folder::create(&new)?;
        let written = file.write_all(&artifact::file(key, bytes));
        // Over a network it is whole when it is closed.
        drop(file);
        let renamed = written.and_then(|()| fs::rename(&new, self.path(key)));
        if renamed.is_err() {
            let _ = fs::remove_file(&new);
        }
        renamed
    }
}

/// A disk that is full, or that we may not write to, stays so for a while; other errors are of one file, or of the moment.
fn lasts(error: &io::Error) -> bool {
    use ErrorKind::{NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kinds = [StorageFull, QuotaExceeded, ReadOnlyFilesystem, PermissionDenied, NotADirectory, ErrorKind::NotFound];
    kinds.contains(&error.kind())
}

/// Of a file that is being written. No other process has it, nor one of another machine that shares the folder.
fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{now}-{}{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed), room::UNFINISHED)
}

/// What is used stays longest. Whether that can be written down does not matter.
fn note_use(file: &fs::File, about: &fs::Metadata) {
    let now = SystemTime::now();
    if about.modified().is_ok_and(|noted| now.duration_since(noted).is_ok_and(|age| age > NOTED_EVERY)) {
        let _ = file.set_modified(now);
    }
}
