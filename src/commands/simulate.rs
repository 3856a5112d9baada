//! Draws a data set from the prior, or at given numbers, and writes it as one CSV file a silo.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;

use super::answers::{made, say_written};
use super::asked::Asked;
use super::fit::say_prepared;
use super::say::say;
use crate::Device;
use crate::executables::questions::write;
use crate::formula::StatedPrior;
use crate::formula::csv::{cell, quoted};

/// What is drawn.
#[derive(Args, Debug)]
#[command(mut_arg("model", |own| own.hide(true)))]
pub(super) struct Options {
    #[command(flatten)]
    asked: Asked,
    /// Holds a number at a value, such as 'smoke = 0.5' or 'sd((Intercept) | child) = 2'; any number of them. What is not held is
    /// drawn from its prior.
    #[arg(long = "at", value_name = "NAME = VALUE")]
    at: Vec<String>,
    /// The folder of the files: NAME.csv for each silo, and truth.csv with the numbers behind them.
    #[arg(long)]
    output: PathBuf,
    /// The seed: another one is another data set.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The file of the numbers behind a data set.
const TRUTH: &str = "truth.csv";

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (mut study, file) = options.asked.study()?;
    for text in &options.at {
        let (name, value) = StatedPrior::parse_value(text)?;
        study.priors.insert(name, value);
    }
    made(Some(&options.output))?;
    let device = Device::flex();
    let prepared = study.prepare(&options.asked.tables(file.as_ref())?, &device)?;
    say_prepared(&prepared)?;
    let drawn = prepared.simulate(options.seed, &device)?;
    say("")?;
    drawn.truth.iter().try_for_each(|(name, value)| say(format_args!("{name} = {value:.6}")))?;
    let line = |(name, value): &(String, f64)| format!("{},{}\n", quoted(name), cell(*value));
    let truth: String = drawn.truth.iter().map(line).collect();
    let mut files = vec![TRUTH.to_owned()];
    write(&options.output, TRUTH, &format!("name,value\n{truth}"))?;
    for (silo, text) in &drawn.files {
        let name = format!("{silo}.csv");
        write(&options.output, &name, text)?;
        files.push(name);
    }
    say_written(&files.iter().map(String::as_str).collect::<Vec<_>>(), &options.output)
}
