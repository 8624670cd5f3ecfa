//! Golden files: text in, text out, one file for each pass. Each case is also run before and after.
//!
//! A file holds cases `## name`, a graph, `---`, and the graph that the pass makes of it. `OX_BLESS=1` writes what comes out.

mod common;

use common::{Agree, assert_agree};
use ox_ir::{Graph, Op};
use ox_optimise::{FusePostOps, OptimiseOptions, PostOps, optimise};
use std::path::PathBuf;

struct Case {
    name: String,
    before: String,
    after: String,
}

fn read(text: &str) -> Vec<Case> {
    let cases = text.split("## ").skip(1).map(|case| {
        let (name, body) = case.split_once('\n').expect("a name");
        let (before, after) = body.split_once("---\n").unwrap_or((body, ""));
        Case { name: name.to_string(), before: before.trim_start().to_string(), after: after.trim().to_string() }
    });
    cases.collect()
}

fn golden(file: &str, agree: Agree, pass: impl Fn(Graph) -> Graph) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/optimise").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let head = &text[..text.find("## ").expect("a case")];
    let mut blessed = head.to_string();
    let mut wrong = String::new();
    for case in read(&text) {
        let before = Graph::parse(&case.before).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let after = pass(before.clone());
        let printed = after.to_string();
        // A library call has no meaning without the library.
        if !before.nodes.iter().any(|n| matches!(n.op, Op::Library(_))) {
            assert_agree(&before, &after, agree, 7);
        }
        if printed.trim() != case.after {
            wrong += &format!("## {}\n{printed}\ninstead of\n{}\n", case.name, case.after);
        }
        blessed += &format!("## {}\n{}\n---\n{}\n\n", case.name, case.before.trim_end(), printed.trim_end());
    }
    if std::env::var_os("OX_BLESS").is_some() {
        std::fs::write(&path, format!("{}\n", blessed.trim_end())).expect("the golden file is writable");
    } else {
        assert!(wrong.is_empty(), "{file}\n{wrong}");
    }
}

#[test]
fn simplify() {
    golden("simplify.txt", Agree::Exactly, |graph| optimise(graph, &OptimiseOptions::default()));
}

#[test]
fn fuse_attention() {
    golden("fuse_attention.txt", Agree::Closely, |graph| optimise(graph, &OptimiseOptions::default()));
}

#[test]
fn flatten_matmul() {
    golden("flatten_matmul.txt", Agree::Closely, |graph| optimise(graph, &OptimiseOptions::default()));
}

#[test]
fn fuse_bias() {
    golden("fuse_bias.txt", Agree::Closely, |graph| optimise(graph, &OptimiseOptions::default()));
}

#[test]
fn fuse_post_ops() {
    let fuse_post_ops = FusePostOps { conv: PostOps::ALL, matmul: PostOps::ALL };
    let options = OptimiseOptions { fuse_post_ops, ..OptimiseOptions::default() };
    golden("fuse_post_ops.txt", Agree::Closely, |graph| optimise(graph, &options));
}

#[test]
fn fold_channels() {
    let options = OptimiseOptions { freezing: true, ..OptimiseOptions::default() };
    golden("fold_channels.txt", Agree::Closely, |graph| optimise(graph, &options));
}
