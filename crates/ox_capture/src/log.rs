//! `OXYTORCH_LOGS=graph_breaks,recompiles,guards,graph,kernels,races,cudagraphs,variants,cache`: one line on stderr for each thing as it happens. `TORCH_LOGS="+oxytorch"` is all.

use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::types::types;
use std::io::Write;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    GraphBreaks,
    Recompiles,
    Guards,
    Graph,
    Kernels,
    Races,
    CudaGraphs,
    Variants,
    Cache,
}

const TOPICS: [(Topic, &str); 9] = [
    (Topic::GraphBreaks, "graph_breaks"),
    (Topic::Recompiles, "recompiles"),
    (Topic::Guards, "guards"),
    (Topic::Graph, "graph"),
    (Topic::Kernels, "kernels"),
    (Topic::Races, "races"),
    (Topic::CudaGraphs, "cudagraphs"),
    (Topic::Variants, "variants"),
    (Topic::Cache, "cache"),
];

fn wanted() -> &'static [Topic] {
    static WANTED: OnceLock<Vec<Topic>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let named = |variable: &str| -> Vec<String> {
            let value = std::env::var(variable).unwrap_or_default();
            value.split(',').map(|part| part.trim().trim_start_matches('+').to_string()).filter(|part| !part.is_empty()).collect()
        };
        let own = named("OXYTORCH_LOGS");
        own.iter().filter(|name| !is_topic(name)).for_each(|name| say(&unknown(name)));
        let all = own.iter().any(|name| name == "all") || named("TORCH_LOGS").iter().any(|name| name == "oxytorch");
        let is_wanted = |topic: &str| all || own.iter().any(|name| name == topic);
        TOPICS.iter().filter(|(_, name)| is_wanted(name)).map(|(topic, _)| *topic).collect()
    })
}

fn is_topic(name: &str) -> bool {
    name == "all" || TOPICS.iter().any(|(_, known)| *known == name)
}

fn unknown(name: &str) -> String {
    let topics: Vec<&str> = TOPICS.iter().map(|(_, name)| *name).collect();
    format!("oxytorch: OXYTORCH_LOGS knows no {name:?}; there are all, {}", topics.join(", "))
}

/// Nobody reads it if it is closed.
fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

pub fn is_on(topic: Topic) -> bool {
    wanted().contains(&topic)
}

/// `text` is made only if somebody reads it.
pub fn log(topic: Topic, text: impl FnOnce() -> String) {
    if is_on(topic) {
        let name = TOPICS.iter().find(|(known, _)| *known == topic).map_or("", |(_, name)| name);
        text().lines().for_each(|line| say(&format!("oxytorch {name}: {line}")));
    }
}

/// The file and line of a function, method, partial or module; empty for what has none.
pub fn place_of(function: &Obj) -> String {
    let code = match function.is_instance_of(types().nn_module) {
        true => function.class().attr("forward").and_then(|forward| forward.attr("__code__")),
        false => function.attr("__code__").or_else(|_| function.attr("func").and_then(|inner| inner.attr("__code__"))),
    };
    let text = code.and_then(|code| {
        let (file, line) = (code.attr("co_filename")?, code.attr("co_firstlineno")?);
        Ok(format!("{}:{}", file, line))
    });
    text.quiet().unwrap_or_default()
}
