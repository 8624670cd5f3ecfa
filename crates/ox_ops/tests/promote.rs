//! Type promotion against torch's own table (see `tests/golden/make.py`).

use ox_ir::DType;
use ox_ops::promote::{Category, can_cast, result_type};

fn dtype(name: &str) -> DType {
    name.parse().expect("a dtype")
}

fn category(name: &str) -> Category {
    match name {
        "tensor" => Category::Tensor,
        "zero" => Category::ZeroDim,
        "number" => Category::Number,
        other => panic!("no category {other}"),
    }
}

#[test]
fn agrees_with_torch() {
    let mut checked = 0;
    for line in include_str!("golden/promote.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["cast", from, to, expected] => {
                assert_eq!(can_cast(dtype(from), dtype(to)).to_string(), expected, "{line}");
            }
            [ka, a, kb, b, expected] => {
                let operands = [(category(ka), dtype(a)), (category(kb), dtype(b))];
                assert_eq!(result_type(&operands, DType::F32), dtype(expected), "{line}");
            }
            _ => panic!("cannot read {line}"),
        }
        checked += 1;
    }
    assert!(checked > 700);
}
