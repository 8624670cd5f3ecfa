//! What a Graph means: every node is computed in full, element by element, in the order of the nodes.

mod attention;
mod conv;
mod index;
mod matmul;
mod reduce;
mod views;

use crate::error::InterpretError;
use crate::scalar::{apply, convert};
use crate::tensor::TensorData;
use ox_ir::graph::{Graph, Node, Op, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym, Var};
use rustc_hash::FxHashMap;

pub(crate) use attention::attention;
pub(crate) use conv::conv;
pub(crate) use matmul::{Matmul, matmul};
pub(crate) use reduce::Accumulator;

type Result<T> = std::result::Result<T, InterpretError>;

#[derive(Clone, PartialEq, Debug)]
pub struct GraphResult {
    pub outputs: Vec<TensorData>,
    /// (input, what it holds afterwards).
    pub mutations: Vec<(u32, TensorData)>,
}

/// Runs a graph on its inputs; `sizes` are the values of `graph.sizes`.
pub fn interpret_graph(graph: &Graph, inputs: &[TensorData], sizes: &[i64]) -> Result<GraphResult> {
    let env = Env::new(&graph.sizes, sizes)?;
    for (n, input) in graph.inputs.iter().enumerate() {
        let shape = env.shape(&input.ty.shape)?;
        let given = inputs.get(n).ok_or_else(|| InterpretError::invalid(format!("input {n} is missing")))?;
        if given.shape != shape || given.dtype != input.ty.dtype {
            let message = format!("input {n} is {}{:?}, not {}{shape:?}", given.dtype, given.shape, input.ty.dtype);
            return Err(InterpretError::Invalid(message));
        }
    }
    let mut values: Vec<TensorData> = Vec::with_capacity(graph.nodes.len());
    for (n, node) in graph.nodes.iter().enumerate() {
        let value = eval_node(node, &values, inputs, &env).map_err(|e| e.at_node(n))?;
        values.push(value);
    }
    let outputs = graph.outputs.iter().map(|o| values[o.value.index()].clone()).collect();
    let mutations = graph.mutations.iter().map(|m| (m.input, values[m.value.index()].clone())).collect();
    Ok(GraphResult { outputs, mutations })
}

impl InterpretError {
    fn at_node(self, n: usize) -> InterpretError {
        match self {
            InterpretError::Invalid(message) => InterpretError::Invalid(format!("%{n}: {message}")),
            other => other,
        }
    }
}

/// The values of the variables.
#[derive(Default)]
pub(crate) struct Env(pub FxHashMap<Var, i64>);

impl Env {
    pub fn new(vars: &[Var], values: &[i64]) -> Result<Env> {
        if vars.len() != values.len() {
            return Err(InterpretError::invalid(format!("{} sizes are needed, {} are given", vars.len(), values.len())));
        }
        Ok(Env(vars.iter().cloned().zip(values.iter().copied()).collect()))
    }

    pub fn unbind<'a>(&mut self, vars: impl IntoIterator<Item = &'a Var>) {
        for var in vars {
            self.0.remove(var);
        }
    }

    pub fn eval(&self, sym: &Sym) -> Result<i64> {
        sym.eval(&|v| self.0.get(v).copied()).ok_or_else(|| InterpretError::invalid(format!("`{sym}` has no value")))
    }

    pub fn evals(&self, syms: &[Sym]) -> Result<Vec<i64>> {
        syms.iter().map(|s| self.eval(s)).collect()
    }

    pub fn shape(&self, shape: &[Sym]) -> Result<Vec<usize>> {
        let sizes = self.evals(shape)?;
        sizes
            .iter()
            .map(|n| usize::try_from(*n).map_err(|_| InterpretError::invalid(format!("the size {n} is negative"))))
            .collect()
    }
}

/// A node with its arguments at hand.
struct Eval<'a> {
    dtype: DType,
    shape: Vec<usize>,
    args: Vec<&'a TensorData>,
    env: &'a Env,
}

fn eval_node(node: &Node, values: &[TensorData], inputs: &[TensorData], env: &Env) -> Result<TensorData> {
    if let Op::Library(_) | Op::Project(_) = &node.op {
        return Err(InterpretError::Unsupported(format!("the library call `{node}`")));
    }
    let args =
        node.args.iter().map(|id| values.get(id.index()).ok_or_else(|| InterpretError::invalid(format!("{id} comes later"))));
    let eval = Eval { dtype: node.ty.dtype, shape: env.shape(&node.ty.shape)?, args: args.collect::<Result<_>>()?, env };
    let value = eval.op(&node.op, inputs)?;
    if value.shape != eval.shape || value.dtype != eval.dtype {
        let expected = format!("{}{:?}", eval.dtype, eval.shape);
        return Err(InterpretError::invalid(format!("`{node}` made {}{:?}, not {expected}", value.dtype, value.shape)));
    }
    Ok(value)
}

impl Eval<'_> {
    fn op(&self, op: &Op, inputs: &[TensorData]) -> Result<TensorData> {
        match op {
            Op::Input(n) => {
                inputs.get(*n as usize).cloned().ok_or_else(|| InterpretError::invalid(format!("input {n} is missing")))
            }
            Op::Full(value) => Ok(TensorData::from_fn(self.dtype, &self.shape, |_| *value)),
            Op::SymValue(sym) => Ok(TensorData::new(self.dtype, &self.shape, [Scalar::Int(self.env.eval(sym)?)])),
            Op::Iota { dim } => Ok(TensorData::from_fn(self.dtype, &self.shape, |index| Scalar::Int(index[*dim] as i64))),
            Op::Point(point) => self.point(*point),
            Op::Cast => Ok(TensorData::new(self.dtype, &self.arg(0)?.shape, self.arg(0)?.data.iter().copied())),
            Op::Detach | Op::Graft => Ok(self.arg(0)?.clone()),
            Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice(_) | Op::Unfold { .. } | Op::Diagonal { .. } => self.view(op),
            Op::Pad { low, value } => self.pad(low, *value),
            Op::Cat { dim } => self.cat(*dim),
            Op::SliceScatter(at) => self.slice_scatter(at),
            Op::Index { dims, at, bounds } => self.index(dims, *at, *bounds),
            Op::IndexPut { dims, at, bounds, combine } => self.index_put(dims, *at, *bounds, *combine),
            Op::Reduce { op, dims } => self.reduce(*op, dims),
            Op::Scan { op, dim } => self.scan(*op, *dim),
            Op::Matmul { bias, add, alpha, beta, post } => {
                matmul(&Matmul { bias: *bias, add: *add, alpha: *alpha, beta: *beta, post }, &self.args, self.dtype)
            }
            Op::Conv(attrs) => conv(attrs, &self.args, self.dtype, &self.shape, self.env),
            // Packing changes how a weight lies in memory, not what it is.
            Op::Pack(_) => Ok(self.arg(0)?.clone()),
            Op::Attention(attrs) => attention(attrs, &self.args, self.dtype),
            Op::Library(_) | Op::Project(_) => unreachable!("refused before"),
        }
    }

    fn arg(&self, n: usize) -> Result<&TensorData> {
        self.args.get(n).copied().ok_or_else(|| InterpretError::invalid(format!("argument {n} is missing")))
    }

    fn point(&self, op: PointOp) -> Result<TensorData> {
        if self.args.len() != op.arity() || self.args.iter().any(|a| a.shape != self.shape) {
            return Err(InterpretError::invalid(format!("{} needs {} arguments of its own shape", op.name(), op.arity())));
        }
        let dtype = self.args[self.args.len() - 1].dtype;
        if !op.accepts(dtype) {
            return Err(InterpretError::invalid(format!("{} is not defined on {dtype}", op.name())));
        }
        TensorData::try_from_fn(op.result(dtype), &self.shape, |index| {
            let args: Vec<Scalar> = self.args.iter().map(|a| a.get(index)).collect();
            Ok(apply(op, dtype, &args)?)
        })
    }

    fn pad(&self, low: &Shape, value: Scalar) -> Result<TensorData> {
        let (x, low) = (self.arg(0)?, self.env.evals(low)?);
        Ok(TensorData::from_fn(self.dtype, &self.shape, |index| {
            let source: Option<Vec<usize>> = index
                .iter()
                .zip(&low)
                .zip(&x.shape)
                .map(|((i, low), n)| usize::try_from(*i as i64 - low).ok().filter(|at| at < n))
                .collect();
            source.map_or(convert(value, x.dtype), |at| x.get(&at))
        }))
    }

    fn cat(&self, dim: usize) -> Result<TensorData> {
        let total: usize = self.args.iter().map(|a| a.shape[dim]).sum();
        if total != self.shape[dim] {
            return Err(InterpretError::invalid(format!("the parts of cat have {total} elements together")));
        }
        Ok(TensorData::from_fn(self.dtype, &self.shape, |index| {
            let mut index = index.to_vec();
            for part in &self.args {
                if index[dim] < part.shape[dim] {
                    return part.get(&index);
                }
                index[dim] -= part.shape[dim];
            }
            unreachable!("the parts cover the result")
        }))
    }
}

#[cfg(test)]
mod tests;
