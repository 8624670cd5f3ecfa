//! `co_exceptiontable`: which code units are guarded by which handler. The numbers have their highest bits first.

use crate::error::DecodeError;

/// An entry in code units (of two bytes).
pub(crate) struct ExceptionEntry {
    pub start: u32,
    pub end: u32,
    pub target: u32,
    pub depth: u32,
    pub push_index: bool,
}

pub(crate) fn exceptions(table: &[u8]) -> Result<Vec<ExceptionEntry>, DecodeError> {
    let mut reader = Reader { table, at: 0 };
    let mut entries = Vec::new();
    while reader.at < table.len() {
        entries.push(reader.entry()?);
    }
    Ok(entries)
}

struct Reader<'a> {
    table: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn entry(&mut self) -> Result<ExceptionEntry, DecodeError> {
        let start = self.number()?;
        let end = start.checked_add(self.number()?).ok_or_else(|| self.damaged())?;
        let target = self.number()?;
        let packed = self.number()?;
        Ok(ExceptionEntry { start, end, target, depth: packed >> 1, push_index: packed & 1 != 0 })
    }

    fn number(&mut self) -> Result<u32, DecodeError> {
        let mut value: u32 = 0;
        loop {
            let byte = *self.table.get(self.at).ok_or_else(|| self.damaged())?;
            value = value.checked_mul(64).ok_or_else(|| self.damaged())? | u32::from(byte & 0x3f);
            self.at += 1;
            if byte & 0x40 == 0 {
                return Ok(value);
            }
        }
    }

    fn damaged(&self) -> DecodeError {
        DecodeError::Table { table: "exception table", byte: self.at }
    }
}
