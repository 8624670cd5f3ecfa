//! Kernels touch nothing outside of their buffers: each lies between two pages that may not be touched.

mod support;
use ox_ir::abi::KernelError;
use support::*;

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn mprotect(at: *mut u8, bytes: usize, protection: i32) -> i32;
    fn munmap(at: *mut u8, bytes: usize) -> i32;
}

/// 64 KiB covers every page size in use.
const PAGE: usize = 1 << 16;

/// One page with a forbidden one on either side.
struct Fenced {
    start: *mut u8,
}

impl Fenced {
    fn new() -> Fenced {
        // SAFETY: a private anonymous mapping (2 | 32) that may be read and written (1 | 2), its ends then closed (0).
        unsafe {
            let start = mmap(std::ptr::null_mut(), 3 * PAGE, 3, 34, -1, 0);
            assert!(!start.is_null() && start as isize != -1);
            assert_eq!(mprotect(start, PAGE, 0), 0);
            assert_eq!(mprotect(start.add(2 * PAGE), PAGE, 0), 0);
            Fenced { start }
        }
    }

    /// `bytes` that end at the upper fence, or start at the lower one.
    fn place(&self, bytes: usize, at_end: bool) -> *mut u8 {
        // SAFETY: inside the open page.
        unsafe { self.start.add(if at_end { 2 * PAGE - bytes } else { PAGE }) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`.
        unsafe { munmap(self.start, 3 * PAGE) };
    }
}

/// (element bytes, elements as a multiple of s0, kernel).
const KERNELS: [(usize, usize, &str); 7] = [
    (
        4,
        1,
        "kernel copy(b0: f32 in, b1: f32 out, i0 < s0) lanes=outer {\n  pass {\n    v0 = load b0[i0]\n    store b1[i0] v0\n  }\n}\n",
    ),
    (
        1,
        1,
        "kernel bytes(b0: u8 in, b1: u8 out, i0 < s0) lanes=outer {\n  pass {\n    v0 = load b0[i0]\n    store b1[i0] v0\n  }\n}\n",
    ),
    (
        2,
        1,
        "kernel halves(b0: bf16 in, b1: bf16 out, i0 < s0) lanes=outer {\n  pass {\n    v0 = load b0[i0]\n    store b1[s0 - 1 - i0] v0\n  }\n}\n",
    ),
    (
        8,
        1,
        "kernel flip(b0: f64 in, b1: f64 out, i0 < s0) lanes=outer {\n  pass {\n    v0 = load b0[s0 - 1 - i0]\n    store b1[i0] v0\n  }\n}\n",
    ),
    (
        4,
        3,
        "kernel strided(b0: i32 in, b1: i32 out, i0 < 3, i1 < s0) lanes=outer {\n  pass {\n    v0 = load b0[3*i1 + i0]\n    store b1[3*i1 + i0] v0\n  }\n}\n",
    ),
    (
        1,
        3,
        "kernel strided_bytes(b0: bool in, b1: bool out, i0 < 3, i1 < s0) lanes=outer {\n  pass {\n    v0 = load b0[3*i1 + i0]\n    store b1[3*i1 + i0] v0\n  }\n}\n",
    ),
    (
        4,
        3,
        "kernel rows(b0: f32 in, b1: f32 out, i0 < 3) lanes=inner {\n  pass i1 < s0 {\n    v0 = load b0[s0*i0 + i1]\n    v1 = reduce max v0\n  }\n  pass i1 < s0 {\n    v2 = load b0[s0*i0 + i1]\n    v3 = maximum v1 v2\n    store b1[s0*i0 + i1] v3\n  }\n}\n",
    ),
];

#[test]
fn no_kernel_reads_or_writes_behind_the_fence() {
    let (input, output) = (Fenced::new(), Fenced::new());
    for (bytes, factor, text) in KERNELS {
        let kernel = compile(&format!("sizes s0 in 0..\n{text}"));
        for n in 0..70usize {
            for at_end in [true, false] {
                let room = n * factor * bytes;
                let pointers = [input.place(room, at_end), output.place(room, at_end)];
                let mut error = KernelError::default();
                let points = if text.contains("lanes=inner") { 3 } else { n * factor };
                // SAFETY: a fault here is what this test looks for.
                unsafe { (kernel.function)(pointers.as_ptr(), [n as i64].as_ptr(), 0, points as i64, &mut error) };
            }
        }
    }
}
