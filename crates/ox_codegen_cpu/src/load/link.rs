//! Object code for one place in memory: sections laid out, relocations filled in.

use super::elf::{ABSOLUTE, Object, Relocation, Section, UNDEFINED};
use super::{arm, x86};
use crate::CodegenError;
use crate::error::broken;
use rustc_hash::FxHashMap;

/// A program as it must stand at its base.
pub struct Image {
    pub bytes: Vec<u8>,
    /// Of the symbol that was asked for, from the base.
    pub entry: usize,
}

/// What a relocation is filled in with, as addresses.
pub struct Values {
    /// The place itself.
    pub place: u64,
    /// The symbol, with the addend.
    pub target: u64,
    /// The word that holds the symbol's address, with the addend.
    pub word: u64,
}

/// How an architecture fills in addresses, and jumps to one that is far.
pub struct Machine {
    /// Jumps to the address in its second word.
    pub stub: [u8; 8],
    pub fill: fn(&mut [u8], kind: u32, Values) -> Option<()>,
}

/// A stub and the address behind it.
const STUB_BYTES: usize = 16;

pub fn machine(object: &Object<'_>) -> Result<Machine, CodegenError> {
    match object.machine {
        x86::NUMBER => Ok(x86::MACHINE),
        arm::NUMBER => Ok(arm::MACHINE),
        other => Err(broken(format!("code for machine {other}"))),
    }
}

/// Where everything lies, from the base.
struct Layout {
    /// By section; None for those that are not loaded.
    sections: Vec<Option<usize>>,
    /// By symbol: for those that lie elsewhere, or whose address is read from memory.
    stubs: FxHashMap<usize, usize>,
    bytes: usize,
}

impl Layout {
    fn of(object: &Object<'_>) -> Result<Layout, CodegenError> {
        let mut layout = Layout { sections: Vec::new(), stubs: FxHashMap::default(), bytes: 0 };
        for section in &object.sections {
            let start = if section.is_loaded() { Some(layout.place(section)?) } else { None };
            layout.sections.push(start);
        }
        for relocation in loaded(object).flat_map(|section| &section.relocations) {
            layout.add_stub(relocation.symbol);
        }
        Ok(layout)
    }

    fn place(&mut self, section: &Section<'_>) -> Result<usize, CodegenError> {
        if section.is_written() {
            return Err(broken(format!("{} would be written", section.name)));
        }
        let start = self.bytes.checked_next_multiple_of(section.align).ok_or_else(|| broken("an absurd alignment"))?;
        self.bytes = start.checked_add(section.size).ok_or_else(|| broken("an absurd size"))?;
        Ok(start)
    }

    /// Whether it is needed is only known when it is filled in: kernels refer to few symbols.
    fn add_stub(&mut self, symbol: usize) {
        if !self.stubs.contains_key(&symbol) {
            let start = self.bytes.next_multiple_of(STUB_BYTES);
            self.stubs.insert(symbol, start);
            self.bytes = start + STUB_BYTES;
        }
    }
}

fn loaded<'o, 'a>(object: &'o Object<'a>) -> impl Iterator<Item = &'o Section<'a>> {
    object.sections.iter().filter(|section| section.is_loaded())
}

/// How many bytes `link` will give.
pub fn size(object: &Object<'_>) -> Result<usize, CodegenError> {
    Ok(Layout::of(object)?.bytes)
}

pub fn link(object: &Object<'_>, entry: &str, base: u64, library: impl Fn(&str) -> Option<u64>) -> Result<Image, CodegenError> {
    let (layout, machine) = (Layout::of(object)?, machine(object)?);
    let address = |symbol: usize| address(object, &layout, symbol, base, &library);
    let mut bytes = vec![0; layout.bytes];
    for (section, start) in object.sections.iter().zip(&layout.sections) {
        if let Some(start) = start {
            bytes[*start..*start + section.bytes.len()].copy_from_slice(section.bytes);
        }
    }
    for (symbol, start) in &layout.stubs {
        bytes[*start..*start + 8].copy_from_slice(&machine.stub);
        bytes[*start + 8..*start + STUB_BYTES].copy_from_slice(&address(*symbol)?.to_le_bytes());
    }
    for (section, start) in object.sections.iter().zip(&layout.sections) {
        let Some(start) = start else { continue };
        for relocation in &section.relocations {
            let values = values(object, &layout, relocation, base, *start, address(relocation.symbol)?);
            let place = bytes.get_mut(start + relocation.offset..).unwrap_or_default();
            (machine.fill)(place, relocation.kind, values)
                .ok_or_else(|| broken(format!("a relocation of kind {} cannot be filled in", relocation.kind)))?;
        }
    }
    let number = object.symbols.iter().position(|symbol| symbol.name == entry && symbol.section != UNDEFINED);
    let number = number.ok_or_else(|| broken(format!("there is no {entry}")))?;
    Ok(Image { bytes, entry: (address(number)? - base) as usize })
}

fn address(
    object: &Object<'_>,
    layout: &Layout,
    symbol: usize,
    base: u64,
    library: &impl Fn(&str) -> Option<u64>,
) -> Result<u64, CodegenError> {
    let symbol = object.symbols.get(symbol).ok_or_else(|| broken("a symbol that is not there"))?;
    match symbol.section {
        UNDEFINED => library(symbol.name).ok_or_else(|| broken(format!("the code refers to {}", symbol.name))),
        ABSOLUTE => Ok(symbol.value),
        section => match layout.sections.get(section) {
            Some(Some(start)) => Ok(base + *start as u64 + symbol.value),
            _ => Err(broken(format!("{} lies in no section", symbol.name))),
        },
    }
}

/// What lies elsewhere may be too far to be reached: its stub is not.
fn values(object: &Object<'_>, layout: &Layout, relocation: &Relocation, base: u64, section: usize, symbol: u64) -> Values {
    let stub = base + layout.stubs[&relocation.symbol] as u64;
    let is_outside = object.symbols[relocation.symbol].section == UNDEFINED;
    let target = if is_outside { stub } else { symbol };
    Values {
        place: base + (section + relocation.offset) as u64,
        target: target.wrapping_add_signed(relocation.addend),
        word: (stub + 8).wrapping_add_signed(relocation.addend),
    }
}

/// Writes a number of so many bytes.
pub fn write<const N: usize>(place: &mut [u8], bytes: [u8; N]) -> Option<()> {
    place.get_mut(..N)?.copy_from_slice(&bytes);
    Some(())
}
