//! The verifiers let right programs pass and name what is wrong in others.

use ox_ir::{Graph, Kernel};

const HEAD: &str = r#"sizes s0 in 2..8
graph(%0: f32[2, 3] "x", %1: i64[4] "i", %2: bool[2, 3] "m", %3: f32[s0, 3] "y") {"#;

fn verify(body: &str) -> Result<(), String> {
    let graph = Graph::parse(&format!("{HEAD}\n{body}\n}}")).unwrap();
    graph.verify().map_err(|e| e.to_string())
}

#[track_caller]
fn right(body: &str) {
    assert_eq!(verify(&format!("{body}\n return %4")), Ok(()));
}

#[track_caller]
fn wrong(body: &str, message: &str) {
    let error = verify(&format!("{body}\n return %4")).expect_err("it is wrong");
    assert!(error.contains(message), "{error}");
}

#[test]
fn points() {
    right("%4 = add(%0, %0) : f32[2, 3]");
    right("%4 = where(%2, %0, %0) : f32[2, 3]");
    right("%4 = lt(%0, %0) : bool[2, 3]");
    wrong("%4 = add(%0) : f32[2, 3]", "1 arguments, not 2");
    wrong("%4 = add(%0, %0) : f32[3, 2]", "the shape should be [2, 3]");
    wrong("%4 = add(%0, %0) : f64[2, 3]", "the result is f32");
    wrong("%4 = and(%0, %0) : f32[2, 3]", "not defined on f32");
    wrong("%4 = where(%0, %0, %0) : f32[2, 3]", "argument 0 is f32, not bool");
    wrong("%4 = lt(%0, %0) : f32[2, 3]", "the result is bool");
    wrong("%4 = neg(%0) : f32[2, 3]@cuda0", "another device");
}

#[test]
fn views() {
    right("%4 = reshape(%3) : f32[3*s0]");
    right("%4 = permute(%0, [1, 0]) : f32[3, 2]");
    right("%4 = slice(%3, [1, 2 by -1]) : f32[s0 - 1, 3]");
    right("%4 = slice(%0, [5, 0]) : f32[0, 3]");
    right("%4 = unfold(%1, dim=0, step=2) : i64[2, 2]");
    right("%4 = diagonal(%0, offset=1, dim1=0, dim2=1) : f32[2]");
    wrong("%4 = reshape(%0) : f32[5]", "6 elements become 5");
    wrong("%4 = reshape(%3) : f32[3*s0 + 1]", "elements become");
    wrong("%4 = permute(%0, [0, 0]) : f32[2, 2]", "a dimension twice");
    wrong("%4 = permute(%0, [1, 0]) : f32[2, 3]", "the shape should be [3, 2]");
    wrong("%4 = expand(%0) : f32[4, 3]", "cannot be expanded");
    wrong("%4 = slice(%0, [1, 0]) : f32[2, 3]", "1 to 2 lies outside of 0..2");
    wrong("%4 = slice(%3, [2, 0]) : f32[s0, 3]", "lies outside of 0..s0");
    wrong("%4 = slice(%0, [0, 0 by 0]) : f32[2, 3]", "a step of 0");
    wrong("%4 = unfold(%1, dim=0, step=2) : i64[3, 2]", "the last window ends at 5");
    wrong("%4 = diagonal(%0, offset=1, dim1=0, dim2=1) : f32[3]", "a diagonal of 3 elements");
    wrong("%4 = cast(%0) : f64[3, 2]", "the shape should be");
}

#[test]
fn data_movement() {
    right("%4 = cat(%0, %3, dim=0) : f32[s0 + 2, 3]");
    right("%4 = index(%0, %1, dims=[1], at=1) : f32[2, 4]");
    right("%5 = full(1.0) : f32[4, 2]\n %4 = index_put(%0, %1, %5, dims=[1], at=0, combine=sum) : f32[2, 3]");
    wrong("%4 = cat(%0, %3, dim=0) : f32[s0 + 3, 3]", "the parts have s0 + 2 elements");
    wrong("%4 = cat(%0, %3, dim=2) : f32[2, 3]", "dimension 2 of 2");
    wrong("%4 = pad(%0, low=[1], value=0.0) : f32[3, 3]", "another rank");
    wrong("%4 = index(%0, %1, dims=[1], at=0) : f32[2, 4]", "the indices read [4, 2]");
    wrong("%4 = index(%0, %0, dims=[1], at=1) : f32[2, 2, 3]", "index 1 is f32");
    wrong("%4 = index(%0, %1, dims=[0, 1], at=0) : f32[4]", "1 indices for 2 dimensions");
    wrong("%4 = slice_scatter(%0, %0, [0, 1]) : f32[2, 3]", "lies outside");
}

#[test]
fn reductions_and_calls() {
    right("%4 = reduce(%0, op=argmax, dims=[1]) : i64[2, 1]");
    wrong("%4 = reduce(%0, op=argmax, dims=[0, 1]) : i64[1, 1]", "along one dimension");
    wrong("%4 = reduce(%0, op=sum, dims=[1]) : f32[2]", "the shape should be [2, 1]");
    wrong("%4 = reduce(%0, op=any, dims=[1]) : f32[2, 1]", "the result is bool");
    wrong("%4 = scan(%0, op=argmax, dim=0) : f32[2, 3]", "no running argmax");
    right("%4 = scan(%0, %0, op=sum, dim=0) : f32[2, 3]");
    wrong("%4 = scan(%0, %0, op=max, dim=0) : f32[2, 3]", "2 arguments, not 1");
    wrong("%4 = matmul(%0, %0) : f32[2, 3]", "do not fit");
    right("%5 = permute(%0, [1, 0]) : f32[3, 2]\n %4 = matmul(%3, %5) : f32[s0, 2]");
    wrong("%4 = library(%0, callee=\"a\" \"\", args=[[$1]], outs=[f32[2]]) : f32[2]", "there is no tensor $1");
    wrong("%4 = project(%0, 0) : f32[2, 3]", "not a library call");
    wrong("%5 = library(callee=\"a\" \"\", outs=[f32[2]]) : f32[2]\n %4 = project(%5, 1) : f32[2]", "there is no output 1");
    wrong("%4 = attention(%0, %0, %3) : f32[2, 3]\n %5 = attention(%0, %3, %0) : f32[2, 4]", "the shape should be [2, 3]");
}

#[test]
fn the_graph_around() {
    let graph = |text: &str| Graph::parse(text).unwrap();
    let mut late = graph("graph(%0: f32[2] \"x\") {\n %1 = neg(%0) : f32[2]\n %2 = neg(%1) : f32[2]\n return %2 }");
    late.nodes.swap(1, 2);
    assert!(late.verify().unwrap_err().message.contains("comes later"));
    let mutation = graph("graph(%0: f32[2] \"x\") {\n %1 = full(1.0) : f32[3]\n mutate 0 = %1\n return }");
    assert!(mutation.verify().unwrap_err().message.contains("f32[3] where f32[2] is expected"));
    let mut unknown = graph("sizes s0 in 2..\ngraph(%0: f32[s0] \"x\") {\n return %0 }");
    unknown.sizes.clear();
    assert!(unknown.verify().unwrap_err().message.contains("s0 is not a size"));
    let alias = graph("graph(%0: f32[2] \"x\") {\n return %0 alias input 3 at 0 }");
    assert!(alias.verify().unwrap_err().message.contains("there is no input 3"));
}

#[track_caller]
fn kernel(body: &str) -> Result<(), String> {
    let head = "sizes s0 in 2..8\nkernel k(b0: f32 in, b1: f32 out, b2: i64 inout, b3: f32 scratch 8, i0 < s0) lanes=outer";
    let mut kernel = Kernel::parse(&format!("{head} {{ {body} }}")).unwrap();
    kernel.sizes.retain(|v| v.id() == 0);
    kernel.verify().map_err(|e| e.to_string())
}

#[track_caller]
fn wrong_kernel(body: &str, message: &str) {
    let error = kernel(body).expect_err("it is wrong");
    assert!(error.contains(message), "{error}");
}

#[test]
fn kernels() {
    let gather = "pass { v0 = load b2[i0] v1 = check_index v0 j0 < 4 check 0 }
        pass i1 < 3 { v2 = load b0[3*j0 + i1] v3 = reduce sum v2 store b3[i1] v2 }
        pass i1 < 3 { v4 = load b3[i1] v5 = sub v4 v3 store b1[3*i0 + i1] v5 }";
    assert_eq!(kernel(gather), Ok(()));
    wrong_kernel("pass i1 < 3 { v0 = load b0[i1] } pass { store b1[i0] v0 }", "v0 is not to be seen here");
    wrong_kernel("pass i1 < 3 { v0 = load b0[i1] v1 = reduce sum v0 store b1[i0] v1 }", "v1 is not to be seen here");
    wrong_kernel("pass { v0 = load b1[i0] }", "b1 is only written");
    wrong_kernel("pass { v0 = load b0[i0] store b0[i0] v0 }", "b0 is only read");
    wrong_kernel("pass { v0 = load b0[i0] store sum b1[i0] v0 }", "it is read too");
    wrong_kernel("pass { v0 = load b0[i0] store b2[i0] v0 }", "a value of type f32 into b2");
    wrong_kernel("pass { v0 = load b0[i0] v1 = load b2[i0] v2 = add v0 v1 }", "arguments of types");
    wrong_kernel("pass { v0 = load b0[i0] v1 = load b0[i0] if v0 else 0.0 }", "the mask v0 is not bool");
    wrong_kernel("pass { v0 = load b0[i0] v1 = scan argmax v0 }", "there is no running argmax");
    wrong_kernel("pass { v0 = load b0[i0] v1 = scan max v0 decay v0 }", "only sums decay");
    wrong_kernel("pass { v0 = load b0[i0] v1 = neg v0 : f64 }", "its type is f64, not f32");
    wrong_kernel("pass i0 < 3 { v0 = load b0[i0] }", "i0 is an axis already");
}

#[test]
fn kernels_broken_by_hand() {
    let text = "kernel k(b0: f32 in, i0 < 4) lanes=outer { pass { v0 = load b0[i0] v1 = neg v0 } }";
    let parsed = || Kernel::parse(text).unwrap();
    let mut swapped = parsed();
    swapped.passes[0].body.swap(0, 1);
    assert!(swapped.verify().unwrap_err().message.contains("v0 is not to be seen"));
    let mut twice = parsed();
    let first = twice.passes[0].body[0];
    twice.passes[0].body.push(first);
    assert!(twice.verify().unwrap_err().message.contains("in two places"));
    let mut lost = parsed();
    lost.passes[0].body.pop();
    assert!(lost.verify().unwrap_err().message.contains("in no pass"));
    let mut scoped = parsed();
    scoped.axes.clear();
    scoped.lanes = ox_ir::kernel::Lanes::None;
    assert!(scoped.verify().unwrap_err().message.contains("i0 has no value here"));
}
