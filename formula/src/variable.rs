//! Turns a call in a formula into the variable it stands for: a column, arithmetic, a factor, a polynomial, a spline.

mod arithmetic;

pub(crate) use arithmetic::{Arithmetic, Arithmetics, Scale, Source};

use arithmetic::ARITHMETIC;

use crate::agree::Contrast;
use crate::error::{FormulaError, nearest};
use crate::syntax::{Argument, Expression, Node, Operator, Place, Span};

/// What one name or call of a formula makes of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variable {
    /// As R writes it in the names of terms and columns.
    pub(crate) label: String,
    pub(crate) span: Span,
    pub(crate) kind: VariableKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VariableKind {
    /// A column as it is: numbers, or levels where it holds text or logicals.
    Column(String),
    Arithmetic(Arithmetic),
    /// A column whose values are levels, with the levels and their order if the formula says them.
    Factor {
        column: String,
        levels: Option<Vec<String>>,
        /// How they become columns, where the formula says it.
        contrast: Option<Contrast>,
    },
    Polynomial {
        of: Arithmetic,
        degree: usize,
        raw: bool,
    },
    Spline(Spline),
}

/// The B-splines of `bs`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spline {
    pub(crate) of: Arithmetic,
    pub(crate) degree: usize,
    pub(crate) knots: Knots,
    /// The ends of the range, where the formula says them.
    pub(crate) boundary: Option<[f64; 2]>,
    /// Whether the first function of the basis is kept.
    pub(crate) intercept: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Knots {
    /// As the formula says.
    Written(Vec<f64>),
    /// This many, at quantiles that are equally far apart.
    AtQuantiles(usize),
}

/// The functions that may stand as a variable.
const VARIABLES: [&str; 17] = [
    "log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs", "sin", "cos", "I", "scale", "poly", "bs", "factor",
    "C", "offset",
];

impl Variable {
    /// Reads `expression` of the formula `text`.
    pub(crate) fn read(text: &str, expression: &Expression) -> Result<Self, FormulaError> {
        let kind = match &expression.node {
            Node::Name(name) if name == "." => {
                let remedy = "Silos may have other columns: write the names.";
                return Err(call_error(text, expression, "the name of a column", remedy));
            }
            Node::Name(name) => VariableKind::Column(name.clone()),
            Node::Call { function, arguments } => {
                let call = Call { text, expression, function, arguments };
                match function.as_str() {
                    "factor" | "as.factor" => call.factor()?,
                    "C" => call.contrasts()?,
                    "poly" => call.polynomial()?,
                    "bs" => VariableKind::Spline(call.spline()?),
                    _ if ARITHMETIC.contains(&function.as_str()) => {
                        VariableKind::Arithmetic(Arithmetics { text }.read(expression)?)
                    }
                    _ => return Err(unknown(text, expression, function, &VARIABLES)),
                }
            }
            _ => return Err(call_error(text, expression, "a column or a call", "")),
        };
        Ok(Self { label: expression.to_string(), span: expression.span.clone(), kind })
    }

    /// Reads arithmetic where nothing else may stand, as in `offset()`.
    pub(crate) fn arithmetic(text: &str, expression: &Expression) -> Result<VariableKind, FormulaError> {
        Ok(VariableKind::Arithmetic(Arithmetics { text }.read(expression)?))
    }

    /// The columns of the file that it computes with, with their places in the text.
    pub(crate) fn computed(&self) -> Vec<(String, Span)> {
        self.of().map(Arithmetic::computed).unwrap_or_default()
    }

    /// The constants that it has by name, with their places in the text.
    pub(crate) fn constants(&self) -> Vec<(String, Span)> {
        self.of().map(Arithmetic::constants).unwrap_or_default()
    }

    /// The arithmetic that it is, or is a function of.
    fn of(&self) -> Option<&Arithmetic> {
        match &self.kind {
            VariableKind::Column(_) | VariableKind::Factor { .. } => None,
            VariableKind::Arithmetic(of)
            | VariableKind::Polynomial { of, .. }
            | VariableKind::Spline(Spline { of, .. }) => Some(of),
        }
    }

    /// The columns of the file that it needs, with their places in the text.
    pub(crate) fn columns(&self) -> Vec<(String, Span)> {
        match &self.kind {
            VariableKind::Column(name) | VariableKind::Factor { column: name, .. } => {
                vec![(name.clone(), self.span.clone())]
            }
            _ => self.of().map(Arithmetic::columns).unwrap_or_default(),
        }
    }
}

pub(crate) fn unknown(text: &str, at: &Expression, function: &str, known: &[&'static str]) -> FormulaError {
    FormulaError::UnknownFunction {
        place: Place::new(text, &(at.span.start..at.span.start + function.len())),
        function: function.into(),
        known: known.to_vec(),
        suggestion: nearest(function, known.iter().copied()),
    }
}

/// The error that `at` is not what stands there.
pub(crate) fn call_error(text: &str, at: &Expression, expected: &str, remedy: &str) -> FormulaError {
    FormulaError::Meaning {
        place: Place::new(text, &at.span),
        found: format!("`{at}`"),
        expected: expected.into(),
        remedy: remedy.into(),
    }
}

/// A call whose arguments are being read.
pub(crate) struct Call<'a> {
    pub(crate) text: &'a str,
    pub(crate) expression: &'a Expression,
    pub(crate) function: &'a str,
    pub(crate) arguments: &'a [Argument],
}

impl<'a> Call<'a> {
    /// The arguments in the order of `names`, by name or by place, as R matches them.
    pub(crate) fn matched<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<&'a Expression>; N], FormulaError> {
        let mut values: [Option<&Expression>; N] = [None; N];
        let known = || format!("arguments {} of `{}`", names.join(", "), self.function);
        for argument in self.arguments.iter().filter(|argument| argument.name.is_some()) {
            let name = argument.name.as_deref().unwrap_or_default();
            match names.iter().position(|known| *known == name) {
                Some(at) if values.get(at).is_some_and(Option::is_none) => values[at] = Some(&argument.value),
                _ => {
                    return Err(self.refuse(
                        &argument.value,
                        &known(),
                        &format!("Take `{name} =` out, or write it once."),
                    ));
                }
            }
        }
        let mut places = (0..N).filter(|at| values[*at].is_none()).collect::<Vec<_>>().into_iter();
        for argument in self.arguments.iter().filter(|argument| argument.name.is_none()) {
            match places.next() {
                Some(at) => values[at] = Some(&argument.value),
                None => return Err(self.refuse(&argument.value, &known(), "Take it out.")),
            }
        }
        Ok(values)
    }

    pub(crate) fn refuse(&self, at: &Expression, expected: &str, remedy: &str) -> FormulaError {
        call_error(self.text, at, expected, remedy)
    }

    /// The first argument, without which the call has no meaning.
    pub(crate) fn first(&self, value: Option<&'a Expression>) -> Result<&'a Expression, FormulaError> {
        let remedy = || format!("Write `{}(x)` with the name of a column.", self.function);
        value.ok_or_else(|| self.refuse(self.expression, "an argument", &remedy()))
    }

    /// A whole number between `least` and `most`.
    pub(crate) fn whole(&self, value: &Expression, least: usize, most: usize) -> Result<usize, FormulaError> {
        let number = constant(value).filter(|number| number.fract().abs() < f64::EPSILON);
        let number = number.filter(|number| (least as f64..=most as f64).contains(number));
        number.map(|number| number as usize).ok_or_else(|| {
            self.refuse(value, &format!("a whole number from {least} to {most}"), "Write the number itself.")
        })
    }

    pub(crate) fn logical(&self, value: Option<&Expression>, otherwise: bool) -> Result<bool, FormulaError> {
        match value.map(|value| (&value.node, value)) {
            None => Ok(otherwise),
            Some((Node::Name(name), _)) if name == "TRUE" || name == "T" => Ok(true),
            Some((Node::Name(name), _)) if name == "FALSE" || name == "F" => Ok(false),
            Some((_, value)) => Err(self.refuse(value, "`TRUE` or `FALSE`", "Write one of them.")),
        }
    }

    /// A number, or the numbers of `c(…)`.
    pub(crate) fn numbers(&self, value: &Expression) -> Result<Vec<f64>, FormulaError> {
        let list = self.list(value).iter().map(|value| constant(value)).collect::<Option<Vec<f64>>>();
        list.ok_or_else(|| self.refuse(value, "a number or `c(1, 2, 3)`", "Write the numbers themselves."))
    }

    fn list<'b>(&self, value: &'b Expression) -> Vec<&'b Expression> {
        match &value.node {
            Node::Call { function, arguments } if function == "c" => arguments.iter().map(|a| &a.value).collect(),
            _ => vec![value],
        }
    }

    fn arithmetic(&self, value: Option<&'a Expression>) -> Result<Arithmetic, FormulaError> {
        let value = self.first(value)?;
        let of = Arithmetics { text: self.text }.read(value)?;
        match of.scale() {
            None => Ok(of),
            Some(_) => Err(self.refuse(value, "an argument without `scale`", "Take `scale` out.")),
        }
    }

    fn factor(&self) -> Result<VariableKind, FormulaError> {
        let [column, levels] = self.matched(["x", "levels"])?;
        let column = self.first(column)?;
        let Node::Name(name) = &column.node else {
            return Err(self.refuse(column, "the name of a column", "Make the levels in the file."));
        };
        let level = |value: &&Expression| match &value.node {
            Node::Text(text) => Some(text.clone()),
            _ => constant(value).map(crate::syntax::number_text),
        };
        let levels = levels.map(|value| {
            let levels = self.list(value).iter().map(level).collect::<Option<Vec<String>>>();
            let distinct = levels.filter(|all| (1..all.len()).all(|at| !all[..at].contains(&all[at])));
            distinct.ok_or_else(|| self.refuse(value, "levels that differ, `c(\"low\", \"high\")`", "Write each once."))
        });
        Ok(VariableKind::Factor { column: name.clone(), levels: levels.transpose()?, contrast: None })
    }

    /// `C(x, sum)`, with the contrast by R's name too.
    fn contrasts(&self) -> Result<VariableKind, FormulaError> {
        let [column, contrast] = self.matched(["object", "contr"])?;
        let column = self.first(column)?;
        let Node::Name(name) = &column.node else {
            return Err(self.refuse(column, "the name of a column", "Make the levels in the file."));
        };
        let contrast = contrast.map(|value| match &value.node {
            Node::Name(own) if own == "sum" || own == "contr.sum" => Ok(Contrast::Sum),
            Node::Name(own) if own == "treatment" || own == "contr.treatment" => Ok(Contrast::Treatment),
            _ => Err(self.refuse(value, "`sum` or `treatment`", "Write one of them.")),
        });
        Ok(VariableKind::Factor { column: name.clone(), levels: None, contrast: contrast.transpose()? })
    }

    fn polynomial(&self) -> Result<VariableKind, FormulaError> {
        let [of, degree, raw] = self.matched(["x", "degree", "raw"])?;
        let of = self.arithmetic(of)?;
        let degree = degree.map_or(Ok(1), |value| self.whole(value, 1, 9))?;
        Ok(VariableKind::Polynomial { of, degree, raw: self.logical(raw, false)? })
    }

    fn spline(&self) -> Result<Spline, FormulaError> {
        let [of, df, knots, degree, intercept, boundary] =
            self.matched(["x", "df", "knots", "degree", "intercept", "Boundary.knots"])?;
        let of = self.arithmetic(of)?;
        let degree = degree.map_or(Ok(3), |value| self.whole(value, 1, 9))?;
        let intercept = self.logical(intercept, false)?;
        let least = degree + usize::from(intercept);
        let boundary = boundary.map(|value| {
            let ends = <[f64; 2]>::try_from(self.numbers(value)?).ok().filter(|[low, high]| low < high);
            ends.ok_or_else(|| self.refuse(value, "two numbers, the smaller first", "Write `c(0, 100)`."))
        });
        let knots = match (knots, df) {
            (Some(value), None) => {
                let mut knots = self.numbers(value)?;
                knots.sort_by(f64::total_cmp);
                Knots::Written(knots)
            }
            (None, Some(value)) => Knots::AtQuantiles(self.whole(value, least, 50)? - least),
            (None, None) => Knots::Written(Vec::new()),
            (Some(value), Some(_)) => return Err(self.refuse(value, "`df` or `knots`", "Take one of them out.")),
        };
        Ok(Spline { of, degree, knots, boundary: boundary.transpose()?, intercept })
    }
}

/// The number that `value` is, with its sign.
pub(crate) fn constant(value: &Expression) -> Option<f64> {
    match &value.node {
        Node::Number(number) => Some(*number),
        Node::Sign(Operator::Minus, inner) => constant(inner).map(|number| -number),
        Node::Sign(_, inner) | Node::Group(inner) => constant(inner),
        _ => None,
    }
}
