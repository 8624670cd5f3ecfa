//! `torch.utils.checkpoint`: the function is run as any other. What is recorded while it runs is marked, so that the graph is cut around it and
//! its backward computes it again instead of keeping it.

use super::{Args, Called, R, Vm};
use crate::builtins;
use crate::obj::Obj;
use crate::record::Val;
use crate::record::grad::requires_grad;
use crate::types::types;
use std::sync::atomic::{AtomicI64, Ordering};

/// The function of the library whose frame stands while a region is run.
const FRAME: &str = "recomputed";
static REGIONS: AtomicI64 = AtomicI64::new(0);

impl Vm {
    /// None if it is another function, or asks for what only torch can do.
    pub fn call_checkpoint(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        if !builtins::is_checkpoint(&callable.obj) || self.rec.is_none() {
            return Ok(None);
        }
        let Some((function, rest)) = args.positional.split_first() else { return Ok(None) };
        let mut names = Vec::new();
        let mut reentrant = None;
        for (name, value) in &args.keywords {
            match name.to_str().unwrap_or_default().as_str() {
                "use_reentrant" => reentrant = Some(value.clone()),
                "context_fn" | "determinism_check" | "debug" => return Ok(None),
                // What is computed again has the same random numbers, and no more of it than is needed is.
                "preserve_rng_state" | "early_stop" => {}
                _ => names.push((name.clone(), value.clone())),
            }
        }
        let Some(reentrant) = reentrant.map(|value| self.settled(&value)).filter(|value| value.class_is(types().bool)) else {
            return Ok(None);
        };
        // Then it takes no names, and gives no gradient if none of these requires it.
        if reentrant.truth()? && (!names.is_empty() || !any_requires_grad(rest)?) {
            return Ok(None);
        }
        let region = Obj::int(REGIONS.fetch_add(1, Ordering::Relaxed));
        let positional = [region.into(), function.clone()].into_iter().chain(rest.iter().cloned()).collect();
        let stand_in = self.pinned(super::library::function(FRAME)?);
        self.call_function(&stand_in, Args { positional, keywords: names }).map(Some)
    }

    /// The outermost region that is being run.
    pub fn region(&self) -> Option<Obj> {
        let frame = self.frames.iter().find(|frame| frame.code.hidden && frame.code.name == FRAME)?;
        frame.locals.first().cloned().flatten().map(|region| region.obj)
    }
}

/// Those inside of containers do not count: torch does not look there.
fn any_requires_grad(values: &[Val]) -> R<bool> {
    for value in values.iter().filter(|value| types().is_tensor(&value.obj)) {
        if requires_grad(&value.obj)? {
            return Ok(true);
        }
    }
    Ok(false)
}
