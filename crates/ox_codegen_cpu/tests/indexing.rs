//! Loaded indices, checks, scatters.

mod support;
use ox_ir::abi::KernelError;
use support::*;

const GATHER: &str = "sizes s0 in 0.., s1 in 0..
kernel gather(b0: i64 in, b1: f32 in, b2: f32 out, i0 < s0) lanes=LANES {
  pass {
    v0 = load b0[i0]
    v1 = check_index v0 j0 < s1 wrap check 3
    v2 = load b1[j0]
    store b2[i0] v2
  }
}
";

#[test]
fn gather_wraps_negative_indices() {
    for lanes in ["outer", "none", "inner"] {
        let kernel = compile(&GATHER.replace("LANES", lanes));
        for n in SIZES {
            let table = numbers(7, 1);
            let index: Vec<i64> = (0..n as i64).map(|k| (k * 5) % 14 - 7).collect();
            let out = vec![0.0f32; n];
            let report = run(&kernel, &[&index, &table, &out], &[n as i64, 7], n as i64);
            assert_eq!(report, (0, 0, 0));
            let want: Vec<f32> = index.iter().map(|k| table[k.rem_euclid(7) as usize]).collect();
            assert_eq!(out, want);
        }
    }
}

#[test]
fn an_index_out_of_range_is_reported_and_not_read() {
    for lanes in ["outer", "none"] {
        let kernel = compile(&GATHER.replace("LANES", lanes));
        for bad in [7i64, -8, i64::MAX, i64::MIN, 1 << 40] {
            for at in [0usize, 13, 16, 32] {
                let table = numbers(7, 1);
                let mut index = vec![0i64; 33];
                index[at] = bad;
                let out = vec![0.0f32; 33];
                assert_eq!(run(&kernel, &[&index, &table, &out], &[33, 7], 33), (4, bad, 7));
            }
        }
        // Nothing to index: every index is wrong, and nothing may be read.
        let (index, out) = (vec![0i64; 20], vec![0.0f32; 20]);
        let pointers = [index.address(), std::ptr::null_mut(), out.address()];
        let mut error = KernelError::default();
        unsafe { (kernel.function)(pointers.as_ptr(), [20, 0].as_ptr(), 0, 20, &mut error) };
        assert_eq!((*error.check.get_mut(), *error.value.get_mut(), *error.extent.get_mut()), (4, 0, 0));
    }
}

/// The tail has lanes that do not exist; what they hold is nobody's error.
#[test]
fn lanes_behind_the_end_report_nothing() {
    let text = "sizes s0 in 0..
kernel divide(b0: i64 in, b1: i64 in, b2: i64 out, i0 < s0) lanes=outer {
  pass {
    v0 = load b0[i0]
    v1 = load b1[i0]
    check_nonzero v1 check 1
    v2 = div_floor v0 v1
    store b2[i0] v2
  }
}
";
    let kernel = compile(text);
    let (a, mut b, out) = (vec![7i64; 19], vec![-2i64; 19], vec![0i64; 19]);
    assert_eq!(run(&kernel, &[&a, &b, &out], &[19], 19), (0, 0, 0));
    assert_eq!(out, vec![-4; 19]);
    b[18] = 0;
    assert_eq!(run(&kernel, &[&a, &b, &out], &[19], 19), (2, 0, 0));
}

#[test]
fn the_first_report_stays() {
    let kernel = compile(&GATHER.replace("LANES", "outer"));
    let (table, out) = (numbers(7, 1), vec![0.0f32; 64]);
    let mut index = vec![0i64; 64];
    index[20] = 99;
    index[21] = 98;
    index[50] = 97;
    assert_eq!(run_cut(&kernel, &[&index, &table, &out], &[64, 7], 64, &[40]), (4, 99, 7));
}

#[test]
fn embedding_rows() {
    let text = "kernel embedding(b0: i64 in, b1: f32 in, b2: f32 out, i0 < 9, i1 < 21) lanes=LANES {
  pass {
    v0 = load b0[i0]
    v1 = check_index v0 j0 < 30 check 0
    v2 = load b1[21*j0 + i1]
    store b2[21*i0 + i1] v2
  }
}
";
    let (index, table) = ((0..9).map(|k| (k * 7) % 30).collect::<Vec<i64>>(), numbers(630, 2));
    let want: Vec<f32> = index.iter().flat_map(|k| table[21 * *k as usize..][..21].to_vec()).collect();
    for lanes in ["outer", "none"] {
        let out = vec![0.0f32; 189];
        let report = run(&compile(&text.replace("LANES", lanes)), &[&index, &table, &out], &[], 189);
        assert_eq!((report.0, &out), (0, &want));
    }
}

/// Into 50 places.
fn scatter(dtype: &str, combine: &str, lanes: &str, parallel: &str) -> String {
    format!(
        "sizes s0 in 0..
kernel scatter(b0: i64 in, b1: {dtype} in, b2: {dtype} inout, i0 < s0) lanes={lanes}{parallel} {{
  pass {{
    v0 = load b0[i0]
    v1 = check_index v0 j0 < 50 check 0
    v2 = load b1[i0]
    store{combine} b2[j0] v2
  }}
}}
"
    )
}

/// Several lanes hit one place: they must take effect one after the other. In a parallel kernel no two do.
#[test]
fn scatters_combine_in_order() {
    for (parallel, places) in [("", 5), (" parallel", 50)] {
        for lanes in ["outer", "none"] {
            for n in [0usize, 1, 16, 37] {
                let index: Vec<i64> = (0..n as i64).map(|k| k * 7 % places).collect();
                let source: Vec<f32> = (0..n).map(|k| k as f32 + 1.0).collect();
                check_scatter(&scatter("f32", " sum", lanes, parallel), &index, &source, 0.5, |a, b| a + b);
                check_scatter(&scatter("f32", " max", lanes, parallel), &index, &source, 2.5, f32::max);
                check_scatter(&scatter("f32", " prod", lanes, parallel), &index, &source, 0.5, |a, b| a * b);
                check_scatter(&scatter("f32", "", lanes, parallel), &index, &source, 0.5, |_, b| b);
                let ints: Vec<i64> = source.iter().map(|x| *x as i64).collect();
                check_scatter(&scatter("i64", " sum", lanes, parallel), &index, &ints, 3, |a, b| a + b);
                check_scatter(&scatter("i64", " min", lanes, parallel), &index, &ints, 3, |a, b| a.min(b));
                let bytes: Vec<u8> = source.iter().map(|x| *x as u8).collect();
                check_scatter(&scatter("u8", " sum", lanes, parallel), &index, &bytes, 3, u8::wrapping_add);
                check_scatter(&scatter("u8", "", lanes, parallel), &index, &bytes, 3, |_, b| b);
            }
        }
    }
}

fn check_scatter<T: Copy + PartialEq + std::fmt::Debug>(
    text: &str,
    index: &Vec<i64>,
    source: &Vec<T>,
    start: T,
    combine: impl Fn(T, T) -> T,
) {
    let out = vec![start; 50];
    run(&compile(text), &[index, source, &out], &[index.len() as i64], index.len() as i64);
    let mut want = vec![start; 50];
    for (k, x) in index.iter().zip(source) {
        want[*k as usize] = combine(want[*k as usize], *x);
    }
    assert_eq!(out, want, "{text}");
}

/// Lanes that write next to one another may go as a vector.
#[test]
fn updates_in_place_and_onto_one_place() {
    let text = "kernel update(b0: bf16 in, b1: bf16 inout, b2: f32 inout, i0 < 37) lanes=outer {
  pass {
    v0 = load b0[i0]
    store sum b1[36 - i0] v0
    v1 = cast v0 : f32
    store sum b2[0] v1
  }
}
";
    use half::bf16;
    let source: Vec<u16> = (0..37).map(|k| bf16::from_f32(k as f32).to_bits()).collect();
    let (out, total) = (vec![bf16::from_f32(1.0).to_bits(); 37], vec![0.0f32]);
    run(&compile(text), &[&source, &out, &total], &[], 37);
    assert_eq!(out, (0..37).map(|k| bf16::from_f32(37.0 - k as f32).to_bits()).collect::<Vec<_>>());
    assert_eq!(total[0], 666.0);
}

/// A scatter down columns goes row by row where that is better; each column still sees its steps in their order.
#[test]
fn scatters_in_columns_keep_their_order() {
    for (columns, place) in [(1024, "1024*i1 + i0"), (150, "150*i1 + i0"), (150, "i1")] {
        scatter_in_columns(columns, place);
    }
}

fn scatter_in_columns(columns: usize, place: &str) {
    const STEPS: usize = 37;
    let places: Vec<i64> = numbers(STEPS * columns, 3).iter().map(|x| (x.abs() * 100.0) as i64 % 5).collect();
    let source: Vec<f32> = numbers(STEPS * columns, 4).iter().enumerate().map(|(k, x)| x * 10f32.powi(k as i32 % 7)).collect();
    let text = |store: &str| {
        format!(
            "kernel scatter(b0: i64 in, b1: f32 in, b2: f32 inout, i0 < {columns}) lanes=outer parallel {{
  pass i1 < {STEPS} {{
    v0 = load b0[{place}]
    v1 = check_index v0 j0 < 5 check 0
    v2 = load b1[{columns}*i1 + i0]
    {store} b2[{columns}*j0 + i0] v2
  }}
}}
"
        )
    };
    let (set, sum) = (vec![0.0f32; 5 * columns], vec![0.0f32; 5 * columns]);
    let (mut last, mut total) = (set.clone(), sum.clone());
    for k in 0..STEPS * columns {
        let row = if place == "i1" { places[k / columns] } else { places[k] };
        let at = row as usize * columns + k % columns;
        last[at] = source[k];
        total[at] += source[k];
    }
    for (store, out, want) in [("store", &set, &last), ("store sum", &sum, &total)] {
        run_cut(&compile(&text(store)), &[&places, &source, out], &[], columns as i64, &[67, 101]);
        assert_eq!(out, want);
    }
}
