//! The functions of cuBLASLt that we call, and its descriptors.

use super::ALIGNED;
use super::planned::Addresses;
use super::shape::{Behind, Matrix, Shape};
use crate::abi::{mapped_library, open};
use crate::cuda::driver::Stream;
use libloading::os::unix::Library;
use ox_ir::DType;
use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

type Status = c_int;
type Handle = *mut c_void;

/// The most memory that an algorithm may ask for: torch's own for this library on the GPUs that need most.
const WORKSPACE: usize = 32 << 20;

const COMPUTE_F32: c_int = 68;
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
const DESC_TRANS_A: c_int = 3;
const DESC_TRANS_B: c_int = 4;
const DESC_EPILOGUE: c_int = 7;
const DESC_BIAS: c_int = 8;
/// The library's epilogues are sums of these.
const EPILOGUE_NONE: c_int = 1;
const EPILOGUE_RELU: c_int = 2;
const EPILOGUE_BIAS: c_int = 4;
const EPILOGUE_GELU: c_int = 32;
const CONFIG_PARTS: c_int = 2;
const LAYOUT_BATCH: c_int = 5;
const LAYOUT_BATCH_STEP: c_int = 6;
const PREFER_WORKSPACE: c_int = 1;
const PREFER_REDUCTION: c_int = 3;
/// Of A, B, C and D.
const PREFER_ALIGNED: [c_int; 4] = [5, 6, 7, 8];
/// Parts of a sum are added in f32 and in one order, whatever the user allows.
const REDUCE_IN_F32: u32 = 2;

/// A way to do a product: `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Way {
    pub(super) algorithm: [u64; 8],
    pub(super) workspace: usize,
    pub(super) state: Status,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
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
    choose "cublasLtMatmulAlgoGetHeuristic" (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Way, *mut c_int);
    configuration "cublasLtMatmulAlgoConfigGetAttribute" (*const c_void, c_int, *mut c_void, usize, *mut usize);
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

/// A product as the library knows it: everything but the addresses and the way.
pub struct Product {
    lt: &'static Lt,
    handle: Handle,
    product: Described,
    left: Described,
    right: Described,
    out: Described,
    preference: Described,
    /// The bias that the descriptor names.
    bias: *const u8,
}

// SAFETY: descriptors of the library may be used from any thread, one at a time.
unsafe impl Send for Product {}

impl Product {
    /// The device must be current.
    pub fn new(shape: &Shape, device: u8) -> Option<Product> {
        let lt = lt()?;
        Some(Product {
            lt,
            handle: handle(lt, device)?,
            product: lt.product(shape)?,
            left: lt.matrix(shape, &shape.left)?,
            right: lt.matrix(shape, &shape.right)?,
            out: lt.matrix(shape, &shape.out)?,
            preference: lt.preference(shape.out_aligned)?,
            bias: null(),
        })
    }

    /// Ways to do it, so many at most, that which the library takes for the fastest first.
    pub fn ways(&self, most: usize) -> Vec<Way> {
        let (mut found, mut count) = (vec![Way::default(); most], 0);
        // SAFETY: live descriptors; there is room for as many results.
        let status = unsafe {
            (self.lt.choose)(
                self.handle,
                self.product.handle,
                self.left.handle,
                self.right.handle,
                self.out.handle,
                self.out.handle,
                self.preference.handle,
                most as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        found.truncate(if status == 0 { count as usize } else { 0 });
        found.retain(|way| way.state == 0);
        found
    }

    /// Into how many parts a way cuts the sums, which are added at the end. None where the library does not say.
    pub fn parts(&self, way: &Way) -> Option<u32> {
        let (mut parts, mut written) = (0u32, 0);
        let (algorithm, into) = (from_ref(&way.algorithm).cast(), (&raw mut parts).cast());
        // SAFETY: an algorithm of the library's, and room for its attribute.
        let status = unsafe { (self.lt.configuration)(algorithm, CONFIG_PARTS, into, size_of::<u32>(), &mut written) };
        (status == 0).then_some(parts)
    }

    /// Whether the library took it: `out = alpha * a @ b + bias`, and what comes behind it. The device must be current.
    ///
    /// # Safety
    /// The operands must have the layouts of the shape, the workspace the size that the way asks for, and all must live until the stream has done it.
    pub unsafe fn multiply(&mut self, at: &Addresses, way: &Way, space: *mut u8, alpha: f32, stream: Stream) -> bool {
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
                from_ref(&way.algorithm).cast(),
                space.cast(),
                way.workspace,
                stream.0,
            )
        };
        status == 0
    }
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
        product.set(DESC_EPILOGUE, epilogue(shape))?;
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

fn epilogue(shape: &Shape) -> c_int {
    let behind = match shape.behind {
        Behind::Nothing => 0,
        Behind::Relu => EPILOGUE_RELU,
        Behind::Gelu => EPILOGUE_GELU,
    };
    match behind + if shape.bias { EPILOGUE_BIAS } else { 0 } {
        0 => EPILOGUE_NONE,
        some => some,
    }
}
