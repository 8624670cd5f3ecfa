//! Parsing a Graph. Nodes may have any names (`%x`, `%3`); they are numbered in the order in which they are defined.

use super::cursor::{ParseError, Parsed};
use super::ops::{AttrParser, parse_attrs};
use super::parser::Parser;
use crate::graph::{Alias, Args, Graph, GraphInput, GraphOutput, Memory, Mutation, Node, NodeId, Op};
use rustc_hash::FxHashMap;

impl Graph {
    pub fn parse(text: &str) -> Result<Graph, ParseError> {
        let mut p = Parser::new(text);
        let graph = GraphParser { p: &mut p, graph: Graph::default(), names: FxHashMap::default() }.graph()?;
        if p.cursor.at_end() { Ok(graph) } else { Err(p.cursor.expected("the end of the graph")) }
    }
}

struct GraphParser<'a, 't> {
    p: &'a mut Parser<'t>,
    graph: Graph,
    names: FxHashMap<&'t str, NodeId>,
}

impl GraphParser<'_, '_> {
    fn graph(mut self) -> Parsed<Graph> {
        self.graph.locations.push(String::new());
        self.graph.sizes = self.p.sizes()?;
        self.p.cursor.expect_word("graph")?;
        self.p.cursor.expect("(")?;
        while !self.p.cursor.eat(")") {
            self.input()?;
            if !self.p.cursor.peek(")") {
                self.p.cursor.expect(",")?;
            }
        }
        self.p.cursor.expect("{")?;
        while self.p.cursor.peek("%") {
            self.node()?;
        }
        while self.p.cursor.eat_word("mutate") {
            let input = self.index()?;
            self.p.cursor.expect("=")?;
            let value = self.node_ref()?;
            self.graph.mutations.push(Mutation { input, value });
        }
        self.outputs()?;
        self.p.cursor.expect("}")?;
        Ok(self.graph)
    }

    /// `%0: f32[4] "x" frozen packed`, or `_: ...` for an input that has no node in front of all others.
    fn input(&mut self) -> Parsed<()> {
        let node = if self.p.cursor.eat_word("_") { None } else { Some(self.new_name()?) };
        self.p.cursor.expect(":")?;
        let ty = self.p.tensor_type()?;
        let strides = self.p.strides(&ty.shape)?;
        let name = self.p.cursor.string()?;
        let frozen = self.p.cursor.eat_word("frozen");
        let packed = self.p.cursor.eat_word("packed");
        if let Some(name) = node {
            let op = Op::Input(self.graph.inputs.len() as u32);
            let id = self.graph.push(Node { op, args: Args::new(), ty: ty.clone(), location: 0 });
            self.names.insert(name, id);
        }
        self.graph.inputs.push(GraphInput { name, ty, strides, frozen, packed });
        Ok(())
    }

    fn node(&mut self) -> Parsed<()> {
        let name = self.new_name()?;
        self.p.cursor.expect("=")?;
        let op_name = self.p.cursor.word()?;
        self.p.cursor.expect("(")?;
        let args = self.args()?;
        let op = parse_attrs(op_name, &mut AttrParser { first: args.is_empty(), p: self.p })?;
        self.p.cursor.expect(")")?;
        self.p.cursor.expect(":")?;
        let ty = self.p.tensor_type()?;
        let location = self.location();
        let id = self.graph.push(Node { op, args, ty, location });
        self.names.insert(name, id);
        Ok(())
    }

    fn args(&mut self) -> Parsed<Args> {
        let mut args = Args::new();
        while self.p.cursor.peek("%") {
            args.push(self.node_ref()?);
            if !self.p.cursor.eat_if_followed_by(",", "%") {
                break;
            }
        }
        Ok(args)
    }

    fn outputs(&mut self) -> Parsed<()> {
        self.p.cursor.expect_word("return")?;
        if !self.p.cursor.peek("%") {
            return Ok(());
        }
        loop {
            let output = self.output()?;
            self.graph.outputs.push(output);
            if !self.p.cursor.eat(",") {
                return Ok(());
            }
        }
    }

    fn output(&mut self) -> Parsed<GraphOutput> {
        let value = self.node_ref()?;
        let strides = self.p.strides(&self.graph.ty(value).shape)?;
        let alias = if self.p.cursor.eat_word("alias") { Some(self.alias()?) } else { None };
        let memory = match () {
            _ if self.p.cursor.eat_word("own") => Memory::Own,
            _ if self.p.cursor.eat_word("part") => {
                self.p.cursor.expect_word("at")?;
                Memory::Whole(self.p.sym()?)
            }
            _ => Memory::Any,
        };
        Ok(GraphOutput { value, strides, alias, memory })
    }

    fn alias(&mut self) -> Parsed<Alias> {
        let of_input = self.p.cursor.eat_word("input");
        if !of_input {
            self.p.cursor.expect_word("output")?;
        }
        let n = self.index()?;
        self.p.cursor.expect_word("at")?;
        let offset = self.p.sym()?;
        Ok(if of_input { Alias::Input(n, offset) } else { Alias::Output(n, offset) })
    }

    fn index(&mut self) -> Parsed<u32> {
        let value = self.p.cursor.int()?;
        u32::try_from(value).map_err(|_| self.p.cursor.error(format!("{value} is not an index")))
    }

    fn location(&mut self) -> u32 {
        let text = self.p.cursor.comment();
        let known = self.graph.locations.iter().position(|l| l == text);
        known.unwrap_or_else(|| {
            self.graph.locations.push(text.to_string());
            self.graph.locations.len() - 1
        }) as u32
    }
}

impl<'t> GraphParser<'_, 't> {
    /// A name that is being defined.
    fn new_name(&mut self) -> Parsed<&'t str> {
        self.p.cursor.expect("%")?;
        let name = self.p.cursor.word()?;
        if self.names.contains_key(name) {
            return Err(self.p.cursor.error(format!("`%{name}` is defined twice")));
        }
        Ok(name)
    }

    fn node_ref(&mut self) -> Parsed<NodeId> {
        self.p.cursor.expect("%")?;
        let name = self.p.cursor.word()?;
        self.names.get(name).copied().ok_or_else(|| self.p.cursor.error(format!("`%{name}` is not defined yet")))
    }
}
