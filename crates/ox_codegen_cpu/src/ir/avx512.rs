//! What AVX-512 has instructions for; None on other hosts.

use super::{Elem, V};

impl<'a> V<'a> {
    /// `self * 2^n` for a whole float `n`, rounded once, where the host has an instruction for it.
    pub fn scale_by_power(self, n: V<'a>) -> Option<V<'a>> {
        let bits = self.lanes * self.elem.bits();
        if !self.ir.has_avx512 || !matches!(self.elem, Elem::F32 | Elem::F64) || bits < 512 {
            return None;
        }
        if bits > 512 {
            let ((a, b), (m, n)) = (self.halves(), n.halves());
            return Some(a.scale_by_power(m)?.concat(b.scale_by_power(n)?));
        }
        let (kind, mask) = if self.elem == Elem::F32 { ("ps", Elem::I16) } else { ("pd", Elem::I8) };
        let (all, current_rounding) = (self.ir.int(mask, -1), self.ir.int(Elem::I32, 4));
        let args = [self, n, self.ir.null(self.elem, self.lanes), all, current_rounding];
        Some(self.ir.call(&format!("llvm.x86.avx512.mask.scalef.{kind}.512"), &args, Some((self.elem, self.lanes))))
    }

    /// (e, m) with `self = 2^e * m` and `1 <= m < 2`, also for denormals. Of zero and infinity m is 1 and e infinite; of what is negative m is NaN.
    pub fn exponent_and_fraction(self) -> Option<(V<'a>, V<'a>)> {
        let whole = 512 / self.elem.bits();
        if !self.ir.has_avx512 || !matches!(self.elem, Elem::F32 | Elem::F64) {
            return None;
        }
        if self.lanes < whole {
            let (e, m) = if self.lanes == 1 { self.splat(whole) } else { self.concat(self) }.exponent_and_fraction()?;
            return Some(if self.lanes == 1 { (e.lane(0), m.lane(0)) } else { (e.halves().0, m.halves().0) });
        }
        if self.lanes > whole {
            let (a, b) = self.halves();
            let ((e, m), (f, n)) = (a.exponent_and_fraction()?, b.exponent_and_fraction()?);
            return Some((e.concat(f), m.concat(n)));
        }
        let (kind, mask) = if self.elem == Elem::F32 { ("ps", Elem::I16) } else { ("pd", Elem::I8) };
        let (nothing, all, quiet) = (self.ir.null(self.elem, self.lanes), self.ir.int(mask, -1), self.ir.int(Elem::I32, 4));
        let result = Some((self.elem, self.lanes));
        let e = self.ir.call(&format!("llvm.x86.avx512.mask.getexp.{kind}.512"), &[self, nothing, all, quiet], result);
        // 8 makes NaN of what has a sign.
        let args = [self, self.ir.int(Elem::I32, 8), nothing, all, quiet];
        let m = self.ir.call(&format!("llvm.x86.avx512.mask.getmant.{kind}.512"), &args, result);
        Some((e, m))
    }

    /// `1 / self` to 14 bits, where the host has an instruction for it. For what is neither huge nor tiny.
    pub fn reciprocal_estimate(self) -> Option<V<'a>> {
        if !self.ir.has_avx512 || self.elem != Elem::F32 {
            return None;
        }
        Some(match self.lanes {
            // One element gets the very bits that it would get in a vector.
            1 => self.splat(16).reciprocal_estimate()?.lane(0),
            2..16 => self.concat(self).reciprocal_estimate()?.halves().0,
            16 => {
                let args = [self, self.ir.null(self.elem, self.lanes), self.ir.int(Elem::I16, -1)];
                self.ir.call("llvm.x86.avx512.rcp14.ps.512", &args, Some((self.elem, self.lanes)))
            }
            _ => {
                let (a, b) = self.halves();
                a.reciprocal_estimate()?.concat(b.reciprocal_estimate()?)
            }
        })
    }

    /// As bf16, rounded to the nearest, where the host has an instruction for it. It takes denormals for zero, and leaves a NaN its sign and digits.
    pub fn to_bf16(self) -> Option<V<'a>> {
        if !self.ir.has_bf16 || self.lanes < 16 {
            return None;
        }
        if self.lanes > 16 {
            let (a, b) = self.halves();
            return Some(a.to_bf16()?.concat(b.to_bf16()?));
        }
        Some(self.ir.call("llvm.x86.avx512bf16.cvtneps2bf16.512", &[self], Some((Elem::BF16, 16))))
    }

    /// For what `to_bf16` takes.
    pub fn is_denormal_or_nan(self) -> V<'a> {
        if self.lanes > 16 {
            let (a, b) = self.halves();
            return a.is_denormal_or_nan().concat(b.is_denormal_or_nan());
        }
        let args = [self, self.ir.int(Elem::I32, 0x20 | 0x80 | 0x01)];
        self.ir.call("llvm.x86.avx512.fpclass.ps.512", &args, Some((Elem::I1, 16)))
    }

    /// The f32 of a table at the place that the last four bits of `self` say, where the host finds sixteen of them at once.
    pub fn of_table(self, table: &[f64; 16]) -> Option<V<'a>> {
        assert_eq!(self.elem, Elem::I32, "places of 32 bits in a table of f32");
        if !self.ir.has_avx512 {
            return None;
        }
        Some(match self.lanes {
            1 => self.splat(16).of_table(table)?.lane(0),
            2..16 => self.concat(self).of_table(table)?.halves().0,
            16 => {
                let table = self.ir.vector(Elem::F32, table);
                self.ir.call("llvm.x86.avx512.permvar.sf.512", &[table, self], Some((Elem::F32, 16)))
            }
            _ => {
                let (a, b) = self.halves();
                a.of_table(table)?.concat(b.of_table(table)?)
            }
        })
    }
}
