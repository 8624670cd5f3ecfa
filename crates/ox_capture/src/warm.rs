//! Checks that need not be made again. CPython 3.12 tells of every change to a dict that is watched; as long as none of those that a
//! trace reads was changed, what hangs on them is as it was, and only arguments, tensors and classes are looked at.
//!
//! 3.13 does not tell of attributes that are stored in objects without a dict of their own, so nothing is left out there.

use crate::builtins;
use crate::guard::Check;
use crate::obj::{Obj, dict_get, py};
use crate::source::{Source, SourceId, Sources, Values, instance_dict};
use crate::types::types;
use pyo3::ffi;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Counts changes to what anybody is interested in.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The dicts that are watched, by address, and the hashes of the keys that matter; `None` stands for all of them.
static INTEREST: Mutex<Option<FxHashMap<usize, Option<FxHashSet<isize>>>>> = Mutex::new(None);

type Callback = unsafe extern "C" fn(c_int, *mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

/// Our number among the watchers, and the function that puts a dict under watch. Versions before 3.12 lack both.
#[derive(Clone, Copy)]
struct Watcher {
    number: c_int,
    watch: unsafe extern "C" fn(c_int, *mut ffi::PyObject) -> c_int,
}

/// `PyDict_EVENT_ADDED`, `MODIFIED` and `DELETED` name a key; the events behind them concern the whole dict.
const LAST_WITH_KEY: c_int = 2;

unsafe extern "C" fn changed(event: c_int, dict: *mut ffi::PyObject, key: *mut ffi::PyObject, _: *mut ffi::PyObject) -> c_int {
    let mut interest = INTEREST.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(keys) = interest.as_mut().and_then(|interest| interest.get(&(dict as usize))) else { return 0 };
    let matters = match keys {
        // SAFETY: a live key; strings hash without running code, and other keys were asked for their hash by the dict just now.
        Some(keys) if event <= LAST_WITH_KEY && !key.is_null() => keys.contains(&unsafe { hash_of(key) }),
        _ => true,
    };
    if matters {
        EPOCH.fetch_add(1, Ordering::Relaxed);
    }
    0
}

/// # Safety
/// `key` must be a live object.
unsafe fn hash_of(key: *mut ffi::PyObject) -> isize {
    // SAFETY: passed on.
    if unsafe { ffi::PyUnicode_CheckExact(key) } == 0 {
        return 0;
    }
    // SAFETY: an exact string.
    unsafe { ffi::PyObject_Hash(key) }
}

fn watcher() -> Option<Watcher> {
    static WATCHER: OnceLock<Option<Watcher>> = OnceLock::new();
    *WATCHER.get_or_init(|| {
        if py().version_info().minor != 12 {
            return None;
        }
        let process = libloading::os::unix::Library::this();
        // SAFETY: the types are those of CPython's header; the interpreter stays loaded, and the callback lives for ever.
        let (number, watch) = unsafe {
            let add = process.get::<unsafe extern "C" fn(Callback) -> c_int>(b"PyDict_AddWatcher\0").ok()?;
            let watch = process.get(b"PyDict_Watch\0").ok()?;
            (add(changed), *watch)
        };
        if number < 0 {
            drop(pyo3::PyErr::take(py()));
            return None;
        }
        Some(Watcher { number, watch })
    })
}

/// Asks to be told of changes to one key of a dict, or to any. Keys other than strings count as one.
fn watch(watcher: Watcher, dict: &Obj, key: Option<&Obj>) -> bool {
    // SAFETY: a live dict (checked by all callers).
    if unsafe { (watcher.watch)(watcher.number, dict.ptr()) } < 0 {
        drop(pyo3::PyErr::take(py()));
        return false;
    }
    let mut interest = INTEREST.lock().unwrap_or_else(PoisonError::into_inner);
    let keys = interest.get_or_insert_default().entry(dict.id()).or_insert_with(|| Some(FxHashSet::default()));
    match (keys.as_mut(), key) {
        (Some(keys), Some(key)) => {
            // SAFETY: a live key.
            keys.insert(unsafe { hash_of(key.ptr()) });
        }
        _ => *keys = None,
    }
    true
}

/// What is known to hold until something changes.
pub struct Warm {
    epoch: u64,
    /// The values of sources that hang on watched dicts.
    pub base: Rc<Vec<Option<Obj>>>,
    /// Instances whose dicts are watched: one may be given another dict as a whole.
    owners: Vec<(Obj, usize)>,
    /// The checks that are made all the same.
    pub rest: Vec<usize>,
}

impl Warm {
    pub fn is_valid(&self) -> bool {
        self.epoch == EPOCH.load(Ordering::Relaxed)
            && self.owners.iter().all(|(owner, dict)| instance_dict(owner).is_some_and(|now| now.id() == *dict))
    }

    /// After all checks have held: which of them need not be made again.
    pub fn new(checks: &[Check], sources: &Sources, values: &mut Values<'_>) -> Option<Warm> {
        let watcher = watcher()?;
        let mut study = Study { watcher, sources, values, stable: FxHashMap::default(), owners: FxHashMap::default() };
        let rest: Vec<usize> = (0..checks.len()).filter(|n| !study.is_settled(&checks[*n])).collect();
        let mut base = vec![None; study.values.found.len()];
        for (id, _) in study.stable.iter().filter(|(_, stable)| **stable) {
            if let Some(slot) = base.get_mut(id.0 as usize) {
                slot.clone_from(&study.values.found[id.0 as usize]);
            }
        }
        let owners = study.owners.into_values().collect();
        Some(Warm { epoch: EPOCH.load(Ordering::Relaxed), base: Rc::new(base), owners, rest })
    }
}

struct Study<'a, 'b> {
    watcher: Watcher,
    sources: &'a Sources,
    values: &'a mut Values<'b>,
    stable: FxHashMap<SourceId, bool>,
    owners: FxHashMap<usize, (Obj, usize)>,
}

impl Study<'_, '_> {
    fn value(&mut self, id: SourceId) -> Option<Obj> {
        self.values.get(self.sources, id)
    }

    /// Whether the check cannot fail before a watched dict changes.
    fn is_settled(&mut self, check: &Check) -> bool {
        match check {
            Check::Is(id, _) | Check::Equal(id, _) => self.is_stable(*id),
            Check::Same(a, b) | Check::Different(a, b) => self.is_stable(*a) && self.is_stable(*b),
            // An instance may be given another class.
            Check::Type(id, _) => self.is_stable(*id) && self.value(*id).is_some_and(|v| types().is_scalar(&v)),
            Check::NoKey(id, key) | Check::HasKey(id, key) => self.is_stable(*id) && self.watch_dict(*id, Some(key)),
            // An OrderedDict changes its order without a word.
            Check::Keys(id, _) => {
                self.is_stable(*id) && self.value(*id).is_some_and(|d| d.class_is(types().dict)) && self.watch_dict(*id, None)
            }
            Check::NoAttr(id, name) => self.is_stable(*id) && self.watch_attr(*id, name),
            _ => false,
        }
    }

    fn watch_dict(&mut self, id: SourceId, key: Option<&Obj>) -> bool {
        let Some(dict) = self.value(id).filter(|d| d.is_instance_of(types().dict)) else { return false };
        watch(self.watcher, &dict, key)
    }

    fn watch_attr(&mut self, id: SourceId, name: &Obj) -> bool {
        let Some(owner) = self.value(id) else { return false };
        let Some(dict) = instance_dict(&owner) else { return false };
        self.owners.entry(owner.id()).or_insert_with(|| (owner.clone(), dict.id()));
        watch(self.watcher, &dict, Some(name))
    }

    fn is_stable(&mut self, id: SourceId) -> bool {
        if let Some(known) = self.stable.get(&id) {
            return *known;
        }
        let stable = self.find_stable(id);
        self.stable.insert(id, stable);
        stable
    }

    fn find_stable(&mut self, id: SourceId) -> bool {
        match self.sources.get(id) {
            Source::Root | Source::Pinned(_) => self.value(id).is_some(),
            Source::Attr(of, name) => {
                let in_dict = |owner: &Obj| instance_dict(owner).is_some_and(|dict| dict_get(&dict, &name.0).is_some());
                self.is_stable(*of) && self.value(*of).is_some_and(|owner| in_dict(&owner)) && self.watch_attr(*of, &name.0)
            }
            Source::Value(of, key) => self.is_stable(*of) && self.watch_dict(*of, Some(&key.0)),
            Source::Item(of, _) => self.is_stable(*of) && self.value(*of).is_some_and(|v| v.class_is(types().tuple)),
            Source::Compute(function, args) => {
                !args.is_empty() && builtins::reads_data_only(&function.0) && args.iter().all(|arg| self.is_stable_data(*arg))
            }
            _ => false,
        }
    }

    /// Data that cannot change by itself, or a dict that is watched.
    fn is_stable_data(&mut self, id: SourceId) -> bool {
        if !self.is_stable(id) {
            return false;
        }
        let Some(value) = self.value(id) else { return false };
        match value.is_instance_of(types().dict) {
            true => watch(self.watcher, &value, None),
            false => types().is_scalar(&value) || types().is_pinnable(&value),
        }
    }
}
