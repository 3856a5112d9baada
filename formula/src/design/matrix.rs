//! Computes the columns of terms as R's `model.matrix` does, and puts the parts of a design together.

use super::block::{Block, Column};
use super::error::DesignError;
use super::evaluate::Evaluation;
use super::outcome::{self, Left, Outcome};
use super::random::RandomDesign;
use crate::agree::Agreement;
use crate::formula::Formula;
use crate::read::Columns;
use crate::term::Terms;

/// Columns of numbers with their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// The names, as R writes them: `(Intercept)`, `smoke1`, `age:smoke1`.
    pub names: Vec<String>,
    /// The numbers, row by row: `[rows, names]`.
    pub values: Vec<f64>,
}

/// What one silo computes with: its rows as the formula and the agreement make them. It stays in the silo.
///
/// # Example
/// ```
/// use partita_formula::{Agreement, Declared, Design, Formula, Frame, MissingCells, Profile, ReadOptions};
/// let formula = Formula::parse("y ~ age * smoke")?;
/// let silo = |name: &str, text: &str| {
///     let frame = Frame::from_bytes(name, text.as_bytes(), ReadOptions::default())?;
///     frame.columns(name, &[&formula], MissingCells::Refuse)
/// };
/// let north = silo("north", "y,age,smoke\n1,7,no\n2,8,yes\n")?;
/// let south = silo("south", "smoke,age,y\nno,9,3\n")?;
/// let declared = Declared::default();
/// let profiles = [&north, &south].map(|columns| Profile::of(&[&formula], columns, &declared));
/// let [Ok(one), Ok(two)] = profiles else { panic!() };
/// let agreement = Agreement::merge(&[one, two], &declared)?;
/// let design = Design::of(&formula, &south, &agreement)?;
/// assert_eq!(design.fixed.names, ["(Intercept)", "age", "smokeyes", "age:smokeyes"]);
/// assert_eq!(design.fixed.values, [1.0, 9.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// The name of the silo.
    pub silo: String,
    /// The line of the silo's file that each row has, from 1.
    pub lines: Vec<u64>,
    /// The place of each row in the silo's file, the first of which is 1: rows that are left out count.
    pub numbers: Vec<usize>,
    /// The number of rows.
    pub rows: usize,
    /// The outcome, unless the formula is without a left side or of a parameter.
    pub outcome: Option<Outcome>,
    /// The number of trials behind each outcome.
    pub trials: Option<Vec<f64>>,
    /// The weight of each row.
    pub weights: Option<Vec<f64>>,
    /// 1 where the event happened at the outcome's time, 0 where the row was censored then.
    pub status: Option<Vec<f64>>,
    /// Where the hazard may change, for a time that `surv` cuts.
    pub cuts: Option<Vec<f64>>,
    /// The columns of the fixed terms.
    pub fixed: Matrix,
    /// The columns of each parameter of the distribution that has a formula of its own, by its name.
    pub parameters: Vec<(String, Matrix)>,
    /// What is added to the linear predictor of each row.
    pub offset: Option<Vec<f64>>,
    /// The random terms.
    pub random: Vec<RandomDesign>,
}

impl Design {
    /// The left side of `formula` over `columns` of one silo, as far as it is known before silos agree: levels are the
    /// silo's own, in its order, and there is no column, no offset and no group.
    ///
    /// # Errors
    /// [`DesignError`], which names the line of the file.
    pub fn left_side(formula: &Formula, columns: &Columns) -> Result<Self, DesignError> {
        let evaluation = Evaluation { formula, columns, agreement: None };
        let nothing = Matrix { names: Vec::new(), values: Vec::new() };
        Self::put_together(&evaluation, nothing, None, Vec::new())
    }

    /// The design of `formula` over `columns` of one silo, given the `agreement` of all.
    ///
    /// # Errors
    /// [`DesignError`], which names the line of the file or what the agreement lacks.
    pub fn of(formula: &Formula, columns: &Columns, agreement: &Agreement) -> Result<Self, DesignError> {
        let evaluation = Evaluation { formula, columns, agreement: Some(agreement) };
        let mut offset: Option<Vec<f64>> = None;
        for variable in &formula.fixed.offsets {
            let values = outcome::numbers(variable, &evaluation)?;
            match &mut offset {
                Some(sum) => sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
                None => offset = Some(values),
            }
        }
        let random = formula.random.iter().map(|term| RandomDesign::of(term, &evaluation));
        let random = random.collect::<Result<Vec<_>, _>>()?;
        let fixed = matrix(&formula.fixed, &evaluation)?;
        Self::put_together(&evaluation, fixed, offset, random)
    }

    fn put_together(
        evaluation: &Evaluation<'_>,
        fixed: Matrix,
        offset: Option<Vec<f64>>,
        random: Vec<RandomDesign>,
    ) -> Result<Self, DesignError> {
        let Evaluation { formula, columns, .. } = *evaluation;
        let left = formula.response.as_ref().map(|response| Left::of(response, evaluation)).transpose()?;
        let Left { outcome, trials, weights, status, cuts } = left.unwrap_or_default();
        let (silo, rows) = (columns.silo.clone(), columns.rows());
        let (lines, numbers) = (columns.lines.clone(), columns.numbers.clone());
        let parameters = Vec::new();
        Ok(Self {
            silo,
            lines,
            numbers,
            rows,
            outcome,
            trials,
            weights,
            status,
            cuts,
            fixed,
            parameters,
            offset,
            random,
        })
    }
}

/// The columns of `terms`.
pub(super) fn matrix(terms: &Terms, evaluation: &Evaluation<'_>) -> Result<Matrix, DesignError> {
    let rows = evaluation.columns.rows();
    let shown = || terms.terms.iter().filter(|term| terms.shows(term));
    let used: std::collections::BTreeSet<usize> = shown().flatten().copied().collect();
    let mut blocks = std::collections::BTreeMap::new();
    for at in used {
        blocks.insert(at, Block::of(&terms.variables[at], evaluation)?);
    }
    let intercept = Column { name: "(Intercept)".into(), values: vec![1.0; rows] };
    let mut columns = if terms.intercept && terms.with.is_none() { vec![intercept] } else { Vec::new() };
    // Of variables that no column is made of the agreement says whether they have levels.
    let has_levels = |at: usize| match (blocks.get(&at), terms.variables.get(at)) {
        (Some(block), _) => block.has_levels(),
        (None, variable) => variable.is_some_and(|own| evaluation.agreed_levels(own)),
    };
    for (term, _) in terms.codings(has_levels).into_iter().zip(&terms.terms).filter(|(_, term)| terms.shows(term)) {
        let mut product: Vec<Column> = Vec::new();
        for (at, coding) in term {
            let factors = blocks.get(&at).map_or_else(|| Ok(Vec::new()), |block| block.columns(coding, evaluation))?;
            product = if product.is_empty() { factors } else { crossed(&product, &factors) };
        }
        columns.extend(product);
    }
    let mut values = vec![0.0; rows * columns.len()];
    let count = columns.len();
    for (place, column) in columns.iter().enumerate() {
        values.iter_mut().skip(place).step_by(count).zip(&column.values).for_each(|(to, value)| *to = *value);
    }
    Ok(Matrix { names: columns.into_iter().map(|column| column.name).collect(), values })
}

/// The products of two lists of columns, those of the first varying fastest.
fn crossed(first: &[Column], second: &[Column]) -> Vec<Column> {
    let times = |one: &Column, two: &Column| Column {
        name: format!("{}:{}", one.name, two.name),
        values: one.values.iter().zip(&two.values).map(|(a, b)| a * b).collect(),
    };
    second.iter().flat_map(|two| first.iter().map(move |one| times(one, two))).collect()
}
