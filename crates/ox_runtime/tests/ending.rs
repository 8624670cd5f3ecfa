//! The end of the interpreter, in a process of its own: nothing is compiled behind it.

use ox_runtime::{Gate, end_background, submit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

static DONE: AtomicUsize = AtomicUsize::new(0);

fn compile() {
    std::thread::sleep(Duration::from_millis(100));
    DONE.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn the_end_waits_for_whoever_compiles_and_nobody_begins_behind_it() {
    let (begun, begins) = channel();
    let in_gate = begun.clone();
    std::thread::spawn(move || {
        let _gate = Gate::enter();
        let _ = in_gate.send(());
        compile();
    });
    let in_job = move || {
        let _ = begun.send(());
        compile();
    };
    submit(vec![Box::new(in_job), Box::new(compile)], false, 1);
    (0..2).for_each(|_| begins.recv().expect("both begin"));

    end_background();
    assert_eq!(DONE.load(Ordering::SeqCst), 2);
    assert!(Gate::enter().is_none());
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(DONE.load(Ordering::SeqCst), 2);
    end_background();
}
