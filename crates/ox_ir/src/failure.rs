//! Panics as values: a bug in a stage is no end of the process. And faults on demand, so that tests see what users see of a bug.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// What a panic said, with its place in our source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic(pub String);

thread_local! {
    /// Some while this thread is inside `guarded`: the hook leaves the text here instead of printing it.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `f`; a panic in it is returned, not printed. Panics of other threads and outside of `guarded` are reported as before.
pub fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    install_hook();
    let outer = CAUGHT.replace(Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    let text = CAUGHT.replace(outer).unwrap_or_default();
    result.map_err(|_| Panic(text))
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let quiet = CAUGHT.with_borrow_mut(|slot| match slot {
                Some(text) => {
                    *text = info.to_string().replace('\n', " ");
                    true
                }
                None => false,
            });
            if !quiet {
                previous(info);
            }
        }));
    });
}

/// Whether a fault is wanted somewhere: all that `fault` looks at otherwise.
static ARMED: AtomicBool = AtomicBool::new(false);
static WANTED: Mutex<Option<String>> = Mutex::new(None);

/// From now on this stage panics, or with "slow " in front takes long, or with "refused " is not done; None ends that.
pub fn inject(stage: Option<&str>) {
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = stage.map(str::to_string);
    ARMED.store(stage.is_some(), Ordering::Release);
}

/// Stands at the beginning of a stage.
pub fn fault(stage: &str) {
    if ARMED.load(Ordering::Acquire) {
        strike(stage);
    }
}

/// Stands where something outside may refuse to do a thing: whether it does, for tests.
pub fn is_refused(what: &str) -> bool {
    ARMED.load(Ordering::Acquire) && wanted().strip_prefix("refused ") == Some(what)
}

#[cold]
fn wanted() -> String {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

#[cold]
fn strike(stage: &str) {
    let wanted = wanted();
    if wanted == stage {
        panic!("a fault was injected into {stage}");
    }
    if wanted.strip_prefix("slow ") == Some(stage) {
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_value_with_its_place() {
        let Panic(text) = guarded(|| panic!("seven is {}", 7)).unwrap_err();
        assert!(text.contains("seven is 7") && text.contains("failure.rs"), "{text}");
    }

    #[test]
    fn a_fault_hits_its_stage_alone() {
        inject(Some("second"));
        assert!(guarded(|| fault("first")).is_ok() && guarded(|| fault("second")).is_err());
        inject(Some("refused second"));
        assert!(is_refused("second") && !is_refused("first") && guarded(|| fault("second")).is_ok());
        inject(None);
        assert!(!is_refused("second") && guarded(|| fault("second")).is_ok());
    }

    #[test]
    fn guards_nest() {
        let outer = guarded(|| {
            assert!(guarded(|| panic!("inner")).is_err());
            3
        });
        assert_eq!(outer, Ok(3));
        let Panic(text) = guarded(|| {
            let _ = guarded(|| 1);
            panic!("outer")
        })
        .unwrap_err();
        assert!(text.contains("outer"), "{text}");
    }
}
