//! Loads by indices that follow the lanes' axis.

mod support;
use support::*;

type Way = fn(usize) -> usize;

/// `b2[i, j] = b0[i, b1[j]]`, and the same by indices that are computed: `j * 100 / 128`.
fn text(dtype: &str, columns: usize) -> String {
    format!(
        "kernel picked(b0: {dtype} in, b1: i64 in, b2: {dtype} out, b3: {dtype} out, i0 < 5, i1 < {columns}) lanes=outer parallel {{
  pass {{
    v0 = load b1[i1]
    v1 = check_index v0 j0 < 400 check 0
    v2 = load b0[400*i0 + j0]
    v3 = index i1
    v4 = const 100 : i64
    v5 = mul v3 v4
    v6 = const 128 : i64
    v7 = div_floor v5 v6
    v8 = check_index v7 j1 < 400 check 1
    v9 = load b0[400*i0 + j1]
    store b2[{columns}*i0 + i1] v2
    store b3[{columns}*i0 + i1] v9
  }}
}}
"
    )
}

fn check<T: Copy + PartialEq>(dtype: &str, of: fn(usize) -> T) {
    let source: Vec<T> = (0..2000).map(of).collect();
    let ways: [(&str, Way); 9] = [
        ("side by side", |n| n),
        ("each twice", |n| n / 2),
        ("three of four", |n| n * 4 / 3),
        ("every second", |n| n * 2),
        ("within two vectors, one far", |n| if n == 37 { 399 } else { n }),
        ("backwards", |n| 399 - n),
        ("the first lies behind all others", |n| if n % 16 == 0 { 300 } else { 300 - 16 + n % 16 }),
        ("one", |_| 7),
        ("anywhere", |n| n * 7919 % 400),
    ];
    for columns in [1, 16, 50, 200] {
        let kernel = compile(&text(dtype, columns));
        for (name, way) in ways {
            let table: Vec<i64> = (0..columns).map(|n| way(n) as i64).collect();
            let (picked, computed) = (vec![of(9); 5 * columns], vec![of(9); 5 * columns]);
            run_cut(
                &kernel,
                &[&source, &table, &picked, &computed],
                &[],
                5 * columns as i64,
                &[columns as i64 / 2, 3 * columns as i64 + 1],
            );
            let by = |at: &dyn Fn(usize) -> usize| {
                (0..5 * columns).map(|n| source[n / columns * 400 + at(n % columns)]).collect::<Vec<T>>()
            };
            assert!(picked == by(&way), "{dtype}, {columns} columns: {name}");
            assert!(computed == by(&|n| n * 100 / 128), "{dtype}, {columns} columns");
        }
    }
}

#[test]
fn lanes_find_their_elements_wherever_they_are() {
    check::<f32>("f32", |n| n as f32);
    check::<i32>("i32", |n| n as i32);
    check::<f64>("f64", |n| n as f64);
    check::<i16>("i16", |n| n as i16);
}

fn every<T: Copy + PartialEq>(dtype: &str, of: fn(usize) -> T) {
    let source: Vec<T> = (0..1000).map(of).collect();
    for step in 2..=5 {
        for columns in [1, 15, 16, 33, 100] {
            let text = format!(
                "kernel stepped(b0: {dtype} in, b1: {dtype} out, i0 < 2, i1 < {columns}) lanes=outer parallel {{
  pass {{
    v0 = load b0[300*i0 + {step}*i1]
    store b1[{columns}*i0 + i1] v0
  }}
}}
"
            );
            // What lies behind the last element must not be read: the next page may be nobody's.
            let needed = 300 + step * (columns - 1) + 1;
            let (own, out) = (source[..needed].to_vec(), vec![of(7); 2 * columns]);
            run_cut(&compile(&text), &[&own, &out], &[], 2 * columns as i64, &[3.min(columns as i64)]);
            let want: Vec<T> = (0..2 * columns).map(|n| source[300 * (n / columns) + step * (n % columns)]).collect();
            assert!(out == want, "{dtype}: every {step} of {columns}");
        }
    }
}

#[test]
fn lanes_some_elements_apart() {
    every::<f32>("f32", |n| n as f32);
    every::<f64>("f64", |n| n as f64);
    every::<i16>("i16", |n| n as i16);
    every::<u8>("u8", |n| n as u8);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn vectors_are_permuted_where_there_is_an_instruction() {
    use ox_codegen_cpu::Backend;
    let permutes = |features: &str, text: &str| {
        let ir = Backend::for_cpu("haswell", features).unwrap().emit_ir(&parse(text)).unwrap();
        ir.contains("permps") || ir.contains("permvar.sf.512")
    };
    let along = text("f32", 200);
    assert!(permutes("+avx2,+fma,+f16c", &along));
    assert!(permutes("+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq", &along));
    assert!(!permutes("+avx", &along));
    assert!(
        !permutes("+avx2,+fma,+f16c", &along.replace("b1[i1]", "b1[5*i0 + i1]").replace("v3 = index i1", "v3 = index i0")),
        "rows differ"
    );
}
