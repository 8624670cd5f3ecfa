//! `einsum` and `tensordot`: any sum of products, as products of matrices where there is something to contract.
//!
//! Operands are brought together pair by pair, from the left. Each carries the labels of its dimensions along.

use super::shared::{sum_over, wide};
use super::{Bound, Surface, fresh, wrap_dims};
use crate::builder::{Builder, broadcast_shapes};
use crate::error::{OpError, OpResult};
use crate::infer::differ;
use crate::promote::torch_name;
use crate::value::{Value, ValueOf};
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] =
    &[fresh(&["einsum"], "equation, *operands", einsum), fresh(&["tensordot"], "input, other, dims=2", tensordot)];

/// A label of one dimension: a letter, or a dimension of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    Dots(usize),
    Letter(char),
}

struct Labelled {
    node: NodeId,
    labels: Vec<Label>,
}

fn einsum(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let ValueOf::Str(equation) = args.value("equation") else {
        return Err(OpError::unsupported("einsum with lists of subscripts"));
    };
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let operands = args.tensors("operands")?;
    check_types(b, &operands)?;
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return Err(OpError::runtime("einsum(): more operands were provided than specified in the equation, or fewer"));
    }
    let mut labelled = Vec::with_capacity(operands.len());
    for (term, node) in terms.iter().zip(operands) {
        let labels = read_labels(term, Some(b.rank(node)))?;
        labelled.push(diagonals(b, Labelled { node, labels })?);
    }
    let dots = labelled.iter().flat_map(|x| &x.labels).filter(|l| matches!(l, Label::Dots(_))).max().copied();
    let output = match output {
        Some(text) => output_labels(text, dots)?,
        None => implied_output(&terms, dots)?,
    };
    Ok(contract_all(b, labelled, &output)?.into())
}

fn check_types(b: &Builder, operands: &[NodeId]) -> OpResult<()> {
    let first = operands.first().ok_or_else(|| OpError::runtime("einsum(): must specify at least one operand"))?;
    let dtype = b.dtype(*first);
    // What is summed of one operand alone is i64 in eager, what is multiplied with another one is not.
    if !dtype.is_float() && dtype != DType::I64 {
        return Err(OpError::unsupported(format!("einsum on {}", torch_name(dtype))));
    }
    match operands.iter().find(|x| b.dtype(**x) != dtype) {
        Some(other) => {
            Err(OpError::runtime(format!("expected scalar type {} but found {}", torch_name(dtype), torch_name(b.dtype(*other)))))
        }
        None => Ok(()),
    }
}

/// The labels of one term. `rank` tells how many dimensions the ellipsis stands for.
fn read_labels(term: &str, rank: Option<usize>) -> OpResult<Vec<Label>> {
    let letters = term.chars().filter(|c| *c != '.').count();
    let invalid = || OpError::runtime(format!("einsum(): invalid subscript given: '{term}'"));
    let dots = term.find("...");
    let plain = term.replacen("...", "", 1);
    if !plain.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(invalid());
    }
    let hidden = match (rank, dots) {
        (Some(rank), Some(_)) => rank.checked_sub(letters).ok_or_else(invalid)?,
        (Some(rank), None) if rank != letters => {
            let message =
                format!("einsum(): the number of subscripts in '{term}' does not match the {rank} dimensions of the operand");
            return Err(OpError::runtime(message));
        }
        _ => 0,
    };
    let at = dots.unwrap_or(0);
    let mut labels: Vec<Label> = plain[..at].chars().map(Label::Letter).collect();
    labels.extend((0..hidden).rev().map(Label::Dots));
    labels.extend(plain[at..].chars().map(Label::Letter));
    Ok(labels)
}

fn all_dots(dots: Option<Label>) -> Vec<Label> {
    match dots {
        Some(Label::Dots(most)) => (0..=most).rev().map(Label::Dots).collect(),
        _ => Vec::new(),
    }
}

fn output_labels(text: &str, dots: Option<Label>) -> OpResult<Vec<Label>> {
    let count = all_dots(dots).len();
    let letters = text.chars().filter(|c| *c != '.').count();
    let hidden = if text.contains("...") { count } else { 0 };
    let labels = read_labels(text, Some(letters + hidden))?;
    let repeated = labels.iter().enumerate().any(|(n, l)| labels[..n].contains(l));
    if repeated {
        return Err(OpError::runtime(format!("einsum(): output subscript appears more than once in the output '{text}'")));
    }
    Ok(labels)
}

/// Without an arrow: the ellipsis, then every letter that appears once, in order.
fn implied_output(terms: &[&str], dots: Option<Label>) -> OpResult<Vec<Label>> {
    let all: String = terms.concat().replace('.', "");
    let mut once: Vec<char> = all.chars().filter(|c| all.matches(*c).count() == 1).collect();
    once.sort_unstable();
    Ok(all_dots(dots).into_iter().chain(once.into_iter().map(Label::Letter)).collect())
}

/// A label that a term repeats means the diagonal of those dimensions.
fn diagonals(b: &mut Builder, mut x: Labelled) -> OpResult<Labelled> {
    loop {
        let twice = x.labels.iter().enumerate().find_map(|(n, l)| Some((x.labels[..n].iter().position(|m| m == l)?, n)));
        let Some((first, second)) = twice else { return Ok(x) };
        let shape = b.shape(x.node);
        if differ(&shape[first], &shape[second]) {
            return Err(OpError::runtime("einsum(): a subscript is repeated for dimensions of different size"));
        }
        let label = x.labels[first];
        x.node = b.diagonal(x.node, 0, first, second)?;
        x.labels.remove(second);
        x.labels.remove(first);
        x.labels.push(label);
    }
}

fn contract_all(b: &mut Builder, operands: Vec<Labelled>, output: &[Label]) -> OpResult<NodeId> {
    let mut rest = operands.into_iter().collect::<std::collections::VecDeque<_>>();
    let mut done = rest.pop_front().ok_or_else(|| OpError::runtime("einsum(): no operands"))?;
    while let Some(next) = rest.pop_front() {
        let wanted: Vec<Label> = output.iter().chain(rest.iter().flat_map(|x| &x.labels)).copied().collect();
        done = contract(b, done, next, &wanted)?;
    }
    let done = summed(b, done, output)?;
    if let Some(missing) = output.iter().find(|l| !done.labels.contains(l)) {
        return Err(OpError::runtime(format!("einsum(): output subscript {missing:?} does not appear in the equation")));
    }
    arranged(b, &done, output)
}

/// Sums over the labels that nobody wants any more.
fn summed(b: &mut Builder, x: Labelled, wanted: &[Label]) -> OpResult<Labelled> {
    let dims: Vec<usize> = (0..x.labels.len()).filter(|d| !wanted.contains(&x.labels[*d])).collect();
    if dims.is_empty() {
        return Ok(x);
    }
    let dtype = b.dtype(x.node);
    let node = wide(b, x.node);
    let node = sum_over(b, node, &dims)?;
    let node = b.cast(node, dtype);
    let node = b.squeeze(node, &dims)?;
    let labels = x.labels.iter().filter(|l| wanted.contains(l)).copied().collect();
    Ok(Labelled { node, labels })
}

/// The dimensions in the order of `labels`; those that `x` does not have come with size 1.
fn arranged(b: &mut Builder, x: &Labelled, labels: &[Label]) -> OpResult<NodeId> {
    let own: Vec<usize> = labels.iter().filter_map(|l| x.labels.iter().position(|m| m == l)).collect();
    let node = b.permute(x.node, &own)?;
    let shape = b.shape(x.node);
    let size = |l: &Label| x.labels.iter().position(|m| m == l).map_or(Sym::ONE, |d| shape[d].clone());
    let sizes: Vec<Sym> = labels.iter().map(size).collect();
    b.reshape(node, &sizes)
}

/// One pair: labels of both that are still wanted are batch dimensions, the others of both are contracted.
fn contract(b: &mut Builder, x: Labelled, y: Labelled, wanted: &[Label]) -> OpResult<Labelled> {
    let keep_x: Vec<Label> = wanted.iter().chain(&y.labels).copied().collect();
    let keep_y: Vec<Label> = wanted.iter().chain(&x.labels).copied().collect();
    let (x, y) = (summed(b, x, &keep_x)?, summed(b, y, &keep_y)?);
    let shared = |l: &&Label| y.labels.contains(l);
    let (both, left): (Vec<Label>, Vec<Label>) = x.labels.iter().partition(|l| shared(l));
    let (batch, inner): (Vec<Label>, Vec<Label>) = both.into_iter().partition(|l| wanted.contains(l));
    let right: Vec<Label> = y.labels.iter().filter(|l| !x.labels.contains(l)).copied().collect();
    let labels: Vec<Label> = [&batch[..], &left, &right].concat();
    let matrices = !inner.is_empty() && !left.is_empty() && !right.is_empty();
    let node = if matrices {
        contract_matrices(b, (&x, &y), [&batch, &left, &right, &inner])?
    } else {
        contract_elements(b, (&x, &y), &labels, &inner)?
    };
    Ok(Labelled { node, labels })
}

/// As a sum of an elementwise product.
fn contract_elements(b: &mut Builder, (x, y): (&Labelled, &Labelled), outer: &[Label], inner: &[Label]) -> OpResult<NodeId> {
    let space: Vec<Label> = outer.iter().chain(inner).copied().collect();
    let (x, y) = (arranged(b, x, &space)?, arranged(b, y, &space)?);
    let dtype = b.dtype(x);
    let (x, y) = (wide(b, x), wide(b, y));
    let z = b.binary(PointOp::Mul, x, y)?;
    let dims: Vec<usize> = (outer.len()..space.len()).collect();
    let z = sum_over(b, z, &dims)?;
    let z = b.cast(z, dtype);
    b.squeeze(z, &dims)
}

/// As a product of matrices [batch, left, inner] and [batch, inner, right].
fn contract_matrices(b: &mut Builder, (x, y): (&Labelled, &Labelled), parts: [&[Label]; 4]) -> OpResult<NodeId> {
    let [batch, left, right, inner] = parts;
    let shared: Vec<Label> = batch.iter().chain(inner).copied().collect();
    let (ax, ay) = (arranged(b, x, &[batch, inner, left].concat())?, arranged(b, y, &[batch, inner, right].concat())?);
    let (sx, sy) = (b.shape(ax), b.shape(ay));
    let n = shared.len();
    let common = broadcast_shapes(&[&sx[..n], &sy[..n]])?;
    let (ax, ay) = (widened(b, ax, &common)?, widened(b, ay, &common)?);
    let (batches, depth) = common.split_at(batch.len());
    let depth: Sym = depth.iter().product();
    let (rows, columns): (Sym, Sym) = (sx[n..].iter().product(), sy[n..].iter().product());
    let order: Vec<usize> = (0..batch.len()).chain(n..sx.len()).chain(batch.len()..n).collect();
    let ax = b.permute(ax, &order)?;
    let ax = b.reshape(ax, &[batches, &[rows, depth.clone()]].concat())?;
    let ay = b.reshape(ay, &[batches, &[depth, columns]].concat())?;
    let z = b.matmul(ax, ay)?;
    b.reshape(z, &[batches, &sx[n..], &sy[n..]].concat())
}

/// The first dimensions brought to the sizes `common`.
fn widened(b: &mut Builder, x: NodeId, common: &[Sym]) -> OpResult<NodeId> {
    let mut shape = b.shape(x);
    shape[..common.len()].clone_from_slice(common);
    b.expand(x, &shape)
}

/// Contracts the last `dims` of one with the first of the other, or two lists of dimensions.
fn tensordot(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (args.tensor("input")?, args.tensor("other")?);
    check_types(b, &[x, y])?;
    let (rx, ry) = (b.rank(x), b.rank(y));
    let (dx, dy) = match args.value("dims").items() {
        Some([first, second]) if first.items().is_some() => (dim_list(first, rx)?, dim_list(second, ry)?),
        Some(_) => return Err(OpError::unsupported("tensordot with such dims")),
        None => {
            let n = args.const_int("dims")? as usize;
            if n > rx || n > ry {
                return Err(OpError::runtime("tensordot expects dims >= 0 and at most the number of dimensions"));
            }
            ((rx - n..rx).collect(), (0..n).collect())
        }
    };
    if dx.len() != dy.len() {
        return Err(OpError::runtime("both dimension lists should have same length"));
    }
    let label = |first: usize| move |d: usize| Label::Dots(first + d);
    let lx: Vec<Label> = (0..rx).map(label(0)).collect();
    let mut ly: Vec<Label> = (0..ry).map(label(rx)).collect();
    for (a, c) in dx.iter().zip(&dy) {
        ly[*c] = lx[*a];
    }
    let free = |labels: &[Label], dims: &[usize]| -> Vec<Label> {
        (0..labels.len()).filter(|d| !dims.contains(d)).map(|d| labels[d]).collect()
    };
    let output = [free(&lx, &dx), free(&ly, &dy)].concat();
    contract_all(b, vec![Labelled { node: x, labels: lx }, Labelled { node: y, labels: ly }], &output).map(Value::from)
}

fn dim_list(value: &Value, rank: usize) -> OpResult<Vec<usize>> {
    let dims: Option<Vec<i64>> = value.items().and_then(|items| items.iter().map(|v| v.as_int()?.as_const()).collect());
    wrap_dims(&dims.ok_or_else(|| OpError::unsupported("tensordot with such dims"))?, rank)
}
