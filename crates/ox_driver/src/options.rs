//! What a user may ask of a compile: a mode and named options. Everything unknown is an error that says what is known.

use crate::settings::Setting;
use ox_ir::Var;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The modes of `torch.compile`. On the CPU they share one pipeline: there are no CUDA graphs to record, and matrix products are
/// already chosen by the library. On a GPU two of them record graphs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    #[default]
    Default,
    ReduceOverhead,
    MaxAutotune,
    MaxAutotuneNoCudagraphs,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Default, Mode::ReduceOverhead, Mode::MaxAutotune, Mode::MaxAutotuneNoCudagraphs];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::ReduceOverhead => "reduce-overhead",
            Mode::MaxAutotune => "max-autotune",
            Mode::MaxAutotuneNoCudagraphs => "max-autotune-no-cudagraphs",
        }
    }

    /// Whether calls on a GPU are recorded and replayed.
    pub fn has_graphs(self) -> bool {
        matches!(self, Mode::ReduceOverhead | Mode::MaxAutotune)
    }
}

impl FromStr for Mode {
    type Err = OptionsError;
    fn from_str(text: &str) -> Result<Mode, OptionsError> {
        Mode::ALL.into_iter().find(|m| m.name() == text).ok_or_else(|| OptionsError::Mode(text.to_string()))
    }
}

/// A value as the user wrote it, before its option gives it a meaning.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    /// Anything else, by the name of its type.
    Other(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Bool(x) => write!(f, "{x}"),
            OptionValue::Int(x) => write!(f, "{x}"),
            OptionValue::Float(x) => write!(f, "{x}"),
            OptionValue::Str(x) => write!(f, "\"{x}\""),
            OptionValue::Other(x) => write!(f, "a {x}"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionsError {
    #[error("unknown mode \"{0}\"; the modes are {list}", list = quoted(Mode::ALL.iter().map(|m| m.name())))]
    Mode(String),
    #[error("unknown option \"{name}\"{hint}; the options are {list}", hint = did_you_mean(name), list = quoted(Options::known()))]
    Name { name: String },
    #[error(
        "option \"{name}\" is about capture, and is for oxytorch.compile: behind torch.compile it is Dynamo that captures, as torch._dynamo.config says"
    )]
    Capture { name: String },
    #[error("option \"{name}\" wants {wanted}, not {got}")]
    Value { name: String, wanted: &'static str, got: String },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    pub mode: Mode,
    /// Round bf16 and f16 values wherever eager rounds them. Off: fused chains keep f32 between ops.
    pub round_intermediates: bool,
    /// The user promises that weights will not change: they are folded into their neighbours and packed for the library, once. What is
    /// written into a weight afterwards is not noticed; a weight that is replaced by another tensor is.
    pub freezing: bool,
    /// How much of what the backward pass needs may be kept, in thousandths: 1000 keeps all that is not cheap to compute again,
    /// less computes more of it again.
    pub activation_memory_budget: u32,
    /// Random numbers are eager's very own: drawn by torch's functions, which nothing is fused with. Otherwise they are our own, from seeds
    /// that torch's generator gives.
    pub fallback_random: bool,
    /// How many threads compile kernels; 0 is one for each core.
    pub compile_threads: usize,
    /// The first calls are timed beside eager's. The setting of that name, for one function.
    pub race_eager: bool,
    /// Sizes that recur get kernels of their own, compiled in the background. The setting of that name, for one function.
    pub background_variants: bool,
    /// Compiled kernels are kept for other processes. The setting of that name, for one function.
    pub disk_cache: bool,
    /// Every program of every stage is written here as text.
    pub debug_dir: Option<PathBuf>,
    /// Kernels may write the new value of an input into the input itself. Not for users to say: whoever calls what is compiled then
    /// has to tell torch that the tensor has changed, and to see that it overlaps no other.
    pub overwrite_inputs: bool,
    /// Inputs that are given away: a run lets go of them after their last use. Not for users to say, either.
    pub given: Vec<u32>,
    /// By input: it is a parameter or buffer of a module. Nor this.
    pub weights: Vec<bool>,
    /// So many results are the user's; all if it is None. Nor this.
    pub visible: Option<usize>,
    /// Sizes that vary, as they were when the graph was captured. Nor this.
    pub usual: Vec<(Var, i64)>,
    /// Other programs run before this one: on a GPU its kernels are compiled behind theirs. Nor this.
    pub later: bool,
    /// `torch.use_deterministic_algorithms`: sums of gradients that meet are added in one order. The CPU knows no other.
    pub deterministic: bool,
    /// Graphs are recorded on the CPU as well, where replays are the steps themselves: for tests.
    pub emulate_graphs: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Default,
            round_intermediates: true,
            freezing: false,
            activation_memory_budget: 1000,
            fallback_random: false,
            compile_threads: 0,
            race_eager: Setting::find("race_eager").is_some_and(|setting| setting.get() != 0),
            background_variants: Setting::find("background_variants").is_some_and(|setting| setting.get() != 0),
            disk_cache: Setting::find("disk_cache").is_some_and(|setting| setting.get() != 0),
            overwrite_inputs: false,
            given: Vec::new(),
            weights: Vec::new(),
            visible: None,
            usual: Vec::new(),
            later: false,
            deterministic: false,
            emulate_graphs: std::env::var("OXYTORCH_EMULATE_GRAPHS").is_ok_and(|value| value == "1"),
            debug_dir: std::env::var_os("OXYTORCH_DEBUG_DIR").filter(|d| !d.is_empty()).map(PathBuf::from),
        }
    }
}

impl Options {
    /// Whether they are for a program that computes gradients: none of its results are the user's.
    pub fn is_backward(&self) -> bool {
        self.visible == Some(0)
    }

    pub const NAMES: [&'static str; 9] = [
        "activation_memory_budget",
        "background_variants",
        "compile_threads",
        "debug_dir",
        "disk_cache",
        "fallback_random",
        "freezing",
        "race_eager",
        "round_intermediates",
    ];

    /// All that may be given as an option. A setting may be one of the names above: then it is the compiler that reads it.
    pub fn known() -> impl Iterator<Item = &'static str> {
        Options::NAMES.into_iter().chain(Setting::names().filter(|name| !Options::NAMES.contains(name)))
    }

    pub fn new<'a>(mode: Option<&str>, named: impl IntoIterator<Item = (&'a str, OptionValue)>) -> Result<Options, OptionsError> {
        let mut options = Options { mode: mode.map_or(Ok(Mode::Default), str::parse)?, ..Options::default() };
        for (name, value) in named {
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: OptionValue) -> Result<(), OptionsError> {
        match name {
            "round_intermediates" => self.round_intermediates = want_bool(name, value)?,
            "activation_memory_budget" => self.activation_memory_budget = want_share(name, value)?,
            "fallback_random" => self.fallback_random = want_bool(name, value)?,
            "freezing" => self.freezing = want_bool(name, value)?,
            "compile_threads" => self.compile_threads = want_count(name, value)?,
            "background_variants" => self.background_variants = want_bool(name, value)?,
            "disk_cache" => self.disk_cache = want_bool(name, value)?,
            "race_eager" => self.race_eager = want_bool(name, value)?,
            "debug_dir" => self.debug_dir = Some(PathBuf::from(want_str(name, value)?)),
            _ if name == "pad_to" || Setting::find(name).is_some() => {
                return Err(OptionsError::Capture { name: name.to_string() });
            }
            _ => return Err(OptionsError::Name { name: name.to_string() }),
        }
        Ok(())
    }
}

fn wrong(name: &str, wanted: &'static str, got: OptionValue) -> OptionsError {
    OptionsError::Value { name: name.to_string(), wanted, got: got.to_string() }
}

/// 0 and 1 are taken too: that is how options of torch.compile are often written.
fn want_bool(name: &str, value: OptionValue) -> Result<bool, OptionsError> {
    match value {
        OptionValue::Bool(x) => Ok(x),
        OptionValue::Int(x @ (0 | 1)) => Ok(x == 1),
        other => Err(wrong(name, "True or False", other)),
    }
}

fn want_count(name: &str, value: OptionValue) -> Result<usize, OptionsError> {
    match value {
        OptionValue::Int(x) if (0..=4096).contains(&x) => Ok(x as usize),
        other => Err(wrong(name, "a number from 0 to 4096", other)),
    }
}

/// From 0 to 1, in thousandths.
fn want_share(name: &str, value: OptionValue) -> Result<u32, OptionsError> {
    let share = match value {
        OptionValue::Float(x) => x,
        OptionValue::Int(x) => x as f64,
        other => return Err(wrong(name, "a number from 0 to 1", other)),
    };
    match (0.0..=1.0).contains(&share) {
        true => Ok((share * 1000.0).round() as u32),
        false => Err(wrong(name, "a number from 0 to 1", OptionValue::Float(share))),
    }
}

fn want_str(name: &str, value: OptionValue) -> Result<String, OptionsError> {
    match value {
        OptionValue::Str(x) => Ok(x),
        other => Err(wrong(name, "a string", other)),
    }
}

fn quoted(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

fn did_you_mean(name: &str) -> String {
    match nearest(name, Options::known()) {
        Some(near) => format!(" (did you mean \"{near}\"?)"),
        None => String::new(),
    }
}

/// The name that was probably meant.
pub fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let near = names.map(|n| (distance(name, n), n)).min();
    near.filter(|(d, n)| *d <= 1 + n.len() / 3).map(|(_, n)| n)
}

/// Edits (insert, delete, replace) from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_modes_parse_and_nothing_else() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let error = Options::new(Some("max-speed"), []).unwrap_err().to_string();
        for mode in Mode::ALL {
            assert!(error.contains(mode.name()), "{error}");
        }
    }

    #[test]
    fn two_modes_record_graphs() {
        let recording: Vec<&str> = Mode::ALL.into_iter().filter(|mode| mode.has_graphs()).map(Mode::name).collect();
        assert_eq!(recording, ["reduce-overhead", "max-autotune"]);
    }

    #[test]
    fn an_option_of_capture_is_not_called_unknown() {
        for name in ["verbose", "cache_size_limit", "pad_to"] {
            let error = Options::new(None, [(name, OptionValue::Int(1))]).unwrap_err().to_string();
            assert!(error.contains("is for oxytorch.compile") && !error.contains("unknown"), "{error}");
        }
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        let error = Options::new(None, [("freezzing", OptionValue::Int(1))]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"freezing\"?"), "{error}");
        let error = Options::new(None, [("xyz", OptionValue::Int(1))]).unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn values_are_checked() {
        let options =
            Options::new(None, [("freezing", OptionValue::Bool(true)), ("round_intermediates", OptionValue::Int(0))]).unwrap();
        assert!(options.freezing && !options.round_intermediates);
        assert!(Options::new(None, [("freezing", OptionValue::Str("yes".into()))]).is_err());
        assert!(Options::new(None, [("compile_threads", OptionValue::Int(-1))]).is_err());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
