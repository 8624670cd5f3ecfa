//! Programs as text files, for people.

use std::cell::RefCell;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static GRAPHS: AtomicUsize = AtomicUsize::new(0);

/// Writes the programs of one compile into a folder of their own, or nothing if nobody asked. A dump that cannot be written does not
/// stop the compile; it leaves a note.
#[derive(Default)]
pub(crate) struct Dump {
    folder: Option<PathBuf>,
    notes: RefCell<Vec<String>>,
}

impl Dump {
    pub(crate) fn new(base: Option<&Path>) -> Dump {
        let number = || format!("graph-{}-{}", std::process::id(), GRAPHS.fetch_add(1, Ordering::Relaxed));
        Dump::make(base.map(|base| base.join(number())))
    }

    /// A folder inside.
    pub(crate) fn inner(&self, name: &str) -> Dump {
        Dump::make(self.folder.as_ref().map(|folder| folder.join(name)))
    }

    fn make(folder: Option<PathBuf>) -> Dump {
        let Some(folder) = folder else { return Dump::default() };
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Dump { folder: Some(folder), notes: RefCell::default() },
            Err(error) => Dump { folder: None, notes: vec![cannot_write(&folder, &error)].into() },
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn write(&self, name: &str, program: &dyn Display) {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(name)) else { return };
        if let Err(error) = std::fs::write(&path, program.to_string()) {
            self.notes.borrow_mut().push(cannot_write(&path, &error));
        }
    }

    /// What could not be written, and why.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// Writes what shows a bug into a new file of the folder for temporary files; its path.
pub fn write_bug(parts: &[(&str, &dyn Display)]) -> io::Result<PathBuf> {
    let number = GRAPHS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("oxytorch-bug-{}-{number}.txt", std::process::id()));
    let text: Vec<String> = parts.iter().map(|(title, program)| format!("== {title}\n{program}\n")).collect();
    // A fresh file: what lies there under this name already may be somebody's link to elsewhere.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    io::Write::write_all(&mut file, text.join("\n").as_bytes())?;
    Ok(path)
}
