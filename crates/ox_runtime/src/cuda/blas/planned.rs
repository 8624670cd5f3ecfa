//! A product that is done again and again: the way that the library takes, workspaces, and what is launched when the library is not asked any more.

use super::fastest;
use super::library::{Product, Way};
use super::shape::Shape;
use crate::cuda::driver::{Stream, driver};
use crate::cuda::launched::alone;
use crate::cuda::repeat::{Extent, Repeat};
use crate::error::RunError;
use crate::exec::rows::Hears;
use crate::tensor::Tensor;
use ox_ir::{DType, Device};
use smallvec::SmallVec;
use std::ptr::null_mut;

/// As far behind its start as a part of an operand may begin.
const ANYWHERE: u64 = 1 << 40;
/// What is kept from call to call.
const SMALL_WORKSPACE: usize = 4096;
/// For so many streams at most.
const MOST_STREAMS: usize = 64;

/// A product with everything worked out but the addresses.
pub struct Planned {
    shape: Shape,
    product: Product,
    way: Way,
    /// No other way is looked for.
    settled: bool,
    /// Workspaces, and the streams that they belong to: most are a few bytes, which cost more to ask for than to keep. They stay: a call may not be on its stream yet.
    small: Vec<(Stream, Tensor)>,
    repeated: Repeated,
}

/// When the ways of a large product are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// In the first call: the second may be recorded.
    AtOnce,
    /// In the second: the first one is waited for long enough.
    Later,
    Never,
}

/// How a product is done when it comes again: the library takes longer to say what is to be launched than to launch it.
enum Repeated {
    /// It was never done: the library may have to load what it needs, which cannot be watched.
    Unknown,
    /// The library did it.
    Once,
    Known(Repeat),
    /// By the library.
    Never,
}

/// Where the operands of a call lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    pub a: *const u8,
    pub b: *const u8,
    pub out: *mut u8,
    pub bias: Option<*const u8>,
}

impl Addresses {
    /// With that of the workspace, as words. `Addresses::from_words` is the way back.
    fn words(&self, space: *mut u8) -> SmallVec<[u64; 5]> {
        let bias = self.bias.map(|bias| bias as u64);
        [self.a as u64, self.b as u64, self.out as u64]
            .into_iter()
            .chain(bias)
            .chain((!space.is_null()).then_some(space as u64))
            .collect()
    }

    fn from_words(words: &[u64], has_bias: bool) -> (Addresses, *mut u8) {
        let word = |at: usize| words.get(at).map_or(null_mut(), |word| *word as *mut u8);
        let bias = has_bias.then(|| word(3).cast_const());
        let at = Addresses { a: word(0), b: word(1), out: word(2), bias };
        (at, word(3 + usize::from(has_bias)))
    }
}

impl Planned {
    /// The device must be current. None where the library knows no way.
    pub fn new(shape: &Shape, device: u8) -> Option<Planned> {
        let product = Product::new(shape, device)?;
        let known = fastest::known(device, shape);
        let settled = known.is_some() || !fastest::is_worth_it(shape);
        let way = known.or_else(|| product.ways(1).pop())?;
        Some(Planned { shape: shape.clone(), product, way, settled, small: Vec::new(), repeated: Repeated::Unknown })
    }

    /// Whether the library took it: `out = alpha * a @ b + bias`, and what comes behind it. The device must be current.
    ///
    /// # Safety
    /// The operands must have the layouts of the shape, and live until the stream has done it.
    pub unsafe fn run(
        &mut self,
        at: Addresses,
        alpha: f32,
        stream: Stream,
        device: Device,
        when: When,
    ) -> Result<bool, RunError> {
        // SAFETY: the caller's promise (likewise below).
        unsafe { self.settle(&at, alpha, stream, device, when)? };
        let (space, _held) = self.workspace(stream, device)?;
        self.learn(&at, space, alpha, stream, device);
        if unsafe { self.again(&at, space, stream) } {
            return Ok(true);
        }
        let _alone = alone();
        Ok(unsafe { self.product.multiply(&at, &self.way, space, alpha, stream) })
    }

    /// Takes the fastest way, if it is time to look for it. The result is computed there in each of them: it has the same bits.
    ///
    /// SAFETY: as for `run`.
    unsafe fn settle(&mut self, at: &Addresses, alpha: f32, stream: Stream, device: Device, when: When) -> Result<(), RunError> {
        let is_time = match when {
            When::AtOnce => true,
            When::Later => !matches!(self.repeated, Repeated::Unknown),
            When::Never => false,
        };
        let Device::Cuda(number) = device else { return Ok(()) };
        if self.settled || !is_time || is_recorded(stream) {
            return Ok(());
        }
        self.settled = true;
        if let Some(known) = fastest::known(number, &self.shape) {
            self.way = known;
            return Ok(());
        }
        if !fastest::has_time() {
            return Ok(());
        }
        let ways = fastest::comparable(&self.product, self.way, self.way.workspace.max(SMALL_WORKSPACE));
        let most = ways.iter().map(|way| way.workspace).max().unwrap_or(0);
        let held = (most > 0).then(|| new_workspace(most, device)).transpose()?;
        let space = held.as_ref().map_or(Ok(null_mut()), |held| held.as_ref().data_ptr())?;
        // SAFETY: the caller's promise (likewise below).
        let multiply = |way: &Way| unsafe { self.product.multiply(at, way, space, alpha, stream) };
        // What goes wrong here is told where the product is done.
        if let Ok(way) = unsafe { fastest::find(&ways, (number, &self.shape), at.out, stream, multiply) } {
            self.way = way;
        }
        Ok(())
    }

    /// Whether `hears` has heard of all that a call puts on the stream: of one that is known, and whose workspace stays.
    pub fn tell(&mut self, at: Addresses, stream: Stream, device: Device, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let space = match self.way.workspace {
            0 => Some(null_mut()),
            _ => self.kept_workspace(stream, device)?,
        };
        let (Some(space), Repeated::Known(repeat)) = (space, &mut self.repeated) else { return Ok(false) };
        let words = at.words(space);
        Ok(repeat.takes(&words) && repeat.at(&words).iter().all(|launched| hears(&launched.what, &launched.words)))
    }

    /// Watches the second call, unless somebody records it: what the first has loaded is there.
    fn learn(&mut self, at: &Addresses, space: *mut u8, alpha: f32, stream: Stream, device: Device) {
        let (Repeated::Unknown | Repeated::Once, Device::Cuda(device)) = (&self.repeated, device) else { return };
        if let Repeated::Unknown = self.repeated {
            self.repeated = Repeated::Once;
        } else if !is_recorded(stream) {
            let call = |moved: &[Extent], stream: Stream| {
                let words: SmallVec<[u64; 5]> = moved.iter().map(|extent| extent.start).collect();
                let (at, space) = Addresses::from_words(&words, at.bias.is_some());
                // SAFETY: nothing runs on a stream that is watched.
                unsafe { self.product.multiply(&at, &self.way, space, alpha, stream) }.then(Vec::new)
            };
            // Parts of matrices are found wherever they begin.
            let given: SmallVec<[Extent; 5]> =
                at.words(space).into_iter().map(|start| Extent { start, bytes: ANYWHERE }).collect();
            let repeat = Repeat::of(device, &given, call).filter(|repeat| repeat.scratch == 0);
            self.repeated = repeat.map_or(Repeated::Never, Repeated::Known);
        }
    }

    /// Whether it is done, without the library.
    ///
    /// SAFETY: as for `run`.
    unsafe fn again(&mut self, at: &Addresses, space: *mut u8, stream: Stream) -> bool {
        let Repeated::Known(repeat) = &mut self.repeated else { return false };
        let words = at.words(space);
        if !repeat.takes(&words) {
            return false;
        }
        // SAFETY: the caller's promise.
        let done = unsafe { repeat.run(&words, stream) };
        if !done {
            self.repeated = Repeated::Never;
        }
        done
    }

    /// For a call on the stream, and what must be held until the call is on it. What is not kept is given back then: whoever gets it next on the stream runs behind
    /// this call. What a graph is recorded with belongs to the graph, which may run when other calls do.
    fn workspace(&mut self, stream: Stream, device: Device) -> Result<(*mut u8, Option<Tensor>), RunError> {
        if self.way.workspace == 0 {
            return Ok((null_mut(), None));
        }
        if let Some(kept) = self.kept_workspace(stream, device)? {
            return Ok((kept, None));
        }
        let fresh = new_workspace(self.way.workspace, device)?;
        Ok((fresh.as_ref().data_ptr()?, Some(fresh)))
    }

    /// One that stays, if it is small.
    fn kept_workspace(&mut self, stream: Stream, device: Device) -> Result<Option<*mut u8>, RunError> {
        if self.way.workspace > SMALL_WORKSPACE || is_recorded(stream) {
            return Ok(None);
        }
        if let Some((_, known)) = self.small.iter().find(|(of, _)| *of == stream) {
            return known.as_ref().data_ptr().map(Some);
        }
        if self.small.len() == MOST_STREAMS {
            return Ok(None);
        }
        // Whatever way is taken later.
        let fresh = new_workspace(SMALL_WORKSPACE, device)?;
        let start = fresh.as_ref().data_ptr()?;
        self.small.push((stream, fresh));
        Ok(Some(start))
    }
}

fn new_workspace(bytes: usize, device: Device) -> Result<Tensor, RunError> {
    Tensor::empty_strided(&[bytes as i64], &[1], DType::U8, device)
}

fn is_recorded(stream: Stream) -> bool {
    driver().is_ok_and(|driver| driver.is_capturing(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_words_and_back() {
        let places: Vec<*mut u8> = (1..6).map(|n| (n << 8) as *mut u8).collect();
        for (bias, space) in [(true, true), (true, false), (false, true), (false, false)] {
            let space = if space { places[4] } else { null_mut() };
            let at = Addresses { a: places[0], b: places[1], out: places[2], bias: bias.then(|| places[3].cast_const()) };
            assert_eq!(Addresses::from_words(&at.words(space), bias), (at, space));
        }
    }
}
