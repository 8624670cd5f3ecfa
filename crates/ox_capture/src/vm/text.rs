//! Texts of objects that say themselves what their text is, inside of other texts.

use super::{Args, Called, R, Vm};
use crate::interrupt::Quiet;
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

    /// `text % values`, of objects that say themselves what their texts are.
    pub fn fill_in(&mut self, native: &Obj, text: &Val, values: &Val) -> R<Called> {
        let given = match values.obj.is_instance_of(types().tuple) {
            true => self.iterate_all(values)?,
            false => vec![values.clone()],
        };
        let known = self.settled(text).to_str().filter(|_| text.obj.class_is(types().str));
        let are_plain: Vec<bool> = given.iter().map(|value| self.is_plain(&value.obj, 4)).collect();
        let Some((text, conversions)) = known.and_then(|text| filled_fields(&text, &are_plain)) else {
            let args = Args::positional(vec![text.clone(), values.clone()]);
            return self.opaque_call(&native.clone().into(), args, "the texts of objects");
        };
        let mut ways = Vec::new();
        for conversion in conversions {
            ways.push(conversion.map_or(Ok(Obj::none()), |name| self.builtin(name))?.into());
        }
        let (given, ways) = (self.tuple(given)?, self.tuple(ways)?);
        self.call_library("fill_in", vec![Obj::str(&text).into(), given, ways])
    }

    /// `text.format(...)`. None where its fields are more than arguments and formats.
    pub fn format_fields(&mut self, args: &Args) -> R<Option<Called>> {
        let Some((text, rest)) = args.positional.split_first() else { return Ok(None) };
        let text = self.settled(text);
        let parser = py().import("_string")?.getattr("formatter_parser")?;
        // CPython has the right words for a text that is no format.
        let Some(parts) = parser.call1((text.bind(),)).and_then(|parts| parts.try_iter()?.collect::<PyResult<Vec<_>>>()).quiet()
        else {
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

/// A text for `%` with texts in the place of objects, and what makes them. None where a field is more than the text of one.
fn filled_fields(text: &str, are_plain: &[bool]) -> Option<(String, Vec<Option<&'static str>>)> {
    let (mut made, mut ways) = (String::with_capacity(text.len()), Vec::new());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        made.push(next);
        if next != '%' {
            continue;
        }
        let mut last = chars.next()?;
        while matches!(last, '-' | '+' | ' ' | '#' | '.') || last.is_ascii_digit() {
            made.push(last);
            last = chars.next()?;
        }
        if last == '%' && made.ends_with('%') {
            made.push(last);
            continue;
        }
        let is_plain = *are_plain.get(ways.len())?;
        ways.push(match last {
            '(' | '*' => return None,
            _ if is_plain => None,
            's' => Some("str"),
            'r' => Some("repr"),
            'a' => Some("ascii"),
            _ => return None,
        });
        made.push(if is_plain { last } else { 's' });
    }
    (ways.len() == are_plain.len()).then_some((made, ways))
}
