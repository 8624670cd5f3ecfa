//! From `co_code` to instructions. A version's file holds its opcode numbers and what it alone means by an opcode; what versions agree on
//! is in `common`.

mod common;
mod emit;
mod opcode;
mod py311;
mod py312;
mod py313;
mod read;
mod since312;

use crate::code::Code;
use crate::error::DecodeError;
use crate::raw::{RawCode, Version};
use crate::verify;
use emit::Emitter;
use read::Raw;

/// Decodes a code object.
pub fn decode(raw: &RawCode<'_>) -> Result<Code, DecodeError> {
    let mut emitter = Emitter::new(raw)?;
    for instruction in read::read(raw)? {
        emitter.begin(&instruction)?;
        translate(raw.version, &instruction, &mut emitter)?;
        emitter.end(&instruction);
    }
    let mut code = emitter.finish()?;
    code.depths = verify::depths(&code.instructions, &code.handlers)?;
    if raw.version == Version::Python311 {
        py311::catch_thrown(&mut code);
        code.depths = verify::depths(&code.instructions, &code.handlers)?;
    }
    code.stack_size = verify::stack_size(&code.instructions, &code.depths);
    Ok(code)
}

fn translate(version: Version, raw: &Raw, out: &mut Emitter) -> Result<(), DecodeError> {
    match version {
        Version::Python311 => py311::translate(raw, out),
        Version::Python312 => py312::translate(raw, out),
        Version::Python313 => py313::translate(raw, out),
    }
}
