//! Decoded code against what `dis` says about the same bytes.

use super::{Disassembled, Record};
use ox_bytecode::{Code, Position, Version, stack_effect};

/// Everything that is wrong with how a code object was decoded.
pub fn differences(record: &Record) -> Vec<String> {
    let code = match record.decode() {
        Ok(code) => code,
        Err(error) => return vec![format!("{}: {error}", record.name)],
    };
    let mut wrong = Vec::new();
    for (at, line) in record.instructions.iter().enumerate() {
        wrong.extend(instruction(record, &code, at).into_iter().map(|w| format!("{} {} {w}", line.offset, line.opcode)));
    }
    wrong.extend(handlers(record, &code));
    wrong.extend(stack_size(record, &code));
    wrong.extend(super::nulls::misplaced(&code));
    wrong.into_iter().map(|w| format!("{} {}: {w}", record.version, record.name)).collect()
}

fn instruction(record: &Record, code: &Code, at: usize) -> Vec<String> {
    let line = &record.instructions[at];
    let mut wrong = Vec::new();
    let made = made_of(code, line.offset);
    for &index in &made {
        if position(code.positions[index]) != line.position {
            wrong.push(format!("is at {:?}, not {:?}", line.position, code.positions[index]));
        }
        if let Some(label) = code.instructions[index].label() {
            let expected = line.target.map(|target| first_from(code, target));
            if expected != Some(label.index()) {
                wrong.push(format!("jumps to {:?} (instruction {expected:?}), not {}", line.target, label.0));
            }
        }
    }
    wrong.extend(effects(record, code, at, &made));
    wrong
}

/// The instructions that were made of the opcode at `offset`.
fn made_of(code: &Code, offset: u32) -> Vec<usize> {
    let offsets = &code.offsets[..written(code)];
    (offsets.partition_point(|o| *o < offset)..offsets.partition_point(|o| *o <= offset)).collect()
}

/// How many instructions come from the compiler; what 3.11's decoder adds lies behind them.
fn written(code: &Code) -> usize {
    let added = |w: &[u32]| w[1] < w[0];
    code.offsets.windows(2).position(added).map_or(code.offsets.len(), |at| at + 1)
}

fn first_from(code: &Code, offset: u32) -> usize {
    code.offsets[..written(code)].partition_point(|o| *o < offset)
}

fn position(p: Position) -> [Option<u32>; 4] {
    [p.line, p.end_line, p.column, p.end_column]
}

/// The sum of the effects is `dis`'s, but for opcodes whose work is done elsewhere here.
fn effects(record: &Record, code: &Code, at: usize, made: &[usize]) -> Vec<String> {
    let line = &record.instructions[at];
    let (falls, jumps) = done_elsewhere(record, line, record.instructions.get(at + 1));
    let sum: i64 = made.iter().map(|i| stack_effect(&code.instructions[*i], false)).sum();
    let mut wrong = Vec::new();
    if sum != line.effect + falls {
        wrong.push(format!("has the effect {}, not {sum}", line.effect));
    }
    let Some(jump) = made.iter().position(|i| code.instructions[*i].label().is_some()) else { return wrong };
    let before: i64 = made[..jump].iter().map(|i| stack_effect(&code.instructions[*i], false)).sum();
    let with_jump = before + stack_effect(&code.instructions[made[jump]], true);
    if with_jump != line.jump_effect + jumps {
        wrong.push(format!("jumps with the effect {}, not {with_jump}", line.jump_effect));
    }
    wrong
}

/// What is to be added to `dis`'s effects, without and with the jump.
fn done_elsewhere(record: &Record, line: &Disassembled, next: Option<&Disassembled>) -> (i64, i64) {
    let later = record.version >= Version::Python312;
    match line.opcode.as_str() {
        // Its effect in `dis` is split between PRECALL and CALL.
        "PRECALL" => (-line.effect, 0),
        "CALL" if !later => (-(i64::from(line.argument)) - 1 - line.effect, 0),
        // The value that is sent at first.
        "RETURN_GENERATOR" if line.effect == 0 => (1, 0),
        // These take off what ForIter and Send have taken off already.
        "END_FOR" | "END_SEND" => (-line.effect, 0),
        "POP_TOP" if record.version == Version::Python313 && follows(record, line, "END_FOR") => (1, 0),
        "FOR_ITER" if later => (0, -1 - line.jump_effect),
        "SEND" => (-line.effect, -1 - line.jump_effect),
        "CLEANUP_THROW" => (-2 - line.effect, 0),
        // The names of the keywords are an operand.
        "LOAD_CONST" if next.is_some_and(|n| n.opcode == "CALL_KW") => (-1, 0),
        "CALL_KW" => (1, 0),
        // It leaves the frame; ours takes the constant off.
        "RETURN_CONST" => (-line.effect, 0),
        _ => (0, 0),
    }
}

fn follows(record: &Record, line: &Disassembled, opcode: &str) -> bool {
    let at = record.instructions.partition_point(|i| i.offset < line.offset);
    at > 0 && record.instructions[at - 1].opcode == opcode
}

fn handlers(record: &Record, code: &Code) -> Vec<String> {
    let expected = |offset: u32| {
        let entry = record.handlers.iter().find(|h| h[0] <= offset && offset < h[1])?;
        Some((first_from(code, entry[2]), entry[3], entry[4] != 0))
    };
    let is_wrong = |index: &usize| {
        let found = code.handler(*index).map(|h| (h.target.index(), h.depth, h.push_index));
        let added = found.is_some_and(|(target, ..)| target >= written(code));
        !added && found != expected(code.offsets[*index])
    };
    (0..written(code)).filter(is_wrong).map(|index| format!("instruction {index} has another handler")).collect()
}

/// What is one opcode for the compiler may need a place of its own here: the constant of `RETURN_CONST`, the copy of `JUMP_IF_x_OR_POP`, the
/// exception for `CleanupThrow` in 3.11.
fn stack_size(record: &Record, code: &Code) -> Option<String> {
    let wrong = code.stack_size > record.stack + 1;
    wrong.then(|| format!("needs {} places on the stack, not {}", code.stack_size, record.stack))
}
