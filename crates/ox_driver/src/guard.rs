//! Panics as values.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_value_with_its_place() {
        let Panic(text) = guarded(|| panic!("seven is {}", 7)).unwrap_err();
        assert!(text.contains("seven is 7") && text.contains("guard.rs"), "{text}");
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
