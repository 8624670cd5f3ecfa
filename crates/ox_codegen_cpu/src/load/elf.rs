//! What LLVM wrote: an ELF file with sections, symbols and relocations. Nothing in it is trusted: every read is checked.

use crate::CodegenError;
use crate::error::broken;

const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 24;

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 4;
const NO_BYTES: u32 = 8;

/// Section numbers of symbols that lie in none.
pub const UNDEFINED: usize = 0;
pub const ABSOLUTE: usize = 0xfff1;

pub struct Object<'a> {
    pub machine: u16,
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol<'a>>,
}

pub struct Section<'a> {
    flags: u64,
    pub name: &'a str,
    pub align: usize,
    /// Empty for a section that is all zeros.
    pub bytes: &'a [u8],
    pub size: usize,
    /// What must be filled in once addresses are known.
    pub relocations: Vec<Relocation>,
}

pub struct Symbol<'a> {
    pub name: &'a str,
    pub section: usize,
    pub value: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    pub offset: usize,
    pub kind: u32,
    pub symbol: usize,
    pub addend: i64,
}

impl Section<'_> {
    /// Whether it is a part of the program. Tables for unwinding are not: nothing is thrown through a kernel.
    pub fn is_loaded(&self) -> bool {
        const ALLOCATED: u64 = 2;
        self.flags & ALLOCATED != 0 && self.size > 0 && self.name != ".eh_frame"
    }

    pub fn is_written(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// The header of a section, as it stands in the file.
struct Header<'a> {
    name: usize,
    kind: u32,
    flags: u64,
    bytes: &'a [u8],
    size: usize,
    link: usize,
    info: usize,
    align: usize,
}

pub fn parse(file: &[u8]) -> Result<Object<'_>, CodegenError> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err(broken("not an ELF file of 64 bits"));
    }
    let headers = headers(file)?;
    let names = strings(&headers, number(file, 62, 2)? as usize)?;
    let mut sections: Vec<Section<'_>> = headers.iter().map(|header| section(header, names)).collect::<Result<_, _>>()?;
    for header in headers.iter().filter(|header| header.kind == RELOCATIONS) {
        let target = sections.get_mut(header.info).ok_or_else(|| broken("relocations of no section"))?;
        target.relocations = header.bytes.chunks_exact(RELOCATION_BYTES).map(relocation).collect::<Result<_, _>>()?;
    }
    let table = headers.iter().find(|header| header.kind == SYMBOLS).ok_or_else(|| broken("no symbols"))?;
    let names = strings(&headers, table.link)?;
    let symbols = table.bytes.chunks_exact(SYMBOL_BYTES).map(|entry| symbol(entry, names)).collect::<Result<_, _>>()?;
    Ok(Object { machine: number(file, 18, 2)? as u16, sections, symbols })
}

fn headers(file: &[u8]) -> Result<Vec<Header<'_>>, CodegenError> {
    let (start, count) = (number(file, 40, 8)? as usize, number(file, 60, 2)? as usize);
    let table = part(file, start, count * SECTION_BYTES)?;
    table.chunks_exact(SECTION_BYTES).map(|entry| header(file, entry)).collect()
}

fn header<'a>(file: &'a [u8], entry: &[u8]) -> Result<Header<'a>, CodegenError> {
    let (kind, size) = (number(entry, 4, 4)? as u32, number(entry, 32, 8)? as usize);
    let bytes = if kind == NO_BYTES { &[] } else { part(file, number(entry, 24, 8)? as usize, size)? };
    Ok(Header {
        name: number(entry, 0, 4)? as usize,
        kind,
        flags: number(entry, 8, 8)?,
        bytes,
        size,
        link: number(entry, 40, 4)? as usize,
        info: number(entry, 44, 4)? as usize,
        align: number(entry, 48, 8)?.max(1) as usize,
    })
}

fn section<'a>(header: &Header<'a>, names: &'a [u8]) -> Result<Section<'a>, CodegenError> {
    let Header { flags, bytes, size, align, .. } = *header;
    Ok(Section { flags, name: text(names, header.name)?, align, bytes, size, relocations: Vec::new() })
}

fn symbol<'a>(entry: &[u8], names: &'a [u8]) -> Result<Symbol<'a>, CodegenError> {
    let (name, section) = (number(entry, 0, 4)? as usize, number(entry, 6, 2)? as usize);
    Ok(Symbol { name: text(names, name)?, section, value: number(entry, 8, 8)? })
}

fn relocation(entry: &[u8]) -> Result<Relocation, CodegenError> {
    let what = number(entry, 8, 8)?;
    let (offset, addend) = (number(entry, 0, 8)? as usize, number(entry, 16, 8)? as i64);
    Ok(Relocation { offset, kind: what as u32, symbol: (what >> 32) as usize, addend })
}

fn strings<'a>(headers: &[Header<'a>], at: usize) -> Result<&'a [u8], CodegenError> {
    headers.get(at).map(|header| header.bytes).ok_or_else(|| broken("names are missing"))
}

fn text(names: &[u8], at: usize) -> Result<&str, CodegenError> {
    let rest = names.get(at..).ok_or_else(|| broken("a name out of range"))?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| broken("a name without an end"))?;
    std::str::from_utf8(&rest[..end]).map_err(|_| broken("a name that is no text"))
}

fn part(bytes: &[u8], start: usize, size: usize) -> Result<&[u8], CodegenError> {
    let end = start.checked_add(size);
    end.and_then(|end| bytes.get(start..end)).ok_or_else(|| broken("a part out of range"))
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, CodegenError> {
    Ok(part(bytes, at, size)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
