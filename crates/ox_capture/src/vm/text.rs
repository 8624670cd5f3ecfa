//! Texts of objects that say themselves what their text is, inside of other texts.

use super::{Args, Called, R, Vm};
use crate::obj::{Obj, items_of, py};
use crate::record::Val;
use crate::types::types;
use pyo3::prelude::*;

/// A field of a format: what stands before it, the argument, how that is converted, and its own format.
struct Field {
    before: Obj,
    value: Val,
    conversion: Obj,
    spec: Obj,
}

impl Vm {
    /// `function(object)`, or `fill` if that is under way already.
    pub fn call_shown(&mut self, function: &Val, fill: &Val, object: &Val) -> R<Called> {
        let is_under_way = self.frames.iter().any(|frame| {
            let held = |n: usize| frame.locals.get(n).and_then(|slot| slot.as_ref().map(|value| value.obj.clone()));
            frame.code.hidden
                && frame.code.name == "shown"
                && held(0).is_some_and(|own| own.is(&function.obj))
                && held(1).is_some_and(|own| own.is(&object.obj))
        });
        match is_under_way {
            true => Ok(Called::Value(fill.clone())),
            false => self.call_library("shown", vec![function.clone(), object.clone()]),
        }
    }

    /// `repr` of a container by the machine. None if it is no list, tuple or dict.
    pub fn container_text(&mut self, object: &Val) -> R<Option<Called>> {
        let t = types();
        let (name, fill) = match object.obj.class_ptr() {
            class if class == t.list => ("list_text", "[...]"),
            class if class == t.tuple => ("tuple_text", "(...)"),
            class if class == t.dict => ("dict_text", "{...}"),
            _ => return Ok(None),
        };
        if !crate::record::tensors_in(&object.obj).is_empty() {
            return Ok(None);
        }
        let function = self.pinned(super::library::function(name)?);
        self.call_shown(&function, &Obj::str(fill).into(), object).map(Some)
    }

    /// `text.format(...)`. None where its fields are more than arguments and formats.
    pub fn format_fields(&mut self, args: &Args) -> R<Option<Called>> {
        let Some((text, rest)) = args.positional.split_first() else { return Ok(None) };
        let text = self.settled(text);
        let parser = py().import("_string")?.getattr("formatter_parser")?;
        // CPython has the right words for a text that is no format.
        let Ok(parts) = parser.call1((text.bind(),)).and_then(|parts| parts.try_iter()?.collect::<PyResult<Vec<_>>>()) else {
            return Ok(None);
        };
        let (mut fields, mut text, mut next) = (Vec::new(), String::new(), 0);
        for part in parts {
            let parts = items_of(&part.into());
            let [before, field, spec, conversion] = &parts[..] else { return Ok(None) };
            text.push_str(&before.to_str().unwrap_or_default());
            let Some(name) = field.to_str() else { continue };
            let Some(value) = argument(&name, &mut next, rest, &args.keywords) else { return Ok(None) };
            if spec.to_str().is_some_and(|spec| spec.contains('{')) {
                return Ok(None);
            }
            let before = Obj::str(&std::mem::take(&mut text));
            fields.push(Field { before, value, conversion: conversion.clone(), spec: spec.clone() });
        }
        let mut column = |pick: &dyn Fn(&Field) -> Val| self.tuple(fields.iter().map(pick).collect());
        let befores = column(&|field| field.before.clone().into())?;
        let values = column(&|field| field.value.clone())?;
        let conversions = column(&|field| field.conversion.clone().into())?;
        let specs = column(&|field| field.spec.clone().into())?;
        self.call_library("format_fields", vec![befores, values, conversions, specs, Obj::str(&text).into()]).map(Some)
    }
}

/// The argument that a field names. Fields are counted, or named by numbers, but not both.
fn argument(field: &str, next: &mut i64, positional: &[Val], named: &[(Obj, Val)]) -> Option<Val> {
    const BY_NUMBER: i64 = -1;
    if field.is_empty() {
        let place = usize::try_from(*next).ok()?;
        *next += 1;
        return positional.get(place).cloned();
    }
    if let Ok(place) = field.parse::<usize>() {
        if *next > 0 {
            return None;
        }
        *next = BY_NUMBER;
        return positional.get(place).cloned();
    }
    named.iter().find(|(name, _)| name.to_str().as_deref() == Some(field)).map(|(_, value)| value.clone())
}
