//! Reads and evaluates arithmetic of one row: numbers, columns, functions, and `scale` with what silos agreed on.

use super::{Call, call_error, constant, unknown};
use crate::error::FormulaError;
use crate::syntax::{Argument, Comparison, Expression, Node, Operator, Span};

/// Arithmetic of one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arithmetic {
    Number(f64),
    /// A number by its name in R.
    Constant {
        name: String,
        span: Span,
        value: f64,
    },
    Column {
        name: String,
        span: Span,
    },
    Minus(Box<Self>),
    Pair(Operator, Box<Self>, Box<Self>),
    Apply(Function, Box<Self>),
    /// Whether a column has this level; whether it has another.
    Level {
        column: String,
        span: Span,
        level: String,
        comparison: Comparison,
    },
    Scale(Box<Scale>),
}

/// A column of numbers less its mean, divided by its standard deviation, over all silos.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) label: String,
    pub(crate) of: Arithmetic,
    pub(crate) centre: bool,
    pub(crate) divide: bool,
}

/// A function of one number, by its place among [`FUNCTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function(usize);

/// A function of one number with its name in R.
type NamedFunction = (&'static str, fn(f64) -> f64);

/// The functions of one number.
const FUNCTIONS: [NamedFunction; 10] = [
    ("log", f64::ln),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("exp", f64::exp),
    ("expm1", f64::exp_m1),
    ("sqrt", f64::sqrt),
    ("abs", f64::abs),
    ("sin", f64::sin),
    ("cos", f64::cos),
];

/// The functions that arithmetic may have.
pub(super) const ARITHMETIC: [&str; 12] =
    ["log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs", "sin", "cos", "I", "scale"];

impl Function {
    fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().position(|(own, _)| *own == name).map(Self)
    }

    fn of(self, x: f64) -> f64 {
        let (_, function) = FUNCTIONS[self.0];
        function(x)
    }
}

/// Reads arithmetic out of the trees of the formula `text`.
pub(crate) struct Arithmetics<'a> {
    pub(crate) text: &'a str,
}

impl Arithmetics<'_> {
    pub(crate) fn read(&self, expression: &Expression) -> Result<Arithmetic, FormulaError> {
        Ok(match &expression.node {
            Node::Number(number) => Arithmetic::Number(*number),
            Node::Name(name) => {
                let (name, span) = (name.clone(), expression.span.clone());
                match constant_named(&name)
                    .filter(|_| !self.text.get(span.start..).is_some_and(|own| own.starts_with('`')))
                {
                    Some(value) => Arithmetic::Constant { name, span, value },
                    None => Arithmetic::Column { name, span },
                }
            }
            Node::Group(inner) | Node::Sign(Operator::Plus, inner) => self.read(inner)?,
            Node::Sign(_, inner) => Arithmetic::Minus(Box::new(self.read(inner)?)),
            Node::Pair(Operator::Compare(comparison), left, right) if [left, right].iter().any(|own| is_text(own)) => {
                self.level(expression, *comparison, left, right)?
            }
            Node::Pair(operator, left, right) => {
                use Operator::{Compare, Minus, Over, Plus, Power, Times};
                if !matches!(operator, Plus | Minus | Times | Over | Power | Compare(_)) {
                    let expected = "arithmetic with + - * / ^, or a comparison with < <= > >= == !=";
                    return Err(call_error(
                        self.text,
                        expression,
                        expected,
                        "Interactions stand outside of functions.",
                    ));
                }
                Arithmetic::Pair(*operator, Box::new(self.read(left)?), Box::new(self.read(right)?))
            }
            Node::Text(_) => return Err(call_error(self.text, expression, "a number", "Text has no arithmetic.")),
            Node::Call { function, arguments } => {
                let call = Call { text: self.text, expression, function, arguments };
                self.call(&call)?
            }
        })
    }

    /// The comparison of a column with a level, `trt == "drug"`.
    fn level(
        &self,
        whole: &Expression,
        comparison: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Result<Arithmetic, FormulaError> {
        let is_same = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        match (&left.node, &right.node) {
            (Node::Name(column), Node::Text(level)) | (Node::Text(level), Node::Name(column)) if is_same => {
                let span = if is_text(right) { left.span.clone() } else { right.span.clone() };
                Ok(Arithmetic::Level { column: column.clone(), span, level: level.clone(), comparison })
            }
            _ => {
                let expected = "a column `==` or `!=` a level in quotation marks";
                Err(call_error(self.text, whole, expected, "Text has no order and no arithmetic."))
            }
        }
    }

    fn call(&self, call: &Call<'_>) -> Result<Arithmetic, FormulaError> {
        match (call.function, Function::named(call.function)) {
            ("I", _) => {
                if let Some(Argument { name: Some(name), value }) = call.arguments.first() {
                    let remedy = format!("To compare write `{name} == {value}`.");
                    return Err(call.refuse(value, "arithmetic without `=`", &remedy));
                }
                let [x] = call.matched(["x"])?;
                self.read(call.first(x)?)
            }
            ("scale", _) => {
                let [x, centre, divide] = call.matched(["x", "center", "scale"])?;
                let of = self.read(call.first(x)?)?;
                if of.scale().is_some() {
                    return Err(call.refuse(call.expression, "`scale` once", "Take the inner or the outer one out."));
                }
                let label = call.expression.to_string();
                let (centre, divide) = (call.logical(centre, true)?, call.logical(divide, true)?);
                Ok(Arithmetic::Scale(Box::new(Scale { label, of, centre, divide })))
            }
            ("log", Some(log)) => {
                let [x, base] = call.matched(["x", "base"])?;
                let log = Arithmetic::Apply(log, Box::new(self.read(call.first(x)?)?));
                let Some(base) = base else { return Ok(log) };
                let number = constant(base).filter(|base| *base > 0.0 && (base - 1.0).abs() > 0.0);
                let number = number.ok_or_else(|| call.refuse(base, "a positive number other than 1", "Write one."))?;
                Ok(Arithmetic::Pair(Operator::Over, Box::new(log), Box::new(Arithmetic::Number(number.ln()))))
            }
            (_, Some(function)) => {
                let [x] = call.matched(["x"])?;
                Ok(Arithmetic::Apply(function, Box::new(self.read(call.first(x)?)?)))
            }
            (name, None) => Err(unknown(self.text, call.expression, name, &ARITHMETIC)),
        }
    }
}

/// The number that R has under this name, unless a column has it.
fn constant_named(name: &str) -> Option<f64> {
    match name {
        "pi" => Some(std::f64::consts::PI),
        "TRUE" => Some(1.0),
        "FALSE" => Some(0.0),
        _ => None,
    }
}

fn is_text(expression: &Expression) -> bool {
    matches!(expression.node, Node::Text(_))
}

impl Arithmetic {
    /// Whether it is true or false, 1 or 0 as a number, as R's comparisons are: as a term it has the levels of a logical.
    pub(crate) fn is_logical(&self) -> bool {
        matches!(self, Self::Pair(Operator::Compare(_), ..) | Self::Level { .. })
    }

    /// The names of these kinds, with their places, in the order of the text.
    fn named(&self, kinds: fn(&Self) -> bool) -> Vec<(String, Span)> {
        match self {
            Self::Minus(of) | Self::Apply(_, of) => of.named(kinds),
            Self::Scale(scale) => scale.of.named(kinds),
            Self::Pair(_, left, right) => left.named(kinds).into_iter().chain(right.named(kinds)).collect(),
            Self::Constant { name, span, .. }
            | Self::Column { name, span }
            | Self::Level { column: name, span, .. }
                if kinds(self) =>
            {
                vec![(name.clone(), span.clone())]
            }
            Self::Number(_) | Self::Constant { .. } | Self::Column { .. } | Self::Level { .. } => Vec::new(),
        }
    }

    /// The columns it computes with, with their places: those of which numbers are needed.
    pub(crate) fn computed(&self) -> Vec<(String, Span)> {
        self.named(|own| matches!(own, Self::Column { .. }))
    }

    /// The columns it needs, with their places.
    pub(crate) fn columns(&self) -> Vec<(String, Span)> {
        self.named(|own| matches!(own, Self::Column { .. } | Self::Level { .. }))
    }

    /// The constants that it has by name, with their places.
    pub(crate) fn constants(&self) -> Vec<(String, Span)> {
        self.named(|own| matches!(own, Self::Constant { .. }))
    }

    /// Every `scale` in it.
    pub(crate) fn scales(&self) -> Vec<&Scale> {
        match self {
            Self::Number(_) | Self::Constant { .. } | Self::Column { .. } | Self::Level { .. } => Vec::new(),
            Self::Minus(of) | Self::Apply(_, of) => of.scales(),
            Self::Scale(scale) => vec![scale],
            Self::Pair(_, left, right) => left.scales().into_iter().chain(right.scales()).collect(),
        }
    }

    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.scales().into_iter().next()
    }

    /// Its value in every row: `column` gives the numbers of a column, `scaled` the mean and the divisor of a `scale`.
    pub(crate) fn values<E>(&self, rows: usize, source: &impl Source<Error = E>) -> Result<Vec<f64>, E> {
        Ok(match self {
            Self::Number(value) | Self::Constant { value, .. } => vec![*value; rows],
            Self::Column { name, span } => source.numbers(name, span)?,
            Self::Minus(of) => map(of.values(rows, source)?, |x| -x),
            Self::Apply(function, of) => map(of.values(rows, source)?, |x| function.of(x)),
            Self::Level { column, level, comparison, .. } => {
                let is_level = source.has_level(column, level)?;
                let of = |has: bool| f64::from(u8::from(has == (*comparison == Comparison::Equal)));
                is_level.into_iter().map(of).collect()
            }
            Self::Scale(scale) => {
                let (centre, divisor) = source.scale(scale)?;
                map(scale.of.values(rows, source)?, |x| (x - centre) / divisor)
            }
            Self::Pair(operator, left, right) => {
                let (left, right) = (left.values(rows, source)?, right.values(rows, source)?);
                let join = |x: f64, y: f64| match operator {
                    Operator::Plus => x + y,
                    Operator::Minus => x - y,
                    Operator::Times => x * y,
                    Operator::Over => x / y,
                    Operator::Compare(comparison) => f64::from(u8::from(comparison.holds(x, y))),
                    // As R does: a square is a product.
                    _ if y - 2.0 == 0.0 => x * x,
                    _ => x.powf(y),
                };
                left.into_iter().zip(right).map(|(x, y)| join(x, y)).collect()
            }
        })
    }
}

fn map(values: Vec<f64>, of: impl Fn(f64) -> f64) -> Vec<f64> {
    values.into_iter().map(of).collect()
}

/// Gives arithmetic its numbers.
pub(crate) trait Source {
    type Error;

    /// The numbers of a column that the formula names at `span`.
    fn numbers(&self, name: &str, span: &Span) -> Result<Vec<f64>, Self::Error>;

    /// For each row whether a column has this level.
    fn has_level(&self, name: &str, level: &str) -> Result<Vec<bool>, Self::Error>;

    /// The number subtracted by a `scale`, and the one it divides by.
    fn scale(&self, scale: &Scale) -> Result<(f64, f64), Self::Error>;
}
