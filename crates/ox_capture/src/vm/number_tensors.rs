//! Tensors where torch wants plain numbers: `torch.arange(counts.sum())`, `x.split([h * w for h, w in sizes])`. Torch asks each for its number, which
//! no shadow has. They are read together, between two graphs, and the call comes again with the numbers.

use super::operators::is_tensor;
use super::reading::rank;
use super::{Args, Called, R, Vm};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::{FACTORIES, Shadow, Val};
use crate::types::types;
use pyo3::prelude::*;

/// Where a number is wanted: the argument, by place or name, and the place inside of it if that is a list.
struct Wanted {
    argument: Obj,
    inside: Option<usize>,
    tensor: Obj,
}

impl Vm {
    /// A call that has failed since a tensor was asked for its number. None where there is none to be read. A function may take some of its tensors as
    /// they are: those in lists are tried first, then those given by name, then the others; the call fails again if that was not all.
    pub(super) fn with_numbers_read(&mut self, callee: &Shadow, callable: &Val, args: &Args) -> R<Option<Called>> {
        if self.waiting > 0 || self.rec.is_none() || leaves_a_size_to_torch(callee, args) {
            return Ok(None);
        }
        let positional = args.positional.iter().enumerate().map(|(n, value)| (Obj::int(n as i64), value.obj.clone()));
        // What a method is of is no number that it wants, nor what a function does something with.
        let makes_of_nothing = FACTORIES.contains(&callee.name().as_str());
        let positional: Vec<_> = positional.skip(usize::from(!makes_of_nothing)).collect();
        let named: Vec<_> = args.keywords.iter().map(|(key, value)| (key.clone(), value.obj.clone())).collect();
        let mut by_place = plain(&positional);
        // Operands stand in front.
        if !makes_of_nothing && !matches!(callee, Shadow::Method(_)) {
            by_place.drain(..by_place.len().saturating_sub(1));
        }
        let choices = [inside_lists(positional.iter().chain(&named)), plain(&named), by_place];
        for choice in choices {
            let wanted = self.of_one_kind(choice);
            if !wanted.is_empty() {
                return self.read_wanted(callable, args, &wanted).map(Some);
            }
        }
        Ok(None)
    }

    /// Those that can be put into one tensor with the first.
    fn of_one_kind(&self, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        let Some(rec) = &self.rec else { return Vec::new() };
        let kind = |wanted: &Wanted| kind_of(&rec.seen_as(&wanted.tensor));
        wanted.retain(|wanted| kind(wanted).is_some());
        let first = wanted.first().and_then(kind);
        wanted.retain(|wanted| kind(wanted) == first);
        wanted
    }

    fn read_wanted(&mut self, callable: &Val, args: &Args, wanted: &[Wanted]) -> R<Called> {
        let stack = self.pinned(py().import("torch")?.getattr("stack")?.into());
        let tensors = self.tuple(wanted.iter().map(|wanted| wanted.tensor.clone().into()).collect())?;
        let mut places = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let inside = wanted.inside.map_or_else(Obj::none, |n| Obj::int(n as i64));
            places.push(self.tuple(vec![wanted.argument.clone().into(), inside.into()])?);
        }
        let places = self.tuple(places)?;
        let (positional, named) = (self.list(&args.positional)?, self.argument_dict(&args.keywords)?);
        self.call_library("numbers_read", vec![callable.clone(), positional, named, places, stack, tensors])
    }
}

/// `x.view(h, w, -1)`: a quotient of sizes, for which each answer would be traced for itself. What torch makes of it for real has sizes that vary.
fn leaves_a_size_to_torch(callee: &Shadow, args: &Args) -> bool {
    let is_open = |object: &Obj| object.class_is(types().int) && object.bind().eq(-1).quiet().unwrap_or(false);
    let shapes = matches!(callee.name().as_str(), "view" | "reshape");
    shapes && args.positional.iter().any(|value| is_open(&value.obj) || items_of(&value.obj).iter().any(is_open))
}

/// The type and device of a tensor that is a number.
fn kind_of(tensor: &Obj) -> Option<(String, String)> {
    let kind = || Some((tensor.attr("dtype").quiet()?.text(), tensor.attr("device").quiet()?.text()));
    (rank(tensor) == Some(0)).then(kind)?
}

fn inside_lists<'a>(arguments: impl Iterator<Item = &'a (Obj, Obj)>) -> Vec<Wanted> {
    let is_list = |object: &Obj| object.class_is(types().list) || object.class_is(types().tuple);
    let items = arguments.filter(|(_, value)| is_list(value)).flat_map(|(argument, value)| {
        let items = items_of(value).into_iter().enumerate().filter(|(_, item)| is_tensor(item));
        items.map(|(n, tensor)| Wanted { argument: argument.clone(), inside: Some(n), tensor })
    });
    items.collect()
}

fn plain(arguments: &[(Obj, Obj)]) -> Vec<Wanted> {
    let tensors = arguments.iter().filter(|(_, value)| is_tensor(value));
    tensors.map(|(argument, tensor)| Wanted { argument: argument.clone(), inside: None, tensor: tensor.clone() }).collect()
}
