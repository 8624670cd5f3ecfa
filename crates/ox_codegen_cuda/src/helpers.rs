//! The device functions that generated text may call. Only those that it does call go along, so that what a person reads (and NVRTC
//! compiles) is short.

use crate::emit::Source;

/// Sections begin with a line `//@` that lists the names they define; a section may call those before it.
const HELPERS: &str = include_str!("helpers.cuh");

/// What NVRTC compiles: the helpers that are needed, then the kernels.
pub fn assemble<'a>(kernels: impl IntoIterator<Item = &'a Source>) -> String {
    let kernels: Vec<&str> = kernels.into_iter().map(|k| k.text.as_str()).collect();
    let mut needed: Vec<&str> = kernels.clone();
    let mut chosen: Vec<&str> = Vec::new();
    for section in HELPERS.split("//@").skip(1).collect::<Vec<_>>().into_iter().rev() {
        let (names, text) = section.split_once('\n').unwrap_or((section, ""));
        if names.split_whitespace().any(|name| needed.iter().any(|text| calls(text, name))) {
            needed.push(text);
            chosen.push(text);
        }
    }
    chosen.reverse();
    let parts: Vec<&str> = chosen.into_iter().chain(kernels).map(str::trim_end).collect();
    parts.join("\n\n").trim_start().to_string() + "\n"
}

/// Whether `name` stands in the text as a word.
fn calls(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let behind = text[at + name.len()..].chars().next().is_some_and(is_part);
        !before && !behind
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words() {
        assert!(calls("x = rem(a, b)", "rem"));
        assert!(!calls("x = remainder_of(a, b); theorem(1)", "rem"));
    }
}
