//! Index expressions as text.

use ox_ir::abi::NARROW;
use ox_ir::kernel::{Inst, Kernel};
use ox_ir::sym::{Atom, Monomial, Sym, Var, VarKind};

pub fn name(var: &Var) -> String {
    let kind = match var.kind() {
        VarKind::Size => 's',
        VarKind::Axis => 'i',
        VarKind::Loaded => 'j',
    };
    format!("{kind}{}", var.id())
}

pub fn text(sym: &Sym) -> String {
    let mut parts: Vec<String> = sym.terms().iter().map(|(mono, factor)| term(mono, *factor)).collect();
    if sym.constant() != 0 || parts.is_empty() {
        parts.push(literal(sym.constant()));
    }
    parts.join(" + ").replace("+ -", "- ")
}

/// As `text`, fit to be multiplied.
pub fn factor(sym: &Sym) -> String {
    if sym.as_const().is_some() || sym.as_var().is_some() { text(sym) } else { format!("({})", text(sym)) }
}

fn literal(x: i64) -> String {
    if x.unsigned_abs() < 1 << 31 { x.to_string() } else { super::ctype::long(x) }
}

fn term(mono: &Monomial, factor: i64) -> String {
    let atoms: Vec<String> = mono.iter().map(atom).collect();
    match factor {
        1 => atoms.join(" * "),
        _ => format!("{} * {}", literal(factor), atoms.join(" * ")),
    }
}

fn atom(atom: &Atom) -> String {
    match atom {
        Atom::Var(var) => name(var),
        Atom::Div(p) => format!("{}({}, {})", if is_plain(p) { "quot" } else { "floor_div" }, text(&p.0), text(&p.1)),
        Atom::Mod(p) => format!("{}({}, {})", if is_plain(p) { "rem" } else { "floor_mod" }, text(&p.0), text(&p.1)),
        Atom::Min(p) => format!("least(idx({}), idx({}))", text(&p.0), text(&p.1)),
        Atom::Max(p) => format!("most(idx({}), idx({}))", text(&p.0), text(&p.1)),
    }
}

/// Whether unsigned division will do.
fn is_plain(p: &(Sym, Sym)) -> bool {
    p.0.is_nonneg() && p.1.is_positive()
}

/// How indices are computed.
pub enum Width {
    /// In 32 bits. That is right for sizes with which all of these fit.
    Narrow(Vec<Sym>),
    Wide,
}

/// The divisions of 64 bits that find a point's place take longer than most of what is computed there: they are for sizes that need them. A careful kernel
/// takes all sizes.
pub fn width(kernel: &Kernel, careful: bool) -> Width {
    let exprs = expressions(kernel);
    if exprs.iter().all(fits) && kernel.sizes.iter().all(|v| v.hi() < NARROW) {
        return Width::Narrow(Vec::new());
    }
    let mut limits: Vec<Sym> = Vec::new();
    let sizes = kernel.sizes.iter().map(Sym::var);
    let is_bounded = exprs.into_iter().chain(sizes).all(|sym| reach(&sym, &mut limits).is_some());
    let (known, mut open): (Vec<Sym>, Vec<Sym>) = limits.into_iter().partition(|limit| limit.as_const().is_some());
    if careful || !is_bounded || known.iter().any(|limit| limit.as_const() >= Some(NARROW)) {
        return Width::Wide;
    }
    open.sort_unstable_by_key(ToString::to_string);
    open.dedup();
    Width::Narrow(open)
}

/// The most that an expression can be in magnitude, as an expression of sizes, which goes to the limits. None if that is not known.
fn reach(sym: &Sym, limits: &mut Vec<Sym>) -> Option<Sym> {
    let mut all = Sym::from(sym.constant().checked_abs()?);
    for (mono, factor) in sym.terms() {
        let mut most = Sym::from(factor.checked_abs()?);
        for atom in mono {
            most = &most * &reach_of(atom, limits)?;
        }
        all = &all + &most;
    }
    limits.push(all.clone());
    Some(all)
}

fn reach_of(atom: &Atom, limits: &mut Vec<Sym>) -> Option<Sym> {
    match atom {
        Atom::Var(var) if var.kind() == VarKind::Size => (var.lo() >= 0).then(|| Sym::var(var)),
        Atom::Var(var) => reach(var.extent()?, limits),
        Atom::Div(p) => {
            let (_, whole) = (reach(&p.1, limits)?, reach(&p.0, limits)?);
            let is_of_sizes = p.1.vars().iter().all(|var| var.kind() == VarKind::Size);
            // One part of many: taken for the whole, all of them together would be far too much.
            Some(if is_plain(p) && is_of_sizes { whole.div(&p.1) } else { whole })
        }
        Atom::Mod(p) => reach(&p.0, limits).and_then(|_| reach(&p.1, limits)),
        Atom::Min(p) | Atom::Max(p) => Some(&reach(&p.0, limits)? + &reach(&p.1, limits)?),
    }
}

/// All that is computed of places.
fn expressions(kernel: &Kernel) -> Vec<Sym> {
    let lengths = kernel.passes.iter().map(|pass| ox_ir::kernel::length(&pass.axes));
    let mut exprs: Vec<Sym> = lengths.chain([kernel.points()]).collect();
    for inst in &kernel.insts {
        match &inst.inst {
            Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => exprs.push(index.clone()),
            Inst::ReduceArg { position, .. } => exprs.push(position.clone()),
            Inst::CheckIndex { extent, .. } => exprs.push(extent.clone()),
            _ => {}
        }
    }
    exprs
}

fn fits(sym: &Sym) -> bool {
    let reach = |(lo, hi): (i64, i64)| lo.unsigned_abs().max(hi.unsigned_abs());
    let mut sum = sym.constant().unsigned_abs();
    for (mono, factor) in sym.terms() {
        let whole = mono.iter().fold(Sym::from(*factor), |product, a| &product * &a.sym());
        sum = sum.saturating_add(reach(whole.bounds()));
        if !mono.iter().all(parts_fit) {
            return false;
        }
    }
    sum < NARROW as u64
}

fn parts_fit(atom: &Atom) -> bool {
    match atom {
        Atom::Var(var) => var.lo() > -NARROW && var.hi() < NARROW,
        Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => fits(&p.0) && fits(&p.1),
    }
}
