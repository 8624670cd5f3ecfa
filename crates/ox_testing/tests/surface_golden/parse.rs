//! Reads the lines that `scripts/golden_surface.py` writes.

use ox_ir::{DType, Scalar};
use ox_testing::TensorData;

#[derive(Clone, Debug)]
pub enum Item {
    Tensor(TensorData),
    Scalar(Scalar),
    None,
    Str(String),
    DType(DType),
    List(Vec<Item>),
    Tuple(Vec<Item>),
}

pub struct Call {
    pub namespace: String,
    pub name: String,
    pub args: Vec<Item>,
    pub kwargs: Vec<(String, Item)>,
    /// What it returned, or the name of the exception that it raised.
    pub result: Result<Item, String>,
    /// Positional arguments that it changed, with what they hold afterwards.
    pub changed: Vec<(usize, TensorData)>,
    /// What it gives in double precision, of a call in half.
    pub exact: Option<Item>,
}

pub fn parse(line: &str) -> Call {
    let mut at = Cursor { rest: line };
    let namespace = at.until('.');
    let name = at.until('(');
    let (mut args, mut kwargs) = (Vec::new(), Vec::new());
    while !at.eat(")") {
        match at.keyword() {
            Some(keyword) => kwargs.push((keyword, at.item())),
            None => args.push(at.item()),
        }
        at.eat(", ");
    }
    assert!(at.eat(" -> "), "no result in {line}");
    if at.eat("!") {
        return Call { namespace, name, args, kwargs, result: Err(at.rest.to_string()), changed: Vec::new(), exact: None };
    }
    let result = at.item();
    let mut changed = Vec::new();
    while at.eat("; ") {
        let place = at.until(' ').parse().expect("a place");
        assert!(at.eat("= "));
        let Item::Tensor(value) = at.item() else { panic!("a changed argument is a tensor: {line}") };
        changed.push((place, value));
    }
    let exact = at.eat(" ~ ").then(|| at.item());
    assert!(at.rest.is_empty(), "left over: {}", at.rest);
    Call { namespace, name, args, kwargs, result: Ok(result), changed, exact }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Everything before `end`, which goes too.
    fn until(&mut self, end: char) -> String {
        let (before, after) = self.rest.split_once(end).unwrap_or_else(|| panic!("no `{end}` in {}", self.rest));
        self.rest = after;
        before.to_string()
    }

    /// `name=`, if that comes next.
    fn keyword(&mut self) -> Option<String> {
        let len = self.word_len();
        let is_keyword = len > 0 && self.rest[len..].starts_with('=');
        is_keyword.then(|| self.until('='))
    }

    fn word_len(&self) -> usize {
        self.rest.find(|c: char| !(c.is_alphanumeric() || "_.-+@".contains(c))).unwrap_or(self.rest.len())
    }

    fn item(&mut self) -> Item {
        if self.eat("'") {
            return Item::Str(self.until('\''));
        }
        if self.eat("[") {
            return Item::List(self.items("]"));
        }
        if self.eat("(") {
            return Item::Tuple(self.items(")"));
        }
        let len = self.word_len();
        let word = &self.rest[..len];
        self.rest = &self.rest[len..];
        if self.rest.starts_with('[') {
            return Item::Tensor(self.tensor(word.parse().expect("a dtype")));
        }
        word_item(word)
    }

    fn items(&mut self, end: &str) -> Vec<Item> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.item());
            self.eat(", ");
        }
        items
    }

    fn tensor(&mut self, dtype: DType) -> TensorData {
        self.eat("[");
        let shape: Vec<usize> = words(&self.until(']'), ',').map(|n| n.parse().expect("a size")).collect();
        self.eat("{");
        let data: Vec<Scalar> = words(&self.until('}'), ' ').map(|x| x.parse().expect("an element")).collect();
        TensorData::new(dtype, &shape, data)
    }
}

fn words(text: &str, between: char) -> impl Iterator<Item = String> {
    text.split(between).filter(|w| !w.is_empty()).map(str::to_string).collect::<Vec<_>>().into_iter()
}

fn word_item(word: &str) -> Item {
    match word {
        "None" => Item::None,
        "True" => Item::Scalar(Scalar::Bool(true)),
        "False" => Item::Scalar(Scalar::Bool(false)),
        _ => match word.strip_prefix('@') {
            Some(dtype) => Item::DType(dtype.parse().expect("a dtype")),
            None => Item::Scalar(word.parse().unwrap_or_else(|_| panic!("not a value: {word}"))),
        },
    }
}
