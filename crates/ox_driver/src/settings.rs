//! Settings of capture: what holds for the whole process, or for one function as an option. One row each.

use crate::options::{OptionValue, OptionsError};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// True or False; 0 and 1 are taken too.
    Flag,
    /// From 1.
    Count,
}

#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    /// What torch calls it as well.
    pub alias: Option<&'static str>,
    pub kind: Kind,
    pub default: i64,
    pub about: &'static str,
}

const fn flag(name: &'static str, alias: Option<&'static str>, default: bool, about: &'static str) -> Setting {
    Setting { name, alias, kind: Kind::Flag, default: default as i64, about }
}

const fn count(name: &'static str, alias: Option<&'static str>, default: i64, about: &'static str) -> Setting {
    Setting { name, alias, kind: Kind::Count, default, about }
}

pub static SETTINGS: [Setting; 9] = [
    count("recompile_limit", Some("cache_size_limit"), 8, "traces that may begin at one place before others run as they are"),
    count("accumulated_recompile_limit", None, 256, "traces of one function in all"),
    flag("error_on_recompile", Some("error_on_recompilation"), false, "raise, with what changed, instead of tracing again"),
    flag("verbose", None, false, "warnings and errors come with the stack of the user's lines"),
    flag("suppress_errors", None, true, "a bug of the compiler is a warning and the call runs in eager; otherwise it is raised"),
    flag(
        "assume_static_by_default",
        None,
        true,
        "sizes are constants unless told otherwise; otherwise they vary from the first call",
    ),
    flag("race_eager", None, false, "the first calls of a graph are timed beside eager's, which gets the graph if it is faster"),
    flag("background_variants", None, true, "sizes that recur get kernels of their own, compiled in the background (on a CPU)"),
    flag("disk_cache", None, true, "compiled kernels are kept in the user's folder for caches, for other processes"),
];

static VALUES: [AtomicI64; SETTINGS.len()] = [const { AtomicI64::new(0) }; SETTINGS.len()];
static LOADED: OnceLock<()> = OnceLock::new();

impl Setting {
    pub fn find(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name || setting.alias == Some(name))
    }

    /// All names, aliases too.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().flat_map(|setting| [Some(setting.name), setting.alias]).flatten()
    }

    fn place(&self) -> &'static AtomicI64 {
        LOADED.get_or_init(|| SETTINGS.iter().zip(&VALUES).for_each(|(s, value)| value.store(s.default, Ordering::Relaxed)));
        let at = SETTINGS.iter().position(|setting| setting.name == self.name);
        &VALUES[at.expect("every setting is a row")]
    }

    /// The value for the process.
    pub fn get(&self) -> i64 {
        self.place().load(Ordering::Relaxed)
    }

    pub fn set(&self, value: OptionValue) -> Result<(), OptionsError> {
        let value = self.check(value)?;
        self.place().store(value, Ordering::Relaxed);
        Ok(())
    }

    pub fn check(&self, value: OptionValue) -> Result<i64, OptionsError> {
        match (self.kind, value) {
            (Kind::Flag, OptionValue::Bool(on)) => Ok(on as i64),
            (Kind::Flag, OptionValue::Int(n @ (0 | 1))) => Ok(n),
            (Kind::Count, OptionValue::Int(n)) if n >= 1 => Ok(n),
            (_, got) => Err(OptionsError::Value { name: self.name.into(), wanted: self.wanted(), got: got.to_string() }),
        }
    }

    fn wanted(&self) -> &'static str {
        match self.kind {
            Kind::Flag => "True or False",
            Kind::Count => "a whole number from 1",
        }
    }

    /// A value as it stands in an environment variable.
    fn parse(&self, text: &str) -> Option<i64> {
        match (self.kind, text.to_lowercase().as_str()) {
            (Kind::Flag, "1" | "true") => Some(1),
            (Kind::Flag, "0" | "false") => Some(0),
            (Kind::Flag, _) => None,
            (Kind::Count, text) => text.parse().ok().filter(|n| *n >= 1),
        }
    }
}

/// Reads `OXYTORCH_` and the name in capitals, for each setting and alias. What is empty is not set.
pub fn load_environment() -> Result<(), OptionsError> {
    for setting in &SETTINGS {
        for name in [Some(setting.name), setting.alias].into_iter().flatten() {
            let variable = format!("OXYTORCH_{}", name.to_uppercase());
            let Some(text) = std::env::var(&variable).ok().filter(|text| !text.is_empty()) else { continue };
            let wanted = if setting.kind == Kind::Flag { "0 or 1" } else { setting.wanted() };
            let value = setting.parse(&text).ok_or(OptionsError::Value { name: variable, wanted, got: format!("\"{text}\"") })?;
            setting.place().store(value, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_both_names() {
        assert!(std::ptr::eq(Setting::find("cache_size_limit").unwrap(), Setting::find("recompile_limit").unwrap()));
        assert!(Setting::find("recompile").is_none());
    }

    #[test]
    fn values_are_checked() {
        let (flag, count) = (Setting::find("verbose").unwrap(), Setting::find("recompile_limit").unwrap());
        assert_eq!(flag.check(OptionValue::Bool(true)), Ok(1));
        assert!(flag.check(OptionValue::Int(2)).is_err() && flag.check(OptionValue::Str("yes".into())).is_err());
        assert_eq!(count.check(OptionValue::Int(3)), Ok(3));
        assert!(count.check(OptionValue::Int(0)).is_err() && count.check(OptionValue::Bool(true)).is_err());
        assert_eq!((flag.parse("TRUE"), flag.parse("2"), count.parse("7"), count.parse("many")), (Some(1), None, Some(7), None));
    }

    #[test]
    fn what_is_set_is_found() {
        let setting = Setting::find("accumulated_recompile_limit").unwrap();
        assert_eq!(setting.get(), 256);
        setting.set(OptionValue::Int(99)).unwrap();
        assert_eq!(setting.get(), 99);
    }
}
