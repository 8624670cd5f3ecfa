//! Rows that are best done together.

use ox_ir::Kernel;

fn together(read: &str, written: &str, rows: &str) -> i64 {
    let text = format!(
        "kernel rows(b0: f32 in, b1: f32 out, i0 < 8, i1 < {rows}, i2 < 640) lanes=outer parallel {{
  pass {{
    v0 = load b0[{read}]
    store b1[{written}] v0
  }}
}}
"
    );
    Kernel::parse(&text).unwrap_or_else(|error| panic!("{error:?} in\n{text}")).rows_together()
}

#[test]
fn what_is_woven_or_read_across() {
    let (along, woven) = ("6400*i0 + 640*i1 + i2", "6400*i0 + i1 + 3*i2");
    assert_eq!(together(along, along, "3"), 1);
    assert_eq!(together(along, woven, "3"), 3);
    assert_eq!(together(along, woven, "2"), 1, "something lies between");
    assert_eq!(together("6400*i0 + i1 + 5*i2", "6400*i0 + i1 + 5*i2", "5"), 1, "too many rows");
    assert_eq!(together("6400*i0 + i1 + 100*i2", along, "100"), 32);
    assert_eq!(together("6400*i0 + i1 + 2*i2", along, "100"), 1, "neighbours share lines");
    assert_eq!(together("6400*i0 + 2*i1 + 100*i2", along, "100"), 1, "rows lie apart");
}
