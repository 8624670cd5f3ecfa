//! Calls whose results the data decides: a number that is read, a size that only the values tell. The graph in front has to run before
//! anybody knows it, so the call stands between two graphs, and what it gives is a variable of what comes behind. That is no break: the
//! trace goes on with every value that a later call may bring.

use super::operators::is_tensor;
use super::{Args, Called, R, Vm};
use crate::builtins;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of};
use crate::record::{Recording, Val, tensors_in};
use crate::source::Source;
use crate::types::types;
use ox_ops::surface::Place;
use pyo3::prelude::*;

/// Reads numbers.
const NUMBERS: &[&str] = &["item", "tolist", "__int__", "__float__", "__index__"];

/// Raise where a value is not what it should be, and return nothing.
const ASSERTIONS: &[&str] = &["_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"];

/// What the first argument is called, where it is given by its name.
const FIRST: &[&str] = &["input", "condition", "repeats"];

/// What the values of the arguments decide of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// It has none: something is written.
    Nothing,
    /// It is a number, or a list of numbers.
    Numbers,
    /// The size of this dimension; of each tensor if there are several.
    Dim(i64),
    /// The same, for each of several results; None for one whose sizes are known.
    Dims(Vec<Option<i64>>),
    /// All sizes, for what one knows of it.
    Sizes,
    /// The dimensions of these sizes, which vary; all, if one of the sizes is that of none: something was made of it.
    Like(Vec<i64>),
}

/// What is read, and the sizes of the first argument that vary.
pub type Reading<'a> = (&'a Read, &'a [Option<i64>]);

impl Read {
    /// What a torch function reads, if it does.
    pub fn by(rec: &Recording, name: &str, args: &Args) -> Option<Read> {
        if ASSERTIONS.contains(&name) {
            return Some(Read::Nothing);
        }
        let first = args.positional.first().or_else(|| FIRST.iter().find_map(|name| args.named(name)));
        let first = first.filter(|first| is_tensor(&first.obj))?;
        let alone = args.positional.len() + args.keywords.len() == 1;
        match name {
            _ if NUMBERS.contains(&name) && alone => Some(Read::Numbers),
            "equal" | "allclose" | "is_nonzero" => Some(Read::Numbers),
            "nonzero" | "argwhere" | "masked_select" | "bincount" => Some(Read::Dim(0)),
            "where" if alone => Some(Read::Dim(0)),
            "one_hot" if alone => Some(Read::Dim(-1)),
            "_unique2" => Some(Read::Dims(vec![Some(0), None, Some(0)])),
            "unique_dim" | "unique_consecutive" => {
                let place = if name == "unique_dim" { 1 } else { 3 };
                let dim = args.whole(place, "dim").unwrap_or(0);
                Some(Read::Dims(vec![Some(dim), None, Some(0)]))
            }
            "repeat_interleave" => repeats(first, args),
            "getitem" | "__getitem__" => {
                args.positional.get(1).and_then(|index| masked_dim(rec, &first.obj, &index.obj)).map(Read::Dim)
            }
            _ => None,
        }
    }

    /// Every size that varies: the place of the tensor inside of the result, and the dimension.
    fn dims(&self, result: &Obj) -> Vec<(Option<usize>, usize)> {
        let items = if is_tensor(result) { vec![result.clone()] } else { items_of_sequence(result) };
        let place = |n: usize| (!is_tensor(result)).then_some(n);
        let tensors: Vec<(usize, &Obj)> = items.iter().enumerate().filter(|(_, item)| is_tensor(item)).collect();
        let all: Vec<i64> = tensors.iter().flat_map(|(_, item)| sizes(item)).collect();
        let read = match self {
            Read::Like(varying) if varying.is_empty() || varying.iter().any(|size| !all.contains(size)) => &Read::Sizes,
            read => read,
        };
        tensors.iter().flat_map(|(n, item)| read.dims_of(*n, item).into_iter().map(move |dim| (place(*n), dim))).collect()
    }

    /// Of one of several tensors.
    fn dims_of(&self, n: usize, tensor: &Obj) -> Vec<usize> {
        let rank = rank(tensor).unwrap_or(0);
        let dim = match self {
            Read::Nothing | Read::Numbers => None,
            Read::Dim(dim) => Some(*dim),
            Read::Dims(dims) => dims.get(n).copied().flatten(),
            Read::Sizes => return (0..rank as usize).collect(),
            Read::Like(varying) => {
                let sizes = sizes(tensor).into_iter().enumerate();
                return sizes.filter(|(_, size)| varying.contains(size)).map(|(dim, _)| dim).collect();
            }
        };
        let dim = dim.map(|dim| if dim < 0 { dim + rank } else { dim });
        dim.filter(|dim| (0..rank).contains(dim)).map(|dim| dim as usize).into_iter().collect()
    }
}

impl Args {
    pub(super) fn at(&self, place: Place<'_>) -> Option<&Val> {
        match place {
            Place::Position(n) => self.positional.get(n),
            Place::Keyword(name) => self.named(name),
        }
    }

    /// A whole number by its place or name.
    fn whole(&self, place: usize, name: &str) -> Option<i64> {
        self.positional.get(place).or_else(|| self.named(name))?.obj.bind().extract().quiet()
    }

    fn named(&self, name: &str) -> Option<&Val> {
        self.keywords.iter().find(|(key, _)| key.to_str().as_deref() == Some(name)).map(|(_, value)| value)
    }
}

/// `repeat_interleave(repeats)` and `repeat_interleave(x, repeats, dim)`, where a tensor says how often and nobody says how many in all.
fn repeats(first: &Val, args: &Args) -> Option<Read> {
    if args.named("output_size").is_some_and(|size| !size.obj.is_none()) {
        return None;
    }
    let how_often = args.positional.get(1).or_else(|| args.named("repeats")).unwrap_or(first);
    is_tensor(&how_often.obj).then(|| Read::Dim(args.whole(2, "dim").unwrap_or(0)))
}

/// For an index with a mask: where the dimension that takes the place of the indexed ones lies.
fn masked_dim(rec: &Recording, tensor: &Obj, index: &Obj) -> Option<i64> {
    let items = if index.class_is(types().tuple) { items_of(index) } else { vec![index.clone()] };
    let is_mask = |object: &Obj| is_tensor(object) && is_mask(&rec.seen_as(object));
    if !items.iter().any(is_mask) {
        return None;
    }
    let rank = |object: &Obj| rank(&rec.seen_as(object)).unwrap_or(0);
    let takes = |item: &Obj| match item {
        item if is_mask(item) => rank(item),
        item if item.is_none() || is_ellipsis(item) || item.class_is(types().bool) => 0,
        _ => 1,
    };
    let is_number = |item: &Obj| match is_tensor(item) {
        true => !is_mask(item) && rank(item) == 0,
        false => item.class_is(types().int) || types().is_numpy_scalar(item),
    };
    let taken: i64 = items.iter().map(takes).sum();
    let (mut at, mut found, mut between) = (0, None, false);
    // A number only takes its dimension away.
    for item in items.iter().filter(|item| !is_number(item)) {
        let is_plain = item.is_none() || is_ellipsis(item) || item.class_name() == "slice";
        match (is_plain, found) {
            (true, None) if is_ellipsis(item) => at += rank(tensor) - taken,
            (true, None) => at += 1,
            (true, Some(_)) => between = true,
            // Indices that stand apart put their dimension in front.
            (false, Some(_)) if between => return Some(0),
            (false, None) => found = Some(at),
            (false, Some(_)) => {}
        }
    }
    found
}

/// The dimensions that a result has as the argument did, counted from the first or the last one, where those vary.
fn kept_dims(varying: &[Option<i64>], result: &Obj) -> Vec<usize> {
    let is_varying = varying.iter().any(Option::is_some) && is_tensor(result);
    let shape = || result.attr("shape").and_then(|shape| shape.bind().extract::<Vec<i64>>()).quiet().unwrap_or_default();
    let sizes = if is_varying { shape() } else { Vec::new() };
    let from_the_end = |dim: usize| (dim + varying.len()).checked_sub(sizes.len());
    let is_kept = |dim: &usize| {
        let places = [Some(*dim), from_the_end(*dim)];
        places.into_iter().flatten().any(|at| varying.get(at).copied().flatten() == Some(sizes[*dim]))
    };
    (0..sizes.len()).filter(is_kept).collect()
}

/// Whether a store by a mask has a value for each of its places, while sizes vary: a graph would be for one number of them.
pub(super) fn stores_a_count(rec: &mut Recording, tensor: &Obj, index: &Obj, value: &Obj) -> bool {
    if !is_tensor(value) {
        return false;
    }
    let Some(at) = masked_dim(rec, tensor, index) else { return false };
    let items = if index.class_is(types().tuple) { items_of(index) } else { vec![index.clone()] };
    let tensors: Vec<Obj> = items.iter().filter(|item| is_tensor(item)).cloned().collect();
    let rank = |object: &Obj| rank(&rec.seen_as(object)).unwrap_or(0);
    let taken = |item: &Obj| match item {
        item if is_tensor(item) => rank(item),
        item if item.is_none() => -1,
        item if item.class_is(types().int) => 1,
        _ => 0,
    };
    let behind = rank(tensor) - items.iter().map(taken).sum::<i64>() - at;
    let has_count = tensors.len() > 1 || rank(value) > behind;
    has_count && [tensors, vec![tensor.clone(), value.clone()]].concat().iter().any(|of| !rec.varying_sizes_of(of).is_empty())
}

fn is_mask(tensor: &Obj) -> bool {
    let dtype = tensor.attr("dtype").map(|dtype| dtype.text()).quiet().unwrap_or_default();
    matches!(dtype.as_str(), "torch.bool" | "torch.uint8")
}

pub(super) fn rank(tensor: &Obj) -> Option<i64> {
    tensor.bind().call_method0("dim").quiet()?.extract().quiet()
}

fn sizes(tensor: &Obj) -> Vec<i64> {
    tensor.attr("shape").and_then(|shape| shape.bind().extract()).quiet().unwrap_or_default()
}

fn is_ellipsis(object: &Obj) -> bool {
    object.is(&Obj::from(crate::obj::py().Ellipsis().into_bound(crate::obj::py())))
}

fn items_of_sequence(object: &Obj) -> Vec<Obj> {
    let types = types();
    let is_sequence = object.is_instance_of(types.tuple) || object.is_instance_of(types.list);
    if is_sequence { items_of(object) } else { Vec::new() }
}

impl Vm {
    /// Makes the call between two graphs. Where Rust code waits for a frame nothing can stand between: that is a break.
    pub fn read(&mut self, callable: &Val, args: Args, read: Read, why: &str) -> R<Called> {
        self.drop_contradicted()?;
        if self.rec.is_none() || self.waiting > 0 {
            return self.opaque_call(callable, args, why);
        }
        self.reads.push(format!("{}: {why}", self.location()));
        let first = args.positional.first().filter(|first| is_tensor(&first.obj)).map(|first| first.obj.clone());
        let varying = self.rec.as_ref().zip(first).map(|(rec, first)| rec.varying_dims_of(&first)).unwrap_or_default();
        self.action(callable, args, why, Some((&read, &varying)))
    }

    /// The sizes that vary among the arguments: of tensors, and as numbers.
    pub(super) fn varying_in(&mut self, args: &Args) -> Vec<i64> {
        let named = args.keywords.iter().map(|(_, value)| value.clone());
        let given: Vec<Val> = args.positional.iter().cloned().chain(named).collect();
        let inside =
            |value: &Val| if self.holds_sizes(&value.obj) { self.items_made_here(&value.obj) } else { vec![value.clone()] };
        let numbers = given.iter().flat_map(inside).filter(|value| self.is_size(value));
        let mut varying: Vec<i64> = numbers.filter_map(|size| size.obj.bind().extract().quiet()).collect();
        let tensors = given.iter().flat_map(|value| tensors_in(&value.obj));
        if let Some(rec) = &mut self.rec {
            varying.extend(tensors.flat_map(|tensor| rec.varying_sizes_of(&tensor)));
        }
        varying
    }

    /// The same as far as something was relied on of the tensors already: a call that nobody can see into takes any.
    pub(super) fn known_to_vary(&self, args: &Args) -> Vec<i64> {
        let Some(rec) = self.rec.as_ref().filter(|rec| rec.sizing.is_in_use()) else { return Vec::new() };
        let given = args.positional.iter().chain(args.keywords.iter().map(|(_, value)| value));
        let tensors = given.flat_map(|value| tensors_in(&value.obj));
        tensors.flat_map(|tensor| rec.varying_dims_of(&tensor)).flatten().collect()
    }

    /// What a program says that it knows of sizes. The comparison is a fact of the trace already; a check that does not hold goes its way.
    pub(super) fn fact(&mut self, function: &Obj, args: &Args) -> Option<Val> {
        let is_bool = |value: &&Val| value.obj.class_is(types().bool);
        if let Some(place) = builtins::condition_of(function) {
            return args.positional.get(place).filter(is_bool).cloned();
        }
        if builtins::asks_for_symbols(function) {
            return Some(Obj::bool(false).into());
        }
        let condition = args.positional.get(1).filter(|_| builtins::is_check(function)).filter(is_bool)?;
        self.settled(condition).truth().quiet()?.then(|| Obj::none().into())
    }

    /// What the call has read varies from call to call; so do sizes of the first argument that the result has kept.
    pub(super) fn note_read(&mut self, read: &Read, varying: &[Option<i64>], result: &Obj) {
        let Some(rec) = &mut self.rec else { return };
        let source = rec.source(Source::Result(rec.segment));
        let place = rec.tree.sources.read().show(source);
        let inside = |n: Option<usize>| n.map_or(place.to_string(), |n| format!("{place}[{n}]"));
        match read {
            Read::Numbers => {
                let items = items_of_sequence(result).len();
                let places = (0..items).map(|n| inside(Some(n))).chain([place.to_string()]);
                rec.tree.varying.change(|known| known.extend(places));
            }
            read => {
                let dims: Vec<(String, usize)> = read.dims(result).into_iter().map(|(n, dim)| (inside(n), dim)).collect();
                let kept = kept_dims(varying, result).into_iter().map(|dim| (place.to_string(), dim));
                rec.tree.varying_sizes.change(|known| known.extend(dims.iter().cloned().chain(kept)));
                // One that is alone is nobody's equal; several of one call are one another's.
                if is_tensor(result) {
                    rec.tree.lone_sizes.change(|known| known.extend(dims));
                }
            }
        }
    }
}
