//! Results that are woven of a few rows.

mod support;
use support::*;

/// `b1[i, j, k] = b0[i, j + k] * 2 + k`, written with the lanes along `j`, and its source beside it.
fn check<T: Copy + PartialEq>(dtype: &str, of: fn(usize) -> T) {
    for (count, columns) in [(2usize, 64usize), (2, 33), (3, 40), (4, 100), (4, 35), (5, 40), (2, 7)] {
        let groups = 3;
        let text = |columns_text: &str| {
            format!(
                "sizes s0 in 1..
kernel woven(b0: {dtype} in, b1: {dtype} out, b2: {dtype} out, i0 < {groups}, i1 < {count}, i2 < {columns_text}) lanes=outer parallel {{
  pass {{
    v0 = load b0[200*i0 + i1 + i2]
    v1 = index i1
    v2 = cast v1 : {dtype}
    v3 = add v0 v2
    store b1[{count}*{columns_text}*i0 + i1 + {count}*i2] v3
    store b2[{count}*{columns_text}*i0 + i1 + {count}*i2] v0
  }}
}}
"
            )
        };
        let points = (groups * count * columns) as i64;
        let source: Vec<T> = (0..700).map(|n| of(n % 60)).collect();
        let at = |n: usize| (n / (count * columns), n % count, n / count % columns);
        let plain: Vec<T> = (0..points as usize).map(|n| source[200 * at(n).0 + at(n).1 + at(n).2]).collect();
        let sums: Vec<T> = (0..points as usize).map(|n| of((200 * at(n).0 + at(n).1 + at(n).2) % 60 + at(n).1)).collect();
        for kernel in [compile(&text(&columns.to_string())), compile(&text("s0"))] {
            for cuts in [vec![], vec![1, points / 2 + 3, points - 2]] {
                let (first, second) = (vec![of(63); points as usize], vec![of(63); points as usize]);
                run_cut(&kernel, &[&source, &first, &second], &[columns as i64], points, &cuts);
                assert!(first == sums && second == plain, "{dtype}: {count} rows of {columns}, cut at {cuts:?}");
            }
        }
    }
}

#[test]
fn rows_of_any_number_length_and_type() {
    check::<f32>("f32", |n| n as f32);
    check::<f64>("f64", |n| n as f64);
    check::<i64>("i64", |n| n as i64);
    check::<i16>("i16", |n| n as i16);
    check::<u8>("u8", |n| n as u8);
}

#[test]
fn only_what_lies_side_by_side_and_in_any_order() {
    let text = "kernel woven(b0: f32 in, b1: f32 out, i0 < 2, i1 < 640) lanes=outer parallel {
  pass {
    v0 = load b0[i1]
    store b1[i0 + 2*i1] v0
  }
}
";
    let weaves = |text: &str| {
        let ir = backend().emit_ir(&parse(text)).unwrap();
        [4, 8, 16].iter().any(|width| ir.contains(&format!("<i32 0, i32 {width}, i32 1, i32 {}", width + 1)))
    };
    assert!(weaves(text));
    assert!(!weaves(&text.replace("i0 < 2", "i0 < 5").replace("2*i1", "5*i1")), "too many rows");
    assert!(!weaves(&text.replace("2*i1", "3*i1")), "something lies between them");
    assert!(!weaves(&text.replace(" parallel", "")), "what is written twice is written in order");
}
