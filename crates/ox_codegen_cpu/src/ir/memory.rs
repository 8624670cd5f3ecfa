//! Loads, stores, gathers, scatters, atomics; what may alias what.

use super::value::NO_NAME;
use super::{Elem, Ir, V};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMAtomicOrdering, LLVMLinkage};

/// As large as the largest vector: 64 lanes of 8 bytes.
const SPARE_BYTES: i64 = 64 * 8;

/// What LLVM is told of one buffer's memory.
#[derive(Clone, Copy)]
pub struct Access {
    /// (the scope of this buffer, the scopes that it never overlaps), or nothing known.
    scopes: Option<(LLVMMetadataRef, LLVMMetadataRef)>,
    /// Nothing writes this memory while the kernel runs.
    invariant: bool,
}

impl Access {
    pub const UNKNOWN: Access = Access { scopes: None, invariant: false };

    pub fn invariant(self) -> Access {
        Access { invariant: true, ..self }
    }
}

/// One alias scope for each of `count` memory regions that do not overlap.
pub struct Scopes {
    accesses: Vec<Access>,
}

impl Scopes {
    pub fn new(ir: &Ir, count: usize) -> Scopes {
        let domain = ir.metadata_node(&[ir.metadata_string("buffers")]);
        let scopes: Vec<_> = (0..count).map(|n| ir.metadata_node(&[ir.metadata_string(&format!("b{n}")), domain])).collect();
        let access = |n: usize| {
            let others: Vec<_> = scopes.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, s)| *s).collect();
            Access { scopes: Some((ir.metadata_node(&[scopes[n]]), ir.metadata_node(&others))), invariant: false }
        };
        Scopes { accesses: (0..count).map(access).collect() }
    }

    pub fn access(&self, region: usize) -> Access {
        self.accesses[region]
    }
}

impl Ir {
    fn metadata_string(&self, text: &str) -> LLVMMetadataRef {
        // SAFETY: passed with its length.
        unsafe { LLVMMDStringInContext2(self.context, text.as_ptr().cast(), text.len()) }
    }

    fn metadata_node(&self, items: &[LLVMMetadataRef]) -> LLVMMetadataRef {
        // SAFETY: nodes of this context.
        unsafe { LLVMMDNodeInContext2(self.context, items.as_ptr().cast_mut(), items.len()) }
    }

    fn attach(&self, instruction: LLVMValueRef, kind: &str, node: LLVMMetadataRef) {
        // SAFETY: an instruction and a node of this context.
        unsafe {
            let kind = LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32);
            LLVMSetMetadata(instruction, kind, LLVMMetadataAsValue(self.context, node));
        }
    }

    fn describe(&self, instruction: LLVMValueRef, access: Access, is_load: bool) {
        if let Some((own, others)) = access.scopes {
            self.attach(instruction, "alias.scope", own);
            self.attach(instruction, "noalias", others);
        }
        if access.invariant && is_load {
            self.attach(instruction, "invariant.load", self.metadata_node(&[]));
        }
    }

    /// Memory of this call's frame.
    pub fn alloca(&self, elem: Elem, count: i64, align: u32) -> V<'_> {
        // SAFETY: the entry block is open until `finish`, and the builder returns to where it stood.
        unsafe {
            let here = LLVMGetInsertBlock(self.builder);
            LLVMPositionBuilderAtEnd(self.builder, self.entry);
            let ty = LLVMArrayType2(self.ty(elem, 1), count as u64);
            let raw = LLVMBuildAlloca(self.builder, ty, NO_NAME);
            LLVMSetAlignment(raw, align);
            LLVMPositionBuilderAtEnd(self.builder, here);
            self.wrap(raw, Elem::Ptr, 1)
        }
    }

    /// Orders streaming stores before everything that follows (x86).
    pub fn store_fence(&self) {
        self.call("llvm.x86.sse.sfence", &[], None);
    }

    /// Room for a vector that may be written for nothing: where an access goes that is masked off as a whole.
    pub fn spare(&self) -> V<'_> {
        let raw = *self.spare.borrow_mut().get_or_insert_with(|| self.alloca(Elem::I64, SPARE_BYTES / 8, 64).raw);
        self.wrap(raw, Elem::Ptr, 1)
    }

    /// Constant memory that holds `value` (a constant) in `lanes` elements: what a load reads that is masked off as a whole.
    pub fn filled<'a>(&'a self, value: V<'a>, lanes: u32) -> V<'a> {
        let known = self.filled.borrow().iter().find(|(v, n, _)| *v == value.raw && *n == lanes).map(|(.., p)| *p);
        let raw = known.unwrap_or_else(|| {
            // SAFETY: a private constant with an initialiser of its own type.
            let raw = unsafe {
                let global = LLVMAddGlobal(self.module, self.ty(value.elem, lanes), c"filled".as_ptr());
                LLVMSetInitializer(global, value.splat(lanes).raw);
                LLVMSetGlobalConstant(global, 1);
                LLVMSetLinkage(global, LLVMLinkage::LLVMPrivateLinkage);
                LLVMSetAlignment(global, 64);
                global
            };
            self.filled.borrow_mut().push((value.raw, lanes, raw));
            raw
        });
        self.wrap(raw, Elem::Ptr, 1)
    }
}

impl<'a> V<'a> {
    /// This pointer moved by `index` elements; vectors of pointers or indices give vectors of pointers.
    pub fn offset(self, elem: Elem, index: V<'a>) -> V<'a> {
        let mut index_raw = index.raw;
        // SAFETY: no `inbounds`: a masked-off access may compute any address.
        let raw = unsafe { LLVMBuildGEP2(self.ir.builder, self.ir.ty(elem, 1), self.raw, &mut index_raw, 1, NO_NAME) };
        self.ir.wrap(raw, Elem::Ptr, self.lanes.max(index.lanes))
    }

    /// Loads `lanes` neighbouring elements.
    pub fn load(self, elem: Elem, lanes: u32, align: u32, access: Access) -> V<'a> {
        // SAFETY: the emitter only loads what the kernel's index says.
        let raw = unsafe {
            let raw = LLVMBuildLoad2(self.ir.builder, self.ir.ty(elem, lanes), self.raw, NO_NAME);
            LLVMSetAlignment(raw, align);
            raw
        };
        self.ir.describe(raw, access, true);
        self.ir.wrap(raw, elem, lanes)
    }

    pub fn store(self, value: V<'a>, align: u32, access: Access) {
        // SAFETY: as for loads.
        let raw = unsafe {
            let raw = LLVMBuildStore(self.ir.builder, value.raw, self.raw);
            LLVMSetAlignment(raw, align);
            raw
        };
        self.ir.describe(raw, access, false);
    }

    /// A store past the caches; the address is a multiple of `align`, the size of the value.
    pub fn store_streaming(self, value: V<'a>, align: u32, access: Access) {
        let one = self.ir.int(Elem::I32, 1);
        // SAFETY: as for loads; a constant can be metadata.
        let (raw, one) = unsafe {
            let raw = LLVMBuildStore(self.ir.builder, value.raw, self.raw);
            LLVMSetAlignment(raw, align);
            (raw, LLVMValueAsMetadata(one.raw))
        };
        self.ir.attach(raw, "nontemporal", self.ir.metadata_node(&[one]));
        self.ir.describe(raw, access, false);
    }

    /// Asks for the line at this address, which need not exist, to be brought into the caches.
    pub fn prefetch(self) {
        let [read, keep, data] = [0, 3, 1].map(|n| self.ir.int(Elem::I32, n));
        self.ir.void_intrinsic("llvm.prefetch", &[(Elem::Ptr, 1)], &[self, read, keep, data]);
    }

    /// The pointer as an integer.
    pub fn address(self) -> V<'a> {
        let ty = self.ir.ty(Elem::I64, self.lanes);
        // SAFETY: a pointer fits 64 bits.
        self.ir.wrap(unsafe { LLVMBuildPtrToInt(self.ir.builder, self.raw, ty, NO_NAME) }, Elem::I64, self.lanes)
    }

    /// Neighbouring elements where `mask` holds, zero elsewhere.
    pub fn load_masked(self, elem: Elem, mask: V<'a>, access: Access) -> V<'a> {
        let ty = (elem, mask.lanes);
        let args = [self, self.ir.int(Elem::I32, 1), mask, self.ir.null(elem, mask.lanes)];
        let v = self.ir.intrinsic("llvm.masked.load", &[ty, (Elem::Ptr, 1)], &args, ty);
        self.ir.describe(v.raw, access, true);
        v
    }

    pub fn store_masked(self, value: V<'a>, mask: V<'a>, access: Access) {
        let args = [value, self, self.ir.int(Elem::I32, 1), mask];
        let call = self.ir.void_intrinsic("llvm.masked.store", &[(value.elem, value.lanes), (Elem::Ptr, 1)], &args);
        self.ir.describe(call.raw, access, false);
    }

    /// One element from each of these pointers where `mask` holds, zero elsewhere.
    pub fn gather(self, elem: Elem, mask: V<'a>, access: Access) -> V<'a> {
        let ty = (elem, self.lanes);
        let args = [self, self.ir.int(Elem::I32, 1), mask, self.ir.null(elem, self.lanes)];
        let v = self.ir.intrinsic("llvm.masked.gather", &[ty, (Elem::Ptr, self.lanes)], &args, ty);
        self.ir.describe(v.raw, access, true);
        v
    }

    /// One element to each of these pointers where `mask` holds, in lane order: of equal pointers the last wins.
    pub fn scatter(self, value: V<'a>, mask: V<'a>, access: Access) {
        let args = [value, self, self.ir.int(Elem::I32, 1), mask];
        let types = [(value.elem, value.lanes), (Elem::Ptr, self.lanes)];
        let call = self.ir.void_intrinsic("llvm.masked.scatter", &types, &args);
        self.ir.describe(call.raw, access, false);
    }

    /// Replaces `expected` by `new`; gives (what was there, whether it was replaced).
    pub fn compare_exchange(self, expected: V<'a>, new: V<'a>) -> (V<'a>, V<'a>) {
        let relaxed = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        // SAFETY: scalar integers of one type; the pointer is naturally aligned, as tensors are.
        unsafe {
            let raw = LLVMBuildAtomicCmpXchg(self.ir.builder, self.raw, expected.raw, new.raw, relaxed, relaxed, 0);
            let old = LLVMBuildExtractValue(self.ir.builder, raw, 0, NO_NAME);
            let done = LLVMBuildExtractValue(self.ir.builder, raw, 1, NO_NAME);
            (self.ir.wrap(old, new.elem, 1), self.ir.wrap(done, Elem::I1, 1))
        }
    }
}
