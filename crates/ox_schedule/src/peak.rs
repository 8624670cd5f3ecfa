//! Which intermediates are better off outside of the arena.
//!
//! The arena is held for the whole of a run. Where results and what the library makes are large at a time at which little of the arena is in
//! use, both stand beside each other for nothing: then the intermediates that are in use at other times become tensors of their own,
//! which torch's allocator makes and takes back.

use crate::Target;
use crate::arena::{Arena, Life, padded_bytes};
use crate::foresee::CONV_BACKWARD;
use crate::usual::Usual;
use ox_ir::graph::ConvAttrs;
use ox_ir::plan::{Buffer, Call, Place, Plan, Step};
use ox_ir::{DType, Sym};
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Larger ones stay: the C library maps them anew in every run, page by page.
const LARGE: i64 = 32 << 20;
/// Those that are smaller than the peak must fall by, divided by this, stay: making a tensor costs more than their bytes are worth.
const SMALL: i64 = 16;
/// Sizes of the arena that are tried.
const TRIES: usize = 12;
/// So many tensors of its own every forward pass may make.
const FEW: usize = 6;
/// torch keeps the memory of a GPU, whatever its size; a tensor costs as much time as a kernel, which only some bytes are worth.
const WORTH_A_TENSOR: i64 = 1 << 20;
const PAGE: i64 = 4 << 10;

/// How many intermediates may leave the arena, and for what.
pub struct Price {
    most: usize,
    /// The peak must be able to fall by so many bytes: where memory is not scarce, a call should not make tensors.
    least: i64,
    /// Every step on the way must lower the peak by at least this fraction of itself.
    worth: i64,
    /// The bytes of those that may.
    sizes: RangeInclusive<i64>,
}

impl Price {
    /// A backward pass makes tensors all the time: some more are worth a page, if that is a part of the whole.
    pub fn backward(least: i64) -> Price {
        Price { most: usize::MAX, least: least.min(PAGE), worth: 2000, sizes: least.min(PAGE) / SMALL..=LARGE }
    }

    pub fn on(self, target: Target) -> Price {
        match target {
            Target::Cpu => self,
            Target::Gpu => Price { sizes: WORTH_A_TENSOR..=i64::MAX, ..self },
        }
    }

    /// The C library's heap takes many tensors that come and go badly: where most intermediates were such tensors, processes held 20 to 40 MB
    /// more. So a few, or some beside the many that the library's calls make anyway.
    pub fn forward(plan: &Plan, least: i64) -> Price {
        let made = plan.buffers.iter().filter(|buffer| buffer.place == Place::Library).count();
        Price { most: FEW.max(made / 4), least, worth: 100, sizes: least / SMALL..=LARGE }
    }

    fn may_leave(&self, bytes: i64) -> bool {
        self.sizes.contains(&bytes)
    }
}

pub struct Intermediate {
    pub buf: usize,
    pub life: Life,
    pub bytes: i64,
}

/// Places of arena buffers, and those that found none.
#[derive(Default)]
struct Packing {
    arena: Arena,
    inside: Vec<(usize, i64)>,
    outside: Vec<usize>,
}

/// Places intermediates, and makes tensors of some where that lowers the most that a run holds. Nothing is done where it is not worth it: then all
/// of them belong into the arena. Sizes that are not known are taken for usual ones.
pub fn lower_peak(plan: &mut Plan, lives: &[Option<Life>], given: &[bool], price: Price, usual: &Usual) -> bool {
    let (mut intermediates, others) = timeline(plan, lives, given, usual);
    let whole = pack(&intermediates, i64::MAX, &price);
    let mut least = whole.arena.bytes + others.iter().max().copied().unwrap_or(0);
    if least - peak(&others, intermediates.iter()) < price.least {
        return false;
    }
    let mut best = None;
    let (fullest, limits) = limits(&intermediates, &others, &price);
    for in_use_first in [false, true] {
        if in_use_first {
            intermediates.sort_by_key(|i| {
                if i.life.contains(fullest) { (0, Reverse(i.life.last)) } else { (1, Reverse(i.bytes as usize)) }
            });
        }
        for limit in &limits {
            let packing = pack(&intermediates, *limit, &price);
            let outside = intermediates.iter().filter(|i| packing.outside.contains(&i.buf));
            let held = packing.arena.bytes + peak(&others, outside);
            if packing.outside.len() <= price.most && least - held >= least / price.worth {
                (least, best) = (held, Some(packing));
            }
        }
    }
    best.map(|packing| packing.apply(plan)).is_some()
}

impl Packing {
    fn apply(self, plan: &mut Plan) {
        for (buf, at) in self.inside {
            plan.buffers[buf].place = Place::Arena(Sym::from(at));
        }
        for buf in self.outside {
            plan.buffers[buf].place = Place::Library;
        }
        plan.arena_bytes = (self.arena.bytes > 0).then(|| Sym::from(self.arena.bytes));
    }
}

/// The arena's buffers, and the bytes of all other memory that is made in each step, or let go behind it.
pub fn timeline(plan: &Plan, lives: &[Option<Life>], given: &[bool], usual: &Usual) -> (Vec<Intermediate>, Vec<i64>) {
    let mut others: Vec<i64> = plan.steps.iter().map(|step| scratch(plan, step, usual)).collect();
    let mut intermediates = Vec::new();
    for (buf, (buffer, life)) in plan.buffers.iter().zip(lives).enumerate() {
        let Some(life) = *life else { continue };
        match buffer.place {
            Place::Input(_) if given[buf] => add(&mut others, Life { first: 0, ..life }, bytes_of(buffer, usual)),
            Place::Input(_) => {}
            Place::Arena(_) => {
                let bytes = usual.value(&padded_bytes(&buffer.shape, buffer.dtype.size() as i64));
                intermediates.push(Intermediate { buf, life, bytes });
            }
            Place::Output(_) | Place::Library => add(&mut others, life, bytes_of(buffer, usual)),
        }
    }
    intermediates.sort_by_key(|i| (Reverse(i.bytes), i.buf));
    (intermediates, others)
}

fn bytes_of(buffer: &Buffer, usual: &Usual) -> i64 {
    usual.value(&buffer.shape.iter().product()).saturating_mul(buffer.dtype.size() as i64)
}

/// What a call makes for itself: a convolution brings its weights, and often what it reads, into an order of its own. In f64, which no library
/// knows, torch writes down for each place of the result all that it is computed of, and where that is less; so does the derivative.
fn scratch(plan: &Plan, step: &Step, usual: &Usual) -> i64 {
    let Step::Call { call, ins, outs, .. } = step else { return 0 };
    let buffers: Vec<&Buffer> = ins.iter().map(|view| &plan.buffers[view.buf.index()]).collect();
    let is_backward = matches!(call, Call::Library(library) if library.callee.name() == CONV_BACKWARD);
    match (call, &buffers[..], &outs[..]) {
        (Call::Conv(attrs), [_, weight, ..], [out]) if is_by_columns(attrs, weight, &plan.buffers[out.index()], usual) => {
            columns(&plan.buffers[out.index()], weight, usual)
        }
        (Call::Conv(_), ..) => {
            buffers.into_iter().take(2).filter(|buffer| !buffer.packed).map(|buffer| bytes_of(buffer, usual)).sum()
        }
        (_, [gradient, _, weight, ..], _) if is_backward && weight.dtype == DType::F64 => columns(gradient, weight, usual),
        _ => 0,
    }
}

fn is_by_columns(attrs: &ConvAttrs, weight: &Buffer, result: &Buffer, usual: &Usual) -> bool {
    let sizes = |buffer: &Buffer| buffer.shape.iter().map(|size| usual.value(size)).collect::<Vec<i64>>();
    let is_less = || !weight.packed && attrs.is_by_columns(&sizes(weight), &sizes(result));
    weight.dtype == DType::F64 || weight.dtype == DType::F32 && is_less()
}

fn columns(result: &Buffer, weight: &Buffer, usual: &Usual) -> i64 {
    let places = result.shape.iter().enumerate().filter(|(d, _)| *d != 1).map(|(_, size)| size);
    let each = weight.shape.iter().skip(1);
    usual.value(&places.chain(each).product()).saturating_mul(weight.dtype.size() as i64)
}

pub fn add(steps: &mut [i64], life: Life, bytes: i64) {
    let end = steps.len().min(life.last + 1);
    steps[life.first..end].iter_mut().for_each(|held| *held += bytes);
}

fn peak<'a>(others: &[i64], tensors: impl Iterator<Item = &'a Intermediate>) -> i64 {
    let mut held = others.to_vec();
    tensors.for_each(|tensor| add(&mut held, tensor.life, tensor.bytes));
    held.into_iter().max().unwrap_or(0)
}

/// The step in which most is held, and sizes for the arena, the largest first: what is in use then, and the sizes of intermediates.
fn limits(intermediates: &[Intermediate], others: &[i64], price: &Price) -> (usize, Vec<i64>) {
    let mut held = others.to_vec();
    intermediates.iter().for_each(|i| add(&mut held, i.life, i.bytes));
    let fullest = held.iter().enumerate().max_by_key(|(_, bytes)| **bytes).map_or(0, |(step, _)| step);
    let in_use = held.get(fullest).copied().unwrap_or(0) - others.get(fullest).copied().unwrap_or(0);
    let mut limits: Vec<i64> =
        intermediates.iter().map(|i| i.bytes).chain([in_use]).filter(|bytes| price.may_leave(*bytes)).collect();
    limits.sort_unstable();
    limits.dedup();
    let step = limits.len().div_ceil(TRIES).max(1);
    let mut chosen: Vec<i64> = limits.into_iter().rev().step_by(step).chain([in_use, 0]).collect();
    chosen.sort_unstable_by_key(|limit| Reverse(*limit));
    (fullest, chosen)
}

/// In this order, each at the lowest place that is free; what would reach beyond `limit` stays outside.
fn pack(intermediates: &[Intermediate], limit: i64, price: &Price) -> Packing {
    let mut packing = Packing::default();
    for Intermediate { buf, life, bytes } in intermediates {
        if packing.arena.room(*life, *bytes) + bytes > limit && price.may_leave(*bytes) {
            packing.outside.push(*buf);
        } else {
            packing.inside.push((*buf, packing.arena.place(*life, *bytes)));
        }
    }
    packing
}
