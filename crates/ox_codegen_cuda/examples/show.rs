//! The CUDA C++ of a graph: `cargo run --example show < graph.txt`; with `--table` one line for each step: blocks, threads, megabytes.

use ox_codegen_cuda::{Backend, Options, emit};
use ox_ir::plan::Step;
use ox_ir::{Plan, Sym};
use ox_optimise::{FreeBias, OptimiseOptions};
use ox_schedule::{ScheduleOptions, Target};

const OPTIONS: Options = Options { arch: 90, ordered: false, multiprocessors: 132, careful: false };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::io::read_to_string(std::io::stdin())?;
    let graph = ox_ir::Graph::parse(&text).map_err(|e| format!("{e:?}"))?;
    let graph = ox_optimise::optimise(graph, &OptimiseOptions { free_bias: FreeBias::OfConvolutions, ..Default::default() });
    let plan = ox_schedule::schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..ScheduleOptions::default() })?;
    if std::env::args().any(|arg| arg == "--table") {
        return table(&plan);
    }
    println!("{plan}");
    for (n, kernel) in plan.kernels.iter().enumerate() {
        println!("{}", Backend::text(kernel, OPTIONS, plan.lines_of(n))?);
    }
    Ok(())
}

fn table(plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let known = |sym: &Sym| sym.eval(&|_| Some(256)).unwrap_or(0);
    let bytes = |buf: usize| {
        let buffer = &plan.buffers[buf];
        known(&buffer.shape.iter().product()) * buffer.dtype.size() as i64
    };
    for step in &plan.steps {
        match step {
            Step::Launch { kernel, bufs, .. } => {
                let kernel = &plan.kernels[*kernel as usize];
                let source = emit(kernel, "k", &OPTIONS)?;
                let blocks = known(&source.points.div_ceil(&Sym::from(source.points_per_block)));
                let moved: i64 = bufs.iter().map(|buf| bytes(buf.index())).sum();
                let words = source.text.lines().next().unwrap_or_default();
                println!("{:9.3} MB {blocks:7} x {:4}  {words}", moved as f64 / 1e6, source.threads);
            }
            Step::Call { call, ins, outs, .. } => {
                let moved: i64 = ins.iter().map(|view| view.buf.index()).chain(outs.iter().map(|b| b.index())).map(bytes).sum();
                let name: String = format!("{call:?}").chars().take(90).collect();
                println!("{:9.3} MB {:16}  call {name}", moved as f64 / 1e6, "");
            }
            #[allow(unreachable_patterns)]
            _ => {}
        }
    }
    Ok(())
}
