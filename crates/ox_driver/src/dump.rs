//! Programs as text files, for people.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static GRAPHS: AtomicUsize = AtomicUsize::new(0);

/// Writes the programs of one compile into a folder of their own, or nothing if nobody asked. A dump that cannot be written does not
/// stop the compile.
pub(crate) struct Dump {
    folder: Option<PathBuf>,
}

impl Dump {
    pub(crate) fn new(base: Option<&Path>) -> Dump {
        let folder =
            base.map(|base| base.join(format!("graph-{}-{}", std::process::id(), GRAPHS.fetch_add(1, Ordering::Relaxed))));
        let folder = folder.filter(|folder| match std::fs::create_dir_all(folder) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!("cannot write dumps to {}: {error}", folder.display());
                false
            }
        });
        Dump { folder }
    }

    /// A folder inside.
    pub(crate) fn inner(&self, name: &str) -> Dump {
        let folder = self.folder.as_ref().map(|folder| folder.join(name));
        Dump { folder: folder.filter(|folder| std::fs::create_dir_all(folder).is_ok()) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn write(&self, name: &str, program: &dyn Display) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = std::fs::write(folder.join(name), program.to_string()) {
            tracing::warn!("cannot write {name} to {}: {error}", folder.display());
        }
    }
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
