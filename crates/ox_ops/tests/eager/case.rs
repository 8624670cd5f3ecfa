//! The cases of a golden file.

use crate::text::{Expr, parse_call, parse_tensor};
use ox_testing::TensorData;

pub struct Statement {
    pub target: Option<String>,
    pub namespace: String,
    pub name: String,
    pub args: Vec<Expr>,
    pub kwargs: Vec<(String, Expr)>,
}

#[derive(Default)]
pub struct Case {
    pub name: String,
    pub inputs: Vec<(String, TensorData)>,
    pub statements: Vec<Statement>,
    /// (result, first argument) that share memory.
    pub shared: Vec<(String, String)>,
    /// (tensor, input) that share memory at the end.
    pub aliases: Vec<(String, String)>,
    /// Values of tensors at the end.
    pub tensors: Vec<(String, TensorData)>,
    pub numbers: Vec<(String, String)>,
    pub error: Option<String>,
}

pub fn read_cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("case ") {
            cases.push(Case { name: name.to_string(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a case begins with its name");
        read_line(case, line.trim_start());
    }
    cases
}

fn pair(text: &str) -> (String, String) {
    let (a, b) = text.split_once(' ').expect("two words");
    (a.to_string(), b.to_string())
}

fn read_line(case: &mut Case, line: &str) {
    if let Some(rest) = line.strip_prefix("=> ") {
        let (name, value) = pair(rest);
        case.tensors.push((name, parse_tensor(&value)));
    } else if let Some(rest) = line.strip_prefix("~ ") {
        case.shared.push(pair(rest));
    } else if let Some(rest) = line.strip_prefix("@ ") {
        case.aliases.push(pair(rest));
    } else if let Some(rest) = line.strip_prefix("= ") {
        case.numbers.push(pair(rest));
    } else if let Some(rest) = line.strip_prefix("! ") {
        case.error = Some(rest.to_string());
    } else if let Some((name, value)) = line.split_once(": ").filter(|(name, _)| name.chars().all(char::is_alphanumeric)) {
        case.inputs.push((name.to_string(), parse_tensor(value)));
    } else {
        case.statements.push(parse_call(line));
    }
}
