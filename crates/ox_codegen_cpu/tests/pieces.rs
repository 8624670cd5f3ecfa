//! Rows in whose pieces different things are done.

mod support;
use support::*;

/// `0.0` outside of `low..high`, and `b0[i, j - low] * 2` inside; beside it what is in `b0` up to `low`, and `b1` from there.
fn text(row: usize, low: usize, high: usize) -> String {
    format!(
        "kernel pieces(b0: f32 in, b1: f32 in, b2: f32 out, b3: f32 out, i0 < 4, i1 < {row}) lanes=outer parallel {{
  pass {{
    v0 = index i1 - {low}
    v1 = index 0
    v2 = ge v0 v1
    v3 = index {inside}
    v4 = lt v0 v3
    v5 = and v2 v4
    v6 = load b0[{row}*i0 + i1 - {low}] if v5 else 0
    v7 = add v6 v6
    v8 = index i0
    v9 = const 1 : i64
    v10 = ge v8 v9
    v11 = and v10 v2
    v12 = load b0[{row}*i0 + i1]
    v13 = load b1[{row}*i0 + i1] if v11 else 0
    v14 = where v11 v13 v12
    store b2[{row}*i0 + i1] v7
    store b3[{row}*i0 + i1] v14
  }}
}}
",
        inside = high - low
    )
}

#[test]
fn what_is_asked_has_the_answer_of_its_place() {
    for (row, low, high) in [
        (128, 70, 128),
        (300, 3, 297),
        (300, 100, 200),
        (1000, 64, 900),
        (257, 0, 257),
        (257, 16, 250),
        (200, 199, 200),
        (600, 90, 1000),
        (40, 3, 37),
    ] {
        let (first, second) = (numbers(4 * row, 5), numbers(4 * row, 6));
        let at = |n: usize| (n / row, n % row);
        let doubled = |n: usize| match at(n) {
            (i, j) if (low..high).contains(&j) => 2.0 * first[row * i + j - low],
            _ => 0.0,
        };
        let mixed = |n: usize| if at(n).0 >= 1 && at(n).1 >= low { second[n] } else { first[n] };
        let kernel = compile(&text(row, low, high));
        for cuts in [vec![], vec![1, row as i64 / 2 + 3, 2 * row as i64 + 70, 4 * row as i64 - 1]] {
            let (left, right) = (vec![9.0f32; 4 * row], vec![9.0f32; 4 * row]);
            run_cut(&kernel, &[&first, &second, &left, &right], &[], 4 * row as i64, &cuts);
            assert!(left == (0..4 * row).map(doubled).collect::<Vec<_>>(), "{row}: {low}..{high}, cut at {cuts:?}");
            assert!(right == (0..4 * row).map(mixed).collect::<Vec<_>>(), "{row}: {low}..{high}, cut at {cuts:?}");
        }
    }
}

#[test]
fn vectors_inside_of_a_piece_are_not_masked() {
    let plain_loads =
        |text: &str| backend().emit_ir(&parse(text)).unwrap().lines().filter(|line| line.contains("= load <")).count();
    // Where no piece has two vectors, every vector asks.
    assert!(plain_loads(&text(1000, 300, 700)) >= 3 * plain_loads(&text(1000, 2, 1000).replace("< 1000", "< 9")).max(1));
}

#[test]
fn short_sides_are_not_asked_about() {
    let is_question = |line: &&str| line.contains("icmp slt <") && line.contains(" x i64>");
    let questions = |text: &str| backend().emit_ir(&parse(text)).unwrap().lines().filter(is_question).count();
    assert_eq!(questions(&text(1001, 3, 998)), 0);
    assert!(questions(&text(20, 3, 17)) > 0);
}

#[test]
fn the_place_of_a_row_is_looked_up_once() {
    let text = "kernel rows(b0: f32 in, b1: i64 in, b2: f32 out, i0 < 4, i1 < 1001) lanes=outer parallel {
  pass {
    v0 = load b1[i0]
    v1 = check_index v0 j0 < 7 check 0
    v2 = load b0[1001*j0 + i1]
    store b2[1001*i0 + i1] v2
  }
}
";
    let reports = |ir: &str| ir.lines().filter(|line| line.contains("cmpxchg")).count();
    assert_eq!(reports(&backend().emit_ir(&parse(text)).unwrap()), 1);
}
