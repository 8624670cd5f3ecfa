//! What a call costs beside its kernels: `cargo run --release -p ox_runtime --example overhead`.

#[allow(dead_code)]
#[path = "../tests/runtime/build.rs"]
mod build;

use build::*;
use ox_ir::{DType, Sym};
use std::time::Instant;

fn nanoseconds(count: u32, mut f: impl FnMut()) -> f64 {
    (0..count / 10).for_each(|_| f());
    let start = Instant::now();
    (0..count).for_each(|_| f());
    start.elapsed().as_nanos() as f64 / count as f64
}

fn main() {
    if !torch() {
        return;
    }
    let x = tensor(&[16], &[1.0; 16]);
    let allocation = nanoseconds(200_000, || drop(tensor(&[16], &[])));

    let mut b = Builder::default();
    let (input, y) = (b.input(&[16]), b.output(&[16]));
    b.launch(twice_plus_one, Sym::from(16i64), &[input, y]);
    let one = b.build();
    let call = nanoseconds(200_000, || drop(run(&one, &[&x])));
    println!("one kernel, one input, one output: {call:.0} ns, of which the output's allocation {allocation:.0} ns");

    let mut b = Builder::default();
    let inputs: Vec<_> = (0..200).map(|_| b.input(&[16])).collect();
    let (t, y) = (b.arena(DType::F32, &[16]), b.output(&[16]));
    for input in &inputs {
        b.launch(twice_plus_one, Sym::from(16i64), &[*input, t]);
    }
    b.launch(twice_plus_one, Sym::from(16i64), &[t, y]);
    let many = b.build();
    let all: Vec<_> = inputs.iter().map(|_| &x).collect();
    let call = nanoseconds(20_000, || drop(run(&many, &all)));
    println!("201 kernels, 200 inputs, one output: {:.0} ns per kernel with its input", call / 200.0);

    let small = product_plan(4);
    let x = tensor(&[4, 4], &[1.0; 16]);
    println!("one kernel and one 4x4 product: {:.0} ns", nanoseconds(100_000, || drop(run(&small, &[&x]))));
}
