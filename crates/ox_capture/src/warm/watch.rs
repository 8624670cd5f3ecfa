//! CPython 3.12 tells of every change to a dict that is watched. Of objects that get another class or dict `setters` tells.
//!
//! 3.13 does not tell of attributes that are stored in objects without a dict of their own, so nothing is watched there.

use super::signal::{Attached, Signal};
use crate::obj::{Obj, py};
use pyo3::ffi;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Who wants to know of a dict, and of which keys, by their hashes; `None` stands for all of them, and for an object as such.
struct Interest {
    signal: Attached<Rc<Signal>>,
    keys: Option<FxHashSet<isize>>,
}

/// By the address of the dict or object.
static INTERESTS: Mutex<Option<FxHashMap<usize, Vec<Interest>>>> = Mutex::new(None);

fn interests() -> MutexGuard<'static, Option<FxHashMap<usize, Vec<Interest>>>> {
    INTERESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

type Callback = unsafe extern "C" fn(c_int, *mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> c_int;
type Switch = unsafe extern "C" fn(c_int, *mut ffi::PyObject) -> c_int;

/// Our number among the watchers, and the functions that put a dict under watch and end it. Versions before 3.12 lack them.
#[derive(Clone, Copy)]
struct Watcher {
    number: c_int,
    watch: Switch,
    unwatch: Switch,
}

/// `PyDict_EVENT_ADDED`, `MODIFIED` and `DELETED` name a key; the events behind them concern the whole dict.
const LAST_WITH_KEY: c_int = 2;

unsafe extern "C" fn changed(event: c_int, dict: *mut ffi::PyObject, key: *mut ffi::PyObject, _: *mut ffi::PyObject) -> c_int {
    let interests = interests();
    let Some(list) = interests.as_ref().and_then(|interests| interests.get(&(dict as usize))) else { return 0 };
    // SAFETY: a live key or null.
    let key = if event <= LAST_WITH_KEY && !key.is_null() { unsafe { hash_of(key) } } else { None };
    let concerns = |interest: &Interest| match (&interest.keys, key) {
        (Some(keys), Some(key)) => keys.contains(&key),
        _ => true,
    };
    for interest in list.iter().filter(|interest| concerns(interest)) {
        interest.signal.0.raise();
    }
    0
}

/// An object gets another class or another dict as a whole.
pub fn tell_of(object: *mut ffi::PyObject) {
    let interests = interests();
    let list = interests.as_ref().and_then(|interests| interests.get(&(object as usize)));
    list.into_iter().flatten().for_each(|interest| interest.signal.0.raise());
}

/// None stands for any key: what is not exactly a string may be equal to one (a member of an enum of strings), and its hash may be code of
/// the user's.
///
/// # Safety
/// `key` must be a live object.
unsafe fn hash_of(key: *mut ffi::PyObject) -> Option<isize> {
    // SAFETY: passed on; exact strings hash without running code.
    unsafe { (ffi::PyUnicode_CheckExact(key) != 0).then(|| ffi::PyObject_Hash(key)) }
}

fn watcher() -> Option<Watcher> {
    static WATCHER: OnceLock<Option<Watcher>> = OnceLock::new();
    *WATCHER.get_or_init(|| {
        if py().version_info().minor != 12 {
            return None;
        }
        let process = libloading::os::unix::Library::this();
        // SAFETY: the types are those of CPython's header; the interpreter stays loaded, and the callback lives for ever.
        let (number, watch, unwatch) = unsafe {
            let add = process.get::<unsafe extern "C" fn(Callback) -> c_int>(b"PyDict_AddWatcher\0").ok()?;
            (add(changed), *process.get::<Switch>(b"PyDict_Watch\0").ok()?, *process.get::<Switch>(b"PyDict_Unwatch\0").ok()?)
        };
        if number < 0 {
            drop(pyo3::PyErr::take(py()));
            return None;
        }
        Some(Watcher { number, watch, unwatch })
    })
}

/// Dicts that one party watches.
pub struct Watches {
    watcher: Watcher,
    signal: Rc<Signal>,
    /// By address, and held: nothing else can have that address meanwhile.
    dicts: FxHashMap<usize, Obj>,
    /// By address, and not held: word of another object that came to lie there does no harm.
    objects: FxHashSet<usize>,
}

impl Watches {
    /// None where CPython does not tell.
    pub fn new(signal: &Rc<Signal>) -> Option<Watches> {
        Some(Watches { watcher: watcher()?, signal: signal.clone(), dicts: Default::default(), objects: Default::default() })
    }

    /// Asks to be told when an object gets another class or another dict.
    pub fn add_object(&mut self, object: &Obj) {
        if self.objects.insert(object.id()) {
            let interest = Interest { signal: Attached(self.signal.clone()), keys: None };
            interests().get_or_insert_default().entry(object.id()).or_default().push(interest);
        }
    }

    /// Asks to be told of changes to one key of a dict, or to any.
    pub fn add(&mut self, dict: &Obj, key: Option<&Obj>) -> bool {
        // SAFETY: a live dict (checked by all callers).
        if unsafe { (self.watcher.watch)(self.watcher.number, dict.ptr()) } < 0 {
            drop(pyo3::PyErr::take(py()));
            return false;
        }
        let mut interests = interests();
        let list = interests.get_or_insert_default().entry(dict.id()).or_default();
        if self.dicts.insert(dict.id(), dict.clone()).is_none() {
            list.push(Interest { signal: Attached(self.signal.clone()), keys: Some(FxHashSet::default()) });
        }
        let own = list.iter_mut().find(|interest| Rc::ptr_eq(&interest.signal.0, &self.signal)).expect("it was entered above");
        // SAFETY: a live key.
        match (own.keys.as_mut(), key.and_then(|key| unsafe { hash_of(key.ptr()) })) {
            (Some(keys), Some(hash)) => {
                keys.insert(hash);
            }
            _ => own.keys = None,
        }
        true
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut interests = interests();
        let Some(interests) = interests.as_mut() else { return };
        for (address, dict) in &self.dicts {
            let Some(list) = interests.get_mut(address) else { continue };
            list.retain(|interest| !Rc::ptr_eq(&interest.signal.0, &self.signal));
            if list.is_empty() {
                interests.remove(address);
                // SAFETY: a live dict.
                if unsafe { (self.watcher.unwatch)(self.watcher.number, dict.ptr()) } < 0 {
                    drop(pyo3::PyErr::take(py()));
                }
            }
        }
        for address in &self.objects {
            let Some(list) = interests.get_mut(address) else { continue };
            list.retain(|interest| !Rc::ptr_eq(&interest.signal.0, &self.signal));
            if list.is_empty() {
                interests.remove(address);
            }
        }
    }
}
