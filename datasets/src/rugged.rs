//! Reads the ruggedness and the income of countries: a regression whose slope differs in Africa.

use partita_core::Table;

use crate::dataset::{DatasetError, dataset};

/// A country with the variables of the regression of Nunn and Puga.
#[derive(Debug, Clone, PartialEq)]
pub struct RuggedCountry {
    /// Its name.
    pub name: String,
    /// The natural logarithm of gross domestic product a head in 2000, in dollars at purchasing power parity.
    pub log_gdp: f64,
    /// Whether it lies in Africa.
    pub africa: bool,
    /// The terrain ruggedness index, in hundreds of metres of elevation difference.
    pub ruggedness: f64,
}

/// The data of a regression over some countries, one row a country.
#[derive(Debug, Clone, PartialEq)]
pub struct RuggedColumns {
    /// [`RuggedCountry::covariates`], row by row.
    pub covariates: Vec<f64>,
    /// [`RuggedCountry::log_gdp`].
    pub log_gdp: Vec<f64>,
}

impl RuggedCountry {
    /// The covariates and the outcomes of `countries`.
    #[must_use]
    pub fn columns(countries: &[Self]) -> RuggedColumns {
        RuggedColumns {
            covariates: countries.iter().flat_map(Self::covariates).collect(),
            log_gdp: countries.iter().map(|country| country.log_gdp).collect(),
        }
    }

    /// The covariates beside the intercept: Africa (0 or 1), ruggedness and their product.
    #[must_use]
    pub fn covariates(&self) -> [f64; 3] {
        let africa = f64::from(u8::from(self.africa));
        [africa, self.ruggedness, africa * self.ruggedness]
    }
}

/// The 170 countries, 49 of them African, whose gross domestic product in 2000 is known.
///
/// The file has 234 rows; those with an empty `rgdppc_2000` are left out.
///
/// # Errors
/// As [`Dataset::read`](crate::Dataset::read); [`DatasetError::Data`] and [`DatasetError::Format`] for a file of
/// another form.
///
/// # References
/// Nunn and Puga (2012), Ruggedness: the blessing of bad geography in Africa, Review of Economics and Statistics 94,
/// 20-36.
pub fn rugged() -> Result<Vec<RuggedCountry>, DatasetError> {
    let table = Table::delimited("rugged.csv", &dataset("rugged")?.read()?[..], b';', None)?;
    let [ruggedness, africa] = table.numbers(["rugged", "cont_africa"])?;
    let mut countries = Vec::new();
    for (row, (name, gdp)) in table.text("country")?.into_iter().zip(table.text("rgdppc_2000")?).enumerate() {
        if gdp.is_empty() {
            continue;
        }
        let log_gdp = gdp.parse().map(f64::ln).ok().filter(|log| log.is_finite());
        let log_gdp = log_gdp.ok_or_else(|| {
            DatasetError::format(
                format!("rugged.csv, {name}"),
                format!("rgdppc_2000 {gdp:?}"),
                "a number above zero, or nothing",
            )
        })?;
        let (africa, ruggedness) = (africa[row] > 0.5, ruggedness[row]);
        countries.push(RuggedCountry { name: name.into(), log_gdp, africa, ruggedness });
    }
    Ok(countries)
}
