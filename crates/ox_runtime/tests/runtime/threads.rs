//! Many threads on one Executable.

use crate::build::*;

#[test]
fn four_threads_at_once() {
    if !torch() {
        return;
    }
    let n = 96;
    let executable = product_plan(n);
    let work = &|seed: i64| {
        let x: Vec<f32> = sample(n * n).iter().map(|v| v + seed as f32 / 16.0).collect();
        let input = tensor(&[n, n], &x);
        let want = floats(&run(&executable, &[&input])[0]);
        let again = (0..200).all(|_| floats(&run(&executable, &[&input])[0]) == want);
        assert!(again, "thread {seed} saw another's numbers");
        let left: Vec<f32> = x.iter().map(|v| 2.0 * v + 1.0).collect();
        assert_close(&want, &naive_product(&left, &x, n, n, n));
    };
    std::thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
}
