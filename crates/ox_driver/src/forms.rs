//! The form in which kernels are compiled. With variable sizes code takes what it needs of sizes as arguments, and kernels that are one apart
//! from their numbers are compiled once (the layers of a UNet at three resolutions: 25 kernels become 18). Without, those that differ in where they
//! begin to read and write alone are one: the 128 steps of a recurrent network that is written as a loop.

use crate::cache::Key;
use ox_ir::Kernel;
use ox_ir::lift::{Lift, Lifted};
use rustc_hash::{FxHashMap, FxHashSet};

/// So many kernels for known sizes are worth one that is told where it begins.
const STEPS: usize = 4;

/// Of each kernel, in order. Numbers become arguments only where that makes one kernel of several: known strides are as good or better.
pub(crate) fn forms(kernels: &[Kernel]) -> Vec<Lifted> {
    let own: Vec<Lifted> = kernels.iter().map(|kernel| lifted(kernel, Lift::Sizes)).collect();
    let common: Vec<Lifted> = kernels.iter().map(|kernel| lifted(kernel, Lift::Numbers)).collect();
    let mut shared: FxHashMap<Key, FxHashSet<Key>> = FxHashMap::default();
    for (own, common) in own.iter().zip(&common) {
        shared.entry(Key::new(&common.kernel)).or_default().insert(Key::new(&own.kernel));
    }
    let choose = |(own, common): (Lifted, Lifted)| {
        let enough = if own.kernel.sizes.is_empty() { STEPS } else { 2 };
        if shared[&Key::new(&common.kernel)].len() >= enough { common } else { own }
    };
    own.into_iter().zip(common).map(choose).collect()
}

fn lifted(kernel: &Kernel, how: Lift) -> Lifted {
    match (kernel.sizes.is_empty(), how) {
        (false, how) => kernel.lifted(how),
        (true, Lift::Numbers) => kernel.lifted(Lift::Places),
        (true, _) => Lifted { kernel: kernel.clone(), sizes: Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(channels: i64, length: &str) -> Kernel {
        let text = format!(
            "sizes s0 in 1.. kernel k(b0: f32 in, b1: f32 out, i0 < 8) lanes=inner {{
               pass i1 < {channels}, i2 < {length} {{ v0 = load b0[{channels}*{length}*i0 + {length}*i1 + i2] v1 = reduce sum v0 }}
               pass {{ store b1[i0] v1 }} }}"
        );
        Kernel::parse(&text).unwrap()
    }

    #[test]
    fn what_differs_in_numbers_only_is_one() {
        let forms = forms(&[rows(2, "s0"), rows(3, "s0*s0"), rows(2, "s0")]);
        assert!(forms.iter().all(|form| form.kernel == forms[0].kernel));
        assert_eq!(forms[0].sizes.iter().map(|sym| sym.eval(&|_| Some(5)).unwrap()).collect::<Vec<_>>(), [8, 2, 5, 10]);
    }

    #[test]
    fn numbers_stay_where_nothing_is_shared() {
        let forms = forms(&[rows(3, "s0*s0"), rows(3, "s0*s0")]);
        assert!(forms[0].kernel.to_string().contains("i1 < 3"));
        assert_eq!(forms[0].kernel, forms[1].kernel);
    }

    fn step(place: i64) -> Kernel {
        let text = format!(
            "kernel k(b0: f32 in, b1: f32 out, i0 < 8) lanes=outer {{ pass {{ v0 = load b0[i0 + {place}] store b1[i0] v0 }} }}"
        );
        Kernel::parse(&text).unwrap()
    }

    #[test]
    fn steps_of_a_loop_are_one() {
        let of = |count: i64| forms(&(1..=count).map(|n| step(8 * n)).collect::<Vec<_>>());
        assert!(of(4).iter().all(|form| form.kernel == of(4)[0].kernel));
        assert!(of(3).iter().all(|form| form.sizes.is_empty()));
    }

    #[test]
    fn known_sizes_are_left_alone() {
        let kernels = [rows(2, "64"), rows(3, "64")].map(|kernel| Kernel { sizes: Vec::new(), ..kernel });
        let forms = forms(&kernels);
        assert!(forms.iter().zip(&kernels).all(|(form, kernel)| form.kernel == *kernel && form.sizes.is_empty()));
    }
}
