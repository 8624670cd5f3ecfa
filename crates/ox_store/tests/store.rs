//! The folder of artifacts, as the world treats it.

use ox_store::{Key, Store, Trouble};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const PLENTY: u64 = 1 << 30;

/// A folder that goes with the test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("oxytorch-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    fn store(&self) -> Store {
        Store::new(self.0.join("cache"), self.owner(), PLENTY)
    }

    /// Whoever made the folder: we.
    fn owner(&self) -> u32 {
        fs::metadata(&self.0).unwrap().uid()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(n: u32) -> Key {
    Key::new("test", "build", &n)
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_kept_is_found_by_the_next_process() {
    let temp = Temp::new("found");
    assert_eq!(temp.store().find(&key(1)), None);
    temp.store().keep(&key(1), b"one");
    temp.store().keep(&key(1), b"one");
    assert_eq!(temp.store().find(&key(1)).as_deref(), Some(b"one".as_slice()));
    assert_eq!(temp.store().find(&key(2)), None);
    assert!(temp.store().trouble().is_none());
}

#[test]
fn only_the_user_may_look() {
    let temp = Temp::new("private");
    let store = temp.store();
    store.keep(&key(1), b"one");
    assert_eq!(mode(store.folder()), 0o700);
    assert_eq!(mode(&store.folder().join(key(1).to_string())), 0o600);
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_was_cut_or_changed_is_taken_away() {
    let temp = Temp::new("broken");
    let store = temp.store();
    let path = store.folder().join(key(1).to_string());
    for (cut, change) in [(20, 0), (0, 0), (60, 1)] {
        store.keep(&key(1), &[7; 100]);
        let mut bytes = fs::read(&path).unwrap();
        if change != 0 {
            bytes[cut] ^= change
        } else {
            bytes.truncate(cut)
        }
        fs::write(&path, bytes).unwrap();
        assert_eq!(store.find(&key(1)), None);
        assert!(!path.exists());
    }
    store.keep(&key(1), b"one");
    fs::rename(&path, store.folder().join(key(2).to_string())).unwrap();
    assert_eq!(store.find(&key(2)), None, "under another name it is another's");
}

#[test]
fn files_that_others_may_have_written_are_not_read() {
    let temp = Temp::new("foreign-file");
    let store = temp.store();
    store.keep(&key(1), b"one");
    let path = store.folder().join(key(1).to_string());
    allow(&path, 0o620);
    assert_eq!(store.find(&key(1)), None);
    allow(&path, 0o644);
    assert!(store.find(&key(1)).is_some());
    assert!(Store::new(store.folder().into(), temp.owner() + 1, PLENTY).find(&key(1)).is_none());

    let elsewhere = temp.0.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(store.find(&key(1)), None, "a link leads anywhere");
}

#[test]
fn a_folder_that_is_not_the_users_alone_is_refused() {
    let temp = Temp::new("folders");
    temp.store().keep(&key(1), b"one");
    let folder = temp.0.join("cache");
    let refused = |store: Store| {
        store.keep(&key(2), b"two");
        assert_eq!(store.find(&key(1)), None);
        assert!(!folder.join(key(2).to_string()).exists());
        store.trouble().unwrap().to_string()
    };
    allow(&folder, 0o777);
    assert!(refused(temp.store()).starts_with("others may write to"));
    allow(&folder, 0o700);
    assert!(refused(Store::new(folder.clone(), temp.owner() + 1, PLENTY)).ends_with("belongs to another user"));
    let link = temp.0.join("link");
    symlink(&folder, &link).unwrap();
    assert!(refused(Store::new(link, temp.owner(), PLENTY)).ends_with("is a link"));
    let file = temp.0.join("file");
    fs::write(&file, "").unwrap();
    assert!(refused(Store::new(file, temp.owner(), PLENTY)).ends_with("is not a folder"));
}

#[test]
fn a_folder_that_was_deleted_is_made_again() {
    let temp = Temp::new("deleted");
    let store = temp.store();
    store.keep(&key(1), b"one");
    fs::remove_dir_all(store.folder()).unwrap();
    assert_eq!(store.find(&key(1)), None);
    store.keep(&key(1), b"one");
    assert!(store.find(&key(1)).is_some() && store.trouble().is_none());
}

/// Stands for a disk that is full, read-only or out of inodes, which a test cannot make: the system says no.
#[test]
fn what_cannot_be_written_is_trouble_once() {
    let temp = Temp::new("refused");
    fs::write(temp.0.join("file"), "").unwrap();
    let store = Store::new(temp.0.join("file").join("cache"), temp.owner(), PLENTY);
    store.keep(&key(1), b"one");
    store.keep(&key(2), b"two");
    assert!(matches!(store.trouble(), Some(Trouble::System { .. })));
    assert_eq!(store.find(&key(1)), None);
}

#[test]
fn what_was_used_last_stays() {
    let temp = Temp::new("room");
    let store = Store::new(temp.0.join("cache"), temp.owner(), 100_000);
    // A dead process', and one of the user's own that happens to lie there.
    fs::create_dir_all(store.folder()).unwrap();
    allow(store.folder(), 0o700);
    let (abandoned, own) = (store.folder().join(".new-1-2-3"), store.folder().join("notes.txt"));
    fs::write(&abandoned, "half").unwrap();
    fs::write(&own, "mine").unwrap();
    let old = SystemTime::now() - Duration::from_secs(1_000_000);
    fs::File::open(&abandoned).unwrap().set_modified(old).unwrap();

    store.keep(&key(0), &[0; 1000]);
    let used = store.folder().join(key(0).to_string());
    for n in 1..600 {
        store.keep(&key(n), &[0; 1000]);
        // All are as old as this, but for the one that is asked for.
        fs::File::open(store.folder().join(key(n).to_string()))
            .map(|file| file.set_modified(old + Duration::from_secs(n.into())))
            .ok();
        fs::File::open(&used).unwrap().set_modified(old).unwrap();
        assert!(store.find(&key(0)).is_some(), "after {n}");
    }
    let bytes: u64 = fs::read_dir(store.folder()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    // Room is made now and then: in between there may be more.
    assert!(bytes < 300_000, "{bytes}");
    assert!(own.exists() && !abandoned.exists());
    assert!(store.find(&key(599)).is_some() && store.find(&key(1)).is_none());
}

/// Processes write the same artifacts over and over and are killed in the middle: whoever reads finds all of one, or none.
#[test]
fn a_reader_never_sees_a_half() {
    const FOLDER: &str = "OXYTORCH_TEST_STORE";
    let bytes = |n: u32| vec![n as u8; 1 << 18];
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = Store::new(folder.into(), fs::metadata("/proc/self").unwrap().uid(), PLENTY);
        loop {
            (0..8).for_each(|n| store.keep(&key(n), &bytes(n)));
        }
    }
    let temp = Temp::new("halves");
    let store = temp.store();
    let writer = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["a_reader_never_sees_a_half", "--exact"]).env(FOLDER, store.folder()).spawn().unwrap()
    };
    let mut found = 0;
    for _ in 0..10 {
        let mut writers = [writer(), writer()];
        let end = SystemTime::now() + Duration::from_millis(100);
        while SystemTime::now() < end {
            for n in 0..8 {
                let path = store.folder().join(key(n).to_string());
                let there = path.exists();
                let read = store.find(&key(n));
                assert!(read.is_some() || !there, "it was there, whole, and must stay");
                if let Some(read) = read {
                    assert_eq!(read, bytes(n));
                    found += 1;
                }
            }
        }
        writers.iter_mut().for_each(|writer| writer.kill().unwrap());
        for writer in &mut writers {
            writer.wait().unwrap();
        }
    }
    assert!(found > 100, "{found}");
    store.keep(&key(9), b"nobody holds a lock");
    assert!(store.find(&key(9)).is_some());
}
