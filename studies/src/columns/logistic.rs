//! Repeats the logistic regression of the vertical paper: three models by three algorithms, over two and ten parties.
//!
//! ```sh
//! cargo run --release -p partita-studies -- vertical_logistic
//! ```
//!
//! What you should see: posteriors of the augmented-variable and the power-likelihood model, for two parties with ten
//! columns each and ten parties with two, and for ρ of 0.5, 1 and 2. Each is fitted by the no-U-turn sampler, by
//! mean-field and by amortised auxiliary variables; beside them stands the true model by the sampler and by variational
//! inference. The table has the bound, the first coefficient, and the distance of the posteriors of all coefficients
//! from those of the sampler on the same model. Then the claims of the paper, each met or not met within tolerances in
//! the code. `--quick` shows that it runs. Times and numbers: `docs/src/study-vertical.md`.
//!
//! Source: Hassan, Sutton, Mira and Mengersen (2024), section 5.1, Figures 2 and 3.

mod claims;
mod study;
mod world;

use clap::Args;
use partita::inference::plot::Density;
use partita::inference::{Panel, plot};
use serde_json::json;

use crate::harness::{Claims, Result, Session, Shared};
use crate::pictures;
use study::{Algorithm, Found, Statement, Study};
use world::World;

/// Logistic regression with columns at several parties, by three models and three algorithms.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// Numbers of parties.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 10])]
    parties: Vec<usize>,
    /// Standard deviations of the auxiliary variables.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0])]
    rho: Vec<f64>,
    /// Rows.
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// Steps of a variational fit.
    #[arg(long, default_value_t = 20_000)]
    steps: u64,
    /// Draws of each chain, of which there are four.
    #[arg(long, default_value_t = 1_000)]
    draws: usize,
    /// Draws of each chain's warm-up.
    #[arg(long, default_value_t = 600)]
    warmup: usize,
    /// Draws of the reported bound.
    #[arg(long, default_value_t = 2_000)]
    elbo_draws: usize,
    /// Leaves the sampler out: claims that compare with it are then not judged.
    #[arg(long)]
    no_sampler: bool,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.shared.quick {
            (self.rows, self.steps, self.draws, self.warmup, self.elbo_draws) = (60, 200, 60, 60, 50);
            self.rho = vec![1.0];
        }
        self
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let session = Session::start("vertical_logistic", &options.shared)?;
    let world = World::new(options.rows, options.shared.seed, session.device()?)?;
    println!("{} rows, {} yes; first coefficient {:.3}\n", options.rows, world.yes(), world.beta[0]);
    let found = fits(&Study::new(&world, &options, &session))?;
    for &parties in &options.parties {
        draw(&options, &session, &Shown { found: &found, parties, truth: world.beta[0] })?;
    }
    let mut claims = Claims::from(claims::judge(&found));
    claims.print_new(&format!(
        "Claims of section 5.1 (tolerances in {}, fixed before the first full run):",
        claims::FILE
    ));
    let result = json!({
        "found": found,
        "claims": claims,
        "beta": world.beta,
        "intercept": world.intercept,
        "options": format!("{options:?}"),
    });
    session.finish(&result, " and the pictures")
}

/// The true model twice, and both others by every algorithm for each number of parties and each ρ.
fn fits(study: &Study<'_>) -> Result<Vec<Found>> {
    let options = study.options;
    let mut found = Vec::new();
    let mut keep = |one: Found| {
        println!("{one}");
        found.push(one);
    };
    println!("{}", Found::header());
    let algorithms = if options.no_sampler { &Algorithm::ALL[1..] } else { &Algorithm::ALL };
    for &algorithm in &algorithms[..algorithms.len() - 1] {
        keep(study.found(Statement::True, algorithm, world::SINGLE)?);
    }
    for &parties in &options.parties {
        for &rho in &options.rho {
            for statement in [Statement::Augmented { rho }, Statement::PowerLikelihood { rho }] {
                for &algorithm in algorithms {
                    keep(study.found(statement, algorithm, parties)?);
                }
            }
        }
    }
    Ok(found)
}

/// The data of the figures: the fits for one number of parties, and the true first coefficient.
struct Shown<'a> {
    found: &'a [Found],
    parties: usize,
    truth: f64,
}

/// Draws the bounds of each model for one number of parties, and the marginals of the first coefficient as in Figures 2
/// and 3.
fn draw(options: &Options, session: &Session, shown: &Shown<'_>) -> Result<()> {
    let Shown { found, parties, truth } = *shown;
    let of = |kind: &'static str| found.iter().filter(move |one| one.is(kind, parties));
    let truly: Vec<&Found> = found.iter().filter(|one| one.statement == Statement::True).collect();
    for kind in [Statement::AUGMENTED, Statement::POWER_LIKELIHOOD] {
        let fits = truly.iter().copied().chain(of(kind)).filter(|one| one.curve.len() > 1);
        let runs: Vec<(String, Vec<(f64, f64)>)> = fits.map(|one| (one.name(), one.curve.clone())).collect();
        let path = session.file(&format!("elbo_{parties}_{}.svg", kind.replace(' ', "_")));
        pictures::curves(&path, &runs, [&format!("{kind}, {parties} parties"), "step", "ELBO, nats"], None)?;
    }
    let mut panels = Vec::new();
    for sampled in [true, false].into_iter().filter(|sampled| !(*sampled && options.no_sampler)) {
        for &rho in &options.rho {
            let own = found
                .iter()
                .filter(|one| one.statement == Statement::True || one.parties == parties && one.statement.has_rho(rho));
            let own = own.filter(|one| (one.algorithm == Algorithm::Sampler) == sampled);
            let curves = own.map(|one| (one.short_name(), one.density())).collect();
            let how = if sampled { "NUTS" } else { "variational" };
            let title = format!("{how}, rho {rho}; true {truth:.2}");
            panels.push(Panel { title, unit: "first coefficient".into(), curves });
        }
    }
    plot::marginals(&session.file(&format!("marginals_{parties}.svg")), &panels)?;
    Ok(())
}

impl Found {
    fn density(&self) -> Density {
        match &self.draws {
            draws if draws.is_empty() => Density::Normal { mean: self.moments[0].0, sd: self.moments[0].1 },
            draws => Density::Draws(draws.clone()),
        }
    }
}
