//! Units to Plan: buffers, steps, outputs.

use crate::ScheduleError;
use crate::emit::{CheckText, Context, Emitted, emit, emit_scatter, emit_shares};
use crate::fuse::{Unit, UnitKind};
use crate::layout::{resolve, same_strides, view_base};
use crate::name::{kernel_lines, kernel_name};
use crate::order::settle;
use crate::prepare::project_strides;
use crate::roots::Roots;
use crate::space::Space;
use indexmap::IndexMap;
use ox_ir::graph::{Alias, Bounds, GraphOutput, Library};
use ox_ir::kernel::{BufRole, Kernel, Lanes};
use ox_ir::plan::{BufId, Buffer, Call, Check, CheckKind, Place, Plan, PlanOutput, Step, View, WriteBack};
use ox_ir::{DType, NodeId, Op, Sym};
use rustc_hash::{FxHashMap, FxHashSet};

pub struct Build<'a> {
    ctx: &'a Context<'a>,
    units: Vec<Unit>,
    /// Roots that some later step reads.
    stored: FxHashSet<NodeId>,
    /// Roots whose memory the caller gets, with the number of the output.
    returned: FxHashMap<NodeId, u32>,
    buf_of: FxHashMap<NodeId, BufId>,
    plan: Plan,
}

impl<'a> Build<'a> {
    pub fn new(ctx: &'a Context<'a>, roots: &Roots, units: Vec<Unit>) -> Build<'a> {
        let mut stored: FxHashSet<NodeId> = ctx.graph.ids().filter(|id| roots.required[id.index()]).collect();
        units.iter().for_each(|u| stored.extend(u.reads()));
        let mut returned = FxHashMap::default();
        for (k, output) in ctx.graph.outputs.iter().enumerate().filter(|(_, o)| o.alias.is_none()) {
            returned.entry(view_base(ctx.graph, output.value)).or_insert(k as u32);
        }
        let plan = Plan { sizes: ctx.graph.sizes.clone(), locations: ctx.graph.locations.clone(), ..Plan::default() };
        Build { ctx, units, stored, returned, buf_of: FxHashMap::default(), plan }
    }

    /// Every launch has a kernel of its own.
    pub fn plan(mut self) -> Result<Plan, ScheduleError> {
        self.input_buffers();
        for unit in std::mem::take(&mut self.units) {
            match unit.kind {
                UnitKind::Call => self.call(unit.members[0])?,
                UnitKind::Loop | UnitKind::Scan => self.fused(&unit)?,
                UnitKind::Scatter => self.scatter(unit.members[0])?,
                UnitKind::Shares => self.shares(unit.members[0])?,
            }
        }
        self.outputs()?;
        self.write_backs()?;
        Ok(self.plan)
    }

    fn input_buffers(&mut self) {
        for (n, input) in self.ctx.graph.inputs.iter().enumerate() {
            self.plan.buffers.push(Buffer {
                dtype: input.ty.dtype,
                device: input.ty.device,
                shape: input.ty.shape.clone(),
                strides: input.strides.clone(),
                place: Place::Input(n as u32),
                packed: input.packed,
            });
        }
    }

    /// The buffer of a node that has memory.
    fn buffer(&mut self, id: NodeId) -> BufId {
        if let Op::Input(n) = self.ctx.graph.node(id).op {
            return BufId(n);
        }
        if let Some(buf) = self.buf_of.get(&id) {
            return *buf;
        }
        let place = match (&self.ctx.graph.node(id).op, self.returned.get(&id)) {
            (Op::Matmul { .. }, _) if self.is_made_by_library(id) => Place::Library,
            (Op::Project(_) | Op::Conv(_) | Op::Pack(_) | Op::Attention(_), _) => Place::Library,
            (_, Some(n)) => Place::Output(*n),
            _ => Place::Arena(Sym::ZERO),
        };
        let ty = self.ctx.graph.ty(id);
        let buf = self.add_buffer(Buffer {
            dtype: ty.dtype,
            device: ty.device,
            shape: ty.shape.clone(),
            strides: (self.ctx.strides)(id),
            place,
            packed: self.ctx.graph.is_packed(id),
        });
        self.buf_of.insert(id, buf);
        buf
    }

    /// Packed products are written where we want them in f32, and come in new tensors in other types.
    fn is_made_by_library(&self, product: NodeId) -> bool {
        let node = self.ctx.graph.node(product);
        node.ty.dtype != DType::F32 && self.ctx.graph.is_packed(node.args[1])
    }

    fn add_buffer(&mut self, buffer: Buffer) -> BufId {
        self.plan.buffers.push(buffer);
        BufId(self.plan.buffers.len() as u32 - 1)
    }

    fn fused(&mut self, unit: &Unit) -> Result<(), ScheduleError> {
        let stored: FxHashSet<NodeId> = unit.members.iter().copied().filter(|m| self.stored.contains(m)).collect();
        if stored.is_empty() || self.is_empty(&unit.members) {
            // Still declared: a call may take it, a caller may get it.
            unit.members.iter().filter(|m| stored.contains(m)).for_each(|m| {
                self.buffer(*m);
            });
            return Ok(());
        }
        let space = finest(self.ctx, unit);
        let keep = |id: NodeId| stored.contains(&id);
        let make = |scratch: bool| {
            let mut emitted = emit(self.ctx, &unit.members, &space, &keep, scratch)
                .or_else(|_| emit(self.ctx, &unit.members, &unit.space, &keep, scratch))
                .map_err(|why| ScheduleError::Bug(format!("a group became illegal: {}", why.0)))?;
            settle(&mut emitted.kernel);
            Ok(emitted)
        };
        let mut emitted = make(true)?;
        if emitted.kernel.lanes != Lanes::Inner && emitted.kernel.bufs.iter().any(|b| matches!(b.role, BufRole::Scratch(_))) {
            emitted = make(false)?;
        }
        let name = kernel_name(self.ctx.graph, &unit.members, self.ctx.is_root);
        self.launch(emitted, name, &unit.members);
        Ok(())
    }

    fn is_empty(&self, members: &[NodeId]) -> bool {
        members.iter().all(|m| self.ctx.graph.ty(*m).shape.iter().any(|n| n.is_zero()))
    }

    fn scatter(&mut self, id: NodeId) -> Result<(), ScheduleError> {
        let [mut base, mut values] =
            emit_scatter(self.ctx, id).map_err(|why| ScheduleError::Unsupported(format!("this scatter: {}", why.0)))?;
        settle(&mut base.kernel);
        self.launch(base, "scatter_base".into(), &[id]);
        let node = self.ctx.graph.node(id);
        let source = node.args[node.args.len() - 1];
        if !self.is_empty(&[source]) {
            settle(&mut values.kernel);
            self.launch(values, kernel_name(self.ctx.graph, &[id], self.ctx.is_root), &[id]);
        }
        Ok(())
    }

    fn shares(&mut self, id: NodeId) -> Result<(), ScheduleError> {
        if !self.stored.contains(&id) {
            return Ok(());
        }
        if self.is_empty(&[id]) {
            self.buffer(id);
            return Ok(());
        }
        let shares = emit_shares(self.ctx, id).map_err(|why| ScheduleError::Bug(format!("a share became illegal: {}", why.0)))?;
        for mut share in shares {
            settle(&mut share.kernel);
            self.launch(share, kernel_name(self.ctx.graph, &[id], self.ctx.is_root), &[id]);
        }
        Ok(())
    }

    /// `members` are what it computes.
    fn launch(&mut self, emitted: Emitted, name: String, members: &[NodeId]) {
        let Emitted { mut kernel, params, checks } = emitted;
        kernel.parallel = !kernel.axes.is_empty();
        let bufs = params.iter().map(|id| self.buffer(*id)).collect();
        let first = self.plan.checks.len() as u32;
        for (id, text) in checks {
            let check = self.check(id, text);
            self.plan.checks.push(check);
        }
        self.plan.steps.push(Step::Launch { kernel: self.plan.kernels.len() as u32, bufs, checks: first });
        self.plan.kernels.push(Kernel { name, ..kernel });
        self.plan.origins.push(kernel_lines(self.ctx.graph, members, self.ctx.is_root));
    }

    fn check(&self, id: NodeId, text: CheckText) -> Check {
        let node = self.ctx.graph.node(id);
        let kind = match (text, &node.op) {
            (CheckText::ZeroDivision, _) => CheckKind::ZeroDivision("ZeroDivisionError".into()),
            (CheckText::Index { dim }, op) => {
                let message = format!("index {{value}} is out of bounds for dimension {dim} with size {{extent}}");
                match op {
                    Op::Index { bounds: Bounds::RuntimeError, .. } | Op::IndexPut { bounds: Bounds::RuntimeError, .. } => {
                        CheckKind::RuntimeError(message)
                    }
                    _ => CheckKind::IndexError(message),
                }
            }
        };
        Check { kind, location: node.location }
    }

    fn call(&mut self, id: NodeId) -> Result<(), ScheduleError> {
        let node = self.ctx.graph.node(id);
        let ins = node.args.iter().map(|a| self.view(*a)).collect::<Result<Vec<_>, _>>()?;
        let (call, outs) = match &node.op {
            Op::Matmul { bias, add, alpha, beta, post } => {
                let call = Call::Matmul { bias: *bias, add: *add, alpha: *alpha, beta: *beta, post: post.clone() };
                (call, vec![self.buffer(id)])
            }
            Op::Conv(attrs) => (Call::Conv(attrs.clone()), vec![self.buffer(id)]),
            Op::Pack(packing) => (Call::Pack(packing.clone()), vec![self.buffer(id)]),
            Op::Attention(attrs) => (Call::Attention(attrs.clone()), vec![self.buffer(id)]),
            Op::Library(library) => (Call::Library(library.clone()), self.library_outs(id, library)),
            other => return Err(ScheduleError::Bug(format!("no call: {other:?}"))),
        };
        self.plan.steps.push(Step::Call { call, ins, outs, location: node.location });
        Ok(())
    }

    /// One buffer for each result, also for those that nobody reads.
    fn library_outs(&mut self, id: NodeId, library: &Library) -> Vec<BufId> {
        let graph = self.ctx.graph;
        let project = |n: u32| {
            graph
                .ids()
                .skip(id.index() + 1)
                .find(|p| graph.node(*p).args.first() == Some(&id) && graph.node(*p).op == Op::Project(n))
        };
        let results = library.outs.len() as u32 + library.mutates.len() as u32;
        (0..results)
            .map(|n| match project(n) {
                Some(p) => self.buffer(p),
                None => {
                    let written = || graph.ty(graph.node(id).args[library.mutates[n as usize - library.outs.len()] as usize]);
                    let ty = library.outs.get(n as usize).map_or_else(written, |out| &out.ty).clone();
                    let strides = project_strides(graph, id, n);
                    self.add_buffer(Buffer {
                        dtype: ty.dtype,
                        device: ty.device,
                        shape: ty.shape,
                        strides,
                        place: Place::Library,
                        packed: false,
                    })
                }
            })
            .collect()
    }

    fn view(&mut self, id: NodeId) -> Result<View, ScheduleError> {
        let strided = resolve(self.ctx.graph, id, self.ctx.strides)
            .ok_or_else(|| ScheduleError::Bug(format!("%{} is no strided view", id.0)))?;
        Ok(View {
            buf: self.buffer(strided.base),
            shape: self.ctx.graph.ty(id).shape.clone(),
            strides: strided.strides,
            offset: strided.offset,
        })
    }

    fn outputs(&mut self) -> Result<(), ScheduleError> {
        let graph = self.ctx.graph;
        for output in &graph.outputs {
            let shape = graph.ty(output.value).shape.clone();
            let made = match &output.alias {
                Some(Alias::Input(input, offset)) => {
                    PlanOutput::InputView { input: *input, shape, strides: output.strides.clone(), offset: offset.clone() }
                }
                Some(Alias::Output(other, offset)) => {
                    let mut view = self.view(graph.outputs[*other as usize].value)?;
                    view.offset = &view.offset + offset;
                    PlanOutput::View(View { shape, strides: output.strides.clone(), ..view })
                }
                None => self.result(output)?,
            };
            self.plan.outputs.push(made);
        }
        Ok(())
    }

    /// A result of its own. The stride of a dimension of one element, which reaches nothing, is eager's, too.
    fn result(&mut self, output: &GraphOutput) -> Result<PlanOutput, ScheduleError> {
        let (graph, id) = (self.ctx.graph, output.value);
        let is_whole = !graph.node(id).op.is_view();
        if is_whole && (self.ctx.strides)(id) == output.strides {
            return Ok(PlanOutput::Buffer(self.buffer(id)));
        }
        let view = self.view(id)?;
        Ok(match same_strides(&view.shape, &view.strides, &output.strides) {
            true => PlanOutput::View(View { strides: output.strides.clone(), ..view }),
            false if is_whole => PlanOutput::Buffer(self.buffer(id)),
            false => PlanOutput::View(view),
        })
    }

    fn write_backs(&mut self) -> Result<(), ScheduleError> {
        for mutation in &self.ctx.graph.mutations {
            let from = self.view(mutation.value)?;
            self.plan.write_backs.push(WriteBack { input: mutation.input, from });
        }
        Ok(())
    }
}

/// The unit's space, split further where that lets the reshapes inside be followed without divisions. What a scan runs along stays one
/// axis: in several it would begin anew with each of the inner ones.
fn finest(ctx: &Context, unit: &Unit) -> Space {
    let mut space = unit.space.clone();
    let is_whole = |space: &Space| space.axes.iter().filter(|axis| axis.reduced).count() <= 1;
    let mut stack: Vec<NodeId> = unit.members.iter().flat_map(|m| ctx.graph.node(*m).args.iter().copied()).collect();
    let mut budget = 500;
    while let Some(id) = stack.pop() {
        budget -= 1;
        if budget == 0 {
            break;
        }
        let node = ctx.graph.node(id);
        if matches!(node.op, Op::Input(_)) {
            continue;
        }
        if node.op == Op::Reshape {
            for shape in [&node.ty.shape, &ctx.graph.ty(node.args[0]).shape] {
                let finer = space.level_of(shape).and_then(|level| space.refined(shape, level));
                if let Some(finer) = finer.filter(|finer| unit.kind != UnitKind::Scan || is_whole(finer)) {
                    space = finer;
                }
            }
        }
        if !ctx.is_root[id.index()] {
            stack.extend(node.args.iter().copied());
        }
    }
    space
}

/// Makes equal kernels one, under the name of their first use, and with its lines.
pub fn share_kernels(plan: &mut Plan) {
    let mut distinct: IndexMap<Kernel, (String, Vec<u32>)> = IndexMap::new();
    let numbers: Vec<u32> = std::mem::take(&mut plan.kernels)
        .into_iter()
        .zip(std::mem::take(&mut plan.origins))
        .map(|(mut kernel, origin)| {
            let name = std::mem::take(&mut kernel.name);
            let entry = distinct.entry(kernel);
            let number = entry.index() as u32;
            entry.or_insert((name, origin));
            number
        })
        .collect();
    for step in &mut plan.steps {
        if let Step::Launch { kernel, .. } = step {
            *kernel = numbers[*kernel as usize];
        }
    }
    let named = |(kernel, (name, origin))| (Kernel { name, ..kernel }, origin);
    (plan.kernels, plan.origins) = distinct.into_iter().map(named).unzip();
}
