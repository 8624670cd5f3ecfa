//! `OXYTORCH_LOGS=graph_breaks,recompiles,guards,graph`: one line on stderr for each thing as it happens. `TORCH_LOGS="+oxytorch"` is all.

use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    GraphBreaks,
    Recompiles,
    Guards,
    Graph,
}

const TOPICS: [(Topic, &str); 4] =
    [(Topic::GraphBreaks, "graph_breaks"), (Topic::Recompiles, "recompiles"), (Topic::Guards, "guards"), (Topic::Graph, "graph")];

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
        text().lines().for_each(|line| eprintln!("oxytorch {name}: {line}"));
    }
}
