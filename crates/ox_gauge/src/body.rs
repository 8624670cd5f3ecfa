//! Where torch keeps what tells of a tensor.

/// Where torch keeps what a check of a tensor looks at, in words from the beginning of a TensorImpl.
#[derive(Clone, Copy)]
pub struct Body {
    /// In a Python object: the pointer to the TensorImpl.
    pub slot: usize,
    pub keys: usize,
    pub rank: usize,
    /// Room for `ROOM` of them, in tensors of as many dimensions at most.
    pub sizes: usize,
    pub strides: usize,
    /// In bytes: torch's number of the type, of two bytes.
    pub number: usize,
    /// torch's own `TensorImpl::requires_grad`.
    pub requires_grad: unsafe extern "C" fn(*const usize) -> bool,
}

/// Sizes that a TensorImpl has room for; more lie elsewhere.
pub const ROOM: usize = 5;
/// The word of a Python object that names its class.
pub(crate) const CLASS: usize = 1;

/// What is compared as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub class: usize,
    pub keys: usize,
    pub number: u16,
    pub rank: usize,
    pub requires_grad: Option<bool>,
}

impl Body {
    /// Whether an object is a tensor of a kind. Its sizes and strides are written, and what lies behind them.
    ///
    /// # Safety
    /// A live object; `ROOM` words to write to at both places.
    #[inline(always)]
    pub unsafe fn read(&self, object: *const usize, kind: &Kind, sizes: *mut i64, strides: *mut i64) -> bool {
        // SAFETY: the class is that of a tensor that was described, so there is a body, with everything in its place.
        unsafe {
            if *object.add(CLASS) != kind.class {
                return false;
            }
            let body = *object.add(self.slot) as *const usize;
            let number = body.cast::<u8>().add(self.number).cast::<u16>().read_unaligned();
            let others =
                (*body.add(self.keys) ^ kind.keys) | (*body.add(self.rank) ^ kind.rank) | usize::from(number ^ kind.number);
            sizes.cast::<[i64; ROOM]>().write_unaligned(body.add(self.sizes).cast::<[i64; ROOM]>().read());
            strides.cast::<[i64; ROOM]>().write_unaligned(body.add(self.strides).cast::<[i64; ROOM]>().read());
            others == 0 && kind.requires_grad.is_none_or(|wanted| (self.requires_grad)(body) == wanted)
        }
    }
}
