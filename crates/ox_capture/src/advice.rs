//! What a break means and what can be done about it, by its reason.

/// A row: what the reason contains, what that means, what to do.
type Row = (&'static [&'static str], &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        &["the truth of a tensor"],
        "which way the program goes depends on the values of a tensor, which are known only when the graph before it has run",
        "write the choice with torch.where (or torch.cond), or take the decision outside of the compiled function",
    ),
    (
        &["looks at a tensor's values", "a tensor's value as a number or text", " of a tensor", "the text of a Tensor"],
        "Python sees the values of a tensor here, so the graph before it has to run first",
        "keep the value in a tensor as long as possible; do what needs the number at the end, or outside",
    ),
    (
        &["torch.compiler.disable keeps out"],
        "the function is marked so that it is never compiled",
        "call it before or after the compiled function, or drop the mark",
    ),
    (&["graph_break"], "the program asks for a break here", "drop the call of graph_break"),
    (
        &["data-dependent", "nonzero", "unique", "masked_select", "data dependent"],
        "the size of the result depends on the values of a tensor",
        "use an operation with a size that is known beforehand: torch.where, or a mask that is multiplied",
    ),
    (&["print"], "output is made in every call, in its place among the other effects", "move it out of the compiled function"),
    (
        &["generator of one's own", "random"],
        "random numbers come from a generator that a graph does not draw from",
        "draw by torch's default generator, or outside of the compiled function",
    ),
    (
        &["of torch.func"],
        "a transformation of torch.func runs its function on tensors of its own, which no graph takes: torch does all of it",
        "nothing, if both sides are worth compiling; otherwise take derivatives by autograd, outside of the compiled function",
    ),
    (
        &["of code that is known only when it runs"],
        "the program runs code that it has as text; what that reads and changes cannot be seen, so it runs in every call",
        "write the code out, or evaluate it before the compiled function is called",
    ),
    (
        &["autograd.Function"],
        "the function has a derivative of its own, written in Python",
        "nothing: both sides of it are compiled",
    ),
    (
        &[
            "of C",
            "written in C",
            "made in C",
            "class in C",
            "a call of a",
            "the method ",
            "iteration over a",
            "an item of a",
            "len() of a",
        ],
        "code that is not Python runs here; what it reads and changes cannot be seen, so it runs in every call",
        "nothing, if both sides are worth compiling; otherwise move it out of the compiled function",
    ),
];

/// Explanation and hint. A reason of no kind is a call that cannot be seen into.
pub fn advice(reason: &str) -> (&'static str, &'static str) {
    let row = ROWS.iter().find(|(parts, _, _)| parts.iter().any(|part| reason.contains(part)));
    row.map_or(
        (
            "what happens here cannot be seen into, so it runs in every call, between two graphs",
            "move it out of the compiled function, or leave it: both sides are compiled",
        ),
        |(_, explanation, hint)| (*explanation, *hint),
    )
}
