//! The surface table itself.

use ox_ops::surface::{lookup, rows};

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = rows().flat_map(|row| row.names.iter().copied()).collect();
    let count = names.len();
    names.sort_unstable();
    let twice: Vec<&str> = names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
    assert!(twice.is_empty(), "{twice:?} stand for two rows");
    assert!(count > 250, "only {count} names");
}

#[test]
fn a_namespace_of_its_own_comes_first() {
    let names = |namespace: &str, name: &str| lookup(namespace, name).map(|row| row.names[0]);
    assert_eq!(names("Tensor", "where"), Some("Tensor.where"));
    assert_eq!(names("torch", "where"), Some("where"));
    assert_eq!(names("F", "embedding"), Some("F.embedding"));
    assert_eq!(names("torch", "embedding"), Some("torch.embedding"));
    assert_eq!(names("F", "unfold"), Some("F.unfold"));
    assert_eq!(names("special", "expit"), Some("sigmoid"));
    assert_eq!(names("linalg", "add"), None);
}
