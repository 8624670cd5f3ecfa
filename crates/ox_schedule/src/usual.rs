//! Sizes that are not known, as they may be.

use ox_ir::{Kernel, Sym, Var, kernel};

/// A size of which nothing was seen.
const USUAL: i64 = 64;

/// What is planned for variables is planned for these.
#[derive(Clone, Debug, Default)]
pub struct Usual(Vec<(Var, i64)>);

impl Usual {
    /// As they were seen, or larger in the same proportions: a program is often tried with little first. A batch of 3 images is not planned for
    /// as one of 64: intermediates that are too large to leave the arena then would stay there.
    pub fn like(seen: &[(Var, i64)]) -> Usual {
        let product: f64 = seen.iter().map(|(_, size)| (*size).max(1) as f64).product();
        let wanted = (USUAL as f64).powi(seen.len().min(2) as i32);
        let times = (wanted / product).powf(1.0 / seen.len().max(1) as f64).max(1.0);
        let grown = |(var, size): &(Var, i64)| {
            let size = ((*size).max(1) as f64 * times).round() as i64;
            (var.clone(), size.clamp(var.lo(), var.hi()))
        };
        Usual(seen.iter().map(grown).collect())
    }

    pub fn value(&self, size: &Sym) -> i64 {
        let of =
            |var: &Var| self.0.iter().find(|(known, _)| known == var).map_or(USUAL.clamp(var.lo(), var.hi()), |(_, size)| *size);
        size.eval(&|var| Some(of(var))).unwrap_or(0)
    }

    /// Powers of two, so that kernels for nearly the same sizes are one.
    pub fn of(&self, kernel: &Kernel) -> kernel::Usual {
        let rounded = |size: &Sym| (self.value(size).clamp(1, 1 << 30) as u64).next_power_of_two() as i64;
        let lengths = kernel.passes.iter().filter(|pass| !pass.axes.is_empty()).map(|pass| kernel::length(&pass.axes));
        let varying = lengths.clone().filter(|length| length.as_const().is_none());
        let points = kernel.points();
        kernel::Usual {
            length: varying.map(|length| rounded(&length)).max(),
            points: (lengths.count() > 0 && points.as_const().is_none()).then(|| rounded(&points)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_stay() {
        let vars: Vec<Var> = (0..3).map(|id| Var::size(id, 1, i64::MAX, 1)).collect();
        let values = |seen: &[i64]| {
            let seen: Vec<(Var, i64)> = vars.iter().cloned().zip(seen.iter().copied()).collect();
            let usual = Usual::like(&seen);
            vars.iter().map(|var| usual.value(&Sym::var(var))).collect::<Vec<i64>>()
        };
        assert_eq!(values(&[3, 32, 8]), [5, 56, 14]);
        assert_eq!(values(&[2, 512, 512]), [2, 512, 512]);
        assert_eq!(values(&[13]), [64, USUAL, USUAL]);
        assert_eq!(values(&[]), [USUAL; 3]);
    }
}
