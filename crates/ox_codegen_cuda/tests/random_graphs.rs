//! Random graphs as CUDA: NVRTC takes every kernel, and run on an emulated GPU they compute what the graph means.

mod emulate;

use emulate::Emulator;
use ox_codegen_cuda::{CodegenError, Nvrtc, Options, Source, assemble, emit};
use ox_ir::graph::{Combine, Op};
use ox_ir::kernel::BufRole;
use ox_ir::{Graph, Kernel, Plan, Var};
use ox_testing::random::Rng;
use ox_testing::{RandomConfig, interpret_graph, interpret_plan_with, random_graph, random_inputs, random_sizes};
use std::path::PathBuf;

/// `SEEDS=1000..2000` looks at others.
fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let given = std::env::var("SEEDS").ok();
    let parsed = given.as_deref().and_then(|s| s.split_once("..")).and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.unwrap_or(usual)
}

struct Case {
    seed: u64,
    graph: Graph,
    plan: Plan,
    sources: Vec<Source>,
}

/// Whether the kernels of a case are those for buffers that begin anywhere.
fn is_careful(seed: u64) -> bool {
    seed % 8 == 7
}

/// The same with sizes that have no upper end, as those of programs have none: what is computed of them may need 64 bits.
fn unbounded(graph: &Graph) -> Graph {
    let text = graph.to_string();
    let (sizes, rest) = text.split_once('\n').expect("sizes stand in front");
    let open = |size: &str| match size.split_once("..") {
        Some((lo, hi)) => format!("{lo}..{}", hi.trim_start_matches(|c: char| c.is_ascii_digit() || c == '=')),
        None => size.to_string(),
    };
    let sizes: Vec<String> = sizes.split(", ").map(open).collect();
    let open = Graph::parse(&format!("{}\n{rest}", sizes.join(", "))).unwrap();
    open.verify().unwrap();
    open
}

/// What is made of a seed, and for which GPU: with no multiprocessors, even small kernels move whole vectors.
#[derive(Clone, Copy)]
struct Kind {
    large: bool,
    ordered: bool,
    multiprocessors: u32,
}

const SMALL: Kind = Kind { large: false, ordered: false, multiprocessors: 0 };
const ORDERED: Kind = Kind { large: false, ordered: true, multiprocessors: 132 };
const LARGE: Kind = Kind { large: true, ordered: false, multiprocessors: 0 };
/// So that few multiprocessors are busy: rows and columns are spread over more threads.
const WIDE: Kind = Kind { large: true, ordered: false, multiprocessors: 16 };

fn cases(kind: Kind) -> Vec<Case> {
    let Kind { large, ordered, multiprocessors } = kind;
    let case = |seed: u64| {
        let nodes = if large { 6 + seed as usize % 8 } else { 12 };
        let config = RandomConfig { symbolic: seed % 2 == 1, large, nodes, calls: !large, ..RandomConfig::default() };
        let graph = random_graph(seed, &config);
        let graph = if seed % 4 == 3 { unbounded(&graph) } else { graph };
        let optimised = if seed % 4 < 2 { graph.clone() } else { ox_optimise::optimise(graph.clone(), &Default::default()) };
        let target = if seed.is_multiple_of(3) { ox_schedule::Target::Cpu } else { ox_schedule::Target::Gpu };
        let options = ox_schedule::ScheduleOptions { target, ..Default::default() };
        let plan = ox_schedule::schedule(&optimised, &options).unwrap();
        let text = |(n, kernel): (usize, &Kernel)| {
            emit(kernel, &format!("k{seed}_{n}"), &Options { arch: 90, ordered, multiprocessors, careful: is_careful(seed) })
                .unwrap()
        };
        let sources = plan.kernels.iter().enumerate().map(text).collect();
        Case { seed, graph, plan, sources }
    };
    seeds(if large { 0..24 } else { 0..40 }).map(case).collect()
}

/// Anywhere in their ranges, where those have an end.
fn sizes_of(graph: &Graph, seed: u64) -> Vec<i64> {
    let mut rng = Rng::new(seed);
    let small = random_sizes(graph, seed);
    let size = |(var, small): (&Var, i64)| match var.hi() {
        most @ ..1000 => rng.int(var.lo(), most) / var.divisor() * var.divisor(),
        _ => small,
    };
    graph.sizes.iter().zip(small).map(size).collect()
}

/// Whether elements may be written twice, each time as another: on a GPU nobody says which of them stays.
fn overwrites(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::IndexPut { combine: Combine::Set, .. }))
}

/// With threads in their order, and in the reverse one.
fn difference(case: &Case, emulator: &Emulator, ordered: bool) -> Option<String> {
    let orders: &[bool] = if ordered || !overwrites(&case.graph) { &[false, true] } else { &[false] };
    orders.iter().find_map(|reversed| {
        emulator.reverse(*reversed);
        difference_in_order(case, emulator)
    })
}

fn difference_in_order(case: &Case, emulator: &Emulator) -> Option<String> {
    let Case { graph, plan, sources, seed } = case;
    let sizes = sizes_of(graph, *seed);
    let inputs = random_inputs(graph, *seed, &sizes);
    let got = interpret_plan_with(plan, &inputs, &sizes, &mut |n, bufs, kernel_sizes| {
        let source = &sources[n as usize];
        let kernel = &plan.kernels[n as usize];
        let known = &kernel.sizes;
        let points = source.points.eval(&|v| known.iter().position(|s| s == v).map(|k| kernel_sizes[k])).unwrap();
        if !is_careful(*seed) {
            return emulator.run(source, points, bufs, kernel_sizes);
        }
        // As torch's views may begin: one element behind where vectors do.
        let params = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_)));
        let behind: Vec<usize> = params.map(|b| b.dtype.size() % 16).collect();
        emulator.run_at(&behind, source, points, bufs, kernel_sizes)
    });
    let difference = ox_testing::result_difference(&interpret_graph(graph, &inputs, &sizes), &got, &inputs)?;
    let texts: String = sources.iter().map(|s| s.text.as_str()).collect();
    Some(format!("seed {seed}: {difference}\nsizes {sizes:?}\n{graph}\n{plan}\n{texts}\n"))
}

fn check_meaning(name: &str, kind: Kind) {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    let cases = cases(kind);
    let all: Vec<Source> = cases.iter().flat_map(|case| case.sources.clone()).collect();
    let emulator = Emulator::new(name, &all);
    let wrong: String = cases.iter().filter_map(|case| difference(case, &emulator, kind.ordered)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn kernels_mean_what_the_graph_means() {
    check_meaning("free", SMALL);
}

#[test]
fn ordered_kernels_mean_what_the_graph_means() {
    check_meaning("ordered", ORDERED);
}

#[test]
fn large_kernels_mean_what_the_graph_means() {
    check_meaning("large", LARGE);
}

#[test]
fn large_kernels_of_few_rows_mean_what_the_graph_means() {
    check_meaning("wide", WIDE);
}

/// Where the Python that tests run with keeps its packages.
fn packages() -> Vec<PathBuf> {
    let python = std::env::var_os("PYO3_PYTHON").map(PathBuf::from);
    let lib = python.and_then(|p| Some(p.parent()?.parent()?.join("lib")));
    let versions = lib.and_then(|lib| std::fs::read_dir(lib).ok()).into_iter().flatten().flatten();
    versions.map(|entry| entry.path().join("site-packages")).collect()
}

fn compile_all(sources: &[&Source]) {
    let nvrtc = match Nvrtc::find(&packages()) {
        Ok(nvrtc) => nvrtc,
        Err(CodegenError::Missing(why)) => return eprintln!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    };
    for arch in [80, 90] {
        for unit in sources.chunks(40) {
            let cubin = nvrtc.cubin(&assemble(unit.iter().copied()), arch).unwrap_or_else(|e| panic!("sm_{arch}: {e}"));
            assert!(cubin.starts_with(b"\x7fELF"));
        }
    }
}

#[test]
fn nvrtc_takes_every_kernel() {
    for kind in [SMALL, LARGE] {
        let cases = cases(kind);
        compile_all(&cases.iter().flat_map(|case| &case.sources).collect::<Vec<_>>());
    }
}

/// Backward graphs of an encoder layer and of a small network of convolutions, as they come out of differentiation.
const TRAINING: [&str; 2] = [include_str!("training/encoder.txt"), include_str!("training/convolutions.txt")];

#[test]
fn nvrtc_takes_the_kernels_of_training() {
    let options = ox_schedule::ScheduleOptions { target: ox_schedule::Target::Gpu, ..Default::default() };
    let plans = TRAINING.map(|text| {
        let graph = ox_optimise::optimise(Graph::parse(text).unwrap(), &Default::default());
        ox_schedule::schedule(&graph, &options).unwrap()
    });
    let kernels = plans.iter().flat_map(|plan| &plan.kernels).enumerate();
    let gpu = Options { arch: 90, ordered: false, multiprocessors: 132, careful: false };
    let sources: Vec<Source> = kernels.map(|(n, kernel)| emit(kernel, &format!("k{n}"), &gpu).unwrap()).collect();
    assert!(sources.len() > 20);
    compile_all(&sources.iter().collect::<Vec<_>>());
}
