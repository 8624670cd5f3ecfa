//! Size expressions: what torch's shape environment says (sympy) in terms of Sym.

use ox_ir::sym::Atom;
use ox_ir::{Sym, Var};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use rustc_hash::FxHashMap;

/// The symbols of one graph. Those that are passed as arguments become its sizes, in the order of the placeholders.
#[derive(Default)]
pub struct Symbols {
    by_name: FxHashMap<String, Var>,
    symints: FxHashMap<Var, Py<PyAny>>,
    /// What each variable was when the graph was captured; used to compare expressions that are equal but look different.
    hints: FxHashMap<Var, i64>,
}

impl Symbols {
    /// Declares the symbol that a placeholder binds. `None` if the SymInt is not a plain symbol.
    pub fn declare(&mut self, symint: &Bound<'_, PyAny>) -> PyResult<Option<Var>> {
        let py = symint.py();
        let node = symint.getattr(intern!(py, "node"))?;
        let expr = node.getattr(intern!(py, "expr"))?;
        if kind_of(&expr)? != "Symbol" {
            return Ok(None);
        }
        let name: String = expr.getattr(intern!(py, "name"))?.extract()?;
        if let Some(var) = self.by_name.get(&name) {
            return Ok(Some(var.clone()));
        }
        let (lo, hi) = range_of(&node, &expr)?;
        let var = Var::size(self.by_name.len() as u32, lo, hi, 1);
        if let Ok(hint) = node.getattr(intern!(py, "hint"))?.extract::<i64>() {
            self.hints.insert(var.clone(), hint);
        }
        self.by_name.insert(name, var.clone());
        self.symints.insert(var.clone(), symint.clone().unbind());
        Ok(Some(var))
    }

    /// An int or a SymInt as Sym. One that uses a symbol which nobody passes, or a function that Sym has not, is settled to its
    /// present value: reading it makes Dynamo guard it. `None` if it has none before the graph runs.
    pub fn to_sym(&self, value: &Bound<'_, PyAny>) -> PyResult<Option<Sym>> {
        if value.is_exact_instance_of::<PyInt>() {
            return Ok(value.extract::<i64>().ok().map(Sym::from));
        }
        let py = value.py();
        match self.expr(&value.getattr(intern!(py, "node"))?.getattr(intern!(py, "expr"))?)? {
            Some(sym) => Ok(Some(sym)),
            None => Ok(py_int(value).ok().flatten().map(Sym::from)),
        }
    }

    fn expr(&self, expr: &Bound<'_, PyAny>) -> PyResult<Option<Sym>> {
        let py = expr.py();
        let kind = kind_of(expr)?;
        match kind.as_str() {
            "Integer" | "Zero" | "One" | "NegativeOne" => return Ok(py_int(expr)?.map(Sym::from)),
            "Symbol" => {
                let name = expr.getattr(intern!(py, "name"))?;
                return Ok(self.by_name.get(name.extract::<&str>()?).map(Sym::var));
            }
            _ => {}
        }
        let mut args = Vec::new();
        for arg in expr.getattr(intern!(py, "args"))?.cast::<PyTuple>()?.iter() {
            let Some(arg) = self.expr(&arg)? else { return Ok(None) };
            args.push(arg);
        }
        Ok(apply(&kind, &args))
    }

    /// The value that the expression had when the graph was captured.
    pub fn hint(&self, sym: &Sym) -> Option<i64> {
        sym.eval(&|var| self.hints.get(var).copied())
    }
}

impl Symbols {
    /// Whether a size is torch's. Where that is not plain, torch's shape environment is asked: it proves that they are equal, knowing
    /// more of the sizes than we do, or it notes that they must be, and calls with sizes for which they are not are compiled anew.
    pub fn is_equal(&self, ours: &Sym, theirs: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.to_sym(theirs)?.as_ref() == Some(ours) {
            return Ok(true);
        }
        if ours.vars().iter().any(|var| !self.symints.contains_key(var)) {
            return Ok(false);
        }
        self.to_python(theirs.py(), ours)?.eq(theirs)
    }

    /// The expression as Python computes it: an int or a SymInt.
    fn to_python<'py>(&self, py: Python<'py>, sym: &Sym) -> PyResult<Bound<'py, PyAny>> {
        let mut sum = sym.constant().into_pyobject(py)?.into_any();
        for (monomial, factor) in sym.terms() {
            let mut term = factor.into_pyobject(py)?.into_any();
            for atom in monomial {
                term = term.mul(self.atom_to_python(py, atom)?)?;
            }
            sum = sum.add(term)?;
        }
        Ok(sum)
    }

    fn atom_to_python<'py>(&self, py: Python<'py>, atom: &Atom) -> PyResult<Bound<'py, PyAny>> {
        let both = |p: &(Sym, Sym)| Ok::<_, PyErr>((self.to_python(py, &p.0)?, self.to_python(py, &p.1)?));
        match atom {
            Atom::Var(var) => Ok(self.symints[var].bind(py).clone()),
            Atom::Div(p) => both(p).and_then(|(a, b)| a.floor_div(b)),
            Atom::Mod(p) => both(p).and_then(|(a, b)| a.rem(b)),
            Atom::Min(p) => py.import(intern!(py, "torch"))?.call_method1(intern!(py, "sym_min"), both(p)?),
            Atom::Max(p) => py.import(intern!(py, "torch"))?.call_method1(intern!(py, "sym_max"), both(p)?),
        }
    }
}

fn apply(kind: &str, args: &[Sym]) -> Option<Sym> {
    Some(match (kind, args) {
        ("Add", _) => args.iter().sum(),
        ("Mul", _) => args.iter().product(),
        ("Pow", [base, exponent]) => {
            let exponent = exponent.as_const().filter(|e| (0..=16).contains(e))?;
            (0..exponent).fold(Sym::ONE, |acc, _| &acc * base)
        }
        ("FloorDiv" | "CleanDiv", [a, b]) => a.div(b),
        ("CeilDiv", [a, b]) => -&(-a).div(b),
        ("Mod" | "PythonMod", [a, b]) => a.rem(b),
        ("ModularIndexing", [a, b, c]) => a.div(b).rem(c),
        ("Max", [first, rest @ ..]) => rest.iter().fold(first.clone(), |acc, x| acc.greater(x)),
        ("Min", [first, rest @ ..]) => rest.iter().fold(first.clone(), |acc, x| acc.lesser(x)),
        _ => return None,
    })
}

fn kind_of(expr: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(expr.get_type().name()?.extract::<&str>()?.to_string())
}

/// `int(x)`, None where it does not fit.
fn py_int(x: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let int = x.py().get_type::<PyInt>().call1((x,))?;
    Ok(int.extract::<i64>().ok())
}

fn range_of(node: &Bound<'_, PyAny>, symbol: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    let py = node.py();
    let ranges = node.getattr(intern!(py, "shape_env"))?.getattr(intern!(py, "var_to_range"))?;
    let Ok(range) = ranges.get_item(symbol) else { return Ok((i64::MIN, i64::MAX)) };
    // An end that is infinite does not convert to an int.
    let end = |name: &str, otherwise: i64| -> PyResult<i64> {
        let value = range.getattr(name)?;
        Ok(py_int(&value).ok().flatten().unwrap_or(otherwise))
    };
    Ok((end("lower", i64::MIN)?, end("upper", i64::MAX)?))
}
