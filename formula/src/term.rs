//! Expands a sum of terms as R's `terms()` does, and codes factors by contrasts or in full as R does.

use std::collections::{BTreeSet, HashSet};

use crate::error::FormulaError;
use crate::syntax::{Expression, Node, Operator, Place, Span};
use crate::variable::{Variable, call_error, constant};

/// The variables that a term multiplies, by their index.
pub(crate) type Term = BTreeSet<usize>;

/// The most terms that a formula may expand to.
const MOST: usize = 5_000;

/// The terms of one side, in R's order: by the number of variables, then as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    pub(crate) intercept: bool,
    /// In the order in which the text names them.
    pub(crate) variables: Vec<Variable>,
    pub(crate) terms: Vec<Term>,
    /// The arguments of `offset()`.
    pub(crate) offsets: Vec<Variable>,
    /// The column that a term needs to have columns in a design; `None` where all have. Others still say how this term
    /// codes its factors.
    pub(crate) with: Option<String>,
}

/// How a factor is coded in a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// One column fewer than levels: the margin of the term is in the model.
    Contrasts,
    /// One column a level.
    Full,
}

impl Terms {
    /// Expands `expression`; a sum without random terms.
    pub(crate) fn expand(text: &str, expression: &Expression) -> Result<Self, FormulaError> {
        let empty = Self { intercept: true, variables: Vec::new(), terms: Vec::new(), offsets: Vec::new(), with: None };
        let mut expansion = Expansion { text, terms: empty, offset_terms: HashSet::new(), adds: true };
        let found = expansion.read(expression)?;
        let Expansion { mut terms, offset_terms, .. } = expansion;
        terms.terms = found.into_iter().filter(|term| !term.iter().any(|at| offset_terms.contains(at))).collect();
        terms.terms.sort_by_key(BTreeSet::len);
        Ok(terms)
    }

    /// The name of a term.
    pub(crate) fn label(&self, term: &Term) -> String {
        let labels: Vec<&str> =
            term.iter().filter_map(|at| self.variables.get(*at)).map(|v| v.label.as_str()).collect();
        labels.join(":")
    }

    /// The variables that the terms and the offsets need.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Variable> {
        let used: BTreeSet<usize> = self.terms.iter().filter(|term| self.shows(term)).flatten().copied().collect();
        let used = self.variables.iter().enumerate().filter(move |(at, _)| used.contains(at));
        used.map(|(_, variable)| variable).chain(&self.offsets)
    }

    /// Where the text has a term that a column `name` may be of, from the first of its variables to the last, and how many bytes
    /// of the name are those of the variables; `None` where the column is of another.
    pub(crate) fn place_of(&self, term: &Term, name: &str) -> Option<(usize, Span)> {
        let variables = || term.iter().filter_map(|at| self.variables.get(*at));
        let mut rest = name;
        for (place, variable) in variables().enumerate() {
            rest = match place {
                0 => rest.strip_prefix(variable.label.as_str())?,
                _ => rest.split_once(format!(":{}", variable.label).as_str())?.1,
            };
        }
        let start = variables().map(|own| own.span.start).min()?;
        let end = variables().map(|own| own.span.end).max()?;
        Some((variables().map(|own| own.label.len()).sum(), start..end))
    }

    /// Whether a design has the columns of this term.
    pub(crate) fn shows(&self, term: &Term) -> bool {
        let needs = |at: &usize, name: &String| {
            self.variables.get(*at).is_some_and(|own| own.columns().iter().any(|(column, _)| column == name))
        };
        self.with.as_ref().is_none_or(|name| term.iter().any(|at| needs(at, name)))
    }

    /// How each term codes each of its variables, in the order of [`Terms::terms`]; `is_factor` tells which have levels.
    ///
    /// A factor is coded by contrasts if what is left of the term without it is part of an earlier term, and in full
    /// otherwise (`TermCode` of R's `model.c`). Without an intercept, the first factor of the first term that has one is
    /// coded in full (R's `modelmatrix`).
    pub(crate) fn codings(&self, is_factor: impl Fn(usize) -> bool) -> Vec<Vec<(usize, Coding)>> {
        let mut codings: Vec<Vec<(usize, Coding)>> = Vec::new();
        for (index, term) in self.terms.iter().enumerate() {
            let coded = term.iter().map(|at| {
                let rest: Term = term.iter().copied().filter(|other| other != at).collect();
                let margin = rest.is_empty() || self.terms[..index].iter().any(|earlier| rest.is_subset(earlier));
                (*at, if margin { Coding::Contrasts } else { Coding::Full })
            });
            codings.push(coded.collect());
        }
        if !self.intercept
            && let Some(first) = codings.iter_mut().flatten().find(|(at, _)| is_factor(*at))
        {
            first.1 = Coding::Full;
        }
        codings
    }
}

struct Expansion<'a> {
    text: &'a str,
    terms: Terms,
    offset_terms: HashSet<usize>,
    /// Whether a 1 adds the intercept or, after `-`, takes it out.
    adds: bool,
}

impl Expansion<'_> {
    fn read(&mut self, expression: &Expression) -> Result<Vec<Term>, FormulaError> {
        match &expression.node {
            Node::Group(inner) | Node::Sign(Operator::Plus, inner) => self.read(inner),
            Node::Sign(_, inner) => {
                self.removed(inner)?;
                Ok(Vec::new())
            }
            Node::Number(number) => {
                self.intercept(expression, *number)?;
                Ok(Vec::new())
            }
            Node::Name(_) | Node::Call { .. } => Ok(vec![Term::from([self.variable(expression)?])]),
            Node::Text(_) => Err(call_error(self.text, expression, "a term", "Write names of columns without quotes.")),
            Node::Pair(Operator::Plus | Operator::Minus, ..) => self.sum(expression),
            Node::Pair(operator, left, right) => self.pair(expression, *operator, left, right),
        }
    }

    fn sum(&mut self, whole: &Expression) -> Result<Vec<Term>, FormulaError> {
        let mut terms = Vec::new();
        for (operator, part) in whole.parts() {
            if operator == Operator::Minus {
                let out = self.removed(part)?;
                terms.retain(|term| !out.contains(term));
            } else {
                terms.extend(self.read(part)?);
            }
        }
        self.distinct(whole, terms)
    }

    fn pair(
        &mut self,
        whole: &Expression,
        operator: Operator,
        left: &Expression,
        right: &Expression,
    ) -> Result<Vec<Term>, FormulaError> {
        if let Operator::Compare(_) = operator {
            return Err(call_error(
                self.text,
                whole,
                "a term",
                &format!("A comparison stands inside of `I()`: `I({whole})`."),
            ));
        }
        let first = self.read(left)?;
        if operator == Operator::Power {
            return self.power(whole, &first, right);
        }
        let second = self.read(right)?;
        let all = |terms: &[Term]| terms.iter().flatten().copied().collect::<Term>();
        let both = |one: &Term, two: &Term| one.union(two).copied().collect::<Term>();
        let crossed = || first.iter().flat_map(|one| second.iter().map(move |two| both(one, two)));
        let joined: Vec<Term> = match operator {
            Operator::Times => first.iter().chain(&second).cloned().chain(crossed()).collect(),
            Operator::Colon => crossed().collect(),
            Operator::Within => first.iter().map(|one| both(one, &all(&second))).collect(),
            Operator::Over => first.iter().cloned().chain(second.iter().map(|two| both(&all(&first), two))).collect(),
            _ => {
                let remedy = "Write random terms as `(1 + x | group)`.";
                return Err(call_error(self.text, whole, "a term; `|` stands inside of parentheses", remedy));
            }
        };
        self.distinct(whole, joined)
    }

    fn power(&mut self, whole: &Expression, terms: &[Term], exponent: &Expression) -> Result<Vec<Term>, FormulaError> {
        let power = constant(exponent).filter(|power| *power >= 1.0 && power.fract().abs() < f64::EPSILON);
        let power = power.ok_or_else(|| {
            let remedy = "A square of a column is `I(x^2)`.";
            call_error(self.text, exponent, "a whole number from 1", remedy)
        })?;
        let mut result = terms.to_vec();
        // Nothing new can come after as many steps as there are terms.
        for _ in 1..(power as usize).min(terms.len() + 1) {
            let crossed = result.iter().flat_map(|one| terms.iter().map(move |two| one.union(two).copied().collect()));
            result = self.distinct(whole, crossed.collect())?;
        }
        Ok(result)
    }

    fn distinct(&self, at: &Expression, terms: Vec<Term>) -> Result<Vec<Term>, FormulaError> {
        let mut seen = HashSet::new();
        let terms: Vec<Term> = terms.into_iter().filter(|term| seen.insert(term.clone())).collect();
        if terms.len() > MOST {
            return Err(FormulaError::TooManyTerms { place: Place::new(self.text, &at.span), most: MOST });
        }
        Ok(terms)
    }

    /// The terms that a `-` takes out.
    fn removed(&mut self, expression: &Expression) -> Result<Vec<Term>, FormulaError> {
        self.adds = !self.adds;
        let terms = self.read(expression);
        self.adds = !self.adds;
        terms
    }

    fn intercept(&mut self, at: &Expression, number: f64) -> Result<(), FormulaError> {
        self.terms.intercept = match number {
            1.0 => self.adds,
            0.0 => !self.adds,
            _ => {
                let remedy = format!("Arithmetic stands inside of `I()`, as `I({number} * x)`.");
                return Err(call_error(self.text, at, "a term, or 1 or 0 for the intercept", &remedy));
            }
        };
        Ok(())
    }

    /// The index of the variable, which is the one already there if its label is.
    fn variable(&mut self, expression: &Expression) -> Result<usize, FormulaError> {
        let label = expression.to_string();
        if let Some(at) = self.terms.variables.iter().position(|variable| variable.label == label) {
            return Ok(at);
        }
        let at = self.terms.variables.len();
        let variable = match &expression.node {
            Node::Call { function, arguments } if function == "offset" => {
                let inside = match arguments.as_slice() {
                    [argument] => &argument.value,
                    _ => return Err(call_error(self.text, expression, "`offset(x)` with one argument", "")),
                };
                let kind = Variable::arithmetic(self.text, inside)?;
                let variable = Variable { label, span: expression.span.clone(), kind };
                if self.adds {
                    self.terms.offsets.push(variable.clone());
                }
                self.offset_terms.insert(at);
                variable
            }
            _ => Variable::read(self.text, expression)?,
        };
        self.terms.variables.push(variable);
        Ok(at)
    }
}
