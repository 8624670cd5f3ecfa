//! Matrix products in 16 bits by cuBLASLt, called by its own functions: what torch asks the library for in every call (descriptors, the
//! algorithm) is worked out in the first one.

use super::driver::{Stream, driver};
use super::launched::alone;
use super::repeat::{Extent, Repeat};
use crate::abi::{mapped_library, open};
use crate::error::RunError;
use crate::exec::layout::Layout;
use crate::exec::rows::Hears;
use crate::tensor::Tensor;
use libloading::os::unix::Library;
use ox_ir::{DType, Device};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

type Status = c_int;
type Handle = *mut c_void;

/// What all addresses, rows and steps from matrix to matrix are multiples of, in bytes.
const ALIGNED: usize = 16;
/// The most memory that an algorithm may ask for: torch's own for this library on the GPUs that need most.
const WORKSPACE: usize = 32 << 20;

/// From so many rows and columns on it counts where the rows of a result begin.
pub const LARGE: i64 = 512;

/// As far behind its start as a part of an operand may begin.
const ANYWHERE: u64 = 1 << 40;

/// What is kept from call to call.
const SMALL_WORKSPACE: usize = 4096;
/// For so many streams at most.
const MOST_STREAMS: usize = 64;

const COMPUTE_F32: c_int = 68;
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
const DESC_TRANS_A: c_int = 3;
const DESC_TRANS_B: c_int = 4;
const DESC_EPILOGUE: c_int = 7;
const DESC_BIAS: c_int = 8;
const EPILOGUE_BIAS: c_int = 4;
const LAYOUT_BATCH: c_int = 5;
const LAYOUT_BATCH_STEP: c_int = 6;
const PREFER_WORKSPACE: c_int = 1;
const PREFER_REDUCTION: c_int = 3;
/// Of A, B, C and D.
const PREFER_ALIGNED: [c_int; 4] = [5, 6, 7, 8];
/// Parts of a sum are added in f32 and in one order, whatever the user allows.
const REDUCE_IN_F32: u32 = 2;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    algorithm: [u64; 8],
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! library {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        struct Lt {
            $($field: unsafe extern "C" fn($($arg),*) -> Status,)*
        }

        impl Lt {
            /// SAFETY: `library` must be libcublasLt.
            unsafe fn load(library: &Library) -> Result<Lt, libloading::Error> {
                // SAFETY: the functions have the types that cublasLt.h declares.
                unsafe { Ok(Lt { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

library! {
    create "cublasLtCreate" (*mut Handle);
    new_product "cublasLtMatmulDescCreate" (*mut Handle, c_int, c_int);
    set_product "cublasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
    delete_product "cublasLtMatmulDescDestroy" (Handle);
    new_matrix "cublasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
    set_matrix "cublasLtMatrixLayoutSetAttribute" (Handle, c_int, *const c_void, usize);
    delete_matrix "cublasLtMatrixLayoutDestroy" (Handle);
    new_preference "cublasLtMatmulPreferenceCreate" (*mut Handle);
    set_preference "cublasLtMatmulPreferenceSetAttribute" (Handle, c_int, *const c_void, usize);
    delete_preference "cublasLtMatmulPreferenceDestroy" (Handle);
    choose "cublasLtMatmulAlgoGetHeuristic" (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Found, *mut c_int);
    multiply "cublasLtMatmul" (
        Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void, *const c_void, Handle,
        *mut c_void, Handle, *const c_void, *mut c_void, usize, Handle);
}

/// The library that torch has loaded; None where it is not there, and torch does the products.
fn lt() -> Option<&'static Lt> {
    static LT: OnceLock<Option<Lt>> = OnceLock::new();
    let find = || {
        let library = open(&mapped_library("libcublasLt.so")?, libc::RTLD_NOLOAD).ok()?;
        // SAFETY: by its name.
        let found = unsafe { Lt::load(&library) }.ok();
        // The functions are used until the process ends.
        std::mem::forget(library);
        found
    };
    LT.get_or_init(find).as_ref()
}

/// One for each device, made while it is current. It is never destroyed.
fn handle(lt: &Lt, device: u8) -> Option<Handle> {
    static HANDLES: Mutex<Vec<(u8, usize)>> = Mutex::new(Vec::new());
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = handles.iter().find(|(known, _)| *known == device) {
        return Some(*known as Handle);
    }
    let mut fresh = null_mut();
    // SAFETY: one pointer is written.
    (unsafe { (lt.create)(&mut fresh) } == 0).then_some(())?;
    handles.push((device, fresh as usize));
    Some(fresh)
}

/// A matrix as the library sees it: columns lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Matrix {
    rows: i64,
    columns: i64,
    /// From column to column, in elements.
    step: i64,
    /// From matrix to matrix.
    batch_step: i64,
    /// It is read with rows and columns exchanged.
    flipped: bool,
}

/// A product that the library can do: our rows are its columns, so our right-hand side is its left-hand one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    dtype: DType,
    batch: i64,
    left: Matrix,
    right: Matrix,
    out: Matrix,
    bias: bool,
    /// What the result's address and rows are multiples of, in bytes.
    out_aligned: usize,
}

impl Shape {
    /// Of two or three dimensions, the same for all three; a bias is one vector for all rows.
    pub fn of(a: &Layout, b: &Layout, out: &Layout, bias: Option<&Layout>) -> Option<Shape> {
        let dtype = out.dtype;
        let batch = if out.rank() == 3 { out.sizes[0] } else { 1 };
        let is_vector = |bias: &Layout| bias.rank() == 1 && bias.strides[0] == 1;
        if !matches!(dtype, DType::BF16 | DType::F16) || bias.is_some_and(|bias| !is_vector(bias) || batch > 1) {
            return None;
        }
        let out = Matrix::of(out).filter(|out| !out.flipped)?;
        let (left, right, bias) = (Matrix::of(b)?, Matrix::of(a)?, bias.is_some());
        let fits =
            left.is_aligned(dtype) && right.is_aligned(dtype) && (out.is_aligned(dtype) || batch == 1 && out.has_short_rows());
        let out_aligned = ALIGNED.min(1 << (out.step as usize * dtype.size()).trailing_zeros());
        fits.then_some(Shape { dtype, batch, left, right, out, bias, out_aligned })
    }

    /// The last few columns of a linear layer, as many as `columns`, among rows that begin anywhere.
    pub fn of_last_columns(a: &Layout, b: &Layout, out: &Layout, bias: bool, columns: i64) -> Option<Shape> {
        let ([rows, depth], [row_step, 1], [1, b_step]) = (&a.sizes[..], &out.strides[..], &b.strides[..]) else { return None };
        let left = Matrix { rows: *depth, columns, step: *b_step, batch_step: 0, flipped: true };
        let out_matrix = Matrix { rows: columns, columns: *rows, step: *row_step, batch_step: 0, flipped: false };
        let (dtype, right) = (out.dtype, Matrix::of(a)?);
        let fits = *b_step >= *depth && left.is_aligned(dtype) && right.is_aligned(dtype);
        fits.then_some(Shape { dtype, batch: 1, left, right, out: out_matrix, bias, out_aligned: dtype.size() })
    }

    /// Whether a product of this shape can be done there.
    pub fn fits(&self, at: &Addresses) -> bool {
        let bias = at.bias.map_or(0, |bias| bias as usize);
        (at.a as usize | at.b as usize | bias).is_multiple_of(ALIGNED) && (at.out as usize).is_multiple_of(self.out_aligned)
    }
}

impl Matrix {
    /// Ours of rows and columns is the library's of columns and rows, unless it lies across.
    fn of(layout: &Layout) -> Option<Matrix> {
        let r = layout.rank();
        let (rows, columns) = (layout.sizes[r - 2], layout.sizes[r - 1]);
        let batch_step = if r == 3 { layout.strides[0] } else { 0 };
        // Of a dimension of one element the stride says nothing: that is left to torch.
        if rows < 2 || columns < 2 || r > 3 {
            return None;
        }
        let fits = |step: i64, length: i64| step >= length;
        match (layout.strides[r - 2], layout.strides[r - 1]) {
            (step, 1) if fits(step, columns) => Some(Matrix { rows: columns, columns: rows, step, batch_step, flipped: false }),
            (1, step) if fits(step, rows) => Some(Matrix { rows, columns, step, batch_step, flipped: true }),
            _ => None,
        }
    }

    /// Whether rows of a result are so short that they may begin anywhere (the scores of a few classes): the kernels for those are slow, which longer ones feel.
    fn has_short_rows(&self) -> bool {
        self.rows < LARGE
    }

    fn is_aligned(&self, dtype: DType) -> bool {
        let whole = |elements: i64| (elements as usize * dtype.size()).is_multiple_of(ALIGNED);
        self.batch_step >= 0 && whole(self.step) && whole(self.batch_step)
    }
}

/// What belongs to a descriptor of the library's.
struct Described {
    handle: Handle,
    delete: unsafe extern "C" fn(Handle) -> Status,
    set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
}

impl Described {
    fn set<T>(&self, attribute: c_int, value: T) -> Option<()> {
        // SAFETY: a live descriptor, and a value of the attribute's type.
        (unsafe { (self.set)(self.handle, attribute, from_ref(&value).cast(), size_of::<T>()) } == 0).then_some(())
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once.
        unsafe { (self.delete)(self.handle) };
    }
}

/// A product with everything worked out but the addresses.
pub struct Planned {
    lt: &'static Lt,
    handle: Handle,
    product: Described,
    left: Described,
    right: Described,
    out: Described,
    found: Found,
    /// The bias that the descriptor names.
    bias: *const u8,
    /// Workspaces, and the streams that they belong to: most are a few bytes, which cost more to ask for than to keep. They stay: a call may not be on its stream yet.
    small: Vec<(Stream, Tensor)>,
    repeated: Repeated,
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

// SAFETY: descriptors of the library may be used from any thread, one at a time.
unsafe impl Send for Planned {}

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
        let lt = lt()?;
        let handle = handle(lt, device)?;
        let product = lt.product(shape)?;
        let (left, right, out) = (lt.matrix(shape, &shape.left)?, lt.matrix(shape, &shape.right)?, lt.matrix(shape, &shape.out)?);
        let preference = lt.preference(shape.out_aligned)?;
        let (mut found, mut count) = (Found::default(), 0);
        // SAFETY: live descriptors; there is room for one result.
        let status = unsafe {
            (lt.choose)(
                handle,
                product.handle,
                left.handle,
                right.handle,
                out.handle,
                out.handle,
                preference.handle,
                1,
                &mut found,
                &mut count,
            )
        };
        (status == 0 && count == 1 && found.state == 0).then_some(())?;
        Some(Planned {
            lt,
            handle,
            product,
            left,
            right,
            out,
            found,
            bias: std::ptr::null(),
            small: Vec::new(),
            repeated: Repeated::Unknown,
        })
    }

    /// Whether the library took it: `out = alpha * a @ b + bias`. The device must be current.
    ///
    /// # Safety
    /// The operands must have the layouts of the shape, and live until the stream has done it.
    pub unsafe fn run(&mut self, at: Addresses, alpha: f32, stream: Stream, device: Device) -> Result<bool, RunError> {
        let (space, _held) = self.workspace(stream, device)?;
        self.learn(&at, space, alpha, stream, device);
        // SAFETY: the caller's promise (likewise below).
        if unsafe { self.again(&at, space, stream) } {
            return Ok(true);
        }
        let _alone = alone();
        Ok(unsafe { self.multiply(&at, space, alpha, stream) })
    }

    /// Whether `hears` has heard of all that a call puts on the stream: of one that is known, and whose workspace stays.
    pub fn tell(&mut self, at: Addresses, stream: Stream, device: Device, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let space = match self.found.workspace {
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
                unsafe { self.multiply(&at, space, alpha, stream) }.then(Vec::new)
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

    /// Whether the library took it.
    ///
    /// SAFETY: as for `run`.
    unsafe fn multiply(&mut self, at: &Addresses, space: *mut u8, alpha: f32, stream: Stream) -> bool {
        if let Some(bias) = at.bias.filter(|bias| *bias != self.bias) {
            if self.product.set(DESC_BIAS, bias).is_none() {
                return false;
            }
            self.bias = bias;
        }
        let beta = 0f32;
        // SAFETY: the caller's promise; nothing is read of C where beta is 0.
        let status = unsafe {
            (self.lt.multiply)(
                self.handle,
                self.product.handle,
                from_ref(&alpha).cast(),
                at.b.cast(),
                self.left.handle,
                at.a.cast(),
                self.right.handle,
                from_ref(&beta).cast(),
                at.out.cast(),
                self.out.handle,
                at.out.cast(),
                self.out.handle,
                from_ref(&self.found.algorithm).cast(),
                space.cast(),
                self.found.workspace,
                stream.0,
            )
        };
        status == 0
    }

    /// For a call on the stream, and what must be held until the call is on it. What is not kept is given back then: whoever gets it next on the stream runs behind
    /// this call. What a graph is recorded with belongs to the graph, which may run when other calls do.
    fn workspace(&mut self, stream: Stream, device: Device) -> Result<(*mut u8, Option<Tensor>), RunError> {
        if self.found.workspace == 0 {
            return Ok((null_mut(), None));
        }
        if let Some(kept) = self.kept_workspace(stream, device)? {
            return Ok((kept, None));
        }
        let fresh = self.new_workspace(device)?;
        Ok((fresh.as_ref().data_ptr()?, Some(fresh)))
    }

    /// One that stays, if it is small.
    fn kept_workspace(&mut self, stream: Stream, device: Device) -> Result<Option<*mut u8>, RunError> {
        if self.found.workspace > SMALL_WORKSPACE || is_recorded(stream) {
            return Ok(None);
        }
        if let Some((_, known)) = self.small.iter().find(|(of, _)| *of == stream) {
            return known.as_ref().data_ptr().map(Some);
        }
        if self.small.len() == MOST_STREAMS {
            return Ok(None);
        }
        let fresh = self.new_workspace(device)?;
        let start = fresh.as_ref().data_ptr()?;
        self.small.push((stream, fresh));
        Ok(Some(start))
    }

    fn new_workspace(&self, device: Device) -> Result<Tensor, RunError> {
        Tensor::empty_strided(&[self.found.workspace as i64], &[1], DType::U8, device)
    }
}

fn is_recorded(stream: Stream) -> bool {
    driver().is_ok_and(|driver| driver.is_capturing(stream))
}

impl Lt {
    fn product(&self, shape: &Shape) -> Option<Described> {
        let mut handle = null_mut();
        // SAFETY: one pointer is written.
        (unsafe { (self.new_product)(&mut handle, COMPUTE_F32, R_32F) } == 0).then_some(())?;
        let product = Described { handle, delete: self.delete_product, set: self.set_product };
        // Ours lie in rows: what is not across is what the library expects.
        product.set(DESC_TRANS_A, c_int::from(shape.left.flipped))?;
        product.set(DESC_TRANS_B, c_int::from(shape.right.flipped))?;
        if shape.bias {
            product.set(DESC_EPILOGUE, EPILOGUE_BIAS)?;
        }
        Some(product)
    }

    fn matrix(&self, shape: &Shape, matrix: &Matrix) -> Option<Described> {
        let dtype = if shape.dtype == DType::BF16 { R_16BF } else { R_16F };
        let mut handle = null_mut();
        // SAFETY: one pointer is written.
        let status = unsafe { (self.new_matrix)(&mut handle, dtype, matrix.rows as u64, matrix.columns as u64, matrix.step) };
        (status == 0).then_some(())?;
        let described = Described { handle, delete: self.delete_matrix, set: self.set_matrix };
        if shape.batch != 1 {
            described.set(LAYOUT_BATCH, c_int::try_from(shape.batch).ok()?)?;
            described.set(LAYOUT_BATCH_STEP, matrix.batch_step)?;
        }
        Some(described)
    }

    fn preference(&self, out_aligned: usize) -> Option<Described> {
        let mut handle = null_mut();
        // SAFETY: one pointer is written.
        (unsafe { (self.new_preference)(&mut handle) } == 0).then_some(())?;
        let preference = Described { handle, delete: self.delete_preference, set: self.set_preference };
        preference.set(PREFER_WORKSPACE, WORKSPACE)?;
        preference.set(PREFER_REDUCTION, REDUCE_IN_F32)?;
        let aligned = [ALIGNED, ALIGNED, out_aligned, out_aligned];
        PREFER_ALIGNED.iter().zip(aligned).try_for_each(|(which, bytes)| preference.set(*which, bytes as u32))?;
        Some(preference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dtype: DType, sizes: &[i64], strides: &[i64]) -> Layout {
        Layout { dtype, sizes: sizes.into(), strides: strides.into() }
    }

    fn half(sizes: &[i64], strides: &[i64]) -> Layout {
        layout(DType::BF16, sizes, strides)
    }

    #[test]
    fn a_linear_layer_is_our_weight_across_times_our_rows() {
        let (a, weight, out) = (half(&[32, 64], &[64, 1]), half(&[64, 48], &[1, 64]), half(&[32, 48], &[48, 1]));
        let shape = Shape::of(&a, &weight, &out, Some(&half(&[48], &[1]))).unwrap_or_else(|| panic!("it can be done"));
        assert_eq!(shape.left, Matrix { rows: 64, columns: 48, step: 64, batch_step: 0, flipped: true });
        assert_eq!(shape.right, Matrix { rows: 64, columns: 32, step: 64, batch_step: 0, flipped: false });
        assert_eq!(shape.out, Matrix { rows: 48, columns: 32, step: 48, batch_step: 0, flipped: false });
        assert!(shape.bias && shape.batch == 1);
    }

    #[test]
    fn addresses_are_words_and_back() {
        let places: Vec<*mut u8> = (1..6).map(|n| (n << 8) as *mut u8).collect();
        for (bias, space) in [(true, true), (true, false), (false, true), (false, false)] {
            let space = if space { places[4] } else { null_mut() };
            let at = Addresses { a: places[0], b: places[1], out: places[2], bias: bias.then(|| places[3].cast_const()) };
            assert_eq!(Addresses::from_words(&at.words(space), bias), (at, space));
        }
    }

    #[test]
    fn a_batch_has_its_steps() {
        let (a, b, out) = (half(&[4, 16, 8], &[128, 8, 1]), half(&[4, 8, 24], &[192, 24, 1]), half(&[4, 16, 24], &[384, 24, 1]));
        let shape = Shape::of(&a, &b, &out, None).unwrap_or_else(|| panic!("it can be done"));
        assert_eq!((shape.batch, shape.left.batch_step, shape.right.batch_step, shape.out.batch_step), (4, 192, 128, 384));
        assert!(!shape.left.flipped && !shape.right.flipped);
    }

    #[test]
    fn scores_of_a_few_classes_begin_anywhere() {
        let shape = |classes: i64| {
            let (a, weight, out) =
                (half(&[32, 64], &[64, 1]), half(&[64, classes], &[1, 64]), half(&[32, classes], &[classes, 1]));
            Shape::of(&a, &weight, &out, Some(&half(&[classes], &[1]))).map(|shape| shape.out_aligned)
        };
        assert_eq!([2, 3, 12, 1000].map(shape), [Some(4), Some(2), Some(8), Some(16)]);
    }

    #[test]
    fn what_the_library_is_not_asked_for() {
        let (a, b, out) = (half(&[32, 64], &[64, 1]), half(&[64, 48], &[48, 1]), half(&[32, 48], &[48, 1]));
        assert!(Shape::of(&a, &b, &out, None).is_some());
        // Rows that begin anywhere; overlapping ones; a single row; a result that lies across; a bias with gaps; f32, which has modes.
        assert!(Shape::of(&half(&[32, 64], &[65, 1]), &b, &out, None).is_none());
        assert!(Shape::of(&half(&[32, 64], &[8, 1]), &b, &out, None).is_none());
        assert!(Shape::of(&half(&[1, 64], &[64, 1]), &b, &half(&[1, 48], &[48, 1]), None).is_none());
        assert!(Shape::of(&a, &b, &half(&[32, 48], &[1, 32]), None).is_none());
        assert!(Shape::of(&a, &b, &out, Some(&half(&[48], &[2]))).is_none());
        assert!(Shape::of(&a, &b, &out, Some(&half(&[32, 48], &[48, 1]))).is_none());
        // A large result whose rows begin anywhere.
        assert!(
            Shape::of(&half(&[512, 64], &[64, 1]), &half(&[64, 513], &[1, 64]), &half(&[512, 513], &[513, 1]), None).is_none()
        );
        let wide = |l: &Layout| layout(DType::F32, &l.sizes, &l.strides);
        assert!(Shape::of(&wide(&a), &wide(&b), &wide(&out), None).is_none());
    }
}
