//! Holds bad input to clear errors: each test names the variant and the words of its message, and nothing panics.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the row that asks for it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::says;
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::{Device, Error, FitOptions, Model, Normal, Result, Scope, Settings, SiteTable, inference};

/// Asserts that a result is an error of this variant, whose message contains each of these words.
macro_rules! refused {
    ($result:expr, $variant:pat, $words:expr) => {{
        let error = $result.map(drop).unwrap_err();
        assert!(matches!(&error, $variant), "{error:?}");
        $crate::says(&error, &$words);
    }};
}

mod checkpoint;
mod data;
mod deadlines;
mod declaration;
mod hostile_messages;
mod message;
mod nesting;
mod parameter;
mod run;
mod setting;
mod transactions;
mod words;

type Global = fn(&mut Scope<'_>) -> Result<Tensor<1>>;
type Local = fn(&mut Scope<'_>, &Tensor<1>, &Tensor<1>) -> Result<()>;

/// A model defined in its test: its two functions, and how often the local one was called.
#[derive(Module, Debug)]
struct Recipe {
    #[module(skip)]
    global: Global,
    #[module(skip)]
    local: Local,
    #[module(skip)]
    calls: Arc<AtomicUsize>,
}

impl Recipe {
    fn new(global: Global, local: Local) -> Self {
        Self { global, local, calls: Arc::default() }
    }

    /// A model whose only global is a standard normal `mu`.
    fn local(local: Local) -> Self {
        Self::new(|scope| scope.sample("mu", Normal::new(0.0, 1.0)), local)
    }

    /// A model without a local part.
    fn global(global: Global) -> Self {
        Self::new(global, |_, _, _| Ok(()))
    }
}

impl Model for Recipe {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        (self.global)(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.local)(scope, mu, data)
    }
}

/// Normal observations around `mu`, one a row.
fn sound() -> Recipe {
    Recipe::local(|scope, mu, data| {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(mu.clone(), 1.0), rows.take(data)?)
        })
    })
}

/// Row effects around `mu`, and normal observations around them.
fn hierarchy() -> Recipe {
    Recipe::local(|scope, mu, data| {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let effect = scope.sample("effect", Normal::new(mu.clone(), 1.0))?;
            scope.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
        })
    })
}

fn vector(values: &[f64]) -> Tensor<1> {
    Device::flex().tensor(values.to_vec(), [values.len()])
}

/// The site table of a model for three rows of data.
fn table(model: &Recipe) -> Result<SiteTable> {
    SiteTable::of(model, &Device::flex(), &vector(&[0.5, -1.0, 2.0]))
}

/// Silos called `a`, `b`, ... with these data.
fn silos(data: &[&[f64]]) -> Vec<(String, Tensor<1>)> {
    ('a'..).zip(data).map(|(name, values)| (name.to_string(), vector(values))).collect()
}

/// A short fit over the silos `a` and `b`.
fn short_fit(model: &Recipe, change: impl Fn(&mut FitOptions)) -> inference::Result<inference::Fit> {
    fit_over(model, &silos(&[&[0.5, -1.0, 2.0], &[1.5, 0.0]]), change)
}

fn fit_over(
    model: &Recipe,
    silos: &[(String, Tensor<1>)],
    change: impl Fn(&mut FitOptions),
) -> inference::Result<inference::Fit> {
    let settings = Settings { steps: 6, ..Settings::default() };
    let mut options = FitOptions { settings, elbo_draws: 4, summary_draws: 4, ..FitOptions::default() };
    change(&mut options);
    partita::fit(model, silos, &Device::flex(), &options, None)
}

/// The model's own error inside a silo's.
fn inner(error: &inference::Error) -> &Error {
    match error {
        inference::Error::InSilo { source, .. } => inner(source),
        inference::Error::Model(error) => error,
        other => panic!("this is no error of the model: {other:?}"),
    }
}

#[test]
fn the_fixtures_themselves_are_sound() {
    for model in [sound(), hierarchy()] {
        table(&model).unwrap();
        let fit = short_fit(&model, |_| {}).unwrap();
        assert!(fit.report.elbo.is_finite());
    }
}
