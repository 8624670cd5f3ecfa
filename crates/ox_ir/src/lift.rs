//! A Kernel that is given what it would compute of sizes. Kernels that differ only in how sizes make up strides and extents (the same layer at
//! several resolutions) are then one, and code that runs for every point has no arithmetic of sizes in it.

use crate::kernel::{Axis, Inst, Kernel, Lanes, Role};
use crate::sym::{Atom, Monomial, Sym, Var, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lift {
    /// Expressions of sizes, with all that is known of them.
    Sizes,
    /// Numbers too (but those that vectors are made by), and little is known of any: as many kernels as possible are one.
    Numbers,
    /// Of a kernel without sizes the places in memory where it begins to read and write: the steps of a loop are then one.
    Places,
}

/// A kernel with the expressions whose values its sizes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lifted {
    pub kernel: Kernel,
    pub sizes: Vec<Sym>,
}

impl Kernel {
    pub fn lifted(&self, how: Lift) -> Lifted {
        let mut lifter =
            Lifter { how, arguments: Vec::new(), axes: BTreeMap::new(), lanes: lane_axes(self), divided: divided(self) };
        let mut kernel = self.clone();
        kernel.axes.iter_mut().chain(kernel.passes.iter_mut().flat_map(|pass| &mut pass.axes)).for_each(|axis| lifter.axis(axis));
        kernel.insts.iter_mut().for_each(|inst| lifter.inst(&mut inst.inst));
        kernel.sizes = lifter.arguments.iter().map(|(_, var)| var.clone()).collect();
        Lifted { kernel, sizes: lifter.arguments.into_iter().map(|(sym, _)| sym).collect() }
    }
}

/// The innermost axes, and the one along which the lanes run.
fn lane_axes(kernel: &Kernel) -> BTreeSet<Var> {
    let outer = kernel.axes.last().filter(|_| kernel.lanes == Lanes::Outer);
    kernel.passes.iter().filter_map(|pass| pass.axes.last()).chain(outer).map(|axis| axis.var.clone()).collect()
}

/// Variables in quotients: that these are small is what lets them be computed in few bits.
fn divided(kernel: &Kernel) -> BTreeSet<Var> {
    let atoms =
        kernel.insts.iter().filter_map(|inst| index_of(&inst.inst)).flat_map(|index| index.terms()).flat_map(|(mono, _)| mono);
    atoms.filter(|atom| !matches!(atom, Atom::Var(_))).flat_map(|atom| atom.sym().vars()).collect()
}

fn index_of(inst: &Inst) -> Option<&Sym> {
    match inst {
        Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => Some(index),
        Inst::ReduceArg { position, .. } => Some(position),
        _ => None,
    }
}

struct Lifter {
    how: Lift,
    arguments: Vec<(Sym, Var)>,
    /// What axes have become.
    axes: BTreeMap<Var, Var>,
    lanes: BTreeSet<Var>,
    divided: BTreeSet<Var>,
}

impl Lifter {
    fn axis(&mut self, axis: &mut Axis) {
        let stays = self.how != Lift::Numbers || self.lanes.contains(&axis.var) || self.divided.contains(&axis.var);
        axis.extent = self.size(&axis.extent, stays);
        let var = Var::axis(axis.var.id(), axis.extent.clone());
        self.axes.insert(axis.var.clone(), var.clone());
        axis.var = var;
    }

    fn inst(&mut self, inst: &mut Inst) {
        if self.how == Lift::Places && !matches!(inst, Inst::Load { .. } | Inst::Store { .. }) {
            return;
        }
        inst.map_syms(|sym, role| match role {
            Role::Index => self.index(sym, false),
            Role::Extent => self.size(sym, true),
        });
    }

    /// An expression of sizes and indices: what indices are multiplied with, and what is added to them, become arguments.
    fn index(&mut self, sym: &Sym, inside: bool) -> Sym {
        let mut factors: BTreeMap<Monomial, Sym> = BTreeMap::from([(Monomial::new(), Sym::from(sym.constant()))]);
        for (mono, number) in sym.terms() {
            let (moving, fixed): (Monomial, Monomial) = mono.iter().cloned().partition(moves);
            let part = product(&fixed, *number);
            let factor = factors.entry(moving).or_insert(Sym::ZERO);
            *factor = &*factor + &part;
        }
        factors.iter().fold(Sym::ZERO, |sum, (moving, factor)| {
            let along_lanes = || moving.iter().any(|atom| atom.any_var(&mut |var| self.lanes.contains(var)));
            let stays = match self.how {
                Lift::Sizes => true,
                Lift::Numbers => inside || along_lanes(),
                Lift::Places => inside || !moving.is_empty(),
            };
            let factor = self.size(factor, stays);
            &sum + &moving.iter().fold(factor, |product, atom| &product * &self.atom(atom))
        })
    }

    fn atom(&mut self, atom: &Atom) -> Sym {
        let (pair, combine): (_, fn(&Sym, &Sym) -> Sym) = match atom {
            Atom::Var(var) => return Sym::var(&self.var(var)),
            Atom::Div(pair) => (pair, Sym::div),
            Atom::Mod(pair) => (pair, Sym::rem),
            Atom::Min(pair) => (pair, Sym::lesser),
            Atom::Max(pair) => (pair, Sym::greater),
        };
        combine(&self.index(&pair.0, true), &self.index(&pair.1, true))
    }

    fn var(&mut self, var: &Var) -> Var {
        match (var.kind(), var.extent()) {
            (VarKind::Loaded, Some(extent)) => Var::loaded(var.id(), self.size(&extent.clone(), true)),
            _ => self.axes.get(var).unwrap_or(var).clone(),
        }
    }

    /// An expression of sizes alone.
    fn size(&mut self, sym: &Sym, numbers_stay: bool) -> Sym {
        match sym.as_const() {
            Some(number) if numbers_stay || number.abs() <= 1 => sym.clone(),
            _ if has_a_value(sym) => self.argument(sym),
            _ => {
                let vars: BTreeMap<Var, Sym> =
                    sym.vars().into_iter().map(|var| (var.clone(), self.argument(&Sym::var(&var)))).collect();
                sym.subst(&|var| vars.get(var).cloned())
            }
        }
    }

    fn argument(&mut self, sym: &Sym) -> Sym {
        if let Some((_, var)) = self.arguments.iter().find(|(known, _)| known == sym) {
            return Sym::var(var);
        }
        let (id, (lo, hi)) = (self.arguments.len() as u32, sym.bounds());
        let var = match self.how {
            Lift::Sizes => Var::size(id, lo, hi, sym.known_divisor().max(1)),
            Lift::Numbers | Lift::Places => Var::size(id, if lo < 0 { i64::MIN } else { lo.min(1) }, i64::MAX, 1),
        };
        self.arguments.push((sym.clone(), var.clone()));
        Sym::var(&var)
    }
}

/// Whether it has loop indices in it, or loaded ones.
fn moves(atom: &Atom) -> bool {
    atom.any_var(&mut |var| var.kind() != VarKind::Size)
}

fn product(mono: &Monomial, number: i64) -> Sym {
    mono.iter().fold(Sym::from(number), |product, atom| &product * &atom.sym())
}

/// Whether nothing in it divides by what may be zero: code that runs for no element computes such things all the same.
fn has_a_value(sym: &Sym) -> bool {
    let of_atom = |atom: &Atom| match atom {
        Atom::Var(_) => true,
        Atom::Div(pair) | Atom::Mod(pair) => pair.1.is_positive() && has_a_value(&pair.0) && has_a_value(&pair.1),
        Atom::Min(pair) | Atom::Max(pair) => has_a_value(&pair.0) && has_a_value(&pair.1),
    };
    sym.terms().iter().flat_map(|(mono, _)| mono).all(of_atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group norm's first sum at a resolution.
    fn planes(channels: i64, side: &str, area: &str) -> Kernel {
        let text = format!(
            "sizes s0 in 4.. by 4
            kernel k(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 32) lanes=inner {{
              pass i1 < {channels}, i2 < {area} {{
                v0 = load b0[{channels}*{side}*i0 + {area}*i1 + i2]
                v1 = load b1[{channels}*i0 + i1]
                v2 = mul v0 v1
                v3 = reduce sum v2
              }}
              pass {{ store b2[i0] v3 }}
            }}"
        );
        Kernel::parse(&text).unwrap()
    }

    #[test]
    fn expressions_of_sizes_become_arguments() {
        let lifted = planes(4, "s0*s0", "s0*s0").lifted(Lift::Sizes);
        lifted.kernel.verify().unwrap();
        let text = lifted.kernel.to_string();
        assert!(text.contains("i1 < 4") && text.contains("b1[4*i0 + i1]") && !text.contains("s0*s0"), "{text}");
        let (area, row) = (lifted.kernel.sizes[0].clone(), lifted.kernel.sizes[1].clone());
        assert_eq!((lifted.sizes.len(), area.divisor(), row.divisor(), area.lo()), (2, 16, 64, 16));
    }

    #[test]
    fn resolutions_share_a_kernel() {
        let one = planes(2, "s0*s0", "s0*s0").lifted(Lift::Numbers);
        let other = planes(4, "(s0//4)*(s0//4)", "(s0//4)*(s0//4)").lifted(Lift::Numbers);
        one.kernel.verify().unwrap();
        assert_eq!(one.kernel, other.kernel);
        let at = |lifted: &Lifted| lifted.sizes.iter().map(|sym| sym.eval(&|_| Some(8)).unwrap()).collect::<Vec<_>>();
        assert_eq!((at(&one), at(&other)), (vec![32, 2, 64, 128], vec![32, 4, 4, 16]));
    }

    #[test]
    fn the_innermost_numbers_stay() {
        let text = "sizes s0 in 1.. kernel k(b0: f32 in, b1: f32 out, i0 < s0) lanes=inner {
            pass i1 < 3, i2 < 768 { v0 = load b0[2304*i0 + 768*i1 + 2*i2] v1 = reduce sum v0 } pass { store b1[i0] v1 } }";
        let text = Kernel::parse(text).unwrap().lifted(Lift::Numbers).kernel.to_string();
        assert!(text.contains("i2 < 768") && text.contains("2*i2") && !text.contains("i1 < 3"), "{text}");
    }

    #[test]
    fn steps_of_a_loop_share_a_kernel() {
        let step = |place: i64| {
            let text = format!(
                "kernel k(b0: i64 in, b1: i64 out, i0 < 4, i1 < 16) lanes=outer {{
                   pass {{ v0 = load b0[128*i0 + i1 + {place}] v1 = index i1 + {place} : i64 v2 = add v0 v1 store b1[16*i0 + i1 + 5] v2 }} }}"
            );
            Kernel::parse(&text).unwrap().lifted(Lift::Places)
        };
        let (one, text) = (step(32), step(32).kernel.to_string());
        one.kernel.verify().unwrap();
        assert!(text.contains("128*i0") && text.contains("index i1 + 32"), "{text}");
        assert_eq!(one.sizes.iter().map(|sym| sym.as_const().unwrap()).collect::<Vec<_>>(), [32, 5]);
        let loads = |step: &Lifted| {
            step.kernel
                .insts
                .iter()
                .filter_map(|inst| match &inst.inst {
                    Inst::Load { index, .. } => Some(index.clone()),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(loads(&one), loads(&step(48)));
    }

    #[test]
    fn what_may_be_divided_by_zero_stays_in_the_kernel() {
        let text = "sizes s0 in 0.., s1 in 0.. kernel k(b0: f32 in, b1: f32 out, i0 < s0) lanes=outer {
            pass { v0 = load b0[i0 + s1//s0] store b1[i0] v0 } }";
        let lifted = Kernel::parse(text).unwrap().lifted(Lift::Sizes);
        assert!(lifted.sizes.iter().all(|sym| sym.as_var().is_some()), "{:?}", lifted.sizes);
    }
}
