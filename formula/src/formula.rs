//! A formula as its author means it: an outcome or a parameter, fixed terms in R's order, random terms as in lme4.

use std::fmt::{Display, Formatter};

use crate::error::FormulaError;
use crate::random::{self, Grouping, RandomTerm};
use crate::response::Response;
use crate::syntax::{self, Expression, Node, Place, Sides, Span};
use crate::term::Terms;
use crate::variable::{Knots, Variable, VariableKind, call_error};

/// A Wilkinson–Rogers formula, as users of R's lme4 and brms write it.
///
/// # Example
/// ```
/// use partita_formula::Formula;
/// let formula = Formula::parse("wheeze ~ smoke * age + (1 | child)")?;
/// assert_eq!(formula.term_labels(), ["smoke", "age", "smoke:age"]);
/// assert_eq!(formula.random_labels(), ["1 | child"]);
/// assert!(formula.has_intercept());
/// # Ok::<(), partita_formula::FormulaError>(())
/// ```
///
/// # References
/// G. N. Wilkinson and C. E. Rogers, "Symbolic description of factorial models for analysis of variance", 1973.
/// D. Bates, M. Mächler, B. Bolker and S. Walker, "Fitting linear mixed-effects models using lme4", 2015, section 2.1.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    text: String,
    pub(crate) response: Option<Response>,
    parameter: Option<String>,
    pub(crate) fixed: Terms,
    pub(crate) random: Vec<RandomTerm>,
}

impl Formula {
    /// Reads `text`: `outcome ~ terms`, or `~ terms` without an outcome.
    ///
    /// # Errors
    /// [`FormulaError`], whose place and text say what to write instead.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let Sides { left, right } = syntax::parse(text)?;
        let response = left.as_ref().map(|left| Response::read(text, left)).transpose()?;
        let formula = Self::of(text, &right, response, None)?;
        formula.outcome_is_not_a_term()?;
        Ok(formula)
    }

    /// Reads the formula of a parameter of the distribution, `sigma ~ terms`.
    ///
    /// # Errors
    /// As [`Formula::parse`], and if the left side is not one name.
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// let formula = Formula::parse_parameter("sigma ~ 0 + site")?;
    /// assert_eq!(formula.parameter(), Some("sigma"));
    /// assert_eq!(formula.term_labels(), ["site"]);
    /// # Ok::<(), partita_formula::FormulaError>(())
    /// ```
    pub fn parse_parameter(text: &str) -> Result<Self, FormulaError> {
        let Sides { left, right } = syntax::parse(text)?;
        let expected = "the name of a parameter before `~`";
        match left.as_ref().map(|left| (&left.node, left)) {
            Some((Node::Name(name), _)) => Self::of(text, &right, None, Some(name.clone())),
            Some((_, other)) => Err(call_error(text, other, expected, "Write `sigma ~ x`.")),
            None => Err(call_error(text, &right, expected, "Write `sigma ~ x`.")),
        }
    }

    fn of(
        text: &str,
        right: &Expression,
        response: Option<Response>,
        parameter: Option<String>,
    ) -> Result<Self, FormulaError> {
        let split = random::split(text, right)?;
        let nothing = Expression { node: Node::Number(1.0), span: right.span.clone() };
        let fixed = Terms::expand(text, split.fixed.as_ref().unwrap_or(&nothing))?;
        Ok(Self { text: text.into(), response, parameter, fixed, random: split.random })
    }

    fn outcome_is_not_a_term(&self) -> Result<(), FormulaError> {
        let label = self.response.as_ref().map(|response| response.outcome.label.as_str());
        match self.fixed.used().find(|variable| Some(variable.label.as_str()) == label) {
            None => Ok(()),
            Some(variable) => Err(FormulaError::Meaning {
                place: self.place(&variable.span),
                found: format!("the outcome `{}` among the terms", variable.label),
                expected: "other columns".into(),
                remedy: "Take it out of one side.".into(),
            }),
        }
    }

    /// The formula without its outcome, for new rows that have none: groups that silos did not agree on follow those that
    /// they did in [`crate::RandomDesign::levels`].
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// let formula = Formula::parse("y | weights(w) ~ age")?.without_outcome();
    /// assert_eq!(formula.columns(), ["age"]);
    /// # Ok::<(), partita_formula::FormulaError>(())
    /// ```
    #[must_use]
    pub fn without_outcome(mut self) -> Self {
        self.response = None;
        self
    }

    /// The formula with the values of its outcome read as levels, whatever the column holds.
    #[must_use]
    pub fn with_levels_of_outcome(mut self) -> Self {
        self.response = self.response.map(Response::of_levels);
        self
    }

    /// Whether the formula states the levels of its outcome in order, `factor(y, levels = c("low", "high"))`.
    #[must_use]
    pub fn states_levels_of_outcome(&self) -> bool {
        let kind = self.response.as_ref().map(|own| &own.outcome.kind);
        matches!(kind, Some(VariableKind::Factor { levels: Some(_), .. }))
    }

    /// The formula with the time of `surv()` cut into pieces of about as many events each, unless it says where.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Agreement, Declared, Design, Formula, Frame, MissingCells, Profile, ReadOptions};
    /// let formula = Formula::parse("surv(time, status) ~ 1")?.with_pieces(2);
    /// let frame = Frame::from_bytes("north.csv", b"time,status\n1,1\n9,0\n2,1\n5,1\n", ReadOptions::default())?;
    /// let columns = frame.columns("north", &[&formula], MissingCells::Refuse)?;
    /// let profile = Profile::of(&[&formula], &columns, &Declared::default())?;
    /// let agreement = Agreement::merge(&[profile], &Declared::default())?;
    /// // The median of the times at which events happened.
    /// assert_eq!(Design::of(&formula, &columns, &agreement)?.cuts, Some(vec![2.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_pieces(mut self, pieces: usize) -> Self {
        if let Some(response) = self.response.as_mut().filter(|own| own.status.is_some()) {
            response.cuts.get_or_insert(Knots::AtQuantiles(pieces.saturating_sub(1)));
        }
        self
    }

    /// The fixed terms and the offsets in which `column` stands, without outcome, intercept and random terms: a design of it
    /// has the columns that change with `column`, named and coded as in the whole formula. `None` where no fixed term has it.
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// let formula = Formula::parse("y ~ smoke * log(age) + sex + offset(pop) + (1 | child)")?;
    /// let part = formula.terms_with("smoke").ok_or("it has terms")?;
    /// assert_eq!(part.columns(), ["smoke", "age"]);
    /// assert!(formula.terms_with("child").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn terms_with(&self, column: &str) -> Option<Self> {
        let mut own = Self { response: None, random: Vec::new(), ..self.clone() };
        own.fixed.with = Some(column.into());
        own.fixed.offsets.retain(|offset| offset.columns().iter().any(|(name, _)| name == column));
        own.fixed.terms.iter().any(|term| own.fixed.shows(term)).then_some(own)
    }

    /// The parameter on its left side, of a formula read by [`Formula::parse_parameter`].
    #[must_use]
    pub fn parameter(&self) -> Option<&str> {
        self.parameter.as_deref()
    }

    /// Whether groups are of this column, as those of `g` in `(1 | g)`.
    #[must_use]
    pub fn is_grouping(&self, column: &str) -> bool {
        self.groupings().any(|own| own.has(column))
    }

    /// Whether rows have weights, `y | weights(w)`.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        self.response.as_ref().is_some_and(|own| own.weights.is_some())
    }

    /// The outcome as R writes it.
    #[must_use]
    pub fn outcome(&self) -> Option<&str> {
        self.response.as_ref().map(|response| response.outcome.label.as_str())
    }

    /// The column that the outcome is, as it stands or as levels; `None` where it is computed from columns.
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// assert_eq!(Formula::parse("factor(pain) ~ age")?.outcome_column(), Some("pain"));
    /// assert_eq!(Formula::parse("log(dose) ~ age")?.outcome_column(), None);
    /// assert_eq!(Formula::parse("surv(time, died) ~ age")?.outcome_column(), Some("time"));
    /// # Ok::<(), partita_formula::FormulaError>(())
    /// ```
    #[must_use]
    pub fn outcome_column(&self) -> Option<&str> {
        let outcome = &self.response.as_ref()?.outcome;
        match &outcome.kind {
            VariableKind::Column(column) | VariableKind::Factor { column, .. } => Some(column),
            // A number that is computed of a column alone is the column.
            _ => (outcome.columns().first()?.0 == outcome.label).then_some(outcome.label.as_str()),
        }
    }

    /// The columns of which the status of survival is computed; none where no time is censored.
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// assert_eq!(Formula::parse("surv(time, status - 1) ~ age")?.status_columns(), ["status"]);
    /// assert!(Formula::parse("time ~ age")?.status_columns().is_empty());
    /// # Ok::<(), partita_formula::FormulaError>(())
    /// ```
    #[must_use]
    pub fn status_columns(&self) -> Vec<String> {
        let status = self.response.as_ref().and_then(|own| own.status.as_ref());
        status.into_iter().flat_map(|own| own.columns()).map(|(name, _)| name).collect()
    }

    /// The names of the fixed terms in R's order, without the intercept.
    #[must_use]
    pub fn term_labels(&self) -> Vec<String> {
        self.fixed.terms.iter().map(|term| self.fixed.label(term)).collect()
    }

    /// Whether the fixed terms have an intercept.
    #[must_use]
    pub fn has_intercept(&self) -> bool {
        self.fixed.intercept
    }

    /// The random terms, `a/b` expanded to `b:a` and `a`.
    #[must_use]
    pub fn random_labels(&self) -> Vec<String> {
        self.random.iter().map(|term| term.label.clone()).collect()
    }

    /// The grouping of each random term, in the order of [`Formula::random_labels`].
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Grouping};
    /// let formula = Formula::parse("y ~ (1 + x || class/child)")?;
    /// let labels: Vec<String> = formula.groupings().map(Grouping::label).collect();
    /// assert_eq!(labels, ["child:class", "class"]);
    /// assert!(formula.groupings().all(|own| own.has("class")));
    /// # Ok::<(), partita_formula::FormulaError>(())
    /// ```
    pub fn groupings(&self) -> impl Iterator<Item = &Grouping> {
        self.random.iter().map(|term| &term.grouping)
    }

    /// The columns that it needs, once each, in the order of the text.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for (name, _) in self.places() {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    /// The place of the fixed term that has the column `name` of a design, from the first of its variables to the last; `None` of
    /// the intercept, and where no term has it.
    ///
    /// # Example
    /// ```
    /// use partita_formula::Formula;
    /// let formula = Formula::parse("y ~ log(age) + sex")?;
    /// let place = formula.place_of_column("sexmale").ok_or("a term has it")?;
    /// assert_eq!(place.to_string(), "  y ~ log(age) + sex\n                 ^^^");
    /// assert!(formula.place_of_column("(Intercept)").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn place_of_column(&self, name: &str) -> Option<Place> {
        let places = self.fixed.terms.iter().filter_map(|term| self.fixed.place_of(term, name));
        // Of `sex` and `sexual` the longer one has the column `sexual`.
        places.max_by_key(|(bytes, _)| *bytes).map(|(_, span)| self.place(&span))
    }

    /// Every use of a column, with its place.
    pub(crate) fn places(&self) -> Vec<(String, Span)> {
        let mut places: Vec<(String, Span)> = self.variables().flat_map(Variable::columns).collect();
        places.extend(self.random.iter().flat_map(|term| term.grouping.columns.clone()));
        places.sort_by_key(|(_, span)| span.start);
        places
    }

    /// Every variable of outcome, fixed and random terms.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable> {
        let response = self.response.iter().flat_map(Response::variables);
        response.chain(self.fixed.used()).chain(self.random.iter().flat_map(|term| term.terms.used()))
    }

    pub(crate) fn place(&self, span: &Span) -> Place {
        Place::new(&self.text, span)
    }

    /// Whether the column `name` is read as levels at `span` of the text, whatever it holds.
    pub(crate) fn reads_levels(&self, name: &str) -> bool {
        let factor = |variable: &Variable| match &variable.kind {
            VariableKind::Column(_) => false,
            VariableKind::Factor { column, .. } => column == name,
            // Of a column that is needed and not computed with the formula compares the levels.
            _ => variable.columns().iter().any(|own| own.0 == name && !variable.computed().contains(own)),
        };
        self.is_grouping(name) || self.variables().any(factor)
    }
}

impl Display for Formula {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}
