//! Where artifacts lie, and whether that is safe to read.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a folder is not used, or not written.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("{} is a link", .0.display())]
    Link(PathBuf),
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    #[error("others may write to {}", .0.display())]
    Open(PathBuf),
    #[error("{}: {error}", .path.display())]
    System { path: PathBuf, error: io::Error },
}

impl Trouble {
    pub(crate) fn system(path: &Path, error: io::Error) -> Trouble {
        Trouble::System { path: path.to_path_buf(), error }
    }
}

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 28;
/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// `OXYTORCH_CACHE_DIR`, or `oxytorch` in the user's folder for caches. None if nothing says where that is.
pub fn usual_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    // What is not absolute must be ignored, by the rule that XDG_CACHE_HOME comes from.
    let absolute = |name: &str| given(name).filter(|path| path.is_absolute());
    given("OXYTORCH_CACHE_DIR")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|caches| caches.join("oxytorch")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache").join("oxytorch")))
}

/// Whether the folder is the user's alone. That there is none is no trouble.
pub fn check(folder: &Path, owner: u32) -> Result<(), Trouble> {
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Trouble::system(folder, error)),
    };
    let path = || folder.to_path_buf();
    if found.is_symlink() {
        return Err(Trouble::Link(path()));
    }
    if !found.is_dir() {
        return Err(Trouble::NoFolder(path()));
    }
    if found.uid() != owner {
        return Err(Trouble::Foreign(path()));
    }
    if is_open(&found) { Err(Trouble::Open(path())) } else { Ok(()) }
}

/// Makes the folder and those above it, for the user alone.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The file, if it is the user's, and what is in it.
pub fn read(path: &Path, owner: u32) -> Option<(File, Vec<u8>)> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != owner || is_open(&found) || found.len() > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    file.read_to_end(&mut bytes).ok()?;
    Some((file, bytes))
}

/// A new file that only the user may read.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn is_open(found: &Metadata) -> bool {
    found.permissions().mode() & OTHERS_WRITE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_word_comes_first() {
        let folder = |given: &[(&str, &str)]| {
            usual_folder(|name| given.iter().find(|(known, _)| *known == name).map(|(_, path)| PathBuf::from(path)))
        };
        let (home, xdg, own) = (("HOME", "/home/u"), ("XDG_CACHE_HOME", "/caches"), ("OXYTORCH_CACHE_DIR", "here"));
        assert_eq!(folder(&[home]), Some("/home/u/.cache/oxytorch".into()));
        assert_eq!(folder(&[home, xdg]), Some("/caches/oxytorch".into()));
        assert_eq!(folder(&[home, xdg, own]), Some("here".into()));
        assert_eq!(
            folder(&[home, ("XDG_CACHE_HOME", "caches"), ("OXYTORCH_CACHE_DIR", "")]),
            Some("/home/u/.cache/oxytorch".into())
        );
        assert_eq!(folder(&[("HOME", "")]), None);
    }
}
