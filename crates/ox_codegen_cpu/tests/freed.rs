//! What code takes is given back with it. The only test of its process: the others' compiles would count as well.

mod support;
use ox_codegen_cpu::Backend;
use support::parse;

#[test]
fn dropped_code_is_freed() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).unwrap_or(0) * 4096
    };
    let text = "kernel double(b0: i64 in, b1: i64 out, i0 < 20) lanes=outer {\n  pass {\n    v0 = load b0[i0]\n    v1 = add v0 v0\n    store b1[i0] v1\n  }\n}\n";
    let backend = Backend::new().unwrap();
    let object = backend.compile_object(&parse(text)).unwrap();
    let load = |count: usize| (0..count).for_each(|_| drop(backend.load_object(&object).unwrap()));
    load(50);
    let before = resident();
    load(500);
    let more = resident() - before;
    assert!(more < 1 << 20, "{more} bytes more");
}
