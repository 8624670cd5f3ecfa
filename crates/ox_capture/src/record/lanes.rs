//! What a function does to tensors in the place of the elements that it is written for: `torch.vmap` would call it with one element of each.
//! If it does nothing but arithmetic and look up elements of tables, calling it with whole tensors gives the same.

use super::Recording;
use super::peek::name_of;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of};
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// What gives the same whatever the values of its tensor are.
const BY_TYPE: [&str; 3] = ["new_zeros", "new_ones", "new_full"];
const LOOKING_UP: [&str; 2] = ["getitem", "__getitem__"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same for all elements.
    Shared,
    PerElement,
}

impl Recording {
    /// Whether a function that has made `result` of `lanes` would make its elements of theirs, one by one. If not, what it did to them is nobody's
    /// concern: not even whether it fails.
    pub fn is_by_element(&mut self, result: &Obj, lanes: &[Obj]) -> bool {
        let shadows: Vec<(Obj, Obj)> = lanes.iter().filter_map(|lane| self.shadow(lane).ok()).collect();
        let nodes: Vec<Obj> =
            shadows.iter().filter(|(shadow, _)| is_written(shadow) == Some(false)).map(|(_, node)| node.clone()).collect();
        let mut known = Lanes { kinds: nodes.iter().map(|node| (node.id(), Kind::PerElement)).collect() };
        let is_one = nodes.len() == lanes.len() && self.is_known(result, &mut known);
        if !is_one {
            let lazies = &self.graph.lazies;
            self.graph.risky.retain(|n| known.kind(&lazies[*n].node) == Some(Kind::Shared));
        }
        is_one
    }

    fn is_known(&mut self, result: &Obj, lanes: &mut Lanes) -> bool {
        let Ok((shadow, node)) = self.shadow(result) else { return false };
        match lanes.kind(&node) {
            Some(Kind::Shared) => rank(&shadow) == Some(0),
            Some(Kind::PerElement) => true,
            None => false,
        }
    }
}

struct Lanes {
    /// By their nodes.
    kinds: FxHashMap<usize, Kind>,
}

impl Lanes {
    /// None if it is neither, as far as we can tell.
    fn kind(&mut self, node: &Obj) -> Option<Kind> {
        if let Some(known) = self.kinds.get(&node.id()) {
            return Some(*known);
        }
        let inputs = items_of(&node.attr("all_input_nodes").quiet()?);
        let kinds = inputs.iter().map(|input| self.kind(input)).collect::<Option<Vec<Kind>>>()?;
        let kind = match kinds.contains(&Kind::PerElement) {
            false => Kind::Shared,
            true => self.of_call(node, &inputs)?,
        };
        self.kinds.insert(node.id(), kind);
        Some(kind)
    }

    fn of_call(&self, node: &Obj, inputs: &[Obj]) -> Option<Kind> {
        let name = name_of(node)?;
        if is_written(&example(node)?)? {
            return None;
        }
        if BY_TYPE.contains(&name.as_str()) {
            return Some(Kind::Shared);
        }
        let is_by_element = match LOOKING_UP.contains(&name.as_str()) {
            true => self.is_look_up(node)?,
            false => is_elementwise(node, &name) && self.do_types_agree(inputs)?,
        };
        is_by_element.then_some(Kind::PerElement)
    }

    fn is_shared(&self, node: &Obj) -> bool {
        self.kinds.get(&node.id()) == Some(&Kind::Shared)
    }

    /// An element of a table that is the same for all, found by as many indices as it has dimensions.
    fn is_look_up(&self, node: &Obj) -> Option<bool> {
        let [table, index] = &items_of(&node.attr("args").quiet()?)[..] else { return Some(false) };
        let indices = if index.is_instance_of(types().tuple) { items_of(index) } else { vec![index.clone()] };
        let is_index = |index: &Obj| index.class_is(types().int) || is_whole_number(index);
        let is_table = is_node(table) && self.is_shared(table) && rank(&example(table)?) == Some(indices.len());
        Some(is_table && indices.iter().all(is_index))
    }

    /// Whether the result has the type that it has of elements. What is the same for all must be a single element, and of its kind of number
    /// (whole, with a fraction) of no other type: a larger tensor would say the type alone.
    fn do_types_agree(&self, inputs: &[Obj]) -> Option<bool> {
        let tensors: Vec<(Obj, bool)> =
            inputs.iter().map(|node| Some((example(node)?, self.is_shared(node)))).collect::<Option<_>>()?;
        let (shared, lanes): (Vec<_>, Vec<_>) =
            tensors.iter().filter(|(value, _)| types().is_tensor(value)).partition(|(_, shared)| *shared);
        let fits = |x: &Obj| rank(x) == Some(0) && lanes.iter().all(|(lane, _)| are_promoted_alike(x, lane) == Some(true));
        Some(shared.iter().all(|(x, _)| fits(x)))
    }
}

fn is_elementwise(node: &Obj, name: &str) -> bool {
    let text = |of: &Obj, name: &str| of.attr(name).ok().and_then(|text| text.to_str()).unwrap_or_default();
    let module = node.attr("target").map(|target| text(&target, "__module__")).quiet().unwrap_or_default();
    let namespace = match (text(node, "op").as_str(), module.as_str()) {
        ("call_method", _) => "Tensor",
        (_, "_operator") => "operator",
        (_, "torch.nn.functional" | "torch._C._nn") => "F",
        _ => "torch",
    };
    ox_ops::is_elementwise(namespace, name)
}

fn are_promoted_alike(x: &Obj, lane: &Obj) -> Option<bool> {
    let (x, lane) = (x.attr("dtype").quiet()?, lane.attr("dtype").quiet()?);
    let kind = |dtype: &Obj| Some((dtype.text() == "torch.bool", dtype.attr("is_floating_point").quiet()?.truth().quiet()?));
    Some(x.is(&lane) || kind(&x)? != kind(&lane)?)
}

fn is_node(object: &Obj) -> bool {
    object.class_name() == "Node"
}

fn example(node: &Obj) -> Option<Obj> {
    Some(node.attr("meta").quiet()?.bind().get_item("example_value").quiet()?.into())
}

fn is_written(shadow: &Obj) -> Option<bool> {
    Some(shadow.attr("_version").quiet()?.bind().extract::<u64>().quiet()? > 0)
}

/// None of what is no tensor.
fn rank(tensor: &Obj) -> Option<usize> {
    tensor.bind().call_method0("dim").quiet()?.extract().quiet()
}

/// Not of truth values, which would choose elements, nor of bytes, which may stand for them.
fn is_whole_number(node: &Obj) -> bool {
    let dtype = |node: &Obj| Some(example(node)?.attr("dtype").quiet()?.text());
    is_node(node) && matches!(dtype(node).as_deref(), Some("torch.int64" | "torch.int32"))
}
