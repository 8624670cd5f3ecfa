//! Kernels with inner loops: reductions, scans, scratch.

mod support;
use support::*;

fn softmax_text(lanes: &str, n: &str) -> String {
    format!(
        "sizes s0 in 0.., s1 in 1..
kernel softmax(b0: f32 in, b1: f32 out, i0 < s0) lanes={lanes} {{
  pass i1 < {n} {{
    v0 = load b0[{n}*i0 + i1]
    v1 = reduce max v0
  }}
  pass i1 < {n} {{
    v2 = load b0[{n}*i0 + i1]
    v3 = sub v2 v1
    v4 = exp v3
    v5 = reduce sum v4
  }}
  pass {{
    v6 = reciprocal v5
  }}
  pass i1 < {n} {{
    v7 = load b0[{n}*i0 + i1]
    v8 = sub v7 v1
    v9 = exp v8
    v10 = mul v9 v6
    store b1[{n}*i0 + i1] v10
  }}
}}
"
    )
}

fn softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)) as f64;
    let sum: f64 = row.iter().map(|x| (*x as f64 - most).exp()).sum();
    row.iter().map(|x| ((*x as f64 - most).exp() / sum) as f32).collect()
}

#[test]
fn softmax_in_every_lane_mode() {
    for lanes in ["inner", "outer", "none"] {
        let dynamic = compile(&softmax_text(lanes, "s1"));
        for n in [1usize, 3, 15, 16, 17, 63, 64, 65, 100, 1000] {
            let fixed = compile(&softmax_text(lanes, &n.to_string()));
            let rows = 19;
            let source = numbers(rows * n, n as u64);
            let want: Vec<f32> = source.chunks(n).flat_map(softmax).collect();
            for kernel in [&fixed, &dynamic] {
                let out = vec![0.0f32; rows * n];
                run_cut(kernel, &[&source, &out], &[rows as i64, n as i64], rows as i64, &[3, 4]);
                assert_close(&out, &want, 3e-6);
            }
        }
    }
}

/// Sum over all of a 2-d inner space, and over the first axis only.
#[test]
fn several_inner_axes() {
    let text = "sizes s0 in 0.., s1 in 0..
kernel sums(b0: f32 in, b1: f32 out, b2: f32 out, i0 < 3) lanes=LANES {
  pass i1 < s0, i2 < s1 {
    v0 = load b0[i0 + 3*s1*i1 + 3*i2]
    v1 = reduce sum v0
    v2 = reduce min v0
  }
  pass {
    store b1[i0] v1
    store b2[i0] v2
  }
}
";
    for lanes in ["inner", "outer", "none"] {
        let kernel = compile(&text.replace("LANES", lanes));
        for (m, n) in [(0, 4), (1, 1), (5, 33), (17, 64), (300, 3), (3, 5000)] {
            let source = numbers(3 * m * n, 3);
            let (sum, min) = (vec![0.0f32; 3], vec![0.0f32; 3]);
            run(&kernel, &[&source, &sum, &min], &[m as i64, n as i64], 3);
            for i in 0..3 {
                let mine = source.iter().skip(i).step_by(3);
                let want: f64 = mine.clone().map(|x| *x as f64).sum();
                assert!((sum[i] as f64 - want).abs() < 1e-5 * (m * n) as f64 + 1e-6, "{lanes} {m} {n}: {} {want}", sum[i]);
                assert_eq!(min[i], mine.fold(f32::INFINITY, |a, b| a.min(*b)));
            }
        }
    }
}

/// A long sum must not lose more than a few bits: eager adds in a tree.
#[test]
fn long_sums_stay_accurate() {
    let text = "kernel sum(b0: f32 in, b1: f32 out, i0 < 1) lanes=LANES {
  pass i1 < 1000000 {
    v0 = load b0[i1]
    v1 = reduce sum v0
  }
  pass {
    store b1[i0] v1
  }
}
";
    let source: Vec<f32> = numbers(1_000_000, 11).iter().map(|x| x + 4.1).collect();
    let want: f64 = source.iter().map(|x| *x as f64).sum();
    for lanes in ["inner", "outer", "none"] {
        let out = vec![0.0f32; 1];
        run(&compile(&text.replace("LANES", lanes)), &[&source, &out], &[], 1);
        let error = (out[0] as f64 - want).abs() / want;
        assert!(error < 1.5e-6, "{lanes}: {error:e}");
    }
}

#[test]
fn every_reduction_on_integers_and_bools() {
    let text = "kernel all(b0: i32 in, b1: i64 out, b2: i32 out, b3: i32 out, b4: i32 out, b5: bool out, b6: bool out, i0 < 4) lanes=LANES {
  pass i1 < 37 {
    v0 = load b0[37*i0 + i1]
    v1 = cast v0 : i64
    v2 = reduce sum v1
    v3 = reduce prod v0
    v4 = reduce max v0
    v5 = reduce min v0
    v6 = cast v0 : bool
    v7 = reduce any v6
    v8 = reduce all v6
  }
  pass {
    store b1[i0] v2
    store b2[i0] v3
    store b3[i0] v4
    store b4[i0] v5
    store b5[i0] v7
    store b6[i0] v8
  }
}
";
    let mut source: Vec<i32> = (0..148).map(|k| (k * 7919 % 23) - 11).collect();
    source[37..74].fill(0);
    source[111..].iter_mut().for_each(|x| *x = if *x == 0 { i32::MIN } else { *x });
    for lanes in ["inner", "outer", "none"] {
        let (sum, prod, max, min) = (vec![0i64; 4], vec![0i32; 4], vec![0i32; 4], vec![0i32; 4]);
        let (any, all) = (vec![9u8; 4], vec![9u8; 4]);
        run(&compile(&text.replace("LANES", lanes)), &[&source, &sum, &prod, &max, &min, &any, &all], &[], 4);
        for (i, row) in source.chunks(37).enumerate() {
            assert_eq!(sum[i], row.iter().map(|x| *x as i64).sum::<i64>());
            assert_eq!(prod[i], row.iter().fold(1i32, |a, b| a.wrapping_mul(*b)));
            assert_eq!((max[i], min[i]), (*row.iter().max().unwrap(), *row.iter().min().unwrap()));
            assert_eq!(any[i], row.iter().any(|x| *x != 0) as u8);
            assert_eq!(all[i], row.iter().all(|x| *x != 0) as u8);
        }
    }
}

#[test]
fn argmax_is_first_and_nan_wins() {
    let text = "kernel arg(b0: f32 in, b1: i64 out, b2: i64 out, b3: f32 out, b4: f32 out, i0 < 7) lanes=LANES {
  pass i1 < COUNT {
    v0 = load b0[COUNT*i0 + i1]
    v1 = reduce argmax v0 at i1
    v2 = reduce argmin v0 at i1
    v3 = reduce max v0
    v4 = reduce min v0
  }
  pass {
    store b1[i0] v1
    store b2[i0] v2
    store b3[i0] v3
    store b4[i0] v4
  }
}
";
    for n in [1usize, 16, 40, 67] {
        let mut source = numbers(7 * n, 9);
        source[n..2 * n].fill(f32::NEG_INFINITY);
        source[2 * n..3 * n].fill(f32::INFINITY);
        source[3 * n + n / 2] = f32::NAN;
        source[4 * n..5 * n].fill(f32::NAN);
        source[5 * n..6 * n].fill(1.5);
        for lanes in ["inner", "outer", "none"] {
            let (argmax, argmin) = (vec![0i64; 7], vec![0i64; 7]);
            let (max, min) = (vec![0f32; 7], vec![0f32; 7]);
            let kernel = compile(&text.replace("LANES", lanes).replace("COUNT", &n.to_string()));
            run(&kernel, &[&source, &argmax, &argmin, &max, &min], &[], 7);
            for (i, row) in source.chunks(n).enumerate() {
                let nan = row.iter().position(|x| x.is_nan());
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let least = row.iter().copied().fold(f32::INFINITY, f32::min);
                let find = |v: f32| nan.unwrap_or_else(|| row.iter().position(|x| *x == v).unwrap()) as i64;
                assert_eq!((argmax[i], argmin[i]), (find(most), find(least)), "{lanes} {n} row {i}");
                assert_eq!((max[i].is_nan(), min[i].is_nan()), (nan.is_some(), nan.is_some()), "{lanes} {n} row {i}");
                if nan.is_none() {
                    assert_eq!((max[i], min[i]), (most, least));
                }
            }
        }
    }
}

#[test]
fn scan_restarts_with_every_row_of_its_axis() {
    let text = "kernel scan(b0: f32 in, b1: f32 out, b2: f32 out, i0 < 18) lanes=LANES {
  pass i1 < 3, i2 < 21 {
    v0 = load b0[63*i0 + 21*i1 + i2]
    v1 = scan sum v0
    v2 = scan max v0
    store b1[63*i0 + 21*i1 + i2] v1
    store b2[63*i0 + 21*i1 + i2] v2
  }
}
";
    // Whole numbers, whose sums are the same in any order.
    let source: Vec<f32> = numbers(18 * 63, 4).iter().map(|x| x.round()).collect();
    let (mut sums, mut maxima) = (vec![], vec![]);
    for row in source.chunks(21) {
        let (mut sum, mut max) = (0.0f32, f32::NEG_INFINITY);
        for x in row {
            sum += x;
            max = max.max(*x);
            sums.push(sum);
            maxima.push(max);
        }
    }
    for lanes in ["inner", "outer", "none"] {
        let (sum, max) = (vec![0.0f32; 18 * 63], vec![0.0f32; 18 * 63]);
        run(&compile(&text.replace("LANES", lanes)), &[&source, &sum, &max], &[], 18);
        assert_eq!((sum, max), (sums.clone(), maxima.clone()), "{lanes}");
    }
}

/// Products that leave the range of their type on the way, and sums of which the next is never less than the last. Each in a loop of its own: one scan in order
/// keeps all others of its loop in order.
#[test]
fn products_of_floats_and_sums_in_their_own_type_are_scanned_in_order() {
    let scanned = |scan: &str| {
        format!(
            "kernel ordered(b0: f32 in, b1: f64 out, i0 < 5) lanes=inner {{
  pass i1 < 40 {{
    v0 = load b0[40*i0 + i1]
    v1 = cast v0 : f64
    v2 = scan {scan}
    v3 = cast v2 : f64
    store b1[40*i0 + i1] v3
  }}
}}
"
        )
    };
    let source: Vec<f32> = (0..200).map(|n| [1e30, 1e30, 1e-30, 1e-30, 2.0][n % 5]).collect();
    let (mut products, mut wide, mut sums) = (vec![], vec![], vec![]);
    for row in source.chunks(40) {
        let (mut product, mut widened, mut sum) = (1f32, 1f64, 0f32);
        for x in row {
            (product, widened, sum) = (product * x, widened * *x as f64, sum + x);
            products.push(product as f64);
            wide.push(widened);
            sums.push(sum as f64);
        }
    }
    for (scan, want) in [("prod v0", products), ("prod v1", wide), ("sum v0", sums)] {
        let out = vec![0f64; 200];
        run(&compile(&scanned(scan)), &[&source, &out], &[], 5);
        assert!(out == want, "{scan}");
    }
}

#[test]
fn widened_sums_are_scanned_by_prefixes() {
    let text = "kernel wide(b0: f32 in, b1: f32 out, i0 < 7) lanes=inner {
  pass i1 < 53 {
    v0 = load b0[53*i0 + i1]
    v1 = cast v0 : f64
    v2 = scan sum v1
    v3 = cast v2 : f32
    store b1[53*i0 + i1] v3
  }
}
";
    let source = numbers(7 * 53, 8);
    let sums = source.chunks(53).flat_map(|row| {
        row.iter().scan(0f64, |sum, x| {
            *sum += *x as f64;
            Some(*sum as f32)
        })
    });
    let out = vec![0f32; 7 * 53];
    run(&compile(text), &[&source, &out], &[], 7);
    assert_close(&out, &sums.collect::<Vec<_>>(), 1e-6);
    let adds = |text: &str| backend().emit_ir(&parse(text)).unwrap().matches("fadd <").count();
    assert!(adds(text) > 0 && adds(&text.replace("f32 in", "f64 in").replace("v1 = cast v0 : f64", "v1 = add v0 v0")) <= 1);
}

#[test]
fn a_recurrence_decays_before_it_adds() {
    let text = "kernel recurrence(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 18) lanes=LANES {
  pass i1 < 21 {
    v0 = load b0[i0 + 18*i1]
    v1 = load b1[i0 + 18*i1]
    v2 = scan sum v0 decay v1
    store b2[i0 + 18*i1] v2
  }
}
";
    let (x, decay) = (numbers(18 * 21, 4), numbers(18 * 21, 5));
    let mut expected = vec![0.0f32; 18 * 21];
    for column in 0..18 {
        let mut state = 0.0f32;
        for at in (column..18 * 21).step_by(18) {
            state = decay[at] * state + x[at];
            expected[at] = state;
        }
    }
    for lanes in ["outer", "none"] {
        let states = vec![0.0f32; 18 * 21];
        run(&compile(&text.replace("LANES", lanes)), &[&x, &decay, &states], &[], 18);
        assert_eq!(states, expected, "{lanes}");
    }
}

/// Written forwards, read backwards: each point (each lane) has a scratch of its own.
#[test]
fn scratch_is_private_to_a_point() {
    let text = "kernel scratch(b0: f32 in, b1: f32 scratch 21, b2: f32 out, i0 < 35) lanes=LANES {
  pass i1 < 21 {
    v0 = load b0[21*i0 + i1]
    v1 = add v0 v0
    store b1[i1] v1
  }
  pass i1 < 21 {
    v2 = load b1[20 - i1]
    store b2[21*i0 + i1] v2
  }
}
";
    let source = numbers(35 * 21, 6);
    let want: Vec<f32> = source.chunks(21).flat_map(|row| row.iter().rev().map(|x| x + x)).collect();
    for lanes in ["inner", "outer", "none"] {
        let out = vec![0.0f32; 35 * 21];
        run(&compile(&text.replace("LANES", lanes)), &[&source, &out], &[], 35);
        assert_eq!(out, want, "{lanes}");
    }
}

#[test]
fn a_reduction_over_no_axes_is_the_value() {
    let text = "kernel one(b0: f32 in, b1: f32 out, i0 < 20) lanes=outer {
  pass {
    v0 = load b0[i0]
    v1 = reduce max v0
  }
  pass {
    store b1[i0] v1
  }
}
";
    let source = numbers(20, 6);
    let out = vec![0.0f32; 20];
    run(&compile(text), &[&source, &out], &[], 20);
    assert_eq!(out, source);
}

/// Of what is a multiple of the vectors nothing is left, whatever its size is: there is no code for it.
#[test]
fn rows_of_known_multiples_need_no_rest() {
    let text = |divisor: usize| {
        format!(
            "sizes s0 in 1.. by {divisor}
kernel rows(b0: f32 in, b1: f32 out, i0 < 5) lanes=inner {{
  pass i1 < s0 {{ v0 = load b0[s0*i0 + i1] v1 = exp v0 store b1[s0*i0 + i1] v1 }}
}}
"
        )
    };
    let length = |divisor: usize| backend().emit_ir(&parse(&text(divisor))).unwrap().len();
    assert!(length(64) * 3 < length(1) * 2, "{} and {}", length(64), length(1));
    let kernel = compile(&text(64));
    for n in [64usize, 128, 640] {
        let source = numbers(5 * n, n as u64);
        let out = vec![0.0f32; 5 * n];
        run_cut(&kernel, &[&source, &out], &[n as i64], 5, &[2]);
        assert_close(&out, &source.iter().map(|x| x.exp()).collect::<Vec<f32>>(), 3e-6);
    }
}
