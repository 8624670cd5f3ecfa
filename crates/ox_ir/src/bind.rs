//! A Kernel for one list of sizes: the same loops and instructions, with numbers in the place of size variables.

use crate::kernel::{Axis, Kernel};
use crate::sym::{Sym, Var, VarKind};

impl Kernel {
    /// The kernel at these sizes. It is called as the general one is, and does not look at the sizes that it is given.
    /// None if a size has no value.
    pub fn at(&self, value: &dyn Fn(&Var) -> Option<i64>) -> Option<Kernel> {
        if self.sizes.iter().any(|var| value(var).is_none()) {
            return None;
        }
        let mut kernel = Kernel { sizes: Vec::new(), ..self.clone() };
        kernel.axes.iter_mut().for_each(|axis| bind_axis(axis, value));
        kernel.passes.iter_mut().flat_map(|pass| &mut pass.axes).for_each(|axis| bind_axis(axis, value));
        kernel.insts.iter_mut().for_each(|inst| inst.inst.map_syms(|sym, _| bound(sym, value)));
        Some(kernel)
    }
}

fn bind_axis(axis: &mut Axis, value: &dyn Fn(&Var) -> Option<i64>) {
    axis.extent = bound(&axis.extent, value);
    axis.var = Var::axis(axis.var.id(), axis.extent.clone());
}

/// What is known of an index lies in the variable itself: its extent is a number, too, then.
fn bound(sym: &Sym, value: &dyn Fn(&Var) -> Option<i64>) -> Sym {
    sym.subst(&|var| match (var.kind(), var.extent()) {
        (VarKind::Axis, Some(extent)) => Some(Sym::var(&Var::axis(var.id(), bound(extent, value)))),
        (VarKind::Loaded, Some(extent)) => Some(Sym::var(&Var::loaded(var.id(), bound(extent, value)))),
        _ => value(var).map(Sym::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Kernel {
        let text = "sizes s0 in 0.., s1 in 1..
            kernel rows(b0: f32 in, b1: f32 out, i0 < s0) lanes=inner {
              pass i1 < s1 { v0 = load b0[s1*i0 + i1] v1 = reduce sum v0 }
              pass { store b1[i0] v1 }
            }";
        Kernel::parse(text).unwrap()
    }

    #[test]
    fn sizes_become_numbers_everywhere() {
        let kernel = rows().at(&|var| Some([7, 12][var.id() as usize])).unwrap();
        let text = kernel.to_string();
        assert!(!text.contains("s0") && !text.contains("s1"), "{text}");
        assert!(text.contains("i0 < 7") && text.contains("i1 < 12") && text.contains("b0[12*i0 + i1]"), "{text}");
        assert_eq!((kernel.axes[0].var.hi(), kernel.passes[0].axes[0].var.hi()), (6, 11));
    }

    #[test]
    fn a_size_without_a_value_is_refused() {
        assert_eq!(rows().at(&|var| (var.id() == 0).then_some(7)), None);
    }
}
