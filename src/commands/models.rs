//! Holds the models that a program has compiled in, each under a name with the format of its data.

use std::error::Error;
use std::fmt;
use std::path::Path;

use partita_core::burn::module::ModuleDisplay;
use partita_core::{Device, Model, Role, SiteTable};
use partita_inference::{
    AnswerDraws, Calibration, CalibrationOptions, CheckReport, PredictiveCheck, Progress, calibrate, check,
};

use super::found::{Found, How, PriorDraws};
use crate::compiled_in::{check_covariates, covariate_names, labelled_data, six_cities_data};
use crate::formula::{SiloTable, nearest};
use crate::models::{BinaryRows, LogisticRegression, MixedLogistic, RepeatedBinary};

/// The models of a program, which `partita fit`, `check` and `calibrate` find by `--model NAME`.
///
/// # Example
/// A program with a model of its own is its `main`. It has all commands of `partita`, of which `fit`, `check` and `calibrate`
/// take the model; `simulate` takes formulas and studies, `silo` and `coordinator` studies and the models of
/// [`crate::compiled_in`].
/// ```
/// use partita::burn::{self, module::Module, tensor::Tensor};
/// use partita::commands::Models;
/// use partita::{Model, Normal, Result, Scope, Table};
///
/// #[derive(Module, Debug)]
/// struct Mean {}
/// impl Model for Mean {
///     type Globals = Tensor<1>;
///     type Data = Tensor<1>;
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 10.0)) }
///     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
///         scope.plate("row", data.dims()[0], |s, rows| s.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?))
///     }
/// }
///
/// let models = Models::usual().with("mean", "the mean of a column `y`", |_: &[(String, Tensor<1>)]| Mean {}, |path, device| {
///     let [y] = Table::from_path(path)?.numbers(["y"])?;
///     let rows = y.len();
///     Ok(device.tensor(y, [rows]))
/// });
/// assert!(models.to_string().contains("mean: the mean of a column `y`"));
/// // fn main() -> std::process::ExitCode { partita::commands::run(&models) }
/// ```
pub struct Models {
    all: Vec<Box<dyn Compiled>>,
}

/// What commands do with a model whose type they do not know.
pub(super) trait Compiled {
    fn name(&self) -> &str;
    fn about(&self) -> &str;
    fn fit(&self, silos: &[SiloTable], how: &How, device: &Device) -> Result<ModelFit, Box<dyn Error>>;
    fn check(&self, silos: &[SiloTable], device: &Device) -> Result<CheckReport, Box<dyn Error>>;
    fn calibrate(
        &self,
        silos: &[SiloTable],
        options: &CalibrationOptions,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Calibration, Box<dyn Error>>;
}

/// A fit, with what needs the type of the model.
pub(super) struct ModelFit {
    pub(super) found: Found,
    pub(super) draws: AnswerDraws,
    /// Draws of every number from its prior.
    pub(super) prior: PriorDraws,
}

/// A model with the format of its data.
struct Entry<M: Model> {
    name: String,
    about: String,
    make: Make<M>,
    load: Load<M>,
    agree: Agree,
}

/// Refuses files of silos that do not fit one another.
type Agree = Box<dyn Fn(&[SiloTable]) -> Result<(), Box<dyn Error>>>;

/// The model for the data of all silos.
type Make<M> = Box<dyn Fn(&[(String, <M as Model>::Data)]) -> M>;
/// What reads the data of a silo.
type Load<M> = Box<dyn Fn(&Path, &Device) -> Result<<M as Model>::Data, Box<dyn Error>>>;
/// A model with the data of all silos.
type Loaded<M> = (M, Vec<(String, <M as Model>::Data)>);

impl<M: Model> Entry<M> {
    fn loaded(&self, silos: &[SiloTable], device: &Device) -> Result<Loaded<M>, Box<dyn Error>> {
        if silos.is_empty() {
            let Self { name, about, .. } = self;
            return Err(format!("no --silo of `{name}`. Its data: {about}").into());
        }
        (self.agree)(silos)?;
        let each = silos.iter().map(|own| Ok((own.name.clone(), (self.load)(&own.path, device)?)));
        let data = each.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        Ok(((self.make)(&data), data))
    }
}

impl<M: Model + ModuleDisplay> Compiled for Entry<M> {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn fit(&self, silos: &[SiloTable], how: &How, device: &Device) -> Result<ModelFit, Box<dyn Error>> {
        let (model, data) = self.loaded(silos, device)?;
        data.iter()
            .try_for_each(|(_, own)| observed_alone(&how.options.checks, &SiteTable::of(&model, device, own)?))?;
        let mut found = Found::of(&model, &data, device, how)?;
        let (draws, prior) = (found.answer_draws(&model, device)?, found.tell_priors(&model, &[], device)?);
        Ok(ModelFit { found, draws, prior })
    }

    fn check(&self, silos: &[SiloTable], device: &Device) -> Result<CheckReport, Box<dyn Error>> {
        let (model, data) = self.loaded(silos, device)?;
        Ok(check(&model, &data, device)?)
    }

    fn calibrate(
        &self,
        silos: &[SiloTable],
        options: &CalibrationOptions,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Calibration, Box<dyn Error>> {
        let (model, data) = self.loaded(silos, device)?;
        Ok(calibrate(&model, &data, device, options, Some(progress))?)
    }
}

/// Refuses checks of what the model does not observe, before it is fitted.
fn observed_alone(checks: &[PredictiveCheck], table: &SiteTable) -> Result<(), Box<dyn Error>> {
    let names = table.sites().iter().filter(|site| site.role == Role::Observed).map(|site| site.name.as_str());
    let names: Vec<&str> = names.collect();
    match checks.iter().find(|own| !names.contains(&own.site.as_str())) {
        None => Ok(()),
        Some(own) => {
            let example = format!("{} of {}", own.statistic, names.first().unwrap_or(&"SITE"));
            let all = names.join(", ");
            Err(format!("--check-rows '{own}': the model observes {all}. Write one of these, as in '{example}'").into())
        }
    }
}

impl Models {
    /// The models of [`crate::compiled_in`] whose rows are at silos: `six-cities` and `logistic-regression`.
    #[must_use]
    pub fn usual() -> Self {
        let columns = |silos: &[(String, BinaryRows)]| {
            // The design has the intercept beside the covariates.
            LogisticRegression::new(silos.first().map_or(0, |(_, rows)| rows.design().shape()[1].saturating_sub(1)))
        };
        let alike = |silos: &[SiloTable]| -> Result<(), Box<dyn Error>> {
            let Some((first, others)) = silos.split_first() else { return Ok(()) };
            let expected = covariate_names(&first.path)?;
            for own in others {
                check_covariates(&own.name, &own.path, &expected, &first.name)?;
            }
            Ok(())
        };
        Self { all: Vec::new() }
            .with(
                "six-cities",
                "a table smoke, age_7, age_8, age_9, age_10 of zeros and ones, a row a child, or example:1, example:2",
                |_: &[(String, RepeatedBinary)]| MixedLogistic::new(4),
                |path, device| Ok(six_cities_data(path, device)?),
            )
            .with_agreeing(
                "logistic-regression",
                "a table with a column label of zeros and ones, the others covariates, alike in all files",
                columns,
                |path, device| Ok(labelled_data(path, device)?.1),
                alike,
            )
    }

    /// The same with a model of your own: its name, its data in words, the model for the data of all silos, and what reads the
    /// data of a silo. It stands in the place of one of the same name.
    #[must_use]
    pub fn with<M: Model + ModuleDisplay>(
        self,
        name: &str,
        data: &str,
        make: impl Fn(&[(String, M::Data)]) -> M + 'static,
        load: impl Fn(&Path, &Device) -> Result<M::Data, Box<dyn Error>> + 'static,
    ) -> Self {
        self.with_agreeing(name, data, make, load, |_| Ok(()))
    }

    /// The same with what refuses files of silos that do not fit one another.
    fn with_agreeing<M: Model + ModuleDisplay>(
        mut self,
        name: &str,
        data: &str,
        make: impl Fn(&[(String, M::Data)]) -> M + 'static,
        load: impl Fn(&Path, &Device) -> Result<M::Data, Box<dyn Error>> + 'static,
        agree: impl Fn(&[SiloTable]) -> Result<(), Box<dyn Error>> + 'static,
    ) -> Self {
        self.all.retain(|own| own.name() != name);
        let (name, about) = (name.to_owned(), data.to_owned());
        let entry: Entry<M> = Entry { name, about, make: Box::new(make), load: Box::new(load), agree: Box::new(agree) };
        self.all.push(Box::new(entry));
        self
    }

    /// The model of this name.
    pub(super) fn named(&self, name: &str) -> Result<&dyn Compiled, String> {
        let found = self.all.iter().find(|own| own.name() == name);
        found.map(|own| &**own).ok_or_else(|| {
            let all: Vec<&str> = self.all.iter().map(|own| own.name()).collect();
            let near = nearest(name, all.iter().copied()).map(|own| format!(" Did you mean `{own}`?"));
            format!("no model is called `{name}`, expected one of {}.{}", all.join(", "), near.unwrap_or_default())
        })
    }
}

impl fmt::Display for Models {
    /// A line for each model.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.iter().try_for_each(|own| writeln!(out, "{}: {}", own.name(), own.about()))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.all.iter().map(|own| own.name())).finish()
    }
}
