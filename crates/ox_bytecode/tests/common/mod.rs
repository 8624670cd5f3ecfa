//! Records of `dump.py`, and the interpreters that can write them.
#![allow(dead_code)]

pub mod compare;
pub mod nulls;

use ox_bytecode::{Arguments, Code, DecodeError, RawCode, Version, decode, variables};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A line of `dis`. Numbers are bytes of `co_code`.
#[derive(Clone, Debug)]
pub struct Disassembled {
    pub offset: u32,
    pub opcode: String,
    pub argument: u32,
    pub target: Option<u32>,
    pub effect: i64,
    pub jump_effect: i64,
    /// line, end line, column, end column
    pub position: [Option<u32>; 4],
}

/// A code object with what `dis` says about it.
#[derive(Clone, Debug)]
pub struct Record {
    pub version: Version,
    pub name: String,
    pub arguments: Arguments,
    pub flags: u32,
    pub stack: u32,
    pub line: u32,
    pub tables: [u32; 2],
    pub variables: [Vec<String>; 3],
    /// The names of the variables in the order in which they lie in the frame.
    pub slots: Vec<String>,
    pub bytes: Vec<u8>,
    pub exceptions: Vec<u8>,
    pub lines: Vec<u8>,
    pub instructions: Vec<Disassembled>,
    /// start, end, target, depth, whether the place is pushed
    pub handlers: Vec<[u32; 5]>,
}

impl Record {
    pub fn raw(&self) -> RawCode<'_> {
        let [varnames, cellvars, freevars] = &self.variables;
        RawCode {
            version: self.version,
            code: &self.bytes,
            exception_table: &self.exceptions,
            line_table: &self.lines,
            first_line: self.line,
            names: self.tables[0],
            consts: self.tables[1],
            variables: variables(varnames, cellvars, freevars),
            arguments: self.arguments,
            flags: self.flags,
            stack_size: self.stack,
        }
    }

    pub fn decode(&self) -> Result<Code, DecodeError> {
        decode(&self.raw())
    }

    fn new(version: Version, name: &str) -> Record {
        Record {
            version,
            name: name.to_owned(),
            arguments: Arguments::default(),
            flags: 0,
            stack: 0,
            line: 0,
            tables: [0; 2],
            variables: Default::default(),
            slots: Vec::new(),
            bytes: Vec::new(),
            exceptions: Vec::new(),
            lines: Vec::new(),
            instructions: Vec::new(),
            handlers: Vec::new(),
        }
    }

    fn read_line(&mut self, key: &str, words: &[&str]) {
        let names = || words.iter().map(|w| (*w).to_owned()).collect();
        match key {
            "arguments" => {
                let [positional, positional_only, keyword_only] = numbers(words);
                self.arguments = Arguments { positional, positional_only, keyword_only };
            }
            "flags" => [self.flags] = numbers(words),
            "stack" => [self.stack] = numbers(words),
            "line" => [self.line] = numbers(words),
            "tables" => self.tables = numbers(words),
            "varnames" => self.variables[0] = names(),
            "cellvars" => self.variables[1] = names(),
            "freevars" => self.variables[2] = names(),
            "slots" => self.slots = names(),
            "bytes" => self.bytes = bytes(words),
            "exceptions" => self.exceptions = bytes(words),
            "lines" => self.lines = bytes(words),
            "i" => self.instructions.push(disassembled(words)),
            "h" => self.handlers.push(numbers(words)),
            _ => panic!("no such field: {key}"),
        }
    }
}

fn disassembled(words: &[&str]) -> Disassembled {
    let maybe = |word: &str| (word != "-").then(|| number(word));
    let effect = |word: &str| word.parse().expect("an effect");
    Disassembled {
        offset: number(words[0]),
        opcode: words[1].to_owned(),
        argument: number(words[2]),
        target: maybe(words[3]),
        effect: effect(words[4]),
        jump_effect: effect(words[5]),
        position: [6, 7, 8, 9].map(|at| maybe(words[at])),
    }
}

fn number(word: &str) -> u32 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

fn numbers<const N: usize>(words: &[&str]) -> [u32; N] {
    assert_eq!(words.len(), N, "{words:?}");
    std::array::from_fn(|at| number(words[at]))
}

fn bytes(words: &[&str]) -> Vec<u8> {
    let digits = words.first().copied().unwrap_or("");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits")).collect()
}

/// What stands before the records.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub python: [u32; 3],
    pub opcodes: Vec<String>,
}

/// Reads records one by one, so that a whole library need not be held.
pub fn read_records(input: impl BufRead, mut each: impl FnMut(Record)) -> Head {
    let mut head = Head::default();
    let mut record: Option<Record> = None;
    for line in input.lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').filter(|w| !w.is_empty()).collect();
        match (words[0], &mut record) {
            ("python", _) => head.python = numbers(&words[1..]),
            ("opcodes", _) => head.opcodes = words[1..].iter().map(|w| (*w).to_owned()).collect(),
            ("code", _) => {
                let version = Version::new(head.python[0], head.python[1]).expect("a known version");
                record.replace(Record::new(version, words[1])).map(&mut each);
            }
            (key, Some(record)) => record.read_line(key, &words[1..]),
            (key, None) => panic!("{key} before any code"),
        }
    }
    record.map(&mut each);
    head
}

pub const VERSIONS: [&str; 3] = ["3.11", "3.12", "3.13"];

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

pub fn fixture_path(version: &str) -> PathBuf {
    folder().join("fixtures").join(format!("{version}.txt"))
}

/// The corpus as one version compiles it.
pub fn fixture(version: &str) -> (Head, Vec<Record>) {
    let path = fixture_path(version);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut records = Vec::new();
    let head = read_records(BufReader::new(file), |record| records.push(record));
    (head, records)
}

/// What code objects are decoded to, by the names of the instructions.
pub fn instructions(records: &[Record]) -> BTreeSet<String> {
    let first_word = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
    let codes = records.iter().map(|r| r.decode().expect("it is decoded"));
    codes.flat_map(|code| code.instructions).map(|i| first_word(i.to_string())).collect()
}

/// An interpreter of the version: `python3.x` of the path, or pyenv's.
pub fn interpreter(version: &str) -> Option<PathBuf> {
    let named = PathBuf::from(format!("python{version}"));
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let pyenv = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten().map(|e| e.path());
    let of_version = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{version}.")));
    let mut found = vec![named];
    found.extend(pyenv.filter(of_version).map(|path| path.join("bin/python")));
    found.into_iter().find(|python| runs(python, version))
}

fn runs(python: &Path, version: &str) -> bool {
    let output = Command::new(python).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).output();
    output.is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).trim() == version)
}

/// Runs `dump.py` and hands its text over.
pub fn dump<T>(python: &Path, arguments: &[&str], read: impl FnOnce(BufReader<std::process::ChildStdout>) -> T) -> T {
    let mut command = Command::new(python);
    command.arg(folder().join("dump.py")).args(arguments).current_dir(folder()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the interpreter starts");
    let result = read(BufReader::new(child.stdout.take().expect("a pipe")));
    assert!(child.wait().expect("it ends").success(), "dump.py failed");
    result
}
