//! The folder of artifacts, as the world treats it.

use ox_store::{Key, Place, Store, Trouble};
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
        store(self.0.join("cache"), self.owner())
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

fn store(folder: PathBuf, owner: u32) -> Store {
    Store::new(Place::new(&folder, true).unwrap(), owner, PLENTY)
}

fn folder(store: &Store) -> &Path {
    &store.place().folder
}

/// All that lies in the folder and its parts.
fn files(folder: &Path) -> Vec<PathBuf> {
    let parts = fs::read_dir(folder).into_iter().flatten().map(|part| part.unwrap().path());
    parts.flat_map(|part| if part.is_dir() { files(&part) } else { vec![part] }).collect()
}

fn file_of(store: &Store, n: u32) -> PathBuf {
    let name = format!("{}.oxytorch", key(n));
    folder(store).join(&name[..2]).join(name)
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
    assert_eq!(mode(folder(&store)), 0o700);
    assert_eq!(mode(&file_of(&store, 1)), 0o600);
    assert_eq!(mode(file_of(&store, 1).parent().unwrap()), 0o700);
    assert_eq!(files(folder(&store)), [file_of(&store, 1)], "nothing is left beside it");
}

#[test]
fn a_file_that_was_cut_or_changed_is_taken_away() {
    let temp = Temp::new("broken");
    let store = temp.store();
    let path = file_of(&store, 1);
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
    store.keep(&key(2), b"two");
    fs::rename(&path, file_of(&store, 2)).unwrap();
    assert_eq!(store.find(&key(2)), None, "under another name it is another's");
}

#[test]
fn files_that_others_may_have_written_are_not_read() {
    let temp = Temp::new("foreign-file");
    let store = temp.store();
    store.keep(&key(1), b"one");
    let path = file_of(&store, 1);
    allow(&path, 0o620);
    assert_eq!(store.find(&key(1)), None);
    allow(&path, 0o644);
    assert!(store.find(&key(1)).is_some());

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
        assert_eq!(files(&folder).len(), 1);
        store.trouble().unwrap().to_string()
    };
    allow(&folder, 0o777);
    assert!(refused(temp.store()).starts_with("others may write to"));
    allow(&folder, 0o700);
    assert!(refused(store(folder.clone(), temp.owner() + 1)).ends_with("belongs to another user"));
    let link = temp.0.join("link");
    symlink(&folder, &link).unwrap();
    assert!(refused(store(link.join(""), temp.owner())).ends_with("is a link"));
    let file = temp.0.join("file");
    fs::write(&file, "").unwrap();
    assert!(refused(store(file, temp.owner())).ends_with("is not a folder"));
}

#[test]
fn a_folder_that_was_deleted_is_made_again() {
    let temp = Temp::new("deleted");
    let store = temp.store();
    store.keep(&key(1), b"one");
    fs::remove_dir_all(folder(&store)).unwrap();
    assert_eq!(store.find(&key(1)), None);
    store.keep(&key(1), b"one");
    assert!(store.find(&key(1)).is_some() && store.trouble().is_none());
}

/// Stands for a disk that is full, read-only or out of inodes, which a test cannot make: the system says no.
#[test]
fn what_cannot_be_written_is_trouble_once() {
    let temp = Temp::new("refused");
    fs::write(temp.0.join("file"), "").unwrap();
    let store = store(temp.0.join("file").join("cache"), temp.owner());
    store.keep(&key(1), b"one");
    store.keep(&key(2), b"two");
    assert!(matches!(store.trouble(), Some(Trouble::System { .. })));
    assert_eq!(store.find(&key(1)), None);
}

/// What is wrong with one file is no reason to keep no others.
#[test]
fn what_stands_in_the_way_of_one_is_no_trouble() {
    let temp = Temp::new("in-the-way");
    let store = temp.store();
    fs::create_dir_all(file_of(&store, 1)).unwrap();
    allow(folder(&store), 0o700);
    store.keep(&key(1), b"one");
    assert_eq!(store.find(&key(1)), None);
    store.keep(&key(2), b"two");
    assert!(store.find(&key(2)).is_some() && store.trouble().is_none());
}

/// Of a program that runs with another user's HOME.
#[test]
fn nothing_is_made_in_another_users_home() {
    let temp = Temp::new("home");
    let usual = Place::new(&temp.0.join("cache").join("oxytorch"), false).unwrap();
    let store = Store::new(usual.clone(), temp.owner() + 1, PLENTY);
    store.keep(&key(1), b"one");
    assert!(!temp.0.join("cache").exists() && store.trouble().is_some());
    Store::new(usual, temp.owner(), PLENTY).keep(&key(1), b"one");
    assert_eq!(mode(&temp.0.join("cache")), 0o700);
}

#[test]
fn what_was_used_last_stays() {
    const FILES: usize = 200;
    let temp = Temp::new("room");
    // Artifacts of a few kilobytes, with room for some fifty of them in each of 256 parts.
    let store = Store::new(Place::new(&temp.0.join("cache"), true).unwrap(), temp.owner(), 256 * 50 * 4096);
    let of_one_part: Vec<u32> = (0..).filter(|n| key(*n).to_string().starts_with("00")).take(FILES).collect();
    let (first, last) = (of_one_part[0], of_one_part[FILES - 1]);
    store.keep(&key(first), &[0; 4000]);
    let part = file_of(&store, first).parent().unwrap().to_path_buf();
    // What a dead process has left, and what is the user's own: named as other programs name such files, and older than all.
    let abandoned = part.join("1-2-3.oxytorch-new");
    let own =
        [part.join(key(7).to_string()), part.join(".new-report.txt"), part.join("oxytorch"), folder(&store).join("x.oxytorch")];
    let old = SystemTime::now() - Duration::from_secs(1_000_000);
    for file in own.iter().chain([&abandoned]) {
        fs::write(file, [0; 10_000]).unwrap();
        fs::File::open(file).unwrap().set_modified(old - Duration::from_secs(1)).unwrap();
    }
    for (age, n) in of_one_part.iter().enumerate().skip(1) {
        store.keep(&key(*n), &[0; 4000]);
        // All are as old as this, but for the one that is asked for.
        if let Ok(file) = fs::File::open(file_of(&store, *n)) {
            file.set_modified(old + Duration::from_secs(age as u64)).unwrap();
        }
        fs::File::open(file_of(&store, first)).unwrap().set_modified(old).unwrap();
        assert!(store.find(&key(first)).is_some(), "after {age}");
    }
    // Room is made now and then: in between there may be more.
    let kept = files(folder(&store)).len();
    assert!((30..140).contains(&kept), "{kept}");
    assert!(own.iter().all(|file| file.exists()) && !abandoned.exists());
    assert!(store.find(&key(last)).is_some() && store.find(&key(of_one_part[1])).is_none());
}

/// Processes write the same artifacts over and over and are killed in the middle: whoever reads finds all of one, or none.
#[test]
fn a_reader_never_sees_a_half() {
    const FOLDER: &str = "OXYTORCH_TEST_STORE";
    let bytes = |n: u32| vec![n as u8; 1 << 18];
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = store(folder.into(), fs::metadata("/proc/self").unwrap().uid());
        // Killed long before this.
        let end = SystemTime::now() + Duration::from_secs(20);
        while SystemTime::now() < end {
            (0..8).for_each(|n| store.keep(&key(n), &bytes(n)));
        }
        return;
    }
    let temp = Temp::new("halves");
    let store = temp.store();
    let writer = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["a_reader_never_sees_a_half", "--exact"]).env(FOLDER, folder(&store)).spawn().unwrap()
    };
    let mut found = 0;
    for _ in 0..10 {
        let mut writers = [writer(), writer()];
        let end = SystemTime::now() + Duration::from_millis(100);
        while SystemTime::now() < end {
            for n in 0..8 {
                let there = file_of(&store, n).exists();
                let read = store.find(&key(n));
                assert!(read.is_some() || !there, "it was there, whole, and must stay");
                if let Some(read) = read {
                    assert_eq!(read, bytes(n));
                    found += 1;
                }
            }
        }
        for writer in &mut writers {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
    }
    assert!(found > 100, "{found}");
    store.keep(&key(9), b"nobody holds a lock");
    assert!(store.find(&key(9)).is_some());
}
