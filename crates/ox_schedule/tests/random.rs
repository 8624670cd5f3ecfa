//! Plans of random graphs mean what the graphs mean, bit for bit: fusion, recomputation, layouts and memory change no number.

use ox_ir::kernel::BufRole;
use ox_ir::plan::{BufId, Place, Step};
use ox_ir::{Graph, Plan};
use ox_schedule::{ScheduleOptions, schedule};
use ox_testing::random::Rng;
use ox_testing::{RandomConfig, interpret_graph, interpret_plan, random_graph, random_inputs, random_sizes};

fn check(seed: u64, config: &RandomConfig, choose: &dyn Fn(&Graph) -> ScheduleOptions) -> Result<Plan, String> {
    let graph: Graph = random_graph(seed, config);
    let sizes = random_sizes(&graph, seed);
    let inputs = random_inputs(&graph, seed, &sizes);
    let plan = schedule(&graph, &choose(&graph)).map_err(|e| format!("seed {seed}: {e}\n{graph}"))?;
    plan.verify().map_err(|e| format!("seed {seed}: {e}\n{graph}\n{plan}"))?;
    match (interpret_graph(&graph, &inputs, &sizes), interpret_plan(&plan, &inputs, &sizes)) {
        (Ok(expected), Ok(got)) => {
            let left = |k: &u32| got.inputs[*k as usize].as_ref().expect("an input that is written is not let go");
            let written = expected.mutations.iter().map(|(k, value)| (left(k), value));
            for (got, expected) in got.outputs.iter().zip(&expected.outputs).chain(written) {
                if let Some(difference) = ox_testing::compare::difference(got, expected) {
                    return Err(format!("seed {seed}: {difference}\n{graph}\n{plan}"));
                }
            }
            Ok(plan)
        }
        // Both report; where several elements are bad, kernels may meet another one first.
        (Err(_), Err(_)) => Ok(plan),
        (expected, got) => Err(format!("seed {seed}: {:?}, then {:?}\n{graph}\n{plan}", expected.err(), got.err())),
    }
}

/// The plans of many graphs, if all are right.
fn check_all(symbolic: bool, choose: &dyn Fn(&Graph, u64) -> ScheduleOptions) -> Vec<Plan> {
    let config = |seed: u64| RandomConfig {
        nodes: 5 + seed as usize % 25,
        symbolic: symbolic && seed % 2 == 1,
        ..RandomConfig::default()
    };
    let checked = (0..2000).map(|seed| check(seed, &config(seed), &|graph| choose(graph, seed)));
    let (plans, failed): (Vec<_>, Vec<_>) = checked.partition(|checked| checked.is_ok());
    let shortest = failed.iter().filter_map(|failed| failed.as_ref().err()).min_by_key(|message| message.len());
    if let Some(shortest) = shortest {
        panic!("{} of 2000 graphs are wrong; the shortest:\n{shortest}", failed.len());
    }
    plans.into_iter().flatten().collect()
}

#[test]
fn plans_mean_what_graphs_mean() {
    check_all(true, &|_, _| ScheduleOptions::default());
}

/// As if every byte counted: the arena goes early, or intermediates leave it.
#[test]
fn memory_that_goes_early_is_not_missed() {
    let plans = check_all(false, &|_, _| ScheduleOptions { least_bytes: 0, ..ScheduleOptions::default() });
    let released = plans.iter().filter(|plan| plan.steps.contains(&Step::Release)).count();
    assert!(released > 500, "{released} arenas went early");
    let tensors = |plan: &Plan| plan.buffers.iter().filter(|buffer| buffer.place == Place::Library).count();
    let usual = check_all(false, &|_, _| ScheduleOptions::default());
    let left =
        plans.iter().zip(&usual).filter(|(plan, usual)| !plan.steps.contains(&Step::Release) && tensors(plan) > tensors(usual));
    assert!(left.clone().count() > 10, "{} plans make tensors of intermediates", left.count());
}

/// Any inputs may be given to the plan, which drops them.
#[test]
fn given_inputs_are_not_missed() {
    let choose = |graph: &Graph, seed: u64| {
        let mut rng = Rng::new(seed);
        let given = (0..graph.inputs.len() as u32).filter(|_| rng.percent(60)).collect();
        ScheduleOptions { given, least_bytes: 0, ..ScheduleOptions::default() }
    };
    let plans = check_all(true, &choose);
    let is_input =
        |plan: &Plan, step: &Step| matches!(step, Step::Drop(buf) if matches!(plan.buffers[buf.index()].place, Place::Input(_)));
    let dropped = plans.iter().filter(|plan| plan.steps.iter().any(|step| is_input(plan, step))).count();
    assert!(dropped > 1000, "{dropped} plans drop an input");
}

/// Nobody runs the plan in another way after an error: a new value may be written over the input that it belongs to, whether its kernel reads that or not.
#[test]
fn inputs_are_overwritten_when_nobody_reads_them_any_more() {
    let plans = check_all(true, &|_, _| ScheduleOptions { overwrite_inputs: true, ..ScheduleOptions::default() });
    let overwritten = |role: BufRole| {
        let is_input = |plan: &Plan, buf: &BufId| matches!(plan.buffers[buf.index()].place, Place::Input(_));
        let does = |plan: &Plan, step: &Step| match step {
            Step::Launch { kernel, bufs, .. } => {
                let params = plan.kernels[*kernel as usize].bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_)));
                params.zip(bufs).any(|(param, buf)| param.role == role && is_input(plan, buf))
            }
            _ => false,
        };
        plans.iter().filter(|plan| plan.steps.iter().any(|step| does(plan, step))).count()
    };
    let (unread, read) = (overwritten(BufRole::Out), overwritten(BufRole::InOut));
    assert!(unread > 2 && read > 20, "{unread} plans overwrite an input that the kernel does not read, {read} one that it reads");
}
