//! The C library's functions, for what has no vector expansion: called lane by lane.
//!
//! Generated code names them with a prefix of ours, so that neither LLVM's idea of a function nor the process's exports matter.

use crate::ir::{Elem, V};

mod c {
    unsafe extern "C" {
        pub fn lgamma_r(x: f64, sign: *mut i32) -> f64;
        pub fn fmod(x: f64, y: f64) -> f64;
        pub fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        pub fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        pub fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8;
    }
}

extern "C" fn lgamma64(x: f64) -> f64 {
    let mut sign = 0;
    // SAFETY: writes one integer. (Plain `lgamma` would write a global, a race between threads.)
    unsafe { c::lgamma_r(x, &mut sign) }
}

macro_rules! wrappers {
    ($($name:ident = $f:expr;)*) => {$(
        extern "C" fn $name(x: f64) -> f64 { $f(x) }
    )*};
}

macro_rules! wrappers_f32 {
    ($($name:ident = $f:expr;)*) => {$(
        extern "C" fn $name(x: f32) -> f32 { $f(x) }
    )*};
}

wrappers! {
    sin64 = f64::sin; cos64 = f64::cos; tan64 = f64::tan;
}

wrappers_f32! {
    sin32 = f32::sin; cos32 = f32::cos; tan32 = f32::tan;
}

extern "C" fn pow64(x: f64, y: f64) -> f64 {
    x.powf(y)
}
extern "C" fn fma32(x: f32, y: f32, z: f32) -> f32 {
    x.mul_add(y, z)
}
extern "C" fn fma64(x: f64, y: f64, z: f64) -> f64 {
    x.mul_add(y, z)
}
extern "C" fn fmod32(x: f32, y: f32) -> f32 {
    x % y
}

/// Gives a function's address.
type Address = fn() -> usize;

/// Every symbol that an object may refer to. The last ones are what LLVM itself may call.
pub const FUNCTIONS: &[(&str, Address)] = &[
    ("ox_sin", || sin64 as *const () as usize),
    ("ox_cos", || cos64 as *const () as usize),
    ("ox_tan", || tan64 as *const () as usize),
    ("ox_lgamma", || lgamma64 as *const () as usize),
    ("ox_pow", || pow64 as *const () as usize),
    ("ox_fmod", || c::fmod as *const () as usize),
    ("ox_sinf", || sin32 as *const () as usize),
    ("ox_cosf", || cos32 as *const () as usize),
    ("ox_tanf", || tan32 as *const () as usize),
    ("ox_fmodf", || fmod32 as *const () as usize),
    ("fmaf", || fma32 as *const () as usize),
    ("fma", || fma64 as *const () as usize),
    ("memcpy", || c::memcpy as *const () as usize),
    ("memmove", || c::memmove as *const () as usize),
    ("memset", || c::memset as *const () as usize),
];

/// The function `name` (without prefix; with `f` appended for f32) of these arguments, lane by lane.
pub fn call<'a>(name: &str, args: &[V<'a>]) -> V<'a> {
    let ir = args[0].ir();
    let suffix = if args[0].elem == Elem::F32 { "f" } else { "" };
    let symbol = format!("ox_{name}{suffix}");
    debug_assert!(FUNCTIONS.iter().any(|(known, _)| *known == symbol), "{symbol} is not in the table");
    ir.map_lanes(args, |parts| ir.call(&symbol, parts, Some((parts[0].elem, 1))))
}

/// `fast`, except in the lanes where `rare` holds: there the C library's function.
pub fn fix_rare_lanes<'a>(fast: V<'a>, rare: V<'a>, name: &str, args: &[V<'a>]) -> V<'a> {
    let ir = fast.ir();
    ir.when_rarely(rare.any(), vec![fast], |fast| vec![rare.select(call(name, args), fast[0])])[0]
}
