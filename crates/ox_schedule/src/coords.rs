//! How coordinates travel: from the result of a view to its argument, and between shapes that hold the same elements.

use ox_ir::graph::{Node, Shape, SliceDim};
use ox_ir::{Op, Sym};

/// Row-major position of `coords` in `shape`.
pub fn linear(coords: &[Sym], shape: &[Sym]) -> Sym {
    coords.iter().zip(shape).fold(Sym::ZERO, |acc, (c, n)| &(&acc * n) + c)
}

/// The coordinates of a row-major position.
pub fn delinear(position: &Sym, shape: &[Sym]) -> Shape {
    let mut rest = position.clone();
    let mut out: Shape = shape.iter().map(|_| Sym::ZERO).collect();
    for d in (0..shape.len()).rev() {
        if shape[d].is_one() {
            continue;
        }
        let outermost = shape[..d].iter().all(Sym::is_one);
        out[d] = if outermost { rest.clone() } else { rest.rem(&shape[d]) };
        rest = rest.div(&shape[d]);
    }
    out
}

/// Coordinates in `from` of the element that stands at `coords` in `to`; both shapes hold the same elements in row-major order.
/// Runs of dimensions with equal products are mapped one by one, so that divisions stay local to what was really reshaped.
pub fn reshape_coords(coords: &[Sym], to: &[Sym], from: &[Sym]) -> Shape {
    let mut out: Shape = from.iter().map(|_| Sym::ZERO).collect();
    let (mut t, mut f) = (0, 0);
    while t < to.len() || f < from.len() {
        let (t0, f0) = (t, f);
        (t, f) = equal_run(to, from, t, f);
        let position = linear(&coords[t0..t], &to[t0..t]);
        for (slot, c) in out[f0..f].iter_mut().zip(delinear(&position, &from[f0..f])) {
            *slot = c;
        }
    }
    out
}

/// The ends of the shortest non-empty runs from `(t, f)` whose products are equal, or the ends of both shapes.
fn equal_run(to: &[Sym], from: &[Sym], t: usize, f: usize) -> (usize, usize) {
    let (mut pt, mut pf) = (Sym::ONE, Sym::ONE);
    let (mut i, mut j) = (t, f);
    loop {
        if i > t && j > f && pt == pf {
            return (i, j);
        }
        // Grow the side that is known to be smaller; where that is not known, both.
        let grow_t = i < to.len() && (j == from.len() || !(&pt - &pf).is_positive());
        let grow_f = j < from.len() && (i == to.len() || !(&pf - &pt).is_positive());
        if !grow_t && !grow_f {
            return (to.len(), from.len());
        }
        if grow_t {
            pt = &pt * &to[i];
            i += 1;
        }
        if grow_f {
            pf = &pf * &from[j];
            j += 1;
        }
    }
}

pub fn slice_coords(coords: &[Sym], dims: &[SliceDim]) -> Shape {
    coords.iter().zip(dims).map(|(c, d)| &d.start + &(c * d.step)).collect()
}

/// For a view node: the coordinates in its argument of the element at `coords`.
pub fn view_coords(node: &Node, arg_shape: &[Sym], coords: &[Sym]) -> Shape {
    match &node.op {
        Op::Reshape => reshape_coords(coords, &node.ty.shape, arg_shape),
        Op::Permute(perm) => {
            let mut out: Shape = coords.iter().cloned().collect();
            for (k, p) in perm.iter().enumerate() {
                out[*p] = coords[k].clone();
            }
            out
        }
        Op::Detach => coords.iter().cloned().collect(),
        Op::Expand => coords.iter().zip(arg_shape).map(|(c, n)| if n.is_one() { Sym::ZERO } else { c.clone() }).collect(),
        Op::Slice(dims) => slice_coords(coords, dims),
        Op::Unfold { dim, step, dilation } => {
            let mut out: Shape = coords[..coords.len() - 1].iter().cloned().collect();
            out[*dim] = &(&coords[*dim] * *step) + &(&coords[coords.len() - 1] * *dilation);
            out
        }
        Op::Diagonal { offset, dim1, dim2 } => diagonal_coords(coords, *offset, *dim1, *dim2),
        other => unreachable!("not a view: {other:?}"),
    }
}

fn diagonal_coords(coords: &[Sym], offset: i64, dim1: usize, dim2: usize) -> Shape {
    let along = &coords[coords.len() - 1];
    let mut others = coords[..coords.len() - 1].iter();
    (0..coords.len() + 1)
        .map(|d| match d {
            d if d == dim1 => along + (-offset).max(0),
            d if d == dim2 => along + offset.max(0),
            _ => others.next().cloned().unwrap_or(Sym::ZERO),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::Var;

    fn axes(extents: &[i64]) -> Vec<Sym> {
        let axis = |(k, n): (usize, &i64)| if *n == 1 { Sym::ZERO } else { Sym::var(&Var::axis(k as u32, Sym::from(*n))) };
        extents.iter().enumerate().map(axis).collect()
    }

    fn shape(dims: &[i64]) -> Shape {
        dims.iter().map(|n| Sym::from(*n)).collect()
    }

    #[test]
    fn splitting_a_dimension_divides_only_there() {
        let c = axes(&[2, 3, 8]);
        let got = reshape_coords(&c, &shape(&[2, 3, 8]), &shape(&[2, 3, 2, 4]));
        assert_eq!(format!("{got:?}"), "[i0, i1, i2//4, i2%4]");
    }

    #[test]
    fn joining_dimensions_needs_no_division() {
        let c = axes(&[2, 3, 2, 4]);
        let got = reshape_coords(&c, &shape(&[2, 3, 2, 4]), &shape(&[6, 8]));
        assert_eq!(format!("{got:?}"), "[3*i0 + i1, 4*i2 + i3]");
    }

    #[test]
    fn ones_come_and_go() {
        let c = axes(&[1, 3, 1, 4]);
        let got = reshape_coords(&c, &shape(&[1, 3, 1, 4]), &shape(&[3, 4, 1]));
        assert_eq!(format!("{got:?}"), "[i1, i3, 0]");
    }
}
