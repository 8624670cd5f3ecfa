//! Sizes that are no constants: variables of a trace, which a call binds when it looks at its tensors.

use ox_ops::{Sym, Var};
use std::fmt;

/// What a graph relies on in a tensor that comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    pub class: usize,
    /// torch's dispatch keys: device, layout, lazy bits, wrappers.
    pub keys: u64,
    pub dtype: i32,
    /// The type as the body of a tensor has it.
    pub number: u16,
    /// The type as people write it.
    pub dtype_name: String,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} strides {:?}", self.dtype_name, self.sizes, self.strides)
    }
}

/// What the variables of traces are in one call.
#[derive(Default)]
pub struct Bound(Vec<Option<i64>>);

impl Bound {
    pub fn get(&self, var: &Var) -> Option<i64> {
        self.0.get(var.id() as usize).copied().flatten()
    }

    pub fn set(&mut self, var: &Var, size: i64) {
        let at = var.id() as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(size);
    }

    /// Of variables by their numbers.
    pub fn set_all(&mut self, sizes: impl Iterator<Item = (u32, i64)> + Clone) {
        let len = sizes.clone().map(|(id, _)| id as usize + 1).max().unwrap_or(0);
        self.0.resize(self.0.len().max(len), None);
        sizes.for_each(|(id, size)| self.0[id as usize] = Some(size));
    }

    pub fn eval(&self, sym: &Sym) -> Option<i64> {
        sym.eval(&|var| self.get(var))
    }

    /// All that are known, by their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, i64)> {
        self.0.iter().enumerate().filter_map(|(id, size)| Some((id as u32, (*size)?)))
    }
}

/// One dimension of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Size {
    Known(i64),
    /// The first place of a variable: a call binds it here.
    Bind(Var),
    Same(Var),
}

/// One stride.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stride {
    Known(i64),
    /// Behind the whole of this dimension: its stride times its size.
    Behind(usize),
}

/// What a graph relies on in a tensor of which some sizes are variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SizedSpec {
    /// As it was when the trace was made.
    pub tensor: TensorSpec,
    pub sizes: Vec<Size>,
    pub strides: Vec<Stride>,
}

impl SizedSpec {
    /// How the strides follow from the sizes, with dimensions from the innermost to the outermost.
    pub fn new(tensor: TensorSpec, sizes: Vec<Size>) -> SizedSpec {
        let mut order: Vec<usize> = (0..sizes.len()).filter(|d| tensor.strides[*d] != 0).collect();
        order.sort_by_key(|d| (tensor.strides[*d], tensor.sizes[*d] != 1, std::cmp::Reverse(*d)));
        let mut strides: Vec<Stride> = tensor.strides.iter().map(|stride| Stride::Known(*stride)).collect();
        for pair in order.windows(2) {
            if tensor.strides[pair[1]] == tensor.strides[pair[0]] * tensor.sizes[pair[0]] {
                strides[pair[1]] = Stride::Behind(pair[0]);
            }
        }
        SizedSpec { tensor, sizes, strides }
    }

    pub fn shape(&self) -> Vec<Sym> {
        let size = |size: &Size| match size {
            Size::Known(n) => Sym::from(*n),
            Size::Bind(var) | Size::Same(var) => Sym::var(var),
        };
        self.sizes.iter().map(size).collect()
    }

    pub fn stride_syms(&self) -> Vec<Sym> {
        let shape = self.shape();
        (0..self.strides.len()).map(|d| self.stride_sym(d, &shape)).collect()
    }

    fn stride_sym(&self, d: usize, shape: &[Sym]) -> Sym {
        match self.strides[d] {
            Stride::Known(n) => Sym::from(n),
            Stride::Behind(inner) => &self.stride_sym(inner, shape) * &shape[inner],
        }
    }

    /// Whether a tensor fits, binding variables on the way.
    pub fn fits(&self, sizes: &[i64], strides: &[i64], bound: &mut Bound) -> bool {
        if sizes.len() != self.sizes.len() {
            return false;
        }
        for (size, found) in self.sizes.iter().zip(sizes) {
            let fits = match size {
                Size::Known(known) => known == found,
                Size::Bind(var) => {
                    bound.set(var, *found);
                    (var.lo()..=var.hi()).contains(found)
                }
                Size::Same(var) => bound.get(var) == Some(*found),
            };
            if !fits {
                return false;
            }
        }
        // The stride of a dimension of size 1 reaches nothing.
        (0..sizes.len()).filter(|d| sizes[*d] != 1).all(|d| match self.strides[d] {
            Stride::Known(known) => known == strides[d],
            Stride::Behind(inner) => strides[inner].checked_mul(sizes[inner]) == Some(strides[d]),
        })
    }

    /// The dimensions that are variables.
    pub fn variable_dims(&self) -> impl Iterator<Item = usize> {
        self.sizes.iter().enumerate().filter(|(_, size)| !matches!(size, Size::Known(_))).map(|(d, _)| d)
    }

    /// The dimensions in which a tensor of these sizes is another one.
    pub fn unlike(&self, sizes: &[i64], bound: &Bound) -> Vec<usize> {
        let differs = |(size, found): (&Size, &i64)| match size {
            Size::Known(known) => known != found,
            Size::Bind(var) => !(var.lo()..=var.hi()).contains(found),
            Size::Same(var) => bound.get(var) != Some(*found),
        };
        self.sizes.iter().zip(sizes).enumerate().filter(|(_, pair)| differs(*pair)).map(|(d, _)| d).collect()
    }
}

impl fmt::Display for SizedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<Sym>| items.iter().map(Sym::to_string).collect::<Vec<_>>().join(", ");
        let (shape, strides) = (list(self.shape()), list(self.stride_syms()));
        write!(f, "{}[{shape}] strides [{strides}]", self.tensor.dtype_name)
    }
}
