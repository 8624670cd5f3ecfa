//! Printing a Graph.
//!
//! ```text
//! sizes s0 in 2..1024 by 8
//! graph(%0: f32[s0, 64] "x", %1: f32[64] "weight" frozen) {
//!   %2 = reshape(%1) : f32[1, 64]
//!   %3 = expand(%2) : f32[s0, 64]
//!   %4 = add(%0, %3) : f32[s0, 64]  # model.py:12
//!   return %4
//! }
//! ```

use super::attr::print_strides;
use super::cursor::quote;
use super::ops::{AttrPrinter, op_name, print_attrs};
use super::{list, print_sizes};
use crate::graph::{Alias, Graph, GraphInput, GraphOutput, Memory, Node, NodeId, Op};
use std::fmt;

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_sizes(f, &self.sizes)?;
        let named = self.leading_inputs();
        f.write_str("graph(")?;
        list(
            f,
            self.inputs.iter().enumerate(),
            |f, (n, input)| {
                if n < named { write!(f, "%{n}: {input}") } else { write!(f, "_: {input}") }
            },
        )?;
        f.write_str(") {\n")?;
        for id in self.ids().skip(named) {
            self.print_node(f, id)?;
        }
        for mutation in &self.mutations {
            writeln!(f, "  mutate {} = {}", mutation.input, mutation.value)?;
        }
        f.write_str("  return")?;
        if !self.outputs.is_empty() {
            f.write_str(" ")?;
        }
        list(f, &self.outputs, |f, output| self.print_output(f, output))?;
        f.write_str("\n}\n")
    }
}

impl Graph {
    /// How many of the first nodes are just the inputs in their order; these are shown in the head.
    fn leading_inputs(&self) -> usize {
        let plain = |(n, node): &(usize, &Node)| {
            node.op == Op::Input(*n as u32)
                && node.args.is_empty()
                && node.location == 0
                && self.inputs.get(*n).is_some_and(|input| input.ty == node.ty)
        };
        self.nodes.iter().enumerate().take_while(plain).count()
    }

    fn print_node(&self, f: &mut fmt::Formatter<'_>, id: NodeId) -> fmt::Result {
        let node = self.node(id);
        write!(f, "  {id} = {node}")?;
        match self.locations.get(node.location as usize) {
            Some(location) if !location.is_empty() => writeln!(f, "  # {}", location.replace('\n', " ")),
            _ => f.write_str("\n"),
        }
    }

    fn print_output(&self, f: &mut fmt::Formatter<'_>, output: &GraphOutput) -> fmt::Result {
        write!(f, "{}", output.value)?;
        match self.nodes.get(output.value.index()) {
            Some(node) => print_strides(f, &node.ty.shape, &output.strides)?,
            None => f.write_str(" (no such node)")?,
        }
        match &output.alias {
            None => {}
            Some(Alias::Input(n, offset)) => write!(f, " alias input {n} at {offset}")?,
            Some(Alias::Output(n, offset)) => write!(f, " alias output {n} at {offset}")?,
        }
        match &output.memory {
            Memory::Any => Ok(()),
            Memory::Own => f.write_str(" own"),
            Memory::Whole(offset) => write!(f, " part at {offset}"),
        }
    }
}

impl fmt::Display for GraphInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        print_strides(f, &self.ty.shape, &self.strides)?;
        write!(f, " {}", quote(&self.name))?;
        f.write_str(if self.frozen { " frozen" } else { "" })?;
        f.write_str(if self.packed { " packed" } else { "" })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", op_name(&self.op))?;
        let mut out = AttrPrinter { f, first: true };
        for arg in &self.args {
            out.comma()?;
            write!(out.f, "{arg}")?;
        }
        print_attrs(&self.op, &mut out)?;
        write!(f, ") : {}", self.ty)
    }
}
