//! Recorded graphs, emulated: replays do the steps once more on the memory of the recording.

use crate::build::*;
use ox_ir::Sym;
use ox_ir::plan::{PlanOutput, WriteBack};
use ox_runtime::{Executable, GraphSettings, Tensor};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Large enough that results are lent.
const COUNT: i64 = 40;

/// `twice_plus_one` of its input, recorded.
fn recorded(visible: usize) -> Executable {
    let mut b = Builder::default();
    let (x, y) = (b.input(&[COUNT]), b.output(&[COUNT]));
    b.launch(twice_plus_one, Sym::from(COUNT), &[x, y]);
    b.plan.outputs.push(PlanOutput::View(b.view(y, &[2], &[1], 3)));
    b.build().with_graphs(settings(visible))
}

fn settings(visible: usize) -> GraphSettings {
    GraphSettings { visible, emulated: true, ..GraphSettings::default() }
}

/// One test at a time: a call that finds a device busy with another's recording is not recorded itself. None without torch.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    torch().then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn input(n: i64) -> Tensor {
    tensor(&[COUNT], &vec![n as f32; COUNT as usize])
}

fn status(executable: &Executable) -> String {
    executable.graph_status().expect("it records").text()
}

#[test]
fn results_that_are_held_stay() {
    let Some(_alone) = alone() else { return };
    let executable = recorded(2);
    let held: Vec<Vec<Tensor>> = (0..8).map(|n| run(&executable, &[&input(n)])).collect();
    for (n, results) in held.iter().enumerate() {
        let expected = 2.0 * n as f32 + 1.0;
        assert_eq!(floats(&results[0]), vec![expected; COUNT as usize]);
        assert_eq!(floats(&results[1]), [expected; 2]);
    }
    assert!(status(&executable).starts_with("recorded 3 times"), "{}", status(&executable));
}

/// Of a view alone the memory is held, too.
#[test]
fn one_recording_does_for_results_that_are_dropped() {
    let Some(_alone) = alone() else { return };
    let executable = recorded(2);
    for n in 0..8 {
        let results = run(&executable, &[&input(n)]);
        assert_eq!(floats(&results[0])[7], 2.0 * n as f32 + 1.0);
    }
    assert!(status(&executable).starts_with("recorded 1 times"), "{}", status(&executable));
    let mut views: Vec<Tensor> = (0..3).map(|n| run(&executable, &[&input(n)]).swap_remove(1)).collect();
    assert_eq!(views.drain(..).map(|view| floats(&view)[0]).collect::<Vec<_>>(), [1.0, 3.0, 5.0]);
    assert!(status(&executable).starts_with("recorded 3 times"), "{}", status(&executable));
}

#[test]
fn results_outlive_their_recordings() {
    let Some(_alone) = alone() else { return };
    let executable = recorded(2);
    let held: Vec<Vec<Tensor>> = (0..4).map(|n| run(&executable, &[&input(n)])).collect();
    drop(executable);
    assert_eq!(held.iter().map(|results| floats(&results[0])[39]).collect::<Vec<_>>(), [1.0, 3.0, 5.0, 7.0]);
}

#[test]
fn an_input_is_written_where_it_lies() {
    let Some(_alone) = alone() else { return };
    let mut b = Builder::default();
    let (x, y) = (b.input(&[COUNT]), b.arena(ox_ir::DType::F32, &[COUNT]));
    b.launch(twice_plus_one, Sym::from(COUNT), &[x, y]);
    let from = b.whole(y);
    b.plan.write_backs.push(WriteBack { input: 0, from });
    let executable = b.build().with_graphs(settings(0));
    let (one, two) = (input(0), input(5));
    for _ in 0..6 {
        run(&executable, &[&one]);
    }
    for _ in 0..4 {
        run(&executable, &[&two]);
        run(&executable, &[&one]);
    }
    assert_eq!((floats(&one)[0], floats(&two)[0]), (1023.0, 95.0));
    assert!(status(&executable).contains("0 are copied"), "{}", status(&executable));
}
