//! Where the time of a Plan goes: with `OXYTORCH_PROFILE=1`, every step is timed, and a table is printed when the Plan is dropped.

use ox_ir::Plan;
use ox_ir::graph::Callee;
use ox_ir::plan::{Call, Step, View};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Rows of the printed table.
const ROWS: usize = 40;

/// Time and count by what was done.
#[derive(Default)]
pub struct Profile(Mutex<Vec<(String, Duration, u64)>>);

impl Profile {
    /// A profile if the user asks for one.
    pub fn wanted() -> Option<Profile> {
        std::env::var("OXYTORCH_PROFILE").is_ok_and(|v| v != "0").then(Profile::default)
    }

    pub fn add(&self, label: String, time: Duration) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match rows.iter_mut().find(|row| row.0 == label) {
            Some(row) => {
                row.1 += time;
                row.2 += 1;
            }
            None => rows.push((label, time, 1)),
        }
    }

    pub fn print(&self) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.sort_by_key(|row| std::cmp::Reverse(row.1));
        let total: Duration = rows.iter().map(|row| row.1).sum();
        eprintln!("oxytorch profile: {:.3} ms in all", total.as_secs_f64() * 1e3);
        for (label, time, count) in rows.iter().take(ROWS) {
            let share = 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-12);
            let each = time.as_secs_f64() * 1e6 / *count as f64;
            eprintln!("{share:5.1} %  {each:10.1} us  x {count:<6} {label}");
        }
    }
}

/// What a step does, in words: the kernel's name, or the call with the shapes it works on.
pub fn label(plan: &Plan, step: &Step) -> String {
    match step {
        Step::Launch { kernel, .. } => format!("kernel {kernel} {}", plan.kernels[*kernel as usize].name),
        Step::Call { call, ins, .. } => call_label(call, ins),
        Step::Copy { .. } => "copy".into(),
        Step::Drop(_) => "drop".into(),
        Step::Release => "release".into(),
    }
}

fn call_label(call: &Call, ins: &[View]) -> String {
    let name = match call {
        Call::Matmul { .. } => "matmul",
        Call::Conv(_) => "convolution",
        Call::Pack(_) => "pack",
        Call::Attention(_) => "attention",
        Call::Library(library) => match &library.callee {
            Callee::Dispatcher { name, .. } | Callee::Python { name, .. } => name,
        },
    };
    let shapes: Vec<String> = ins.iter().map(|v| format!("{:?}", v.shape.to_vec())).collect();
    format!("{name} {}", shapes.join(" "))
}
