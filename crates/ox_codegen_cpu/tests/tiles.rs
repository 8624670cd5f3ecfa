//! Operands that are read across their rows.

mod support;
use support::*;

/// `b2[a, i, j] = b0[a, j, i] + b1[a, i, j]`.
fn sum_text(dtype: &str, [a, rows, columns]: [&str; 3]) -> String {
    format!(
        "sizes s0 in 0.., s1 in 0.., s2 in 0..
kernel turned(b0: {dtype} in, b1: {dtype} in, b2: {dtype} out, i0 < {a}, i1 < {rows}, i2 < {columns}) lanes=outer parallel {{
  pass {{
    v0 = load b0[{rows}*{columns}*i0 + i1 + {rows}*i2]
    v1 = load b1[{rows}*{columns}*i0 + {columns}*i1 + i2]
    v2 = add v0 v1
    store b2[{rows}*{columns}*i0 + {columns}*i1 + i2] v2
  }}
}}
"
    )
}

/// In any order, and as far apart as `bytes` of their type are.
trait Number: Copy + PartialEq + std::fmt::Debug {
    const DTYPE: &'static str;
    fn of(n: usize) -> Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! number {
    ($($type:ty = $name:literal),*) => {$(
        impl Number for $type {
            const DTYPE: &'static str = $name;
            fn of(n: usize) -> Self {
                (n % 61) as Self
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
number!(f32 = "f32", f64 = "f64", i64 = "i64", i16 = "i16", u8 = "u8");

fn check<T: Number>([batch, rows, columns]: [usize; 3], cuts: &[i64]) {
    let count = batch * rows * columns;
    let (across, along): (Vec<T>, Vec<T>) =
        ((0..count).map(|n| T::of(n * 7 + n / 50)).collect(), (0..count).map(|n| T::of(n * 3)).collect());
    let at = |n: usize| n / (rows * columns) * rows * columns + n % columns * rows + n / columns % rows;
    let want: Vec<T> = (0..count).map(|n| across[at(n)].plus(along[n])).collect();
    let own = [batch, rows, columns].map(|n| n.to_string());
    let fixed = compile(&sum_text(T::DTYPE, [&own[0], &own[1], &own[2]]));
    let dynamic = compile(&sum_text(T::DTYPE, ["s0", "s1", "s2"]));
    for kernel in [&fixed, &dynamic] {
        let out = vec![T::of(60); count];
        run_cut(kernel, &[&across, &along, &out], &[batch, rows, columns].map(|n| n as i64), count as i64, cuts);
        assert!(out == want, "{} {batch}x{rows}x{columns}, cut at {cuts:?}", T::DTYPE);
    }
}

#[test]
fn tiles_of_any_shape_and_type() {
    for sizes in
        [[1, 16, 256], [1, 64, 64], [3, 47, 61], [2, 33, 100], [5, 200, 15], [5, 15, 200], [1, 1, 5000], [70, 8, 8], [1, 130, 32]]
    {
        let count = sizes.iter().product::<usize>() as i64;
        for cuts in [vec![], vec![1, count / 3, count / 2 + 5, count - 1]] {
            check::<f32>(sizes, &cuts);
            check::<f64>(sizes, &cuts);
            check::<i64>(sizes, &cuts);
            check::<i16>(sizes, &cuts);
            check::<u8>(sizes, &cuts);
        }
    }
}

#[test]
fn a_result_over_its_operand() {
    let text = "kernel turned(b0: f32 in, b1: f32 inout, i0 < 100, i1 < 64) lanes=outer parallel {
  pass {
    v0 = load b0[i0 + 100*i1]
    v1 = load b1[64*i0 + i1]
    v2 = add v0 v1
    store b1[64*i0 + i1] v2
  }
}
";
    let (across, along) = (numbers(6400, 1), numbers(6400, 2));
    let out = along.clone();
    run_cut(&compile(text), &[&across, &out], &[], 6400, &[70, 3000]);
    assert!(out == (0..6400).map(|n| across[n % 64 * 100 + n / 64] + along[n]).collect::<Vec<_>>());
}

#[test]
fn only_where_it_pays_and_the_last_tile_may_be_done_twice() {
    let is_tiled = |text: &str| backend().emit_ir(&parse(text)).unwrap().contains("alloca [256 x");
    let text = sum_text("f32", ["2", "64", "64"]);
    assert!(is_tiled(&text));
    assert!(!is_tiled(&sum_text("f32", ["2", "8", "512"])), "too few rows");
    assert!(!is_tiled(&sum_text("f32", ["1", "32", "32"])), "too small");
    assert!(!is_tiled(&text.replace("64*i2]", "2*i2]")), "neighbours share lines");
    assert!(is_tiled(&text.replace("f32 out", "f32 inout")), "nothing is done twice");
    assert!(
        !is_tiled(&sum_text("f32", ["2", "64", "65"]).replace("f32 out", "f32 inout")),
        "what is done twice must not read what it has written"
    );
    assert!(!is_tiled(&text.replace("store b2", "store sum b2")));
}
