//! `Recorder`: what a front end talks to. It hands out `TensorRef`s, which alias and may be written as torch's tensors do, and
//! records a Graph, which does neither.

mod foreach;
mod layout;
mod overlap;

use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::functional::{Chain, ViewStep, chain_between, python_value, replay, resolve, write_through};
use crate::infer::{same_shape, shape_text};
use crate::promote::{can_cast, torch_name};
use crate::surface::{self, Bound, Sharing, Slots};
use crate::value::{Value, ValueOf};
pub use layout::Layout;
use overlap::Writing;
use ox_ir::graph::{Alias, Graph, GraphInput, GraphOutput, Library, Memory, Mutation, NodeId, Op, Shape};
use ox_ir::{Sym, TensorType};

/// A tensor of the program being recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TensorRef(u32);

/// A value of the program being recorded.
pub type FrontValue = ValueOf<TensorRef>;

/// A result of the program, with what the front end knows of eager's: its strides and where in its storage it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputSpec {
    pub tensor: TensorRef,
    pub strides: Shape,
    pub offset: Sym,
}

/// What eager's memory tells of a call, as far as the caller knows.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// Whether the result shares memory with the first argument. It decides for functions that sometimes copy (`reshape`, `contiguous`, `to`).
    pub shares: Option<bool>,
    /// How the first argument lies; asked only where the result depends on it.
    pub strides: Option<Shape>,
}

/// Memory that tensors share.
struct Base {
    input: Option<u32>,
    value: NodeId,
    /// Counts writes.
    version: u32,
}

struct RefData {
    base: usize,
    chain: Chain,
    /// The tensor's value, valid while the base is at `version`.
    value: NodeId,
    version: u32,
    /// It is an input itself, not a view of one.
    is_input: bool,
}

#[derive(Default)]
pub struct Recorder {
    builder: Builder,
    bases: Vec<Base>,
    refs: Vec<RefData>,
    writes: u32,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder::default()
    }

    pub fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    pub fn set_location(&mut self, location: &str) {
        self.builder.set_location(location);
    }

    pub fn input(&mut self, input: GraphInput) -> TensorRef {
        let place = self.builder.graph().inputs.len() as u32;
        let value = self.builder.input(input);
        let tensor = self.fresh(value);
        self.bases[self.refs[tensor.0 as usize].base].input = Some(place);
        self.refs[tensor.0 as usize].is_input = true;
        tensor
    }

    /// A tensor in memory of its own.
    pub fn fresh(&mut self, value: NodeId) -> TensorRef {
        self.bases.push(Base { input: None, value, version: 0 });
        self.push(RefData { base: self.bases.len() - 1, chain: Chain::new(), value, version: 0, is_input: false })
    }

    fn push(&mut self, data: RefData) -> TensorRef {
        self.refs.push(data);
        TensorRef(self.refs.len() as u32 - 1)
    }

    pub fn ty(&self, tensor: TensorRef) -> &TensorType {
        self.builder.ty(self.refs[tensor.0 as usize].value)
    }

    /// Whether two tensors share a base.
    pub fn aliases(&self, a: TensorRef, b: TensorRef) -> bool {
        self.refs[a.0 as usize].base == self.refs[b.0 as usize].base
    }

    /// The value of all the memory that the tensor lies in.
    pub fn whole(&self, tensor: TensorRef) -> NodeId {
        self.bases[self.refs[tensor.0 as usize].base].value
    }

    /// The tensor's value now.
    pub fn read(&mut self, tensor: TensorRef) -> OpResult<NodeId> {
        let data = &mut self.refs[tensor.0 as usize];
        let base = &self.bases[data.base];
        if data.version != base.version {
            let values = replay(&mut self.builder, base.value, &data.chain)?;
            data.value = values[values.len() - 1];
            data.version = base.version;
        }
        Ok(data.value)
    }

    /// The tensor's value now, as a view of all that lies in its memory: what was written to a part of it holds no more than that part. A copy
    /// is a node of its own there: as a part of what was copied it would not tell how much was.
    fn read_in_place(&mut self, tensor: TensorRef) -> OpResult<NodeId> {
        let data = &self.refs[tensor.0 as usize];
        let value = self.bases[data.base].value;
        let op = &self.builder.graph().node(value).op;
        if !data.chain.is_empty() && (op.is_view() || matches!(op, Op::Input(_))) {
            let ty = self.builder.ty(value).clone();
            self.bases[data.base].value = self.builder.declare(Op::Cast, &[value], ty)?;
        }
        let values = replay(&mut self.builder, self.bases[data.base].value, &data.chain)?;
        Ok(values[values.len() - 1])
    }

    /// Gives the tensor a new value of its own type, and with it everything that shares its memory.
    pub fn write(&mut self, tensor: TensorRef, value: NodeId) -> OpResult<()> {
        let expected = self.ty(tensor).clone();
        if *self.builder.ty(value) != expected {
            return Err(OpError::bug(format!("{:?} written into {expected:?}", self.builder.ty(value))));
        }
        let base = self.refs[tensor.0 as usize].base;
        self.check_overlap(base)?;
        let chain = &self.refs[tensor.0 as usize].chain;
        let written = write_through(&mut self.builder, self.bases[base].value, chain, value)?;
        self.bases[base].value = written;
        self.bases[base].version += 1;
        self.writes += 1;
        let data = &mut self.refs[tensor.0 as usize];
        data.value = value;
        data.version = self.bases[base].version;
        Ok(())
    }

    /// A library call. Its results are new tensors; the arguments that it writes are written.
    pub fn library(&mut self, library: Library, args: &[TensorRef]) -> OpResult<Vec<TensorRef>> {
        let (outs, mutates) = (library.outs.len(), library.mutates.clone());
        mutates.iter().try_for_each(|place| self.check_alone(args, *place as usize))?;
        let nodes: Vec<NodeId> = args.iter().map(|t| self.read(*t)).collect::<OpResult<_>>()?;
        let mut results = self.builder.library(library, &nodes)?;
        let written = results.split_off(outs);
        for (place, value) in mutates.into_iter().zip(written) {
            self.write(args[place as usize], value)?;
        }
        Ok(results.into_iter().map(|value| self.fresh(value)).collect())
    }

    /// How many writes were recorded: a call that failed in the middle must not be recorded again in another way.
    pub fn writes(&self) -> u32 {
        self.writes
    }

    /// Whether anything was written to the memory that the tensor lies in.
    pub fn is_written(&self, tensor: TensorRef) -> bool {
        self.bases[self.refs[tensor.0 as usize].base].version > 0
    }

    /// Records a call of torch's `namespace.name`.
    pub fn call(
        &mut self,
        namespace: &str,
        name: &str,
        args: &[FrontValue],
        kwargs: &[(String, FrontValue)],
        seen: Seen,
    ) -> OpResult<FrontValue> {
        if let Some(value) = python_value(name, args)? {
            return Ok(value);
        }
        if let Some(value) = self.foreach(name, args, kwargs)? {
            return Ok(value);
        }
        let target = resolve(namespace, name).ok_or_else(|| OpError::unsupported(format!("{namespace}.{name}")))?;
        let mut args = args.to_vec();
        if target.swap && args.len() == 2 {
            args.swap(0, 1);
        }
        let (outs, kwargs): (Vec<_>, Vec<_>) = kwargs.iter().cloned().partition(|(k, v)| k == "out" && !v.is_none());
        let slots = surface::bind(target.row.signature, &args, &kwargs)?;
        if let Some(first) = Self::first_tensor(&slots)
            && surface::refuses(target.row, self.ty(first))
        {
            return Err(OpError::unsupported(format!("{name} of {}, which eager refuses", self.ty(first).dtype)));
        }
        let mut bound = self.read_slots(&slots)?;
        bound.strides = seen.strides;
        surface::check_numbers(&mut self.builder, target.row, &bound)?;
        // `n += x` of a number binds the name to something new.
        let on_number =
            matches!(slots.first(), Some((_, ValueOf::Int(_) | ValueOf::Float(_) | ValueOf::Bool(_) | ValueOf::Number(_))));
        let in_place = target.in_place && !on_number || (bound.knows("inplace") && *bound.value("inplace") == Value::Bool(true));
        let value = (target.row.build)(&mut self.builder, &mut bound)?;
        // No kernel moves complex numbers; views of them are free.
        let is_made = target.row.sharing == Sharing::Fresh || target.copy || seen.shares == Some(false);
        if is_made && value.tensors().iter().any(|node| self.builder.dtype(*node).is_complex()) {
            return Err(OpError::unsupported(format!("{name} of complex numbers")));
        }
        let call = Writing { row: target.row, slots: &slots, bound: &bound };
        if in_place || !outs.is_empty() {
            let outs: Vec<TensorRef> = outs.iter().flat_map(|(_, out)| out.tensors()).collect();
            self.check_writes(&call, &outs, &value)?;
        }
        self.check_written(&call)?;
        self.apply_written(&slots, &bound)?;
        match (outs.into_iter().next(), in_place) {
            (Some((_, out)), _) => self.finish_out(out, value, target.copy),
            (None, true) => self.finish_in_place(&slots, value, target.row.sharing),
            (None, false) if target.copy => self.wrap(&slots, value, Sharing::Fresh, seen.shares),
            (None, false) => self.wrap(&slots, value, target.row.sharing, seen.shares),
        }
    }

    fn read_slots(&mut self, slots: &Slots<TensorRef>) -> OpResult<Bound> {
        let mut nodes = Slots::with_capacity(slots.len());
        for (name, value) in slots {
            nodes.push((*name, value.map(&mut |t| self.read(*t))?));
        }
        Ok(Bound::from_slots(nodes))
    }

    fn apply_written(&mut self, slots: &Slots<TensorRef>, bound: &Bound) -> OpResult<()> {
        for (name, value) in &bound.written {
            let slot = slots.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.as_tensor());
            let tensor = slot.ok_or_else(|| OpError::bug(format!("a row writes `{name}`, which is not a tensor")))?;
            self.write(tensor, *value)?;
        }
        Ok(())
    }

    fn first_tensor(slots: &Slots<TensorRef>) -> Option<TensorRef> {
        slots.first().and_then(|(_, v)| v.as_tensor())
    }

    /// Copies of several views (`unbind_copy`) hand back nothing where they are written somewhere.
    fn finish_out(&mut self, out: FrontValue, value: Value, copy: bool) -> OpResult<FrontValue> {
        let several = !matches!(value, ValueOf::Tensor(_));
        match (&out, &value) {
            (ValueOf::Tensor(tensor), ValueOf::Tensor(node)) => self.write_converted(*tensor, *node, "out")?,
            (_, _) => {
                let (outs, nodes) = (out.tensors(), value.tensors());
                if outs.len() != nodes.len() {
                    return Err(OpError::unsupported("out= of another number of tensors"));
                }
                for (tensor, node) in outs.into_iter().zip(nodes) {
                    self.write_converted(tensor, node, "out")?;
                }
            }
        }
        Ok(if copy && several { ValueOf::None } else { out })
    }

    fn finish_in_place(&mut self, slots: &Slots<TensorRef>, value: Value, sharing: Sharing) -> OpResult<FrontValue> {
        let tensor = Self::first_tensor(slots).ok_or_else(|| OpError::unsupported("in-place operation on no tensor"))?;
        let node = value.as_tensor().ok_or_else(|| OpError::unsupported("in-place operation with several results"))?;
        match sharing {
            Sharing::View => self.rebind(tensor, node)?,
            _ => self.write_converted(tensor, node, "in-place")?,
        }
        Ok(if sharing == Sharing::Assign { ValueOf::None } else { ValueOf::Tensor(tensor) })
    }

    /// `t_`, `unsqueeze_` and their like: the tensor becomes a view of what it was.
    fn rebind(&mut self, tensor: TensorRef, node: NodeId) -> OpResult<()> {
        if self.refs[tensor.0 as usize].is_input {
            return Err(OpError::unsupported("changing the shape of an input in place"));
        }
        self.refs[tensor.0 as usize] = self.view_data(tensor, node)?;
        Ok(())
    }

    /// Writes a computed value, converted to the tensor's type where eager converts it.
    fn write_converted(&mut self, tensor: TensorRef, node: NodeId, how: &str) -> OpResult<()> {
        let ty = self.ty(tensor).clone();
        let got = self.builder.ty(node).clone();
        if !can_cast(got.dtype, ty.dtype) {
            let (from, to) = (torch_name(got.dtype), torch_name(ty.dtype));
            return Err(OpError::runtime(format!("result type {from} can't be cast to the desired output type {to}")));
        }
        if !same_shape(&got.shape, &ty.shape)? {
            let (want, have) = (shape_text(&ty.shape), shape_text(&got.shape));
            return Err(match how {
                "out" => OpError::unsupported(format!("out= of shape {want} for a result of shape {have}")),
                _ => OpError::runtime(format!("output with shape {want} doesn't match the broadcast shape {have}")),
            });
        }
        let node = self.builder.cast(node, ty.dtype);
        self.write(tensor, node)
    }

    /// Makes tensors of a row's results.
    fn wrap(&mut self, slots: &Slots<TensorRef>, value: Value, sharing: Sharing, shares: Option<bool>) -> OpResult<FrontValue> {
        let first = Self::first_tensor(slots);
        let mut each = slots.first().map(|(_, v)| v.tensors()).unwrap_or_default().into_iter();
        value.map(&mut |node| match (sharing, first) {
            (Sharing::Each, _) => {
                let tensor = each.next().ok_or_else(|| OpError::bug("more results than arguments"))?;
                self.view_of(tensor, *node).or_else(|_| Ok(self.fresh(*node)))
            }
            (Sharing::View, Some(tensor)) => self.view_of(tensor, *node),
            (Sharing::Maybe, Some(tensor)) if shares != Some(false) => match self.view_of(tensor, *node) {
                Ok(viewed) => Ok(viewed),
                Err(error) if shares == Some(true) => Err(error),
                Err(_) => Ok(self.fresh(*node)),
            },
            _ => Ok(self.fresh(*node)),
        })
    }

    /// `node`, which was made of the tensor's present value by views alone, as a tensor that shares its memory.
    pub fn view_of(&mut self, tensor: TensorRef, node: NodeId) -> OpResult<TensorRef> {
        let data = self.view_data(tensor, node)?;
        Ok(self.push(data))
    }

    fn view_data(&mut self, tensor: TensorRef, node: NodeId) -> OpResult<RefData> {
        let from = self.read(tensor)?;
        let steps = chain_between(self.builder.graph(), from, node);
        let steps = steps.ok_or_else(|| OpError::unsupported("a result that shares memory in a way that is not a view"))?;
        let data = &self.refs[tensor.0 as usize];
        let chain: Chain = data.chain.iter().cloned().chain(steps).collect();
        Ok(RefData { base: data.base, chain, value: node, version: data.version, is_input: false })
    }

    /// The recorded program. `outputs` may repeat tensors and share memory with inputs and one another.
    pub fn finish(mut self, outputs: &[OutputSpec]) -> OpResult<Graph> {
        let aliases: Vec<Option<Alias>> = (0..outputs.len()).map(|n| self.alias_of(outputs, n)).collect();
        let holds = |n: usize| aliases.iter().flatten().any(|alias| matches!(alias, Alias::Output(of, _) if *of as usize == n));
        let mut results = Vec::with_capacity(outputs.len());
        for (n, spec) in outputs.iter().enumerate() {
            let part = aliases[n].is_none() && self.is_part(spec.tensor);
            let value = if part || holds(n) { self.read_in_place(spec.tensor)? } else { self.read(spec.tensor)? };
            let memory = match () {
                _ if part => Memory::Whole(spec.offset.clone()),
                // What is computed may turn out to be a view: `x[1:] * 1`.
                _ if aliases[n].is_none() && (!holds(n) || self.builder.graph().node(value).op.is_view()) => Memory::Own,
                _ => Memory::Any,
            };
            results.push(GraphOutput { value, strides: spec.strides.clone(), alias: aliases[n].clone(), memory });
        }
        let written = self.bases.iter().filter(|base| base.version > 0);
        let mutations = written.filter_map(|base| Some(Mutation { input: base.input?, value: base.value })).collect();
        Ok(self.builder.finish(results, mutations))
    }

    /// Whether every element of its base is one of the tensor, once.
    fn is_whole(&self, tensor: TensorRef) -> bool {
        let data = &self.refs[tensor.0 as usize];
        let whole = self.builder.ty(self.bases[data.base].value).numel();
        let repeats = |step: &ViewStep| matches!(step.op, Op::Expand | Op::Unfold { .. });
        self.ty(tensor).numel() == whole && !data.chain.iter().any(repeats)
    }

    /// Whether others of the elements of its base are there besides those of the tensor. One without elements is not worth them.
    fn is_part(&self, tensor: TensorRef) -> bool {
        !self.is_whole(tensor) && !self.ty(tensor).numel().is_zero()
    }

    /// An output shares memory with the input that is its base, or with the output that holds the whole of its base; where none does,
    /// with the first output that holds a part. One without elements holds nothing.
    fn alias_of(&self, outputs: &[OutputSpec], n: usize) -> Option<Alias> {
        let data = |spec: &OutputSpec| &self.refs[spec.tensor.0 as usize];
        let own = data(&outputs[n]);
        if let Some(input) = self.bases[own.base].input {
            return Some(Alias::Input(input, outputs[n].offset.clone()));
        }
        let holds_part = |spec: &OutputSpec| data(spec).base == own.base && !self.ty(spec.tensor).numel().is_zero();
        let holds_all = |spec: &OutputSpec| holds_part(spec) && self.is_whole(spec.tensor);
        let holder = outputs.iter().position(holds_all).or_else(|| outputs.iter().position(holds_part));
        let holder = holder.filter(|holder| *holder != n)?;
        Some(Alias::Output(holder as u32, &outputs[n].offset - &outputs[holder].offset))
    }
}
