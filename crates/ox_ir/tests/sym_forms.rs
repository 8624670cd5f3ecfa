//! The simplifications that schedules rely on: index expressions of view chains come out linear.

use ox_ir::{Sym, Var};

fn axis(id: u32, extent: impl Into<Sym>) -> Sym {
    Sym::var(&Var::axis(id, extent.into()))
}

fn size(id: u32) -> Sym {
    Sym::var(&Var::size(id, 2, i64::MAX, 1))
}

fn int(value: i64) -> Sym {
    Sym::from(value)
}

/// The place of an element in row-major order.
fn flat(index: &[Sym], shape: &[Sym]) -> Sym {
    index.iter().zip(shape).fold(Sym::ZERO, |acc, (i, n)| &(&acc * n) + i)
}

/// The index of the element at a place: every dimension divided out and taken modulo, the first one too.
fn unflat(place: &Sym, shape: &[Sym]) -> Vec<Sym> {
    (0..shape.len())
        .map(|d| {
            let stride: Sym = shape[d + 1..].iter().product();
            place.div(&stride).rem(&shape[d])
        })
        .collect()
}

fn axes(shape: &[Sym]) -> Vec<Sym> {
    shape.iter().enumerate().map(|(d, n)| axis(d as u32, n.clone())).collect()
}

#[track_caller]
fn survives_reshape(shape: &[Sym], through: &[Sym]) {
    let index = axes(shape);
    let place = flat(&index, shape);
    let there = unflat(&place, through);
    let back = unflat(&flat(&there, through), shape);
    assert_eq!(back, index, "{shape:?} through {through:?}: {there:?}");
}

#[test]
fn a_split_axis_is_divided_out() {
    let (i, j) = (axis(0, 100i64), axis(1, 64i64));
    let place = &(&i * 64) + &j;
    assert_eq!(place.div(&int(64)), i);
    assert_eq!(place.rem(&int(64)), j);
    assert_eq!((&(&axis(0, 9i64) * 4) + &axis(1, 4i64)).div(&int(8)), axis(0, 9i64).div(&int(2)));
    assert_eq!((&(&axis(0, 9i64) * 4) + &axis(1, 4i64)).rem(&int(8)), &(&axis(0, 9i64).rem(&int(2)) * 4) + &axis(1, 4i64));
    assert_eq!(axis(0, 64i64).div(&int(8)).div(&int(4)), axis(0, 64i64).div(&int(32)));
    assert_eq!(axis(0, 64i64).rem(&int(8)).rem(&int(4)), axis(0, 64i64).rem(&int(4)));
    assert_eq!((&axis(0, 64i64).rem(&int(8)) + &(&axis(1, 4i64) * 8)).div(&int(8)), axis(1, 4i64));
}

#[test]
fn a_symbolic_axis_is_divided_out() {
    let s = size(0);
    let (i, j) = (axis(0, 100i64), axis(1, s.clone()));
    let place = &(&i * &s) + &j;
    assert_eq!(place.div(&s), i);
    assert_eq!(place.rem(&s), j);
    // With a factor: [n, 4, s] by 4*s and by 2*s.
    let k = axis(2, 4i64);
    let place = &(&(&i * 4) + &k) * &s + &j;
    assert_eq!(place.div(&(&s * 4)), i);
    assert_eq!(place.rem(&(&s * 4)), &(&k * &s) + &j);
    assert_eq!(place.div(&(&s * 2)), &(&i * 2) + &k.div(&int(2)));
}

/// A length such as `past + 1`, of which the terms are spread over the polynomial.
#[test]
fn an_axis_of_a_sum_is_divided_out() {
    let n = &size(0) + 1;
    let (i, j) = (axis(0, 100i64), axis(1, n.clone()));
    let place = &(&i * &n) + &j;
    assert_eq!(place.div(&n), i);
    assert_eq!(place.rem(&n), j);
    assert_eq!((&n * 3).div(&n), int(3));
    let m = &size(0) + &size(1);
    assert_eq!((&m * &n).div(&n), m);
}

#[test]
fn heads_of_attention() {
    let [b, s, h, d] = [4, 128, 12, 64].map(int);
    // [B, S, H*D] -> [B, S, H, D] -> [B, H, S, D] -> [B*H, S, D], read from there.
    let out = [&b * &h, s.clone(), d.clone()];
    let index = axes(&out);
    let at = unflat(&flat(&index, &out), &[b.clone(), h.clone(), s.clone(), d.clone()]);
    let place = flat(&[at[0].clone(), at[2].clone(), at[1].clone(), at[3].clone()], &[b, s, h, d]);
    let expected =
        &(&(&index[0].div(&int(12)) * (128 * 768)) + &(&index[0].rem(&int(12)) * 64)) + &(&(&index[1] * 768) + &index[2]);
    assert_eq!(place, expected);
}

#[test]
fn reshapes_there_and_back() {
    let (s, t) = (size(0), size(1));
    survives_reshape(&[int(4), int(6), int(8)], &[int(24), int(8)]);
    survives_reshape(&[int(4), int(48)], &[int(4), int(6), int(8)]);
    survives_reshape(&[int(4), int(6), int(8)], &[int(192)]);
    survives_reshape(&[s.clone(), int(6), int(8)], &[s.clone(), int(48)]);
    survives_reshape(&[s.clone(), int(48)], &[s.clone(), int(6), int(8)]);
    survives_reshape(&[int(6), s.clone(), int(8)], &[&s * 6, int(8)]);
    survives_reshape(&[int(6), s.clone(), t.clone()], &[int(6), &s * &t]);
    survives_reshape(&[s.clone(), t.clone(), int(8)], &[&s * &t, int(8)]);
    survives_reshape(&[s.clone(), &t + 1, int(8)], &[s.clone(), &(&t + 1) * 8]);
}

#[test]
fn what_is_known_decides() {
    let s = size(0);
    assert!(s.is_positive() && !(&s - 3).is_nonneg());
    assert!((&s - &axis(0, s.clone())).is_positive());
    let by8 = Sym::var(&Var::size(1, 8, 4096, 8));
    assert!((&by8 * 3).is_multiple_of(8) && !(&by8 + 4).is_multiple_of(8) && (&by8 + 4).is_multiple_of(4));
    assert_eq!((&by8 + &axis(0, 8i64)).div(&int(8)), by8.div(&int(8)));
    assert_eq!((&by8 + &axis(0, 8i64)).rem(&int(8)), axis(0, 8i64));
    assert_eq!(s.lesser(&(&s + 1)), s);
    assert_eq!(axis(0, 4i64).greater(&int(4)), int(4));
    assert_eq!(Sym::ZERO.div(&s), Sym::ZERO);
}

#[test]
fn linear_factors() {
    let (i, s) = (Var::axis(0, int(8)), size(0));
    let e = &(&(&s * 4) * &Sym::var(&i)) + &(&Sym::var(&i) + 7);
    assert_eq!(e.coeff(&i), Some(&(&s * 4) + 1));
    assert_eq!(Sym::var(&i).div(&int(2)).coeff(&i), None);
    assert_eq!((&Sym::var(&i) * &Sym::var(&i)).coeff(&i), None);
    assert_eq!(s.coeff(&i), Some(Sym::ZERO));
}

#[test]
fn a_part_of_a_multiple_divides_it() {
    let (by4, any) = (Sym::var(&Var::size(0, 4, 1 << 20, 4)), Sym::var(&Var::size(1, 1, 1 << 20, 1)));
    let quarter = by4.div(&int(4));
    assert_eq!((&by4 * 3).div(&quarter), int(12));
    assert_eq!((&by4 * 3).rem(&quarter), Sym::ZERO);
    assert_eq!((&by4 * &any).div(&(&quarter * 2)), &any * 2);
    let half = any.div(&int(2));
    assert_ne!((&any * 6).div(&half), int(12));
}

/// An image that is halved twice has strides `max(1, s // 4)`, where no size is taken for 1: from 1 on, by 4, it is no 1, 2 or 3.
#[test]
fn bounds_of_multiples_are_multiples() {
    let by4 = Var::size(0, 1, 1023, 4);
    assert_eq!((by4.lo(), by4.hi()), (4, 1020));
    let quarter = Sym::var(&by4).div(&int(4));
    assert_eq!(quarter.greater(&int(1)), quarter);
    let any = Var::size(1, i64::MIN, i64::MAX, 4);
    assert_eq!((any.lo(), any.hi()), (i64::MIN, i64::MAX));
    assert_eq!((Var::size(2, -5, -1, 3).lo(), Var::size(2, -5, -1, 3).hi()), (-3, -3));
    assert_eq!(Var::size(3, 0, 0, 8).hi(), 0);
}

/// Pixels that are taken twice, as images grow: halves of an index lie in half the image.
#[test]
fn halves_of_an_index_lie_in_half_of_its_extent() {
    let s = Sym::var(&Var::size(0, 4, i64::MAX, 4));
    let x = axis(0, s.clone());
    let (half, two) = (x.div(&int(2)), int(2));
    assert_eq!(half.rem(&s.div(&two)), half);
    assert!((&half * 2).div(&s).is_zero());
    // Not where the last one may have no other half.
    let odd = Sym::var(&Var::size(1, 1, i64::MAX, 1));
    let y = axis(1, odd.clone());
    assert_ne!(y.div(&two).rem(&odd.div(&two)), y.div(&two));
}
