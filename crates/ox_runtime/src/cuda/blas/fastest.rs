//! The fastest way to do a large product. The library's own guess is as good as any for small ones; of products that take an H200 30 us and more it misses 8 to 17 %
//! in every third (docs/gpu.md). So the ways that it names are timed where the product is done, once for each shape.
//!
//! Only such ways are compared as give the same bits, so that results do not depend on who won: those that cut the sums into as many parts, of which all 45 shapes that were
//! tried had the same results. Here a few rows are compared, which would tell another order of adding unless the data are all alike: then the guess stays.

use super::library::{Product, Way};
use super::shape::Shape;
use crate::cuda::driver::{Driver, Stream, TimedEvent, driver};
use crate::error::RunError;
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so many multiplications: those of larger products take as long as would be gained in hundreds of calls.
const WORTH_IT: RangeInclusive<i64> = 8 << 30..=1 << 40;
/// As many as the library names.
const MOST: usize = 8;
/// How often each way is timed, and how many products are done each time: one alone is told from none by little, if it is not long.
const ROUNDS: usize = 4;
const PRODUCTS: usize = 2;
/// From so many multiplications on both are less.
const LONG: i64 = 64 << 30;
/// All comparisons of a process may take so long: where sizes vary, most shapes do not come often enough to be worth one.
const MOST_TIME: Duration = Duration::from_secs(1);
/// The library's own guess stays unless another takes less than so much of its time.
const CLEARLY: f32 = 0.97;

/// What has been found out, by device, and how long that took.
#[derive(Default)]
struct Settled {
    ways: FxHashMap<(u8, Shape), Way>,
    time: Duration,
}

fn settled() -> MutexGuard<'static, Settled> {
    static SETTLED: LazyLock<Mutex<Settled>> = LazyLock::new(Mutex::default);
    SETTLED.lock().unwrap_or_else(PoisonError::into_inner)
}

static COMPARED: AtomicUsize = AtomicUsize::new(0);

/// For how many products ways have been compared, in this process.
pub fn compared_products() -> usize {
    COMPARED.load(Ordering::Relaxed)
}

/// What has been found out on that device: equal layers are compared once.
pub fn known(device: u8, shape: &Shape) -> Option<Way> {
    is_worth_it(shape).then(|| settled().ways.get(&(device, shape.clone())).copied())?
}

pub fn is_worth_it(shape: &Shape) -> bool {
    WORTH_IT.contains(&shape.work())
}

/// Whether there is time left to compare.
pub fn has_time() -> bool {
    settled().time < MOST_TIME
}

/// The first way and those that give the same bits in a workspace that is not larger.
pub fn comparable(product: &Product, first: Way, most_workspace: usize) -> Vec<Way> {
    let parts = product.parts(&first);
    let fits = |way: &Way| parts.is_some() && product.parts(way) == parts && way.workspace <= most_workspace;
    let others = product.ways(MOST).into_iter().skip(1).filter(fits);
    std::iter::once(first).chain(others).collect()
}

/// The fastest of `ways`, which is known from then on. `multiply` does the product, and says whether the library took it.
///
/// # Safety
/// The product's result must begin at `out`, and live until the stream has done it.
pub unsafe fn find(
    ways: &[Way],
    (device, shape): (u8, &Shape),
    out: *const u8,
    stream: Stream,
    multiply: impl FnMut(&Way) -> bool,
) -> Result<Way, RunError> {
    let (driver, start) = (driver()?, Instant::now());
    COMPARED.fetch_add(1, Ordering::Relaxed);
    let rows = shape.rows_to_compare(out);
    // SAFETY: rows of the result.
    let read = |(start, bytes): &(*const u8, usize)| unsafe { driver.read(*start, *bytes, stream) };
    let read_all = || rows.iter().map(read).collect::<Result<Vec<_>, _>>();
    let (rounds, products) = if shape.work() < LONG { (ROUNDS, PRODUCTS) } else { (ROUNDS / 2, 1) };
    // Somebody else may record, and must not be disturbed.
    let found = driver.beside_captures(|| {
        of(ways, read_all, multiply, |ways, multiply| {
            time(driver, ways, stream, rounds, |way| (0..products).all(|_| multiply(way)))
        })
    });
    let mut settled = settled();
    settled.time += start.elapsed();
    if let Ok(way) = found {
        settled.ways.insert((device, shape.clone()), way);
    }
    found
}

/// The fastest of those that give the same as the first.
fn of<M: FnMut(&Way) -> bool>(
    ways: &[Way],
    read: impl Fn() -> Result<Vec<Vec<u8>>, RunError>,
    mut multiply: M,
    time: impl FnOnce(&[Way], &mut M) -> Result<Vec<f32>, RunError>,
) -> Result<Way, RunError> {
    let mut bits = |way: &Way| if multiply(way) { read().map(Some) } else { Ok(None) };
    let Some(first) = bits(&ways[0])?.filter(|rows| !rows.iter().all(|row| is_uniform(row))) else { return Ok(ways[0]) };
    let mut equal = vec![ways[0]];
    for way in &ways[1..] {
        if bits(way)?.as_ref() == Some(&first) {
            equal.push(*way);
        }
    }
    let times = time(&equal, &mut multiply)?;
    Ok(equal[fastest(&times)])
}

/// Whether all numbers of 16 bits are one: any order of adding gives that.
fn is_uniform(row: &[u8]) -> bool {
    row.chunks_exact(2).all(|number| number == &row[..2])
}

/// The shortest time of each.
fn time(
    driver: &'static Driver,
    ways: &[Way],
    stream: Stream,
    rounds: usize,
    mut multiply: impl FnMut(&Way) -> bool,
) -> Result<Vec<f32>, RunError> {
    let mut spans = Vec::new();
    for _ in 0..rounds {
        for way in ways {
            let (start, end) = (TimedEvent::new(driver)?, TimedEvent::new(driver)?);
            start.record(stream)?;
            let is_done = multiply(way);
            end.record(stream)?;
            spans.push((start, end, is_done));
        }
    }
    driver.wait(stream)?;
    let mut times = vec![f32::INFINITY; ways.len()];
    for (n, (start, end, is_done)) in spans.iter().enumerate() {
        let (place, span) = (&mut times[n % ways.len()], start.until(end)?);
        *place = if *is_done { place.min(span) } else { f32::INFINITY };
    }
    Ok(times)
}

fn fastest(times: &[f32]) -> usize {
    let best = (0..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap_or(0);
    if times[best] < CLEARLY * times[0] { best } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_guess_stays_unless_another_is_clearly_faster() {
        assert_eq!(fastest(&[30.0, 27.0, 26.0, 40.0]), 2);
        assert_eq!(fastest(&[30.0, 29.5, 31.0]), 0);
        assert_eq!(fastest(&[30.0]), 0);
        assert_eq!(fastest(&[f32::INFINITY, f32::INFINITY]), 0);
    }

    fn found(bits: &[&[u8]], times: &[f32]) -> (usize, usize) {
        let ways: Vec<Way> = (0..bits.len()).map(|n| Way { workspace: n, ..Way::default() }).collect();
        let (last, timed) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let read = || Ok(vec![bits[last.get()].to_vec()]);
        let multiply = |way: &Way| {
            last.set(way.workspace);
            true
        };
        let time = |ways: &[Way], _: &mut _| {
            timed.set(ways.len());
            Ok(ways.iter().map(|way| times[way.workspace]).collect())
        };
        (of(&ways, read, multiply, time).map_or(usize::MAX, |way| way.workspace), timed.get())
    }

    #[test]
    fn ways_with_other_bits_do_not_take_part() {
        let (one, other): (&[u8], &[u8]) = (&[1, 2, 3, 4], &[1, 2, 3, 5]);
        assert_eq!(found(&[one, other, one], &[30.0, 10.0, 20.0]), (2, 2));
        assert_eq!(found(&[one, other, other], &[30.0, 10.0, 20.0]), (0, 1));
    }

    #[test]
    fn data_that_are_all_alike_tell_nothing() {
        assert_eq!(found(&[&[1, 2, 1, 2], &[1, 2, 1, 2]], &[30.0, 10.0]), (0, 0));
    }
}
