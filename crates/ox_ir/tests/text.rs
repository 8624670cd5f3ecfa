//! What is printed parses back to an equal value, and wrong text is refused with its line.

use ox_ir::graph::*;
use ox_ir::sym::parse_sym;
use ox_ir::{Device, Graph, Kernel, Sym};

#[track_caller]
fn round_trip(text: &str) -> Graph {
    let graph = Graph::parse(text).unwrap();
    assert_eq!(graph.to_string(), text);
    assert_eq!(Graph::parse(&graph.to_string()).unwrap(), graph);
    graph
}

#[test]
fn graph_with_sizes_strides_and_locations() {
    let graph = round_trip(
        r#"sizes s0 in 8..1024 by 8, s1 in 0..
graph(%0: f32[s0, 64] "x", %1: f32[64] "weight" frozen, %2: bf16[s1, s0]@cuda1 strides [1, s1] "a \"b\"") {
  %3 = reshape(%1) : f32[1, 64]  # model.py:11
  %4 = expand(%3) : f32[s0, 64]  # model.py:11
  %5 = add(%0, %4) : f32[s0, 64]  # model.py:12
  mutate 0 = %5
  return %5, %4 strides [1, s0] part at 3, %0 alias input 0 at 0, %5 alias output 0 at s0 + 1, %5 own
}
"#,
    );
    assert_eq!(graph.sizes[0].divisor(), 8);
    assert_eq!((graph.sizes[1].lo(), graph.sizes[1].hi()), (0, i64::MAX));
    assert_eq!(graph.locations, ["", "model.py:11", "model.py:12"]);
    assert_eq!(graph.inputs[2].ty.device, Device::Cuda(1));
    assert_eq!(graph.inputs[2].name, "a \"b\"");
    assert!(graph.inputs[1].frozen && !graph.inputs[0].frozen);
    let memories: Vec<Memory> = graph.outputs.iter().map(|output| output.memory.clone()).collect();
    assert_eq!(memories, [Memory::Any, Memory::Whole(3i64.into()), Memory::Any, Memory::Any, Memory::Own]);
    assert_eq!(graph.outputs[3].alias, Some(Alias::Output(0, &Sym::var(&graph.sizes[0]) + 1)));
}

/// One line for every op and every kind of attribute. The types need not make sense for the text.
#[test]
fn every_op() {
    let graph = round_trip(
        r#"sizes s0 in 2..
graph(%0: f32[s0] "x") {
  %1 = full(-0.0) : f32[]
  %2 = full(nan) : f32[]
  %3 = full(-inf) : f32[]
  %4 = full(7) : i64[2]
  %5 = full(true) : bool[2]
  %6 = sym_value(2*s0 - 1) : i64[]
  %7 = iota(dim=1) : i64[2, 3]
  %8 = where(%5, %4, %4) : i64[2]
  %9 = cast(%0) : bf16[s0]
  %10 = permute(%7, [1, 0]) : i64[3, 2]
  %11 = slice(%7, [s0//2, 2 by -1]) : i64[1, 3]
  %12 = unfold(%7, dim=0, step=2) : i64[1, 3, 2]
  %13 = diagonal(%7, offset=-1, dim1=0, dim2=1) : i64[1]
  %14 = pad(%0, low=[-1], value=0.5) : f32[s0 + 3]
  %15 = cat(%4, %4, dim=0) : i64[4]
  %16 = slice_scatter(%4, %4, [0]) : i64[2]
  %17 = index(%7, %4, dims=[1], at=1) : i64[2, 2]
  %18 = index_put(%7, %4, %17, dims=[1], at=1) : i64[2, 3]
  %19 = index_put(%7, %4, %17, dims=[1], at=1, combine=sum) : i64[2, 3]
  %20 = reduce(%7, op=argmax, dims=[1]) : i64[2, 1]
  %21 = scan(%7, op=sum, dim=1) : i64[2, 3]
  %22 = matmul(%9, %9) : bf16[2, 2]
  %23 = matmul(%9, %9, %9, %9, bias, add, alpha=0.5, beta=2.0, post=gelu_tanh) : bf16[2, 2]
  %24 = conv(%9, %9, stride=[1, 1], padding=[0, s0], dilation=[1, 1], transposed, output_padding=[1, 0], groups=2, bias, post=hardtanh(0.0, 6.0)) : f32[1]
  %25 = attention(%9, %9, %9, %5, causal, scale=0.125, mask) : f32[1]
  %26 = library(%0, %4, callee="aten::sort" "stable", args=[$0, none, -1, 1.0, true, "x", [1, s0 + 2], tuple($1), slice(none, (s0 + 1)//2, 1), {"k": dtype(f16)}, device(cuda0), memory_format(2), layout(0), object(3)], kwargs=["dim": 1], outs=[f32[2], i64[2, 3] strides [1, 2]], mutates=[1], effect) : f32[2]
  %27 = project(%26, 1) : i64[2, 3]
  %28 = library(callee=python 3 "my_op", outs=[f32[2]]) : f32[2]
  %29 = scan(%7, %7, op=sum, dim=1) : i64[2, 3]
  return
}
"#,
    );
    assert_eq!(graph.nodes.len(), 30);
}

/// An input without a node, and inputs whose nodes come late or out of order.
#[test]
fn inputs_out_of_order() {
    round_trip("graph(_: f32[2] \"a\", _: f32[] \"b\") {\n  %0 = input(1) : f32[]\n  return %0\n}\n");
}

#[test]
fn names_are_free_and_comments_are_skipped() {
    let text = "# a graph\ngraph(%x: f32[2] \"x\") {\n  # first\n  %y = neg(%x) : f32[2]\n  return %y\n}";
    let graph = Graph::parse(text).unwrap();
    assert_eq!(graph.to_string(), "graph(%0: f32[2] \"x\") {\n  %1 = neg(%0) : f32[2]\n  return %1\n}\n");
}

#[track_caller]
fn refused(text: &str, line: usize, message: &str) {
    let error = Graph::parse(text).unwrap_err();
    assert!(error.line == line && error.message.contains(message), "{error}");
}

#[test]
fn wrong_text_is_refused() {
    refused("graph() {\n  %0 = neg(%1) : f32[2]\n  return\n}", 2, "`%1` is not defined yet");
    refused("graph() {\n  %0 = frob() : f32[2]\n  return\n}", 2, "unknown op `frob`");
    refused("graph() {\n  %0 = full(1.0) : f33[2]\n  return\n}", 2, "expected an element type");
    refused("graph() {\n  %0 = full(1.0) : f32[s0]\n  return\n}", 2, "expected a size expression");
    refused("graph() {\n  %0 = cat() : f32[2]\n  return\n}", 2, "expected the attribute `dim`");
    refused("graph() {\n  %0 = full(1.0) : f32[2]\n  %0 = full(1.0) : f32[2]\n  return\n}", 3, "defined twice");
    refused("graph() {\n  return\n} trailing", 3, "end of the graph");
    refused("graph(%0: f32[2] \"x) {", 1, "closing quote");
    refused("", 1, "expected `graph`, found the end of the text");
}

#[test]
fn kernels() {
    let text = r#"sizes s0 in 2..64
kernel "soft max"(b0: f32 in, b1: bf16 out, b2: i64 inout, b3: f32 scratch 128, i0 < s0, i1 < 4) lanes=inner parallel {
  pass {
    v0 = load b2[i0]
    v1 = check_index v0 j0 < s0 wrap check 2
    v2 = const 1 : i64
    check_nonzero v2 check 0
  }
  pass i2 < 8, i3 < 128 {
    v4 = index 4*i0 + i1
    v5 = lt v4 v2
    v6 = load b0[i3 + 128*j0] if v5 else -inf
    v7 = reduce max v6 : f64
    v8 = scan sum v6 decay v6
    v9 = reduce argmax v6 at 128*i2 + i3
    store b3[i3] v8 if v5
  }
  pass i2 < 128 {
    v11 = load b3[i2]
    v12 = cast v7 : f32
    v13 = sub v11 v12
    v14 = cast v13 : bf16
    store b1[128*i0 + i2] v14
    store sum b2[j0] v9
  }
}
"#;
    let kernel = Kernel::parse(text).unwrap();
    assert_eq!(kernel.to_string(), text);
    assert_eq!(Kernel::parse(&kernel.to_string()).unwrap(), kernel);
}

#[test]
fn kernel_values_end_with_their_variables() {
    let text = "kernel k(b0: f32 in) lanes=none {\n  pass i0 < 4 {\n  }\n  pass {\n    v0 = load b0[i0]\n  }\n}\n";
    assert_eq!(Kernel::parse(text).unwrap_err().line, 5);
    let text = "kernel k(b0: f32 in) lanes=none {\n  pass {\n    v0 = const 1.0\n  }\n}\n";
    assert!(Kernel::parse(text).unwrap_err().message.contains("type must be given"));
}

#[test]
fn sym_text() {
    let s = ox_ir::Var::size(0, 2, 100, 1);
    let lookup = |name: &str| (name == "s0").then(|| s.clone());
    for text in [
        "4*s0 + 1",
        "-s0 - 3",
        "(s0 + 1)//3",
        "-((s0 + 1)//3)",
        "s0//2 + 2*(s0%3) - 1",
        "s0*s0*(s0//7)",
        "min(7, s0)",
        "-9223372036854775808",
    ] {
        assert_eq!(parse_sym(text, &lookup).unwrap().to_string(), text);
    }
    assert!(parse_sym("s1", &lookup).is_err());
    assert!(parse_sym("s0 s0", &lookup).is_err());
}
