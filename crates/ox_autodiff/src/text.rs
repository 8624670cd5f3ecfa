//! Joint and split graphs as text.

use crate::{Joint, Source, Split};
use std::fmt;

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Saved(n) => write!(f, "saved {n}"),
            Source::Input(n) => write!(f, "input {n}"),
            Source::Output(n) => write!(f, "output {n}"),
            Source::Gradient(n) => write!(f, "gradient of output {n}"),
        }
    }
}

fn gradients(f: &mut fmt::Formatter<'_>, gradients: &[Option<u32>]) -> fmt::Result {
    for (input, output) in gradients.iter().enumerate() {
        if let Some(output) = output {
            writeln!(f, "gradient of input {input}: output {output}")?;
        }
    }
    Ok(())
}

impl fmt::Display for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.graph)?;
        gradients(f, &self.gradients)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "forward, {} results\n{}", self.outputs, self.forward)?;
        let sources: Vec<String> = self.sources.iter().map(|source| source.to_string()).collect();
        write!(f, "backward of {}\n{}", sources.join(", "), self.backward)?;
        gradients(f, &self.gradients)
    }
}
