//! Loops and branches with carried values, so that no value needs a memory slot and no pass has to promote one.

use super::value::NO_NAME;
use super::{Elem, Ir, V};
use llvm_sys::core::*;
use llvm_sys::prelude::*;

#[derive(Clone, Copy)]
struct Block(LLVMBasicBlockRef);

impl Ir {
    fn block(&self) -> Block {
        // SAFETY: appends to the function under construction.
        Block(unsafe { LLVMAppendBasicBlockInContext(self.context, self.function, NO_NAME) })
    }

    fn here(&self) -> Block {
        // SAFETY: the builder always stands in a block.
        Block(unsafe { LLVMGetInsertBlock(self.builder) })
    }

    fn go_to(&self, block: Block) {
        // SAFETY: a block of this function.
        unsafe { LLVMPositionBuilderAtEnd(self.builder, block.0) }
    }

    fn jump(&self, to: Block) {
        // SAFETY: the current block has no terminator yet.
        unsafe { LLVMBuildBr(self.builder, to.0) };
    }

    fn branch(&self, condition: V<'_>, yes: Block, no: Block) -> LLVMValueRef {
        // SAFETY: a scalar i1; the current block has no terminator yet.
        unsafe { LLVMBuildCondBr(self.builder, condition.raw, yes.0, no.0) }
    }

    fn phi<'a>(&'a self, like: V<'a>) -> V<'a> {
        // SAFETY: only called at the start of a block.
        self.wrap(unsafe { LLVMBuildPhi(self.builder, self.ty(like.elem, like.lanes), NO_NAME) }, like.elem, like.lanes)
    }

    fn incoming(&self, phi: V<'_>, value: V<'_>, from: Block) {
        assert_eq!((phi.elem, phi.lanes), (value.elem, value.lanes), "a carried value keeps its type");
        // SAFETY: types agree, and `from` is a predecessor of the phi's block.
        unsafe { LLVMAddIncoming(phi.raw, &mut value.raw.clone(), &mut from.0.clone(), 1) }
    }

    /// `for i in (start..end).step_by(step)`. `body` gets `i` and the carried values and gives the next ones; the result
    /// is what they are after the loop. The test stands at the bottom, behind a guard, so that loads can be hoisted.
    pub fn for_loop<'a, E>(
        &'a self,
        start: V<'a>,
        end: V<'a>,
        step: i64,
        carried: Vec<V<'a>>,
        body: impl FnOnce(V<'a>, Vec<V<'a>>) -> Result<Vec<V<'a>>, E>,
    ) -> Result<Vec<V<'a>>, E> {
        let (before, inside, after) = (self.here(), self.block(), self.block());
        self.branch(start.lt(end), inside, after);

        self.go_to(inside);
        let i = self.phi(start);
        let phis: Vec<V<'a>> = carried.iter().map(|v| self.phi(*v)).collect();
        let results = body(i, phis.clone())?;
        let latch = self.here();
        let next = i.add_index(self.index(step));
        self.branch(next.lt(end), inside, after);

        self.incoming(i, start, before);
        self.incoming(i, next, latch);
        for ((phi, first), again) in phis.iter().zip(&carried).zip(&results) {
            self.incoming(*phi, *first, before);
            self.incoming(*phi, *again, latch);
        }
        self.go_to(after);
        Ok(self.join(before, &carried, latch, &results))
    }

    /// Runs `body` again and again, at least once; it gives the next carried values and whether to go on.
    pub fn repeat<'a, E>(
        &'a self,
        carried: Vec<V<'a>>,
        body: impl FnOnce(Vec<V<'a>>) -> Result<(Vec<V<'a>>, V<'a>), E>,
    ) -> Result<Vec<V<'a>>, E> {
        let (before, inside, after) = (self.here(), self.block(), self.block());
        self.jump(inside);
        self.go_to(inside);
        let phis: Vec<V<'a>> = carried.iter().map(|v| self.phi(*v)).collect();
        let (results, again) = body(phis.clone())?;
        let latch = self.here();
        self.branch(again, inside, after);
        for ((phi, first), next) in phis.iter().zip(&carried).zip(&results) {
            self.incoming(*phi, *first, before);
            self.incoming(*phi, *next, latch);
        }
        self.go_to(after);
        Ok(results)
    }

    /// Runs `body` if the condition holds; the carried values are what it gives, or stay as they were.
    pub fn when<'a, E>(
        &'a self,
        condition: V<'a>,
        carried: Vec<V<'a>>,
        body: impl FnOnce(Vec<V<'a>>) -> Result<Vec<V<'a>>, E>,
    ) -> Result<Vec<V<'a>>, E> {
        let (before, inside, after) = (self.here(), self.block(), self.block());
        self.branch(condition, inside, after);
        self.go_to(inside);
        let results = body(carried.clone())?;
        let latch = self.here();
        self.jump(after);
        self.go_to(after);
        Ok(self.join(before, &carried, latch, &results))
    }

    /// As `when`, for what hardly ever happens.
    pub fn when_rarely<'a>(
        &'a self,
        condition: V<'a>,
        carried: Vec<V<'a>>,
        body: impl FnOnce(Vec<V<'a>>) -> Vec<V<'a>>,
    ) -> Vec<V<'a>> {
        let (before, inside, after) = (self.here(), self.block(), self.block());
        let branch = self.branch(condition, inside, after);
        self.mark_unlikely(branch);
        self.go_to(inside);
        let results = body(carried.clone());
        let latch = self.here();
        self.jump(after);
        self.go_to(after);
        self.join(before, &carried, latch, &results)
    }

    fn join<'a>(&'a self, one: Block, ones: &[V<'a>], other: Block, others: &[V<'a>]) -> Vec<V<'a>> {
        assert_eq!(ones.len(), others.len(), "as many values out as in");
        let join = |(a, b): (&V<'a>, &V<'a>)| {
            let phi = self.phi(*a);
            self.incoming(phi, *a, one);
            self.incoming(phi, *b, other);
            phi
        };
        ones.iter().zip(others).map(join).collect()
    }

    fn mark_unlikely(&self, branch: LLVMValueRef) {
        let (kind, name) = ("prof", "branch_weights");
        let weight = |n: i64| self.int(Elem::I32, n).raw;
        // SAFETY: builds the node that LLVM documents for branch weights.
        unsafe {
            let kind = LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32);
            let mut items = [
                LLVMMDStringInContext2(self.context, name.as_ptr().cast(), name.len()),
                LLVMValueAsMetadata(weight(1)),
                LLVMValueAsMetadata(weight(1 << 20)),
            ];
            let node = LLVMMDNodeInContext2(self.context, items.as_mut_ptr(), items.len());
            LLVMSetMetadata(branch, kind, LLVMMetadataAsValue(self.context, node));
        }
    }
}
