//! Writes what a fit has to say: report, draws, and predictions.

use std::error::Error;
use std::path::Path;

use partita::formula::{Contrasted, Prediction, Prepared, SiloTable, Study, Whose};
use partita::inference::{AnswerDraws, HtmlOptions, write_atomically};
use partita::{Device, Fit};

use crate::fit::{Options, named};

/// A fit with all that its questions need.
pub(crate) struct Answers<'a> {
    pub(crate) options: &'a Options,
    pub(crate) study: &'a Study,
    pub(crate) prepared: &'a Prepared,
    pub(crate) fit: Fit,
    pub(crate) device: &'a Device,
}

impl Answers<'_> {
    pub(crate) fn write(mut self) -> Result<(), Box<dyn Error>> {
        let draws = self.fit.answer_draws(&self.prepared.plan.model, self.device)?;
        let of = |one| self.study.contrast(one, &draws, self.prepared, self.device);
        let contrasts = self.options.contrasts.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        if !contrasts.is_empty() {
            println!();
            contrasts.iter().for_each(|own| println!("{own}"));
        }
        let Some(folder) = &self.options.output else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        let mut written = self.report(folder, &draws)?;
        if !contrasts.is_empty() {
            write_atomically(&folder.join("contrasts.csv"), Contrasted::csv(&contrasts).as_bytes())?;
            written.push("contrasts.csv");
        }
        if self.options.arviz {
            self.arviz(&folder.join("draws.zarr"))?;
            written.push("draws.zarr");
        }
        if !self.options.predict.is_empty() {
            let all = self.options.predict.iter().map(|text| self.predict(text)).collect::<Result<Vec<_>, _>>()?;
            write_atomically(&folder.join("predicted.csv"), Prediction::csv(&all).as_bytes())?;
            written.push("predicted.csv");
        }
        if self.options.fitted {
            let silos = self.prepared.silos.iter().enumerate();
            let one = |(place, (name, _)): (usize, &(String, _))| {
                Ok((name.clone(), self.prepared.fitted(place, &mut self.fit, self.device)?))
            };
            let all = silos.map(one).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
            write_atomically(&folder.join("fitted.csv"), Prediction::csv(&all).as_bytes())?;
            written.push("fitted.csv");
        }
        let (last, others) = written.split_last().ok_or("no file was written")?;
        println!("\n{} and {last} are in {}", others.join(", "), folder.display());
        Ok(())
    }

    /// Report and draws; the names of the files.
    fn report(&self, folder: &Path, draws: &AnswerDraws) -> Result<Vec<&'static str>, Box<dyn Error>> {
        let Self { options, prepared, fit, device, .. } = self;
        let prior = fit.prior(&prepared.plan.model, device)?;
        let page = HtmlOptions { title: options.formula.clone(), effects: prepared.plan.effects.clone(), prior };
        fit.write_html(&folder.join("report.html"), &page)?;
        fit.report.write_json(&folder.join("result.json"))?;
        write_atomically(&folder.join("posterior.csv"), posterior(draws).as_bytes())?;
        Ok(vec!["report.html", "result.json", "posterior.csv"])
    }

    #[cfg(feature = "arviz")]
    fn arviz(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        use partita::inference::{ArvizOptions, ExistingFile};
        let how = ArvizOptions { existing: ExistingFile::Replace, ..ArvizOptions::default() };
        Ok(self.fit.write_arviz(path, &self.prepared.plan.model, self.device, &how)?)
    }

    #[cfg(not(feature = "arviz"))]
    #[expect(clippy::unused_self, reason = "with the feature it writes the fit")]
    fn arviz(&self, _: &Path) -> Result<(), Box<dyn Error>> {
        Err("this program was built without files for ArviZ: install it with --features cli,arviz, or leave --arviz out"
            .into())
    }

    /// Predicts the rows of `FILE`, or of `NAME=FILE` as those of a silo.
    fn predict(&mut self, text: &str) -> Result<(String, Prediction), Box<dyn Error>> {
        let (name, path) = named(text);
        let silos = &self.prepared.silos;
        let whose = match &name {
            Some(name) => {
                let place = silos.iter().position(|(own, _)| own == name).ok_or_else(|| {
                    let all: Vec<&str> = silos.iter().map(|(own, _)| own.as_str()).collect();
                    format!(
                        "prediction: no silo is called `{name}`, expected one of {}. Leave `{name}=` out for rows of a silo \
                         never seen",
                        all.join(", ")
                    )
                })?;
                Whose::Silo(place)
            }
            None if silos.len() == 1 => Whose::Silo(0),
            None => Whose::New,
        };
        let table = SiloTable { name: name.unwrap_or_else(|| "new".into()), path };
        let found = self.study.predict(&table, whose, self.prepared, &mut self.fit, self.device)?;
        Ok((text.to_owned(), found))
    }
}

/// Draws of the answer, one a line.
fn posterior(draws: &AnswerDraws) -> String {
    let all = &draws.natural;
    let quoted = |label: &String| format!("\"{}\"", label.replace('"', "\"\""));
    let header: Vec<String> = all.iter().map(|(_, label, _)| quoted(label)).collect();
    let line = |draw: usize| all.iter().map(|(_, _, own)| own[draw].to_string()).collect::<Vec<_>>().join(",");
    [header.join(",")].into_iter().chain((0..draws.latents.len()).map(line)).collect::<Vec<_>>().join("\n") + "\n"
}
