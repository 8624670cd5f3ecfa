//! What is no compiled code is refused, with the reason; damaged code never makes the decoder panic.

mod common;

use common::{Record, VERSIONS, fixture};
use ox_bytecode::{Code, DecodeError};

fn function(version: &str, name: &str) -> Record {
    let of_name = |record: &Record| record.name.split_once('@').is_some_and(|(n, _)| n == name);
    fixture(version).1.into_iter().find(of_name).expect("it is in the corpus")
}

/// Decodes `calls:plain` with the bytes from `at` on replaced.
fn patched(version: &str, at: usize, bytes: &[u8]) -> Result<Code, String> {
    let mut record = function(version, "calls:plain");
    record.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    record.decode().map_err(|e| e.to_string())
}

#[test]
fn specialised_and_instrumented_code() {
    // Numbers that only the interpreter uses, and RESUME under a tracer.
    for (version, opcode) in [("3.11", 3), ("3.12", 7), ("3.13", 200)] {
        let error = patched(version, 0, &[opcode, 0]).expect_err("a specialised form");
        assert_eq!(
            error,
            format!(
                "opcode {opcode} at offset 0 is none that Python {version}'s compiler writes (specialised? `co_code` is needed)"
            )
        );
    }
    for (version, opcode) in [("3.12", 240), ("3.13", 236)] {
        let error = patched(version, 0, &[opcode, 0]).expect_err("an instrumented form");
        assert_eq!(
            error,
            format!("opcode {opcode} at offset 0 is an instrumented form of Python {version}: a tracer is at work")
        );
    }
}

#[test]
fn code_of_the_interpreter_itself() {
    assert_eq!(
        patched("3.12", 0, &[3, 0]).unwrap_err(),
        "INTERPRETER_EXIT at offset 0 belongs to the interpreter, not to compiled code"
    );
}

#[test]
fn operands_that_do_not_exist() {
    // RESUME becomes LOAD_FAST 9, LOAD_CONST 9, STORE_NAME 4, GET_AWAITABLE 3, JUMP_FORWARD 200.
    assert_eq!(patched("3.12", 0, &[124, 9]).unwrap_err(), "variable 9 at offset 0 does not exist");
    assert_eq!(patched("3.12", 0, &[100, 9]).unwrap_err(), "constant 9 at offset 0 does not exist");
    assert_eq!(patched("3.11", 0, &[90, 4]).unwrap_err(), "name 4 at offset 0 does not exist");
    assert_eq!(patched("3.13", 0, &[73, 3]).unwrap_err(), "GET_AWAITABLE at offset 0 cannot have the operand 3");
    assert_eq!(patched("3.12", 0, &[110, 200]).unwrap_err(), "code unit 201 at offset 0 does not exist");
}

#[test]
fn stacks_that_do_not_add_up() {
    // RESUME becomes POP_TOP; then a branch leads into a handler.
    assert_eq!(patched("3.12", 0, &[1, 0]).unwrap_err(), "instruction 0 takes 1 values off a stack of 0");
    let mut record = function("3.12", "generators:one_of_two");
    let at = record.instructions.iter().position(|i| i.opcode == "POP_JUMP_IF_FALSE").expect("a branch");
    let offset = record.instructions[at].offset as usize;
    let jump = (record.instructions.last().expect("an end").offset as usize - offset) / 2;
    record.bytes[offset + 1] = jump as u8 - 1;
    assert!(matches!(record.decode(), Err(DecodeError::Depth { .. } | DecodeError::Underflow { .. })), "{:?}", record.decode());
}

#[test]
fn names_of_keywords_must_be_constants() {
    let mut record = function("3.13", "calls:keywords");
    let at = record.instructions.iter().position(|i| i.opcode == "CALL_KW").expect("a call");
    let offset = record.instructions[at - 1].offset as usize;
    record.bytes[offset..offset + 2].copy_from_slice(&[85, 0]);
    assert!(matches!(record.decode(), Err(DecodeError::Misplaced { opcode: "CALL_KW", .. })), "{:?}", record.decode());
}

#[test]
fn code_that_ends_too_early() {
    let mut record = function("3.12", "calls:a_global");
    record.bytes.truncate(6);
    assert_eq!(record.decode(), Err(DecodeError::Truncated { offset: 2 }));
    record.bytes.truncate(2);
    assert_eq!(record.decode(), Err(DecodeError::NoEnd));
    record.bytes.truncate(1);
    assert_eq!(record.decode(), Err(DecodeError::Truncated { offset: 1 }));
    record.bytes.clear();
    assert_eq!(record.decode(), Err(DecodeError::NoEnd));
}

#[test]
fn damaged_tables() {
    let mut record = function("3.12", "exceptions:caught");
    record.exceptions.pop();
    assert!(matches!(record.decode(), Err(DecodeError::Table { table: "exception table", .. })));
    let mut record = function("3.12", "exceptions:caught");
    record.lines[0] = 0;
    assert_eq!(record.decode(), Err(DecodeError::Table { table: "line table", byte: 1 }));
    let mut record = function("3.12", "exceptions:caught");
    record.exceptions = [record.exceptions.clone(), record.exceptions].concat();
    assert!(matches!(record.decode(), Err(DecodeError::HandlerOrder { .. })));
}

/// A generator of numbers that needs no crate.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// What decodes nevertheless can be printed.
#[test]
fn noise_is_no_panic() {
    let mut noise = Noise(1);
    let mut decoded = 0;
    for record in VERSIONS.iter().flat_map(|version| fixture(version).1) {
        for _ in 0..60 {
            let mut damaged = record.clone();
            let tables = [&mut damaged.bytes, &mut damaged.exceptions, &mut damaged.lines];
            let table = &mut *tables.into_iter().nth(noise.below(3)).expect("one of three");
            let at = noise.below(table.len());
            if let Some(byte) = table.get_mut(at) {
                *byte = noise.below(256) as u8;
            }
            decoded += usize::from(damaged.decode().is_ok_and(|code| !code.to_string().is_empty()));
        }
    }
    assert!(decoded > 0);
}
