//! How gradients lie in memory.

use ox_ir::Sym;
use ox_ir::graph::{Shape, contiguous_strides};

/// The strides of the input, if a tensor of its own can have them. Otherwise (an input that is expanded, or every other column of something) those
/// that torch gives to whatever is computed of such a tensor, element by element: the same order of dimensions, without gaps.
pub fn of_gradient(shape: &[Sym], strides: &Shape) -> Shape {
    if is_dense(shape, strides) {
        return strides.clone();
    }
    let constants = |sizes: &[Sym]| sizes.iter().map(Sym::as_const).collect::<Option<Vec<i64>>>();
    match (constants(shape), constants(strides)) {
        (Some(sizes), Some(steps)) => packed(&sizes, &order(&sizes, &steps)),
        _ => contiguous_strides(shape),
    }
}

fn is_dense(shape: &[Sym], strides: &Shape) -> bool {
    let mut dims: Vec<(&Sym, &Sym)> = shape.iter().zip(strides).filter(|(size, _)| !size.is_one()).map(|(n, s)| (s, n)).collect();
    dims.sort_by_key(|(stride, _)| stride.as_const().unwrap_or(i64::MAX));
    let mut expected = Sym::ONE;
    dims.into_iter().all(|(stride, size)| {
        let fits = *stride == expected;
        expected = &expected * size;
        fits
    })
}

/// The dimensions, that with the least stride first. A stride of 0 says nothing of its place: it stays behind its right neighbour.
fn order(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let belongs_behind = |a: usize, b: usize| match (strides[a], strides[b]) {
        (0, _) | (_, 0) => None,
        (x, y) if x == y => (sizes[a] > sizes[b]).then_some(true),
        (x, y) => Some(x > y),
    };
    let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
    for n in 1..order.len() {
        let mut moving = n;
        for at in (0..n).rev() {
            match belongs_behind(order[at], order[moving]) {
                Some(true) => {
                    order.swap(at, moving);
                    moving = at;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    order
}

fn packed(sizes: &[i64], order: &[usize]) -> Shape {
    let mut strides = vec![0; sizes.len()];
    let mut next = 1;
    for dim in order {
        strides[*dim] = next;
        next *= sizes[*dim].max(1);
    }
    strides.into_iter().map(Sym::from).collect()
}

#[cfg(test)]
mod tests {
    use super::of_gradient;
    use ox_ir::Sym;

    fn strides(shape: &[i64], given: &[i64]) -> Vec<i64> {
        let sym = |sizes: &[i64]| -> Vec<Sym> { sizes.iter().map(|n| Sym::from(*n)).collect() };
        let found = of_gradient(&sym(shape), &sym(given).into_iter().collect());
        found.iter().map(|stride| stride.as_const().expect("a constant")).collect()
    }

    #[test]
    fn the_order_of_dimensions_stays() {
        assert_eq!(strides(&[3, 4], &[1, 3]), [1, 3]);
        assert_eq!(strides(&[3, 4], &[1, 6]), [1, 3]);
        assert_eq!(strides(&[3, 4], &[8, 2]), [4, 1]);
        assert_eq!(strides(&[3, 4], &[0, 1]), [4, 1]);
        assert_eq!(strides(&[3, 4], &[1, 0]), [4, 1]);
        assert_eq!(strides(&[4, 3, 2], &[1, 0, 4]), [1, 4, 12]);
        assert_eq!(strides(&[3, 5, 4], &[1, 0, 3]), [1, 3, 15]);
    }
}
