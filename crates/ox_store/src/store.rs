//! Find one, keep one.

use crate::folder::{self, Trouble};
use crate::key::Key;
use crate::{artifact, room};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A folder of artifacts. From any thread, and from as many processes as there are.
pub struct Store {
    folder: PathBuf,
    owner: u32,
    most_bytes: u64,
    /// What made it stop, once.
    trouble: OnceLock<Trouble>,
}

/// That it was used is noted about once in this time: a look would otherwise be a write.
const NOTED_EVERY: Duration = Duration::from_secs(60 * 60 * 24);
/// Whether there is room is asked about once for so many artifacts.
const ASKED_EVERY: u8 = 32;

impl Store {
    /// `owner`: the user whose files are trusted. Nothing is looked at yet.
    pub fn new(folder: PathBuf, owner: u32, most_bytes: u64) -> Store {
        Store { folder, owner, most_bytes, trouble: OnceLock::new() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
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
        let (file, bytes) = folder::read(&path, self.owner)?;
        let found = artifact::body(key, bytes);
        match &found {
            Some(_) => note_use(&file),
            None => drop(fs::remove_file(&path)),
        }
        found
    }

    /// For whoever comes next. After a first failure nothing more is written: a disk that is full stays so for a while.
    pub fn keep(&self, key: &Key, bytes: &[u8]) {
        if !self.is_safe() || self.trouble().is_some() {
            return;
        }
        match self.write(key, bytes) {
            Ok(()) if key.is_one_of(ASKED_EVERY) => room::make(&self.folder, self.most_bytes),
            Ok(()) => {}
            Err(error) => drop(self.trouble.set(Trouble::system(&self.folder, error))),
        }
    }

    /// Asked each time: the folder may be another by now. Two processors' microseconds against a compile.
    fn is_safe(&self) -> bool {
        match folder::check(&self.folder, self.owner) {
            Ok(()) => true,
            Err(trouble) => {
                let _ = self.trouble.set(trouble);
                false
            }
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(key.to_string())
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        match self.write_and_rename(key, bytes) {
            // It has not been made yet, or somebody has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::make(&self.folder)?;
                self.write_and_rename(key, bytes)
            }
            done => done,
        }
    }

    /// Not forced to the disk: what a power cut leaves of it has another sum.
    fn write_and_rename(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let new = self.folder.join(new_name());
        let mut file = folder::create(&new)?;
        let written = file
            .write_all(&artifact::head(key, bytes))
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| fs::rename(&new, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// Of a file that is being written. No other process has it, nor one of another machine that shares the folder.
fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}{}-{now}-{}", room::UNFINISHED, std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What is used stays longest. Whether that can be written down does not matter.
fn note_use(file: &fs::File) {
    let now = SystemTime::now();
    let noted = file.metadata().and_then(|found| found.modified());
    if noted.is_ok_and(|noted| now.duration_since(noted).is_ok_and(|age| age > NOTED_EVERY)) {
        let _ = file.set_modified(now);
    }
}
