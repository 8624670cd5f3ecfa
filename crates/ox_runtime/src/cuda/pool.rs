//! Threads that compile for GPUs while the program goes on: what is launched first is compiled first, and meanwhile the libraries that it
//! calls get going. They are gone when there is nothing to do.

use crate::background;
use ox_ir::failure::guarded;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

pub type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    /// By urgency, and by number.
    jobs: BTreeMap<(bool, u64), Job>,
    next: u64,
    threads: usize,
    /// Jobs that are being done.
    running: usize,
    /// No job is begun: the process is about to be forked.
    is_held: bool,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: BTreeMap::new(), next: 0, threads: 0, running: 0, is_held: false });
static CHANGED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the jobs done, in order, on up to so many threads; `later`: behind all that are not.
pub fn submit(jobs: Vec<Job>, later: bool, threads: usize) {
    static ONCE: Once = Once::new();
    background::prepare();
    // SAFETY: functions that may be called at these times.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before_fork), Some(behind_fork), Some(in_child));
        libc::atexit(end);
    });
    let mut pool = pool();
    for job in jobs {
        let number = (later, pool.next);
        pool.next += 1;
        pool.jobs.insert(number, job);
    }
    while pool.threads < threads.min(pool.running + pool.jobs.len()) {
        let spawned = std::thread::Builder::new().name("oxytorch nvrtc".into()).spawn(|| work(true));
        if spawned.is_err() {
            break;
        }
        pool.threads += 1;
    }
    let nobody = pool.threads == 0;
    drop(pool);
    if nobody {
        // No thread could be started: then here.
        work(false);
    }
}

/// `counted`: on one of the threads that `Pool` counts.
fn work(counted: bool) {
    while let Some(job) = next(counted) {
        // Whoever waits for it is told by what it drops.
        let _ = guarded(job);
        pool().running -= 1;
        CHANGED.notify_all();
    }
}

/// A thread that finds nothing to do is counted no more, under the same lock: whoever submits next must not rely on it.
fn next(counted: bool) -> Option<Job> {
    let mut pool = CHANGED.wait_while(pool(), |pool| pool.is_held).unwrap_or_else(PoisonError::into_inner);
    let found = pool.jobs.pop_first().map(|(_, job)| job);
    match &found {
        Some(_) => pool.running += 1,
        None => pool.threads -= usize::from(counted),
    }
    found
}

/// Until nobody is in the compiler, whose locks a child would find taken, and whose data goes away at the end of the process.
fn quiet() -> MutexGuard<'static, Pool> {
    let mut pool = pool();
    pool.is_held = true;
    CHANGED.wait_while(pool, |pool| pool.running > 0).unwrap_or_else(PoisonError::into_inner)
}

/// The lock of the pool, from before a fork to behind it.
struct Held(UnsafeCell<Option<MutexGuard<'static, Pool>>>);

// SAFETY: only the thread that forks touches it, while it has the lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before_fork() {
    let pool = quiet();
    // SAFETY: this thread has the lock.
    unsafe { *HELD.0.get() = Some(pool) };
}

extern "C" fn behind_fork() {
    // SAFETY: as above.
    if let Some(mut pool) = unsafe { (*HELD.0.get()).take() } {
        pool.is_held = false;
    }
    CHANGED.notify_all();
}

/// The threads are not here, and CUDA cannot be used either: nothing is compiled any more.
extern "C" fn in_child() {
    // SAFETY: as above.
    if let Some(mut pool) = unsafe { (*HELD.0.get()).take() } {
        (pool.is_held, pool.threads) = (false, 0);
        // What they hold may be locked by a thread that is not here.
        std::mem::forget(std::mem::take(&mut pool.jobs));
    }
}

/// At the end of the process; asked twice it is the same.
pub extern "C" fn end() {
    if background::is_child() {
        return;
    }
    // Never begun again: what is left is not needed.
    drop(quiet());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn numbered(names: &[u32], done: &std::sync::mpsc::Sender<u32>) -> Vec<Job> {
        let job = |name: &u32| {
            let (name, done) = (*name, done.clone());
            Box::new(move || {
                let _ = done.send(name);
            }) as Job
        };
        names.iter().map(job).collect()
    }

    fn received(from: &Receiver<u32>, count: usize) -> Vec<u32> {
        from.iter().take(count).collect()
    }

    /// One test at a time: there is one pool in a process.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever submits right behind its last look gets a thread.
    #[test]
    fn no_job_is_left_to_a_thread_that_ends() {
        let _alone = alone();
        let (done, seen) = channel();
        while pool().threads > 0 {
            std::thread::yield_now();
        }
        // This one.
        pool().threads = 1;
        assert!(next(true).is_none());
        submit(numbered(&[7], &done), false, 1);
        assert_eq!(seen.recv_timeout(std::time::Duration::from_secs(20)), Ok(7));
    }

    #[test]
    fn jobs_are_done_in_order_and_later_ones_behind_the_others() {
        let _alone = alone();
        let (done, seen) = channel();
        // Holds the one thread until everything has been submitted.
        let (go, wait) = channel::<()>();
        let held = move || {
            let _ = wait.recv();
        };
        submit(vec![Box::new(held)], false, 1);
        submit(numbered(&[10, 11], &done), true, 1);
        submit(numbered(&[1, 2, 3], &done), false, 1);
        let _ = go.send(());
        assert_eq!(received(&seen, 5), [1, 2, 3, 10, 11]);

        submit(vec![Box::new(|| panic!("in a job"))], false, 1);
        submit(numbered(&[4], &done), false, 1);
        assert_eq!(received(&seen, 1), [4]);
    }

    #[test]
    fn no_job_is_begun_when_the_process_is_about_to_be_forked() {
        let _alone = alone();
        let (done, seen) = channel();
        // It runs when the fork is wanted, which waits for it; those behind it are many.
        let last = || std::thread::sleep(std::time::Duration::from_millis(50));
        submit(vec![Box::new(last)], false, 1);
        while pool().running == 0 {
            std::thread::yield_now();
        }
        let names: Vec<u32> = (0..500).collect();
        submit(numbered(&names, &done), false, 1);
        before_fork();
        assert!(seen.try_recv().is_err());
        behind_fork();
        assert_eq!(received(&seen, 500), names);
    }
}
