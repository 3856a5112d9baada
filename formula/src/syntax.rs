//! Holds the tree that a formula's text becomes: names, numbers, calls and operators, each with its place.

mod deparse;
mod parse;
mod place;

pub(crate) use deparse::{number_text, quoted_name};
pub(crate) use parse::{Sides, parse};
pub use place::Place;

/// The bytes of the formula's text that a node was read from.
pub(crate) type Span = std::ops::Range<usize>;

/// A node of the tree with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub(crate) node: Node,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Number(f64),
    Text(String),
    Name(String),
    Call { function: String, arguments: Vec<Argument> },
    Group(Box<Expression>),
    Sign(Operator, Box<Expression>),
    Pair(Operator, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// What is added and taken away, in order; one part where it is no sum.
    pub(crate) fn parts(&self) -> Vec<(Operator, &Self)> {
        let (mut parts, mut rest) = (Vec::new(), self);
        while let Node::Pair(operator @ (Operator::Plus | Operator::Minus), left, right) = &rest.node {
            parts.push((*operator, right.as_ref()));
            rest = left;
        }
        parts.push((Operator::Plus, rest));
        parts.reverse();
        parts
    }
}

/// An argument of a call, `x` or `df = 4`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<String>,
    pub(crate) value: Expression,
}

/// The operators, from the one that binds last to the one that binds first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operator {
    DoubleBar,
    Bar,
    Compare(Comparison),
    Plus,
    Minus,
    Times,
    Over,
    Within,
    Colon,
    Power,
}

/// The operators that are true or false of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Comparison {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    Greater,
}

impl Comparison {
    /// Whether it is true of two numbers.
    #[expect(clippy::float_cmp, reason = "as R compares numbers")]
    pub(crate) fn holds(self, x: f64, y: f64) -> bool {
        match self {
            Self::Less => x < y,
            Self::AtMost => x <= y,
            Self::Equal => x == y,
            Self::Unequal => x != y,
            Self::AtLeast => x >= y,
            Self::Greater => x > y,
        }
    }

    /// As R writes it between two operands.
    fn written(self) -> &'static str {
        match self {
            Self::Less => " < ",
            Self::AtMost => " <= ",
            Self::Equal => " == ",
            Self::Unequal => " != ",
            Self::AtLeast => " >= ",
            Self::Greater => " > ",
        }
    }
}

impl Operator {
    /// The operator as R writes it between two operands.
    pub(crate) fn written(self) -> &'static str {
        match self {
            Self::DoubleBar => " || ",
            Self::Bar => " | ",
            Self::Compare(comparison) => comparison.written(),
            Self::Plus => " + ",
            Self::Minus => " - ",
            Self::Times => " * ",
            Self::Over => "/",
            Self::Within => " %in% ",
            Self::Colon => ":",
            Self::Power => "^",
        }
    }

    /// How tightly it binds its operands.
    pub(crate) fn power(self) -> i64 {
        match self {
            Self::DoubleBar | Self::Bar => 10,
            Self::Compare(_) => 15,
            Self::Plus | Self::Minus => 20,
            Self::Times | Self::Over => 30,
            Self::Within => 40,
            Self::Colon => 50,
            Self::Power => 70,
        }
    }
}

/// How tightly a sign binds: less than a power, more than `:`.
pub(crate) const SIGN_POWER: i64 = 60;
