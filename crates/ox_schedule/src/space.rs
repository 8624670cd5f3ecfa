//! `Space`: the domain that a group of nodes is computed over: axes in row-major order, some of them reduced.

use ox_ir::graph::Shape;
use ox_ir::{Sym, Var};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceAxis {
    pub extent: Sym,
    pub reduced: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Space {
    pub axes: Vec<SpaceAxis>,
}

/// Whether a value has an element for every point of the space, or one for every point of the axes that are not reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Full,
    Row,
}

impl Space {
    pub fn new(shape: &[Sym], reduced: &[usize]) -> Space {
        let axis = |(d, n): (usize, &Sym)| SpaceAxis { extent: n.clone(), reduced: reduced.contains(&d) };
        Space { axes: shape.iter().enumerate().map(axis).filter(|a| !a.extent.is_one()).collect() }
    }

    pub fn has_reduction(&self) -> bool {
        self.axes.iter().any(|a| a.reduced)
    }

    pub fn numel(&self, level: Level) -> Sym {
        self.axes.iter().filter(|a| level == Level::Full || !a.reduced).map(|a| &a.extent).product()
    }

    /// The level at which a tensor of this shape lives here.
    pub fn level_of(&self, shape: &[Sym]) -> Option<Level> {
        let numel: Sym = shape.iter().product();
        [Level::Full, Level::Row].into_iter().find(|level| self.numel(*level) == numel)
    }

    /// Splits axes until every dimension of `shape` is a run of whole axes.
    pub fn refined(&self, shape: &[Sym], level: Level) -> Option<Space> {
        let mut out = Vec::with_capacity(self.axes.len() + 2);
        let mut dims = shape.iter().filter(|n| !n.is_one());
        let mut want = Sym::ONE;
        for axis in &self.axes {
            if level == Level::Row && axis.reduced {
                out.push(axis.clone());
                continue;
            }
            let mut rest = axis.extent.clone();
            while !rest.is_one() {
                if want.is_one() {
                    want = dims.next()?.clone();
                }
                let step = common_step(&rest, &want)?;
                rest = rest.div(&step);
                want = want.div(&step);
                out.push(SpaceAxis { extent: step, reduced: axis.reduced });
            }
        }
        (want.is_one() && dims.next().is_none()).then_some(Space { axes: out })
    }

    /// The space that both refine into, if their elements correspond in row-major order and the same of them are reduced.
    pub fn unified(&self, other: &Space) -> Option<Space> {
        if self.numel(Level::Full) != other.numel(Level::Full) {
            return None;
        }
        let shape = |s: &Space| s.axes.iter().map(|a| a.extent.clone()).collect::<Shape>();
        let mine = self.refined(&shape(other), Level::Full)?;
        let theirs = other.refined(&shape(&mine), Level::Full)?;
        let mine = mine.refined(&shape(&theirs), Level::Full)?;
        (mine == theirs).then_some(mine)
    }

    pub fn vars(&self) -> Vec<Var> {
        self.axes.iter().enumerate().map(|(k, a)| Var::axis(k as u32, a.extent.clone())).collect()
    }

    /// Where the value of this shape that belongs to the current point of the space lies. The space must be refined for the shape.
    pub fn coords(&self, vars: &[Var], shape: &[Sym], level: Level) -> Option<Shape> {
        let mut axes = self.axes.iter().zip(vars).filter(|(a, _)| level == Level::Full || !a.reduced);
        let mut out = Shape::new();
        for n in shape {
            let (mut covered, mut coord) = (Sym::ONE, Sym::ZERO);
            while covered != *n {
                let (axis, var) = axes.next()?;
                coord = &(&coord * &axis.extent) + &Sym::var(var);
                covered = &covered * &axis.extent;
                if (&covered - n).is_positive() {
                    return None;
                }
            }
            out.push(coord);
        }
        axes.next().is_none().then_some(out)
    }
}

/// The part that two extents share at their outer end: the smaller one where it divides the other. Nothing is shared with an
/// empty axis: what has no elements is not fused.
fn common_step(a: &Sym, b: &Sym) -> Option<Sym> {
    if a.is_zero() || b.is_zero() {
        return None;
    }
    if a == b || b.rem(a).is_zero() {
        return Some(a.clone());
    }
    a.rem(b).is_zero().then(|| b.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[i64]) -> Shape {
        dims.iter().map(|n| Sym::from(*n)).collect()
    }

    fn extents(space: &Space) -> Vec<i64> {
        space.axes.iter().map(|a| a.extent.as_const().unwrap()).collect()
    }

    #[test]
    fn group_norm_meets_its_channels() {
        // [N, groups, rest] reduced over rest, and the [N, C, H*W] that is normalised.
        let stats = Space::new(&shape(&[2, 32, 4 * 64]), &[2]);
        let refined = stats.refined(&shape(&[2, 128, 8, 8]), Level::Full).unwrap();
        assert_eq!(extents(&refined), [2, 32, 4, 8, 8]);
        let vars = refined.vars();
        let coords = refined.coords(&vars, &shape(&[2, 128, 8, 8]), Level::Full).unwrap();
        assert_eq!(format!("{coords:?}"), "[i0, 4*i1 + i2, i3, i4]");
        let row = refined.coords(&vars, &shape(&[2, 32, 1]), Level::Row).unwrap();
        assert_eq!(format!("{row:?}"), "[i0, i1, 0]");
    }

    #[test]
    fn shapes_that_do_not_nest_are_refused() {
        assert_eq!(Space::new(&shape(&[4, 6]), &[]).refined(&shape(&[6, 4]), Level::Full), None);
    }

    #[test]
    fn different_reductions_do_not_unify() {
        let rows = Space::new(&shape(&[4, 6]), &[1]);
        let columns = Space::new(&shape(&[4, 6]), &[0]);
        assert_eq!(rows.unified(&columns), None);
        assert_eq!(rows.unified(&rows), Some(rows.clone()));
    }
}
