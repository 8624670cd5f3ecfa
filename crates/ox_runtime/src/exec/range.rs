//! Ranges for profilers: `torch.profiler` shows `oxytorch::<ops>` for each kernel. While none is at work, a run asks once.

use crate::abi::Abi;
use ox_ir::Kernel;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

/// What a profiler shows for a kernel.
pub fn range_name(kernel: &Kernel) -> CString {
    CString::new(format!("oxytorch::{}", kernel.name)).unwrap_or_default()
}

pub struct Range<'a> {
    abi: &'a Abi,
    open: *mut c_void,
}

impl Range<'_> {
    pub fn begin<'a>(abi: &'a Abi, name: &CStr) -> Range<'a> {
        let mut open = null_mut();
        if let Some(start) = abi.aoti_record_function_start {
            // SAFETY: the name ends in NUL; there are no inputs and no keywords.
            unsafe { start(name.as_ptr(), null_mut(), null(), 0, &mut open) };
        }
        Range { abi, open }
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.abi.aoti_record_function_end.filter(|_| !self.open.is_null()) {
            // SAFETY: begun once, ended once.
            unsafe { end(self.open) };
        }
    }
}
