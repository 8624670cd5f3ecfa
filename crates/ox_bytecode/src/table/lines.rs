//! `co_linetable`: where in the source each code unit comes from. The numbers have their lowest bits first.

use crate::code::Position;
use crate::error::DecodeError;

/// The position of each code unit.
pub(crate) fn positions(table: &[u8], first_line: u32) -> Result<Vec<Position>, DecodeError> {
    let mut reader = Reader { table, at: 0, line: i64::from(first_line) };
    let mut positions = Vec::new();
    while reader.at < table.len() {
        let (units, position) = reader.entry()?;
        positions.extend(std::iter::repeat_n(position, units));
    }
    Ok(positions)
}

struct Reader<'a> {
    table: &'a [u8],
    at: usize,
    /// The line of the last entry; entries give differences.
    line: i64,
}

impl Reader<'_> {
    fn entry(&mut self) -> Result<(usize, Position), DecodeError> {
        let head = self.byte()?;
        if head & 0x80 == 0 {
            return Err(self.damaged());
        }
        let units = usize::from(head & 7) + 1;
        let position = match (head >> 3) & 15 {
            15 => Position::default(),
            14 => self.long()?,
            13 => {
                let delta = self.signed()?;
                self.on_line(delta, None)?
            }
            form @ 10..=12 => {
                let columns = (u32::from(self.byte()?), u32::from(self.byte()?));
                self.on_line(i64::from(form) - 10, Some(columns))?
            }
            form => {
                let low = self.byte()?;
                let column = u32::from(form) << 3 | u32::from(low >> 4);
                self.on_line(0, Some((column, column + u32::from(low & 15))))?
            }
        };
        Ok((units, position))
    }

    fn long(&mut self) -> Result<Position, DecodeError> {
        let delta = self.signed()?;
        let lines = self.number()?;
        // 0 means that the column is not known.
        let (column, end_column) = (self.number()?.checked_sub(1), self.number()?.checked_sub(1));
        let position = self.on_line(delta, None)?;
        let end_line = position.line.map(|line| line.saturating_add(lines));
        Ok(Position { end_line, column, end_column, ..position })
    }

    fn on_line(&mut self, delta: i64, columns: Option<(u32, u32)>) -> Result<Position, DecodeError> {
        self.line += delta;
        let line = u32::try_from(self.line).map_err(|_| self.damaged())?;
        let (column, end_column) = columns.unzip();
        Ok(Position { line: Some(line), end_line: Some(line), column, end_column })
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let packed = self.number()?;
        let size = i64::from(packed >> 1);
        Ok(if packed & 1 != 0 { -size } else { size })
    }

    fn number(&mut self) -> Result<u32, DecodeError> {
        let (mut value, mut shift) = (0u32, 0);
        loop {
            let byte = self.byte()?;
            if shift > 30 {
                return Err(self.damaged());
            }
            value |= u32::from(byte & 0x3f) << shift;
            shift += 6;
            if byte & 0x40 == 0 {
                return Ok(value);
            }
        }
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.table.get(self.at).ok_or_else(|| self.damaged())?;
        self.at += 1;
        Ok(byte)
    }

    fn damaged(&self) -> DecodeError {
        DecodeError::Table { table: "line table", byte: self.at }
    }
}
