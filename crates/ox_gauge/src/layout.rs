//! What the sizes and strides of many tensors must be, with all of them in two arrays.

use crate::sizes::{Bound, Size, SizedSpec, Stride};
use ox_ops::Var;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Of one call, tensor behind tensor.
pub struct Sizes {
    pub sizes: SmallVec<[i64; 32]>,
    pub strides: SmallVec<[i64; 32]>,
}

impl Sizes {
    pub fn new(len: usize) -> Sizes {
        Sizes { sizes: SmallVec::from_elem(0, len), strides: SmallVec::from_elem(0, len) }
    }
}

#[derive(Default)]
pub struct Layouts {
    /// By place: the least and the most that a size may be.
    least: Vec<i64>,
    most: Vec<i64>,
    /// By place: a stride that is known, and all bits where it is.
    known: Vec<i64>,
    is_known: Vec<i64>,
    /// A stride, and the dimension behind the whole of which it reaches.
    behind: Vec<(u32, u32)>,
    /// Sizes that are one variable.
    same: Vec<(u32, u32)>,
    /// Where variables are bound, and their numbers.
    vars: Vec<(u32, u32)>,
    places: FxHashMap<u32, u32>,
}

impl Layouts {
    /// How many numbers each of the two arrays has.
    pub fn width(&self) -> usize {
        self.least.len()
    }

    /// The next tensor. None if a variable is bound elsewhere.
    pub fn add(&mut self, spec: &SizedSpec) -> Option<()> {
        let first = self.width() as u32;
        for (d, size) in spec.sizes.iter().enumerate() {
            let at = first + d as u32;
            let (least, most) = match size {
                Size::Known(known) => (*known, *known),
                Size::Bind(var) => {
                    self.vars.push((at, var.id()));
                    self.places.insert(var.id(), at);
                    (var.lo(), var.hi())
                }
                Size::Same(var) => {
                    self.same.push((at, self.place(var)?));
                    (0, i64::MAX)
                }
            };
            self.least.push(least);
            self.most.push(most);
        }
        for (d, stride) in spec.strides.iter().enumerate() {
            let (known, is_known) = match stride {
                Stride::Known(known) => (*known, -1),
                Stride::Behind(inner) => {
                    self.behind.push((first + d as u32, first + *inner as u32));
                    (0, 0)
                }
            };
            self.known.push(known);
            self.is_known.push(is_known);
        }
        Some(())
    }

    /// Where a variable is read.
    pub fn place(&self, var: &Var) -> Option<u32> {
        self.places.get(&var.id()).copied()
    }

    pub fn fit(&self, found: &Sizes) -> bool {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.fit_wide(found) };
        }
        self.fit_by(found)
    }

    /// The same, compiled for wider registers.
    ///
    /// # Safety
    /// On a processor with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn fit_wide(&self, found: &Sizes) -> bool {
        self.fit_by(found)
    }

    #[inline(always)]
    fn fit_by(&self, found: &Sizes) -> bool {
        let len = self.width();
        let (sizes, strides) = (&found.sizes[..len], &found.strides[..len]);
        let (least, most) = (&self.least[..len], &self.most[..len]);
        let (known, is_known) = (&self.known[..len], &self.is_known[..len]);
        // Negative where a size is out of its range; no size is negative, so nothing overflows.
        let mut beyond = 0;
        let mut others = 0;
        for n in 0..len {
            beyond |= sizes[n] | (sizes[n] - least[n]) | (most[n] - sizes[n]);
            // The stride of a dimension of size 1 reaches nothing.
            others |= if sizes[n] == 1 { 0 } else { (strides[n] ^ known[n]) & is_known[n] };
        }
        let reaches = |(at, inner): &(u32, u32)| {
            let (at, inner) = (*at as usize, *inner as usize);
            sizes[at] == 1 || strides[inner].checked_mul(sizes[inner]) == Some(strides[at])
        };
        let are_same = |(at, first): &(u32, u32)| sizes[*at as usize] == sizes[*first as usize];
        beyond >= 0 && others == 0 && self.same.iter().all(are_same) && self.behind.iter().all(reaches)
    }

    pub fn bind(&self, found: &Sizes, bound: &mut Bound) {
        bound.set_all(self.vars.iter().map(|(at, id)| (*id, found.sizes[*at as usize])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::TensorSpec;
    use smallvec::smallvec;

    fn var(id: u32, lo: i64, hi: i64) -> Var {
        Var::size(id, lo, hi, 1)
    }

    fn spec(sizes: Vec<Size>, at: &[i64], strides: &[i64]) -> SizedSpec {
        let (sizes_then, strides) = (at.to_vec(), strides.to_vec());
        let tensor = TensorSpec { class: 0, keys: 0, dtype: 0, number: 0, dtype_name: String::new(), sizes: sizes_then, strides };
        SizedSpec::new(tensor, sizes)
    }

    /// `[s0, 4, s1]` and `[s1]`, both dense.
    fn layouts() -> (Vec<SizedSpec>, Layouts) {
        let (a, b) = (var(0, 1, 9), var(1, 2, i64::MAX));
        let dense = spec(vec![Size::Bind(a), Size::Known(4), Size::Bind(b.clone())], &[3, 4, 5], &[20, 5, 1]);
        let specs = vec![dense, spec(vec![Size::Same(b)], &[5], &[1])];
        let mut layouts = Layouts::default();
        specs.iter().for_each(|spec| layouts.add(spec).expect("variables are bound before"));
        (specs, layouts)
    }

    /// What the checks say one by one.
    fn one_by_one(specs: &[SizedSpec], sizes: &[i64], strides: &[i64]) -> bool {
        let mut bound = Bound::default();
        let mut at = 0;
        specs.iter().all(|spec| {
            let range = at..at + spec.sizes.len();
            at = range.end;
            spec.fits(&sizes[range.clone()], &strides[range], &mut bound)
        })
    }

    #[test]
    fn it_says_what_the_checks_say() {
        let (specs, layouts) = layouts();
        const NUMBERS: [i64; 9] = [0, 1, 2, 4, 5, 9, 10, 20, 36];
        let mut fits = 0;
        for case in 0..NUMBERS.len().pow(3) * 3 * 4 {
            let number = |n: usize| NUMBERS[case / NUMBERS.len().pow(n as u32) % NUMBERS.len()];
            let [a, b, c] = [0, 1, 2].map(number);
            let rest = case / NUMBERS.len().pow(3);
            let (d, outer) = ([1, 2, 5][rest % 3], [4 * c, 20, 8, 4][rest / 3]);
            let (sizes, strides) = ([a, b, c, d], [outer, c, 1, 1]);
            let found = Sizes { sizes: smallvec![a, b, c, d, 7], strides: smallvec![outer, c, 1, 1, 7] };
            assert_eq!(layouts.fit(&found), one_by_one(&specs, &sizes, &strides), "{sizes:?} {strides:?}");
            assert_eq!(layouts.fit_by(&found), layouts.fit(&found));
            fits += usize::from(layouts.fit(&found));
        }
        assert!(fits > 0);
    }

    #[test]
    fn strides_that_overflow_do_not_fit() {
        let (_, layouts) = layouts();
        let found = Sizes { sizes: smallvec![3, 4, 5, 5], strides: smallvec![0, i64::MAX / 2 + 1, 1, 1] };
        assert!(!layouts.fit(&found));
    }

    #[test]
    fn variables_are_bound() {
        let (_, layouts) = layouts();
        let mut bound = Bound::default();
        layouts.bind(&Sizes { sizes: smallvec![3, 4, 5, 5], strides: smallvec![20, 5, 1, 1] }, &mut bound);
        assert_eq!(bound.all().collect::<Vec<_>>(), [(0, 3), (1, 5)]);
    }
}
