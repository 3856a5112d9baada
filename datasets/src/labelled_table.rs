//! Holds a table of numbers and categories with a yes-or-no label, and encodes parts of it as covariates.

use partita_core::{DataError, Key, Noise, Purpose, Table};

use crate::dataset::DatasetError;

/// A table of numeric and categorical columns with a label for each row, before any scaling.
///
/// # Example
/// ```
/// use partita_core::Noise;
/// use partita_datasets::{Column, LabelledTable, Standardisation};
/// let age = Column::numeric("age", vec![20.0, 30.0, 40.0, 50.0]);
/// let city = Column::categorical("city", &["Bern", "Basel", "Bern", "Bern"]);
/// let table = LabelledTable::new(vec![age, city], vec![true, false, false, true])?;
/// let [train, test] = table.split(0.75, Standardisation::TrainingRows, &Noise::new(1))?;
/// assert_eq!(train.names(), ["age", "city = Basel", "city = Bern"]);
/// assert_eq!((train.rows(), test.rows()), (3, 1));
/// assert!(train.inputs().iter().step_by(3).sum::<f64>().abs() < 1e-12); // ages of training rows have mean 0
/// # Ok::<(), partita_datasets::DatasetError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledTable {
    columns: Vec<Column>,
    labels: Vec<bool>,
}

/// One column of a [`LabelledTable`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    name: String,
    cells: Cells,
}

#[derive(Debug, Clone, PartialEq)]
enum Cells {
    Numeric(Vec<f64>),
    /// The levels in ascending order, and for each row the index of its own.
    Categorical(Vec<String>, Vec<usize>),
}

/// Which rows give the means and standard deviations by which numeric columns are standardised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standardisation {
    /// Those of the training part alone: the test rows stay unseen. Use this by default.
    TrainingRows,
    /// All rows, including the test part, as in the PVI paper's experiments: a small leak, for comparison with them.
    AllRows,
}

/// Rows of covariates with a yes-or-no label each, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct CovariateRows {
    names: Vec<String>,
    inputs: Vec<f64>,
    labels: Vec<bool>,
}

impl Column {
    /// A column of numbers.
    #[must_use]
    pub fn numeric(name: &str, values: Vec<f64>) -> Self {
        Self { name: name.into(), cells: Cells::Numeric(values) }
    }

    /// A column of categories; its levels are the distinct texts in ascending order.
    #[must_use]
    pub fn categorical(name: &str, cells: &[&str]) -> Self {
        let mut levels = cells.to_vec();
        levels.sort_unstable();
        levels.dedup();
        let codes = cells.iter().map(|cell| levels.partition_point(|level| level < cell)).collect();
        let levels = levels.into_iter().map(String::from).collect();
        Self { name: name.into(), cells: Cells::Categorical(levels, codes) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        match &self.cells {
            Cells::Numeric(values) => values.len(),
            Cells::Categorical(_, codes) => codes.len(),
        }
    }

    /// The names of the covariates that the column becomes: itself, or one for each level.
    fn covariates(&self) -> Vec<String> {
        match &self.cells {
            Cells::Numeric(_) => vec![self.name.clone()],
            Cells::Categorical(levels, _) => levels.iter().map(|level| format!("{} = {level}", self.name)).collect(),
        }
    }
}

impl LabelledTable {
    /// A table of `columns` with a label for each row.
    ///
    /// # Errors
    /// [`DatasetError::Format`] without columns or rows, or for a column without one cell for each label.
    pub fn new(columns: Vec<Column>, labels: Vec<bool>) -> Result<Self, DatasetError> {
        let lengths: Vec<usize> = columns.iter().map(Column::len).collect();
        if labels.is_empty() || lengths.is_empty() || lengths.iter().any(|length| *length != labels.len()) {
            return Err(DatasetError::format(
                "a labelled table",
                format!("{} labels and columns of {lengths:?} cells", labels.len()),
                "at least one row and column, and one cell a label",
            ));
        }
        Ok(Self { columns, labels })
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The label of each row.
    #[must_use]
    pub fn labels(&self) -> &[bool] {
        &self.labels
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The tables of parties that divide the columns: the first `counts[0]` of them, the next `counts[1]`, and so on.
    ///
    /// Each part has all rows in the same order, and all labels: remove them for parties that must not know them.
    ///
    /// # Errors
    /// [`DatasetError::Format`] unless each party gets a column and the counts add to the number of columns.
    ///
    /// # Example
    /// ```
    /// use partita_datasets::{Column, LabelledTable};
    /// let columns = ["a", "b", "c"].map(|name| Column::numeric(name, vec![1.0, 2.0])).to_vec();
    /// let parties = LabelledTable::new(columns, vec![true, false])?.by_columns(&[1, 2])?;
    /// assert_eq!(parties[1].columns()[0].name(), "b");
    /// # Ok::<(), partita_datasets::DatasetError>(())
    /// ```
    pub fn by_columns(&self, counts: &[usize]) -> Result<Vec<Self>, DatasetError> {
        if counts.contains(&0) || counts.iter().sum::<usize>() != self.columns.len() {
            return Err(DatasetError::format(
                "columns of parties",
                format!("counts {counts:?} of {} columns", self.columns.len()),
                "one column a party or more, and every column with one party",
            ));
        }
        let mut rest = self.columns.as_slice();
        let mut part = |count: &usize| {
            let (own, others) = rest.split_at(*count);
            rest = others;
            Self { columns: own.to_vec(), labels: self.labels.clone() }
        };
        Ok(counts.iter().map(&mut part).collect())
    }

    /// Splits the rows at random into a training part of `fraction` of them, rounded down, and a test part, both
    /// encoded.
    ///
    /// Numeric columns are standardised by means and standard deviations (divisor the number of rows) of the rows that
    /// `standardisation` names; a categorical column becomes one covariate of zeros and ones for each level of the
    /// whole table. In a federation these means and deviations are sums over all silos: silos that may not share them
    /// must standardise by public numbers instead.
    ///
    /// # Laws
    /// Every row is in one of the two parts, in ascending order; equal seeds give equal parts.
    ///
    /// # Errors
    /// [`DatasetError::Data`] if a part would be empty, and as [`LabelledTable::encode`].
    pub fn split(
        &self,
        fraction: f64,
        standardisation: Standardisation,
        noise: &Noise,
    ) -> Result<[CovariateRows; 2], DatasetError> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "numbers of rows are far below 2^52; a fraction that is none is refused below"
        )]
        let count = (self.rows() as f64 * fraction * (1.0 + 4.0 * f64::EPSILON)).floor() as usize;
        if count == 0 || count >= self.rows() {
            return Err(DatasetError::Data(DataError::Argument {
                operation: "splitting a table into training and test rows",
                argument: "the fraction of training rows",
                found: fraction.to_string(),
                expected: "a number between 0 and 1 that leaves rows in both parts",
            }));
        }
        let mut train: Vec<usize> = (0..self.rows()).collect();
        noise.stream(Key::new(Purpose::Partition, SPLIT)).shuffle(&mut train);
        let mut test = train.split_off(count);
        train.sort_unstable();
        test.sort_unstable();
        let all: Vec<usize> = (0..self.rows()).collect();
        let reference = match standardisation {
            Standardisation::TrainingRows => &train,
            Standardisation::AllRows => &all,
        };
        Ok([self.encode(&train, reference)?, self.encode(&test, reference)?])
    }

    /// Encodes `rows`, with numeric columns standardised by the means and standard deviations of the rows `reference`.
    ///
    /// # Errors
    /// [`DatasetError::Index`] for an index out of range; [`DatasetError::Format`] for a numeric column that is
    /// constant in `reference`.
    pub fn encode(&self, rows: &[usize], reference: &[usize]) -> Result<CovariateRows, DatasetError> {
        if let Some(&index) = rows.iter().chain(reference).find(|&&row| row >= self.rows()) {
            return Err(DatasetError::Index { operation: "encoding rows of a table", index, count: self.rows() });
        }
        let names: Vec<String> = self.columns.iter().flat_map(Column::covariates).collect();
        let mut inputs = vec![0.0; rows.len() * names.len()];
        let mut place = 0;
        for column in &self.columns {
            let own = inputs.chunks_exact_mut(names.len()).zip(rows);
            match &column.cells {
                Cells::Numeric(values) => {
                    let [mean, deviation] = moments(&column.name, values, reference)?;
                    own.for_each(|(inputs, row)| inputs[place] = (values[*row] - mean) / deviation);
                    place += 1;
                }
                Cells::Categorical(levels, codes) => {
                    own.for_each(|(inputs, row)| inputs[place + codes[*row]] = 1.0);
                    place += levels.len();
                }
            }
        }
        Ok(CovariateRows { names, inputs, labels: rows.iter().map(|row| self.labels[*row]).collect() })
    }
}

/// The step of the key of random splits: partitions among silos use the first ones.
const SPLIT: u64 = u64::MAX;

#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 rows")]
fn moments(name: &str, values: &[f64], rows: &[usize]) -> Result<[f64; 2], DatasetError> {
    let count = rows.len() as f64;
    let mean = rows.iter().map(|row| values[*row]).sum::<f64>() / count;
    let variance = rows.iter().map(|row| (values[*row] - mean).powi(2)).sum::<f64>() / count;
    if variance > 0.0 && variance.is_finite() {
        return Ok([mean, variance.sqrt()]);
    }
    Err(DatasetError::format(
        format!("column `{name}`"),
        format!("variance {variance} in the {} rows to standardise by", rows.len()),
        "a finite number > 0; leave a constant column out",
    ))
}

/// The table with the column `label` as label; `values` are its texts for no and for yes.
pub(crate) fn labelled(
    name: &str,
    table: &Table,
    numeric: &[&str],
    label: &str,
    values: [&[&str]; 2],
) -> Result<LabelledTable, DatasetError> {
    let mut columns = Vec::new();
    for column in table.names().iter().filter(|column| *column != label) {
        columns.push(if numeric.contains(&column.as_str()) {
            let [values] = table.numbers([column.as_str()])?;
            Column::numeric(column, values)
        } else {
            Column::categorical(column, &table.text(column)?)
        });
    }
    let mut labels = Vec::with_capacity(table.rows());
    for text in table.text(label)? {
        match values.iter().position(|texts| texts.contains(&text)) {
            Some(value) => labels.push(value == 1),
            None => {
                return Err(DatasetError::format(
                    format!("label of {name}"),
                    format!("{text:?}"),
                    format!("one of {:?}", values.concat()),
                ));
            }
        }
    }
    LabelledTable::new(columns, labels)
}

impl CovariateRows {
    /// Rows of covariates that need no further encoding.
    ///
    /// # Shapes
    /// `inputs`: `[rows, names]`, row by row; `labels`: `[rows]`.
    ///
    /// # Errors
    /// [`DatasetError::Format`] if these shapes disagree.
    pub fn new(names: Vec<String>, inputs: Vec<f64>, labels: Vec<bool>) -> Result<Self, DatasetError> {
        if names.len().checked_mul(labels.len()) == Some(inputs.len()) {
            return Ok(Self { names, inputs, labels });
        }
        Err(DatasetError::format(
            "encoded rows",
            format!("{} inputs, {} names and {} labels", inputs.len(), names.len(), labels.len()),
            "one input for each name and label",
        ))
    }

    /// The names of the covariates.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The covariates, `[rows, columns]`, row by row.
    #[must_use]
    pub fn inputs(&self) -> &[f64] {
        &self.inputs
    }

    /// The label of each row.
    #[must_use]
    pub fn labels(&self) -> &[bool] {
        &self.labels
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The number of covariates.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// The share of rows whose label is positive; NaN without rows.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 rows")]
    pub fn positive_share(&self) -> f64 {
        self.labels.iter().filter(|label| **label).count() as f64 / self.rows() as f64
    }

    /// These rows, in this order, for example those of a silo.
    ///
    /// # Errors
    /// [`DatasetError::Index`] for an index out of range.
    pub fn select(&self, rows: &[usize]) -> Result<Self, DatasetError> {
        if let Some(&index) = rows.iter().find(|&&row| row >= self.rows()) {
            return Err(DatasetError::Index { operation: "selecting rows", index, count: self.rows() });
        }
        let columns = self.columns();
        let row = |row: &usize| &self.inputs[row * columns..(row + 1) * columns];
        Ok(Self {
            names: self.names.clone(),
            inputs: rows.iter().flat_map(row).copied().collect(),
            labels: rows.iter().map(|row| self.labels[*row]).collect(),
        })
    }
}
