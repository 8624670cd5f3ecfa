//! Element types, devices and scalar constants.

use std::fmt;
use std::str::FromStr;

/// The element type of a tensor. Complex types exist so that library calls can carry them; no kernel computes on them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

impl DType {
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether sums of as many floats of the other type as there are do not leave the range of this one.
    pub fn is_roomier_than(self, other: DType) -> bool {
        use DType::*;
        matches!((other, self), (F16, F32) | (F16 | BF16 | F32, F64))
    }

    pub fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// Integers proper: not bool.
    pub fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    pub fn is_signed(self) -> bool {
        !matches!(self, DType::Bool | DType::U8)
    }

    /// The least and the greatest of the integers (and bools) of this type; of other types those of i64.
    pub fn int_range(self) -> (i64, i64) {
        match self {
            DType::Bool => (0, 1),
            DType::U8 => (0, u8::MAX as i64),
            DType::I8 => (i8::MIN as i64, i8::MAX as i64),
            DType::I16 => (i16::MIN as i64, i16::MAX as i64),
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// The type in which torch computes on values of this type: f32 for the half types, itself otherwise.
    pub fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();
    fn from_str(s: &str) -> Result<DType, ()> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Device {
    #[default]
    Cpu,
    Cuda(u8),
    /// A device that we only pass through to library calls.
    Other,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda{n}"),
            Device::Other => f.write_str("other"),
        }
    }
}

impl FromStr for Device {
    type Err = ();
    fn from_str(s: &str) -> Result<Device, ()> {
        match s {
            "cpu" => Ok(Device::Cpu),
            "other" => Ok(Device::Other),
            _ => s.strip_prefix("cuda").and_then(|n| n.parse().ok()).map(Device::Cuda).ok_or(()),
        }
    }
}

/// A constant of one element. Floats compare and hash by their bits, so that -0.0 and NaN are kept apart.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    Float(f64),
    Int(i64),
    Bool(bool),
}

impl Scalar {
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(x) => x,
            Scalar::Int(x) => x as f64,
            Scalar::Bool(x) => x as i64 as f64,
        }
    }

    /// The value as an integer; a float is truncated, as a C cast does.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(x) => x as i64,
            Scalar::Int(x) => x,
            Scalar::Bool(x) => x as i64,
        }
    }

    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(x) => x != 0.0,
            Scalar::Int(x) => x != 0,
            Scalar::Bool(x) => x,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Scalar::Float(x) => (0, x.to_bits()),
            Scalar::Int(x) => (1, x as u64),
            Scalar::Bool(x) => (2, x as u64),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Scalar {}
impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state)
    }
}

/// Floats print so that parsing gives back the same bits: `1.0`, `inf`, `-inf`, `nan`, `1e-5`. A NaN that is not the usual one
/// shows its bits.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(x) if x.to_bits() == f64::NAN.to_bits() => f.write_str("nan"),
            Scalar::Float(x) if x.is_nan() => write!(f, "nan0x{:x}", x.to_bits()),
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Int(x) => write!(f, "{x}"),
            Scalar::Bool(x) => write!(f, "{x}"),
        }
    }
}

impl FromStr for Scalar {
    type Err = ();
    fn from_str(s: &str) -> Result<Scalar, ()> {
        if let Ok(value) = s.parse() {
            return Ok(Scalar::Bool(value));
        }
        if let Ok(value) = s.parse() {
            return Ok(Scalar::Int(value));
        }
        if let Some(bits) = s.strip_prefix("nan0x") {
            return u64::from_str_radix(bits, 16).map(|bits| Scalar::Float(f64::from_bits(bits))).map_err(|_| ());
        }
        s.parse().map(Scalar::Float).map_err(|_| ())
    }
}
