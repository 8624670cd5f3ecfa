//! Kernels of every family, large enough for whole blocks and vectors: on an emulated GPU they compute what the interpreter says.

mod emulate;

use emulate::Emulator;
use ox_codegen_cuda::{Backend, Options, Source, emit};
use ox_ir::{DType, Graph, Kernel, Scalar};
use ox_testing::{TensorData, assert_close, interpret_kernel};

const OPTIONS: Options = Options { arch: 90, ordered: false, multiprocessors: 0, careful: false };

/// A kernel's text, and the number of elements of each of its buffers.
struct Case(&'static str, &'static [usize]);

const CASES: &[Case] = &[
    // A transpose: tiles.
    Case(
        "kernel transpose(b0: bf16 in, b1: bf16 out, i0 < 96, i1 < 70) lanes=outer parallel {
          pass { v0 = load b0[i0 + 96*i1] v1 = neg v0 store b1[70*i0 + i1] v1 }
        }",
        &[96 * 70, 96 * 70],
    ),
    // Rows of an odd length, from rows with a gap, written as one.
    Case(
        "kernel odd_rows(b0: bf16 in, b1: bf16 in, b2: bf16 out, i0 < 1048, i1 < 1001) lanes=outer parallel {
          pass { v0 = load b0[1008*i0 + i1] v1 = load b1[i1] v2 = add v0 v1 store b2[1001*i0 + i1] v2 }
        }",
        &[1048 * 1008, 1001, 1048 * 1001],
    ),
    // Weights of windows, channels last: points in the order in which they are written, by rows of an odd and of an even length.
    Case(
        "kernel odd_windows(b0: bf16 in, b1: bf16 out, i0 < 128, i1 < 9, i2 < 1024) lanes=outer parallel {
          pass { v0 = load b0[9216*i0 + 1024*i1 + i2] v1 = neg v0 store b1[9216*i0 + 9*i2 + i1] v1 }
        }",
        &[128 * 9 * 1024, 128 * 9 * 1024],
    ),
    Case(
        "kernel even_windows(b0: bf16 in, b1: bf16 in, b2: bf16 out, b3: f32 out, i0 < 6, i1 < 4, i2 < 40) lanes=outer parallel {
          pass {
            v0 = load b0[160*i0 + 40*i1 + i2] v1 = load b1[i2] v2 = add v0 v1 store b2[160*i0 + 4*i2 + i1] v2
            v3 = cast v2 : f32 store b3[160*i0 + 4*i2 + i1] v3
          }
        }",
        &[960, 40, 960, 960],
    ),
    // Whole vectors, of two types.
    Case(
        "kernel points(b0: bf16 in, b1: f32 in, b2: f32 out, i0 < 24, i1 < 64) lanes=outer parallel {
          pass { v0 = load b0[64*i0 + i1] v1 = cast v0 : f32 v2 = load b1[i1] v3 = mul v1 v2 store b2[64*i0 + i1] v3 }
        }",
        &[24 * 64, 64, 24 * 64],
    ),
    // Two parts side by side, the bound between two vectors; and inside of one.
    Case(
        "kernel even_parts(b0: bf16 in, b1: bf16 in, b2: bf16 out, i0 < 6, i1 < 64) lanes=outer parallel {
          pass {
            v0 = index i1 : i64 v1 = const 40 : i64 v2 = lt v0 v1 : bool v3 = load b0[40*i0 + i1] if v2 else 0
            v4 = index i1 - 40 : i64 v5 = const -1 : i64 v6 = gt v4 v5 : bool v7 = load b1[24*i0 + i1 - 40] if v6 else 0
            v8 = where v2 v3 v7 store b2[64*i0 + i1] v8
          }
        }",
        &[240, 144, 384],
    ),
    Case(
        "kernel odd_parts(b0: bf16 in, b1: bf16 in, b2: bf16 out, i0 < 6, i1 < 64) lanes=outer parallel {
          pass {
            v0 = index i1 : i64 v1 = const 40 : i64 v2 = le v0 v1 : bool v3 = load b0[48*i0 + i1] if v2 else 0
            v4 = index i1 - 41 : i64 v5 = const 0 : i64 v6 = ge v4 v5 : bool v7 = load b1[24*i0 + i1 - 41] if v6 else 0
            v8 = where v2 v3 v7 store b2[64*i0 + i1] v8
          }
        }",
        &[288, 144, 384],
    ),
    // The same in columns: what tells the parts apart is found before the loop.
    Case(
        "kernel columns_of_even_parts(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 256) lanes=outer parallel {
          pass { v0 = index i0 : i64 v1 = const 159 : i64 v2 = le v0 v1 : bool v3 = const 160 : i64 v4 = ge v0 v3 : bool }
          pass i1 < 40 {
            v5 = load b0[160*i1 + i0] if v2 else 0 v6 = load b1[96*i1 + i0 - 160] if v4 else 0 v7 = where v2 v5 v6 v8 = reduce sum v7
          }
          pass { store b2[i0] v8 }
        }",
        &[160 * 40, 96 * 40, 256],
    ),
    Case(
        "kernel columns_of_odd_parts(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 256) lanes=outer parallel {
          pass { v0 = index i0 : i64 v1 = const 158 : i64 v2 = lt v0 v1 : bool v3 = const 158 : i64 v4 = ge v0 v3 : bool }
          pass i1 < 40 {
            v5 = load b0[160*i1 + i0] if v2 else 0 v6 = load b1[100*i1 + i0 - 156] if v4 else 0 v7 = where v2 v5 v6 v8 = reduce sum v7
          }
          pass { store b2[i0] v8 }
        }",
        &[160 * 40, 100 * 40, 256],
    ),
    // A row in registers, with what is left over at its end.
    Case(
        "kernel softmax(b0: f32 in, b1: f32 out, b2: f32 scratch 1000, i0 < 3) lanes=inner parallel {
          pass i1 < 1000 { v0 = load b0[1000*i0 + i1] v1 = reduce max v0 }
          pass i1 < 1000 { v2 = load b0[1000*i0 + i1] v3 = sub v2 v1 v4 = exp v3 store b2[i1] v4 v5 = reduce sum v4 }
          pass i1 < 1000 { v6 = load b2[i1] v7 = div v6 v5 store b1[1000*i0 + i1] v7 }
        }",
        &[3000, 3000],
    ),
    // A long row: held as it was read, with shorter forms of functions since 16 bits are written.
    Case(
        "kernel long_softmax(b0: bf16 in, b1: bf16 out, i0 < 2) lanes=inner parallel {
          pass i1 < 18000 { v0 = load b0[18000*i0 + i1] v1 = cast v0 : f32 v2 = reduce max v1 }
          pass i1 < 18000 { v3 = load b0[18000*i0 + i1] v4 = cast v3 : f32 v5 = sub v4 v2 v6 = exp v5 v7 = reduce sum v6 }
          pass i1 < 18000 {
            v8 = load b0[18000*i0 + i1] v9 = cast v8 : f32 v10 = sub v9 v2 v11 = exp v10 v12 = div v11 v7 v13 = cast v12 : bf16
            store b1[18000*i0 + i1] v13
          }
        }",
        &[36000, 36000],
    ),
    // The largest and the sum of exponentials in one pass, one element at a time and eight.
    Case(
        "kernel logsumexp(b0: f32 in, b1: f32 out, b2: f32 out, i0 < 3) lanes=inner parallel {
          pass i1 < 5003 { v0 = load b0[5003*i0 + i1] v1 = reduce max v0 }
          pass { store b1[i0] v1 }
          pass i1 < 5003 { v2 = load b0[5003*i0 + i1] v3 = sub v2 v1 v4 = exp v3 v5 = reduce sum v4 }
          pass { v6 = log v5 store b2[i0] v6 }
        }",
        &[15009, 3, 3],
    ),
    Case(
        "kernel wide_logsumexp(b0: bf16 in, b1: f32 out, i0 < 3) lanes=inner parallel {
          pass i1 < 9008 { v0 = load b0[9008*i0 + i1] v1 = cast v0 : f32 v2 = reduce max v1 }
          pass i1 < 9008 { v3 = load b0[9008*i0 + i1] v4 = cast v3 : f32 v5 = sub v4 v2 v6 = exp v5 v7 = reduce sum v6 }
          pass { v8 = log v7 store b1[i0] v8 }
        }",
        &[3 * 9008, 3],
    ),
    // 1 + erf.
    Case(
        "kernel gelu(b0: bf16 in, b1: bf16 out, i0 < 4096) lanes=outer parallel {
          pass {
            v0 = load b0[i0] v1 = cast v0 : f32 v2 = const 0.70710678 : f32 v3 = mul v1 v2 v4 = erf v3 v5 = const 1.0 : f32 v6 = add v4 v5
            v7 = const 0.5 : f32 v8 = mul v1 v7 v9 = mul v8 v6 v10 = cast v9 : bf16 store b1[i0] v10
          }
        }",
        &[4096, 4096],
    ),
    // What is rounded to 16 bits before it is added up may be a little off; what is added up as it is may not.
    Case(
        "kernel gradient_of_a_bias(b0: bf16 in, b1: bf16 in, b2: bf16 out, b3: f32 out, b4: f32 out, i0 < 64) lanes=outer parallel {
          pass i1 < 100 {
            v0 = load b0[64*i1 + i0] v1 = cast v0 : f32 v2 = load b1[64*i1 + i0] v3 = cast v2 : f32
            v4 = exp v1 v5 = mul v3 v4 v6 = cast v5 : bf16 v7 = cast v6 : f32 v8 = reduce sum v7 store b2[64*i1 + i0] v6
            v9 = exp v3 v10 = reduce sum v9
          }
          pass { store b3[i0] v8 store b4[i0] v10 }
        }",
        &[6400, 6400, 6400, 64, 64],
    ),
    // Many short rows in a block.
    Case(
        "kernel means(b0: bf16 in, b1: bf16 out, i0 < 77) lanes=inner parallel {
          pass i1 < 24 { v0 = load b0[24*i0 + i1] v1 = cast v0 : f32 v2 = reduce sum v1 }
          pass { v3 = const 24.0 : f32 v4 = div v2 v3 v5 = cast v4 : bf16 store b1[i0] v5 }
        }",
        &[77 * 24, 77],
    ),
    // Results of rows weigh more than what the rows read: still read along the row.
    Case(
        "kernel sums(b0: f32 in, b1: f32 out, b2: f32 out, i0 < 40) lanes=outer parallel {
          pass i1 < 300 { v0 = load b0[300*i0 + i1] v1 = reduce sum v0 v2 = reduce min v0 }
          pass { store b1[i0] v1 store b2[i0] v2 }
        }",
        &[12000, 40, 40],
    ),
    // Columns.
    Case(
        "kernel columns(b0: f32 in, b1: f32 out, i0 < 45) lanes=outer parallel {
          pass i1 < 300 { v0 = load b0[45*i1 + i0] v1 = reduce sum v0 }
          pass { store b1[i0] v1 }
        }",
        &[45 * 300, 45],
    ),
    // Columns, with two wide numbers for each row.
    Case(
        "kernel gradient_of_a_norm(b0: bf16 in, b1: f32 in, b2: f32 in, b3: f32 out, i0 < 2, i1 < 64) lanes=outer parallel {
          pass i2 < 300 {
            v0 = load b0[19200*i0 + 64*i2 + i1] v1 = cast v0 : f32 v2 = load b1[300*i0 + i2] v3 = sub v1 v2 v4 = load b2[300*i0 + i2]
            v5 = mul v3 v4 v6 = reduce sum v5
          }
          pass { store b3[64*i0 + i1] v6 }
        }",
        &[2 * 19200, 600, 600, 128],
    ),
    // Neighbouring columns of a thread: two sums, what is made of them, and a second loop that reads it; the last block is not full.
    Case(
        "kernel neighbours(b0: bf16 in, b1: f32 in, b2: f32 out, b3: bf16 out, i0 < 3, i1 < 52) lanes=outer parallel {
          pass { v0 = load b1[i1] v1 = const 300.0 : f32 }
          pass i2 < 300 {
            v2 = load b0[15600*i0 + 52*i2 + i1] v3 = cast v2 : f32 v4 = mul v3 v0 v5 = reduce sum v4 v6 = reduce max v3
          }
          pass { v7 = div v5 v1 v8 = add v7 v6 store b2[52*i0 + i1] v8 }
          pass i2 < 300 {
            v9 = load b0[15600*i0 + 52*i2 + i1] v10 = cast v9 : f32 v11 = sub v10 v8 v12 = mul v11 v0 v13 = cast v12 : bf16
            store b3[15600*i0 + 52*i2 + i1] v13
          }
        }",
        &[46800, 52, 156, 46800],
    ),
    // The position of the first maximum.
    Case(
        "kernel argmax(b0: f32 in, b1: i64 out, i0 < 5) lanes=inner parallel {
          pass i1 < 700 { v0 = load b0[700*i0 + i1] v1 = reduce argmax v0 at i1 }
          pass { store b1[i0] v1 }
        }",
        &[3500, 5],
    ),
    // A scan over more than one chunk.
    Case(
        "kernel cumsum(b0: f32 in, b1: f32 out, i0 < 2) lanes=inner parallel {
          pass i1 < 700 { v0 = load b0[700*i0 + i1] v1 = scan sum v0 store b1[700*i0 + i1] v1 }
        }",
        &[1400, 1400],
    ),
    // A recurrence goes one by one, also where a scan would be done by many threads.
    Case(
        "kernel recurrence(b0: f32 in, b1: f32 out, i0 < 70) lanes=inner parallel {
          pass i1 < 9 {
            v0 = load b0[9*i0 + i1] v1 = load b0[9*i0 + 8 - i1] v2 = const 0.125 : f32 v3 = mul v1 v2
            v4 = scan sum v0 decay v3 store b1[9*i0 + i1] v4
          }
        }",
        &[630, 630],
    ),
];

fn filled(kernel: &Kernel, lengths: &[usize]) -> Vec<TensorData> {
    let passed = kernel.bufs.iter().filter(|b| !matches!(b.role, ox_ir::kernel::BufRole::Scratch(_)));
    let number = |n: usize| ((n * 37 + 11) % 101) as f64 / 8.0 - 6.0;
    passed
        .zip(lengths)
        .map(|(b, len)| match b.dtype.is_float() {
            true => TensorData::floats(b.dtype, &[*len], &(0..*len).map(number).collect::<Vec<_>>()),
            false => TensorData::ints(b.dtype, &[*len], &vec![0; *len]),
        })
        .collect()
}

fn to_bytes(tensor: &TensorData) -> Vec<u8> {
    let element = |x: &Scalar| match tensor.dtype {
        DType::BF16 => half::bf16::from_f64(x.as_f64()).to_le_bytes().to_vec(),
        DType::F32 => (x.as_f64() as f32).to_le_bytes().to_vec(),
        DType::F64 => x.as_f64().to_le_bytes().to_vec(),
        DType::I32 => (x.as_i64() as i32).to_le_bytes().to_vec(),
        _ => x.as_i64().to_le_bytes().to_vec(),
    };
    tensor.data.iter().flat_map(element).collect()
}

fn from_bytes(like: &TensorData, bytes: &[u8]) -> TensorData {
    let element = |b: &[u8]| match like.dtype {
        DType::BF16 => Scalar::Float(half::bf16::from_le_bytes([b[0], b[1]]).to_f64()),
        DType::F32 => Scalar::Float(f32::from_le_bytes(b.try_into().unwrap()) as f64),
        DType::F64 => Scalar::Float(f64::from_le_bytes(b.try_into().unwrap())),
        DType::I32 => Scalar::Int(i32::from_le_bytes(b.try_into().unwrap()) as i64),
        _ => Scalar::Int(i64::from_le_bytes(b.try_into().unwrap())),
    };
    TensorData::new(like.dtype, &like.shape, bytes.chunks(like.dtype.size()).map(element))
}

#[test]
fn families_mean_what_the_interpreter_says() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    let kernels: Vec<Kernel> =
        CASES.iter().map(|case| Kernel::parse(case.0).unwrap_or_else(|e| panic!("{e:?}\n{}", case.0))).collect();
    let sources: Vec<Source> =
        kernels.iter().enumerate().map(|(n, kernel)| emit(kernel, &format!("k{n}"), &OPTIONS).unwrap()).collect();
    let emulator = Emulator::new("families", &sources);
    for ((kernel, source), Case(_, lengths)) in kernels.iter().zip(&sources).zip(CASES) {
        check(&emulator, kernel, source, filled(kernel, lengths), &[]);
    }
}

fn check(emulator: &Emulator, kernel: &Kernel, source: &Source, mut want: Vec<TensorData>, sizes: &[i64]) {
    let given: Vec<Vec<u8>> = want.iter().map(to_bytes).collect();
    interpret_kernel(kernel, &mut want[..], sizes).unwrap();
    let points = source.points.eval(&|var| kernel.sizes.iter().position(|size| size == var).map(|n| sizes[n])).unwrap();
    for reversed in [false, true] {
        let mut bytes = given.clone();
        let mut views: Vec<&mut [u8]> = bytes.iter_mut().map(Vec::as_mut_slice).collect();
        emulator.reverse(reversed);
        emulator.run(source, points, &mut views, sizes).unwrap();
        for (want, got) in want.iter().zip(&bytes) {
            assert_close(&from_bytes(want, got), want);
        }
    }
}

fn text_of(name: &str) -> String {
    let is_wanted = |case: &&Case| case.0.starts_with(&format!("kernel {name}"));
    let kernel = Kernel::parse(CASES.iter().find(is_wanted).unwrap().0).unwrap();
    emit(&kernel, "k", &OPTIONS).unwrap().text
}

/// A bound between two vectors is the same question for all elements of one.
#[test]
fn parts_that_begin_between_vectors_are_read_in_vectors() {
    for (name, masks) in [("even_parts", ["v2", "v6"]), ("columns_of_even_parts", ["w2[0]", "w4[0]"])] {
        let text = text_of(name);
        assert!(masks.iter().all(|mask| text.contains(&format!("{mask} ? load_pack<"))), "{text}");
    }
    for name in ["odd_parts", "columns_of_odd_parts"] {
        assert!(!text_of(name).contains("? load_pack<"), "{}", text_of(name));
    }
}

/// A value that is made of another twice, and so on, is looked at once.
#[test]
fn long_chains_are_written_at_once() {
    let squares: String = (1..64).map(|n| format!(" v{} = mul v{n} v{n}", n + 1)).collect();
    let text = format!(
        "kernel squares(b0: f32 out, i0 < 64, i1 < 64) lanes=outer parallel {{
          pass {{ v0 = index i0 : i64 v1 = cast v0 : f32{squares} store b0[64*i0 + i1] v64 }}
        }}"
    );
    assert!(emit(&Kernel::parse(&text).unwrap(), "k", &OPTIONS).unwrap().text.contains("v64 = v63 * v63"));
}

/// What lies along the loop is the same for all columns, and no reason to walk along it.
#[test]
fn columns_with_numbers_for_each_row_are_columns() {
    let text = text_of("gradient_of_a_norm");
    assert!(text.contains("threads for a column"), "{text}");
}

/// Of two exponentials one is rounded to 16 bits before it is added up.
#[test]
fn what_is_rounded_is_quick() {
    let text = text_of("gradient_of_a_bias");
    assert!(text.contains("v4 = quick_exp(v1)") && text.contains("v10 = expf(v3)"), "{text}");
}

/// Rows that hold nothing but -inf, begin with it, and hold inf or NaN: in one pass as in two.
#[test]
fn logsumexp_of_infinities() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    const LENGTH: usize = 9008;
    let case = CASES.iter().find(|case| case.0.contains("wide_logsumexp")).unwrap();
    let kernel = Kernel::parse(&case.0.replace("i0 < 3", "i0 < 5")).unwrap();
    let source = emit(&kernel, "k", &OPTIONS).unwrap();
    assert!(source.text.contains("max_sum_of"), "{}", source.text);
    let number = |n: usize| match (n / LENGTH, n % LENGTH) {
        (0, _) => f64::NEG_INFINITY,
        (1, at) if at != 8000 => f64::NEG_INFINITY,
        (2, 7000) => f64::INFINITY,
        (3, 4321) => f64::NAN,
        (_, at) => (at % 13) as f64 - 6.0,
    };
    let x = TensorData::floats(DType::BF16, &[5 * LENGTH], &(0..5 * LENGTH).map(number).collect::<Vec<_>>());
    let out = TensorData::floats(DType::F32, &[5], &[0.0; 5]);
    check(&Emulator::new("infinities", std::slice::from_ref(&source)), &kernel, &source, vec![x, out], &[]);
}

/// What the threads of neighbouring columns have found, of all widths, by many threads and in a block that is not full: numbers of 16 bytes take turns.
#[test]
fn neighbours_of_all_types_are_put_together() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    // What is read, what is made of it, and what comes of that.
    let reductions = [
        ("f32", "reduce sum v1", "f32", "f32"),
        ("bf16", "reduce sum v1", "f32", "f32"),
        ("bf16", "reduce sum v1", "f64", "f64"),
        ("f64", "reduce sum v1", "f64", "f64"),
        ("i32", "reduce max v1", "i32", "i32"),
        ("i32", "reduce sum v1", "i64", "i64"),
        ("f32", "reduce argmax v1 at i1", "f32", "i64"),
        ("bf16", "reduce argmin v1 at i1", "f64", "i64"),
    ];
    let kernel = |(of, reduction, made, result): (&str, &str, &str, &str)| {
        let text = format!(
            "kernel columns(b0: {of} in, b1: {result} out, i0 < 328) lanes=outer parallel {{
              pass i1 < 300 {{ v0 = load b0[328*i1 + i0] v1 = cast v0 : {made} v2 = {reduction} }}
              pass {{ store b1[i0] v2 }}
            }}"
        );
        Kernel::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
    };
    let kernels = reductions.map(kernel);
    let options = Options { multiprocessors: 1, ..OPTIONS };
    let sources: Vec<Source> =
        kernels.iter().enumerate().map(|(n, kernel)| emit(kernel, &format!("k{n}"), &options).unwrap()).collect();
    let emulator = Emulator::new("neighbours", &sources);
    for (kernel, source) in kernels.iter().zip(&sources) {
        assert!(source.text.contains("reduce_neighbours<32, "), "{}", source.text);
        check(&emulator, kernel, source, filled(kernel, &[328 * 300, 328]), &[]);
    }
}

/// Where each point of an axis is written is looked up: neighbours along it lie far apart.
#[test]
fn rows_that_are_looked_up_stay_outside() {
    let kernel = Kernel::parse(
        "kernel scatter(b0: i64 in, b1: f32 in, b2: f32 inout, i0 < 9, i1 < 32) lanes=outer parallel {
          pass i2 < 64 {
            v0 = load b0[i2] v1 = check_index v0 j0 < 100 wrap check 0 v2 = load b1[288*i2 + 32*i0 + i1]
            store sum b2[288*j0 + 9*i1 + i0] v2
          }
        }",
    )
    .unwrap_or_else(|e| panic!("{e:?}"));
    let text = emit(&kernel, "k", &OPTIONS).unwrap().text;
    assert!(text.contains("const idx i0 = rem(p, idx(9));") && text.contains("const idx i2 = p"), "{text}");
}

/// Of sizes without a bound indices are computed in 32 bits, for those with which they fit; a careful kernel takes all.
#[test]
fn indices_are_narrow_where_sizes_allow_it() {
    let kernel = Kernel::parse(
        "sizes s0 in 1.., s1 in 1..\nkernel rows(b0: f32 in, b1: f32 out, i0 < s0, i1 < s1) lanes=outer parallel {
          pass { v0 = load b0[2*s1*i0 + i1] v1 = neg v0 store b1[s1*i0 + i1] v1 }
        }",
    )
    .unwrap();
    let source = emit(&kernel, "k", &OPTIONS).unwrap();
    let at = |sizes: [i64; 2]| {
        let value = |sym: &ox_ir::Sym| sym.eval(&|var| kernel.sizes.iter().position(|size| size == var).map(|n| sizes[n]));
        source.narrow.iter().all(|limit| value(limit).is_some_and(|most| most < ox_ir::abi::NARROW))
    };
    assert!(source.text.contains("using idx = int;"), "{}", source.text);
    assert!(at([1000, 1000]) && at([1, 1 << 29]) && at([1 << 29, 1]));
    assert!(!at([1 << 15, 1 << 15]) && !at([1, 1 << 31]) && !at([1 << 40, 1 << 40]));
    let careful = emit(&kernel, "k", &Options { careful: true, ..OPTIONS }).unwrap();
    assert!(careful.narrow.is_empty() && careful.text.contains("using idx = long long;"), "{}", careful.text);
}

const FILLED: &str =
    "sizes s0 in 1..\nkernel filled(b0: bf16 in, b1: f32 out, b2: f32 out, i0 < 6, i1 < 64) lanes=outer parallel {
  pass i2 < (s0 + 5)//6 {
    v0 = index i0*((s0 + 5)//6) + i2 v1 = index s0 v2 = lt v0 v1
    v3 = load b0[64*i0*((s0 + 5)//6) + 64*i2 + i1] if v2 else 0 v4 = cast v3 : f32
    v5 = const 0 : f32 v6 = where v2 v4 v5 v7 = reduce sum v6
    v8 = const -inf : f32 v9 = where v2 v4 v8 v10 = reduce max v9
  }
  pass { store b1[64*i0 + i1] v7 store b2[64*i0 + i1] v10 }
}";

/// Parts that were filled up end where the filling begins: the last one may have fewer rounds than others, or none. Where a round of the filling counts
/// (here 1 is added in each) all are done.
#[test]
fn parts_that_were_filled_up_end_before_that() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    let counted = FILLED.replace("v5 = const 0", "v5 = const 1");
    // Over groups of four of what the columns were.
    let groups = FILLED.replace("i1 < 64", "i1 < 16").replace("pass i2 < (s0 + 5)//6", "pass i2 < (s0 + 5)//6, i3 < 4");
    let groups = groups.replace("+ i1] if", "+ 4*i1 + i3] if").replace("64*i0 + i1]", "16*i0 + i1]");
    for (text, ends, name) in [(FILLED, true, "filled"), (&counted, false, "counted"), (&groups, true, "groups")] {
        let kernel = Kernel::parse(text).unwrap_or_else(|e| panic!("{e:?}"));
        let source = emit(&kernel, "k", &OPTIONS).unwrap();
        assert_eq!(source.text.contains("v2 = true"), ends, "{}", source.text);
        let emulator = Emulator::new(name, std::slice::from_ref(&source));
        for size in [1, 5, 6, 7, 300, 301] {
            check(&emulator, &kernel, &source, filled(&kernel, &[64 * size, 384, 384]), &[size as i64]);
        }
    }
}

/// The parts of a sum together are as long as the whole: they do not make indices wide.
#[test]
fn parts_of_any_size_are_narrow() {
    let kernel = Kernel::parse(
        "sizes s0 in 1..\nkernel sums(b0: f32 in, b1: f32 out, i0 < 32, i1 < 768) lanes=outer parallel length=128 {
          pass i2 < (s0 + 31)//32 {
            v0 = index i0*((s0 + 31)//32) + i2 v1 = index s0 v2 = lt v0 v1
            v3 = load b0[768*i0*((s0 + 31)//32) + i1 + 768*i2] if v2 else 0 v4 = reduce sum v3
          }
          pass { store b1[768*i0 + i1] v4 }
        }",
    )
    .unwrap();
    let source = emit(&kernel, "k", &OPTIONS).unwrap();
    assert!(source.text.contains("using idx = int;"), "{}", source.text);
    let fits = |n: i64| source.narrow.iter().all(|limit| limit.eval(&|_| Some(n)).is_some_and(|most| most < ox_ir::abi::NARROW));
    // Half of 2^31 elements and more than that.
    assert!(fits((1 << 30) / 768) && !fits((1 << 31) / 768), "{:?}", source.narrow);
}

/// Many short rows of any number and length share a block; of a few, which may be much longer, each has its own.
#[test]
fn rows_of_any_number_are_spread_as_they_usually_are() {
    let rows_of_a_block = |usual: &str| {
        let text = format!(
            "sizes s0 in 1.., s1 in 1..\nkernel sums(b0: f32 in, b1: f32 out, i0 < s0) lanes=none parallel{usual} {{
              pass i1 < s1 {{ v0 = load b0[s1*i0 + i1] v1 = reduce sum v0 }}
              pass {{ store b1[i0] v1 }}
            }}"
        );
        let kernel = Kernel::parse(&text).unwrap_or_else(|e| panic!("{e:?}"));
        let source = emit(&kernel, "k", &OPTIONS).unwrap();
        (source.threads, source.points_per_block)
    };
    assert_eq!(rows_of_a_block(" length=256 points=131072"), (256, 4));
    assert_eq!(rows_of_a_block(" length=256 points=64"), (256, 1));
    assert_eq!(rows_of_a_block(" length=65536 points=131072"), (256, 1));
}

/// A size without a bound is a wide number in a careful kernel, and what it is divided by a narrow one.
#[test]
fn sizes_are_divided() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    const HALVES: &str = "sizes s0 in 0..\nkernel halves(b0: f32 in, b1: f32 out, i0 < 3, i1 < s0//2) lanes=outer parallel {
      pass { v0 = load b0[s0*i0 + s0%2 + i1] v1 = index s0//2 v2 = cast v1 : f32 v3 = mul v0 v2 store b1[(s0//2)*i0 + i1] v3 }
    }";
    let kernel = Kernel::parse(HALVES).unwrap_or_else(|e| panic!("{e:?}"));
    for careful in [false, true] {
        let source = emit(&kernel, "k", &Options { careful, ..OPTIONS }).unwrap();
        assert!(source.text.contains("quot(s0, 2)") && source.text.contains("rem(s0, 2)"), "{}", source.text);
        let emulator = Emulator::new(if careful { "wide_halves" } else { "halves" }, std::slice::from_ref(&source));
        check(&emulator, &kernel, &source, filled(&kernel, &[3 * 101, 3 * 50]), &[101]);
    }
}

/// What only moves values keeps all of their bits.
#[test]
fn a_copy_keeps_the_bits_of_a_nan() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    const COPY: &str = "kernel copy(b0: bf16 in, b1: bf16 out, i0 < 4096) lanes=outer parallel {\n  pass {\n    v0 = load b0[i0]\n    store b1[i0] v0\n  }\n}";
    let kernel = Kernel::parse(COPY).unwrap();
    let source = emit(&kernel, "k", &OPTIONS).unwrap();
    assert!(source.text.contains("store_pack"), "{}", source.text);
    let mut from: Vec<u8> = (0..4096u16).flat_map(|n| (0x7f80 + n % 128).to_le_bytes()).collect();
    let mut to = vec![0u8; from.len()];
    let emulator = Emulator::new("bits", std::slice::from_ref(&source));
    emulator.run(&source, 4096, &mut [&mut from, &mut to], &[]).unwrap();
    assert_eq!(from, to);
}

/// In the order of the program, each once; of equal kernels those of the first.
#[test]
fn a_kernel_says_which_of_the_users_lines_it_comes_from() {
    let text = r#"graph(%0: f32[64, 128]@cuda0 "x", %1: f32[64, 128]@cuda0 "y") {
  %2 = sin(%0) : f32[64, 128]@cuda0  # net.py:3
  %3 = neg(%2) : f32[64, 128]@cuda0  # net.py:3
  %4 = tanh(%3) : f32[64, 128]@cuda0  # C:\\net.py:7
  return %4
}"#;
    let plan = ox_schedule::schedule(&Graph::parse(text).unwrap(), &Default::default()).unwrap();
    assert_eq!(plan.lines_of(0).collect::<Vec<_>>(), ["net.py:3", r"C:\\net.py:7"]);
    let text = Backend::text(&plan.kernels[0], OPTIONS, plan.lines_of(0)).unwrap();
    // A backslash at its end would join the comment with the next line.
    let comment = "// net.py:3\n// C:__net.py:7\n// tanh_neg_sin: a thread for each point";
    assert!(text.contains(comment), "{text}");
}
