//! Where artifacts lie, and whether that is safe to read.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
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
    #[error("others may write to {}: chmod go-w", .0.display())]
    Open(PathBuf),
    #[error("{}: {error}", .path.display())]
    System { path: PathBuf, error: io::Error },
}

impl Trouble {
    pub(crate) fn system(path: &Path, error: io::Error) -> Trouble {
        Trouble::System { path: path.to_path_buf(), error }
    }
}

/// A folder, and who said so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub folder: PathBuf,
    /// The user has named this very folder. Otherwise it is where caches usually lie, which may be somebody else's home.
    pub is_given: bool,
}

impl Place {
    /// Of all that is written so, one path: without a slash in the end, which would lead through a link, and whatever folder the process goes to.
    pub fn new(folder: &Path, is_given: bool) -> Option<Place> {
        let folder = std::path::absolute(folder).ok()?.components().collect();
        Some(Place { folder, is_given })
    }

    /// `OXYTORCH_CACHE_DIR`, or `oxytorch` in the user's folder for caches. None if nothing says where that is.
    pub fn usual(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<Place> {
        let given = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
        // What is not absolute must be ignored, by the rule that XDG_CACHE_HOME comes from.
        let absolute = |name: &str| given(name).filter(|path| path.is_absolute());
        if let Some(folder) = given("OXYTORCH_CACHE_DIR") {
            let at_home = folder.strip_prefix("~").ok().and_then(|rest| Some(absolute("HOME")?.join(rest)));
            return Place::new(&at_home.unwrap_or(folder), true);
        }
        let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        Place::new(&caches.join("oxytorch"), false)
    }

    /// Makes it, for the user alone. In the home of another user nothing is made: whoever that is could not use it.
    pub fn make(&self, owner: u32) -> io::Result<()> {
        let above = self.folder.ancestors().skip(1).find_map(|folder| fs::metadata(folder).ok());
        if !self.is_given && above.is_some_and(|above| above.uid() != owner) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it would lie in another user's folder"));
        }
        let parent = self.folder.parent().unwrap_or(&self.folder);
        if self.is_given {
            fs::create_dir_all(parent)?
        } else {
            private().recursive(true).create(parent)?
        }
        make(&self.folder)
    }
}

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 28;
/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

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

/// A folder for the user alone, in one that is there. Somebody else may have made it meanwhile.
pub fn make(folder: &Path) -> io::Result<()> {
    match private().create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// What is in a file of the user's, and what the system says of it.
pub struct Read {
    pub file: File,
    pub about: Metadata,
    pub bytes: Vec<u8>,
}

pub fn read(path: &Path, owner: u32) -> Option<Read> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.uid() != owner || is_open(&about) || about.len() > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(about.len() as usize + 1);
    (&file).take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(Read { file, about, bytes })
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
            let place = Place::usual(|name| given.iter().find(|(known, _)| *known == name).map(|(_, path)| PathBuf::from(path)));
            place.map(|place| (place.folder, place.is_given))
        };
        let (home, xdg, own) = (("HOME", "/home/u"), ("XDG_CACHE_HOME", "/caches"), ("OXYTORCH_CACHE_DIR", "/here/"));
        let usual = |path: &str| Some((PathBuf::from(path), false));
        assert_eq!(folder(&[home]), usual("/home/u/.cache/oxytorch"));
        assert_eq!(folder(&[home, xdg]), usual("/caches/oxytorch"));
        assert_eq!(folder(&[home, xdg, own]), Some(("/here".into(), true)));
        assert_eq!(folder(&[home, ("OXYTORCH_CACHE_DIR", "~/x")]), Some(("/home/u/x".into(), true)));
        assert_eq!(folder(&[("OXYTORCH_CACHE_DIR", "x")]), Some((std::env::current_dir().unwrap().join("x"), true)));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "caches"), ("OXYTORCH_CACHE_DIR", "")]), usual("/home/u/.cache/oxytorch"));
        assert_eq!(folder(&[("HOME", "")]), None);
    }
}
