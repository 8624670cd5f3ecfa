//! Words of memory that must hold what they held: the cheapest check there is, for what CPython and torch do not tell us of.

/// Spans of words, each of which is looked at only if all before it are as they were: a span may lie in memory that an earlier one
/// points to.
#[derive(Default)]
pub struct Words {
    spans: Vec<Span>,
    values: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Span {
    at: *const usize,
    len: usize,
}

impl Words {
    /// # Safety
    /// There must be `len` words at `at` for as long as the words before them are as they are now.
    pub unsafe fn add(&mut self, at: *const usize, len: usize) {
        // SAFETY: the caller's word.
        self.values.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        self.spans.push(Span { at, len });
    }

    pub fn hold(&self) -> bool {
        let mut wanted = &self.values[..];
        self.spans.iter().all(|span| {
            let (now, rest) = wanted.split_at(span.len);
            wanted = rest;
            // SAFETY: the words before these hold, so they are there: `add` asks for it.
            unsafe { span.holds(now) }
        })
    }
}

impl Span {
    /// # Safety
    /// As for `Words::add`.
    unsafe fn holds(self, wanted: &[usize]) -> bool {
        // SAFETY: the caller's word. A single word, the most common span, needs no call.
        match wanted {
            [word] => unsafe { *self.at == *word },
            words => unsafe { std::slice::from_raw_parts(self.at, self.len) == words },
        }
    }
}
