//! `OXYTORCH_LOGS=graph_breaks,recompiles,guards,graph,kernels,races,cudagraphs,variants`: one line on stderr for each thing as it happens. `TORCH_LOGS="+oxytorch"` is all.

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
}

const TOPICS: [(Topic, &str); 8] = [
    (Topic::GraphBreaks, "graph_breaks"),
    (Topic::Recompiles, "recompiles"),
    (Topic::Guards, "guards"),
    (Topic::Graph, "graph"),
    (Topic::Kernels, "kernels"),
    (Topic::Races, "races"),
    (Topic::CudaGraphs, "cudagraphs"),
    (Topic::Variants, "variants"),
];

fn wanted() -> &'static [Topic] {
    static WANTED: OnceLock<Vec<Topic>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let names = |variable: &str| std::env::var(variable).unwrap_or_default();
        let all = names("TORCH_LOGS").split(',').any(|part| part.trim().trim_start_matches('+') == "oxytorch");
        let own = names("OXYTORCH_LOGS");
        let is_wanted = |name: &str| {
            all || own.split(',').any(|part| matches!(part.trim().trim_start_matches('+'), n if n == name || n == "all"))
        };
        TOPICS.iter().filter(|(_, name)| is_wanted(name)).map(|(topic, _)| *topic).collect()
    })
}

pub fn is_on(topic: Topic) -> bool {
    wanted().contains(&topic)
}

/// `text` is made only if somebody reads it.
pub fn log(topic: Topic, text: impl FnOnce() -> String) {
    if is_on(topic) {
        let name = TOPICS.iter().find(|(known, _)| *known == topic).map_or("", |(_, name)| name);
        let mut stderr = std::io::stderr();
        // Nobody reads it if it is closed.
        text().lines().for_each(|line| drop(writeln!(stderr, "oxytorch {name}: {line}")));
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
        Ok(format!("{}:{}", file.bind(), line.bind()))
    });
    text.unwrap_or_default()
}
