//! Decoded code against what `dis` says about the same bytes.

use super::{Disassembled, Record, nulls};
use ox_bytecode::{Code, Position, Version, stack_effect};

/// Everything that is wrong with how a code object was decoded.
pub fn differences(record: &Record) -> Vec<String> {
    let wrong = match record.decode() {
        Ok(code) => Pair::new(record, &code).differences(),
        Err(error) => vec![error.to_string()],
    };
    wrong.into_iter().map(|w| format!("{} {}: {w}", record.version, record.name)).collect()
}

struct Pair<'a> {
    record: &'a Record,
    code: &'a Code,
    /// The offsets of the instructions that come from the compiler; what 3.11's decoder adds lies behind them.
    offsets: &'a [u32],
}

impl<'a> Pair<'a> {
    fn new(record: &'a Record, code: &'a Code) -> Pair<'a> {
        let written = code.offsets.windows(2).position(|w| w[1] < w[0]).map_or(code.offsets.len(), |at| at + 1);
        Pair { record, code, offsets: &code.offsets[..written] }
    }

    fn differences(&self) -> Vec<String> {
        let of_line = |at: usize| {
            let line = &self.record.instructions[at];
            let made = self.made_of(line.offset);
            let wrong = self.places(line, &made).into_iter().chain(self.effects(at, &made));
            wrong.map(move |w| format!("{} {} {w}", line.offset, line.opcode))
        };
        let lines = (0..self.record.instructions.len()).flat_map(of_line);
        self.slots()
            .into_iter()
            .chain(lines)
            .chain(self.handlers())
            .chain(self.stack_size())
            .chain(nulls::misplaced(self.code))
            .collect()
    }

    fn slots(&self) -> Option<String> {
        let wrong = self.code.variables.iter().map(|v| &v.name).ne(&self.record.slots);
        wrong.then(|| format!("the variables are {:?}", self.record.slots))
    }

    /// The instructions that were made of the opcode at `offset`.
    fn made_of(&self, offset: u32) -> Vec<usize> {
        (self.first_from(offset)..self.offsets.partition_point(|o| *o <= offset)).collect()
    }

    /// The instruction that is run when one jumps to `offset`.
    fn first_from(&self, offset: u32) -> usize {
        self.offsets.partition_point(|o| *o < offset)
    }

    /// Positions in the source, and targets of jumps.
    fn places(&self, line: &Disassembled, made: &[usize]) -> Vec<String> {
        let mut wrong = Vec::new();
        for &index in made {
            if position(self.code.positions[index]) != line.position {
                wrong.push(format!("is at {:?}, not {:?}", line.position, self.code.positions[index]));
            }
            let expected = line.target.map(|target| self.first_from(target));
            match self.code.instructions[index].label() {
                Some(label) if expected != Some(label.index()) => wrong.push(format!("jumps to {expected:?}, not {}", label.0)),
                _ => {}
            }
        }
        wrong
    }

    /// The sum of the effects is `dis`'s, but for opcodes whose work is done elsewhere here.
    fn effects(&self, at: usize, made: &[usize]) -> Vec<String> {
        let line = &self.record.instructions[at];
        let (falls, jumps) = self.done_elsewhere(at);
        let sum = |made: &[usize]| made.iter().map(|i| stack_effect(&self.code.instructions[*i], false)).sum::<i64>();
        let mut wrong = Vec::new();
        if sum(made) != line.effect + falls {
            wrong.push(format!("has the effect {}, not {}", line.effect + falls, sum(made)));
        }
        if let Some(jump) = made.iter().position(|i| self.code.instructions[*i].label().is_some()) {
            let with_jump = sum(&made[..jump]) + stack_effect(&self.code.instructions[made[jump]], true);
            if with_jump != line.jump_effect + jumps {
                wrong.push(format!("jumps with the effect {}, not {with_jump}", line.jump_effect + jumps));
            }
        }
        wrong
    }

    /// What is to be added to `dis`'s effects, without and with the jump.
    fn done_elsewhere(&self, at: usize) -> (i64, i64) {
        let line = &self.record.instructions[at];
        let later = self.record.version >= Version::Python312;
        let is = |at: Option<usize>, opcode: &str| {
            at.and_then(|at| self.record.instructions.get(at)).is_some_and(|i| i.opcode == opcode)
        };
        match line.opcode.as_str() {
            // `dis` divides the effect between PRECALL and CALL.
            "PRECALL" => (-line.effect, 0),
            "CALL" if !later => (-i64::from(line.argument) - 1 - line.effect, 0),
            // The value that is sent at first.
            "RETURN_GENERATOR" if line.effect == 0 => (1, 0),
            // These take off what ForIter and Send have taken off already.
            "END_FOR" | "END_SEND" => (-line.effect, 0),
            "POP_TOP" if self.record.version == Version::Python313 && is(at.checked_sub(1), "END_FOR") => (1, 0),
            "FOR_ITER" => (0, -1 - line.jump_effect),
            "SEND" => (-line.effect, -1 - line.jump_effect),
            "CLEANUP_THROW" => (-2 - line.effect, 0),
            // The names of the keywords are an operand.
            "LOAD_CONST" if is(Some(at + 1), "CALL_KW") => (-1, 0),
            "CALL_KW" => (1, 0),
            _ => (0, 0),
        }
    }

    fn handlers(&self) -> Vec<String> {
        let expected = |offset: u32| {
            let entry = self.record.handlers.iter().find(|h| h[0] <= offset && offset < h[1])?;
            Some((self.first_from(entry[2]), entry[3], entry[4] != 0))
        };
        let is_wrong = |index: &usize| {
            let found = self.code.handler(*index).map(|h| (h.target.index(), h.depth, h.push_index));
            let added = found.is_some_and(|(target, ..)| target >= self.offsets.len());
            !added && found != expected(self.offsets[*index])
        };
        (0..self.offsets.len()).filter(is_wrong).map(|index| format!("instruction {index} has another handler")).collect()
    }

    /// What is one opcode for the compiler may need a place of its own here: the constant of `RETURN_CONST`, the copy of
    /// `JUMP_IF_x_OR_POP`, the exception for `CleanupThrow` in 3.11.
    fn stack_size(&self) -> Option<String> {
        let wrong = self.code.stack_size > self.record.stack + 1;
        wrong.then(|| format!("needs {} places on the stack, not {}", self.code.stack_size, self.record.stack))
    }
}

fn position(p: Position) -> [Option<u32>; 4] {
    [p.line, p.end_line, p.column, p.end_column]
}
