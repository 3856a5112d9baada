//! Repeats the multilevel Poisson regression of the vertical paper: cancer counts of areas, covariates at two parties.
//!
//! ```sh
//! cargo run --release -p partita-studies -- vertical_poisson
//! ```
//!
//! What you should see: for 2,000 areas in five levels of remoteness, posteriors of means and coefficients. Those of
//! the true model are by the no-U-turn sampler and by mean-field variational inference, those of the augmented-variable
//! model with ρ of 1 and 2 by the sampler and by amortised auxiliary variables. Then the claims of the paper, each met
//! or not met within tolerances in the code. The sampler mixes poorly on the augmented model, as its diagnostics show.
//! `--quick` shows that it runs. Times and numbers: `docs/src/study-vertical.md`.
//!
//! Source: Hassan, Sutton, Mira and Mengersen (2024), section 5.2, Figure 4.

mod claims;
mod study;
mod world;

use clap::Args;
use partita::inference::plot::Density;
use partita::inference::{Panel, plot};
use serde_json::json;

use crate::harness::{Claims, Result, Session, Shared};
use study::{Found, How, Study};
use world::World;

/// Multilevel Poisson regression with covariates at two parties.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// Standard deviations of the auxiliary variables.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0])]
    rho: Vec<f64>,
    /// Areas.
    #[arg(long, default_value_t = 2_000)]
    areas: usize,
    /// Steps of a variational fit.
    #[arg(long, default_value_t = 20_000)]
    steps: u64,
    /// Draws of each of four chains on the true model.
    #[arg(long, default_value_t = 1_000)]
    draws: usize,
    /// Draws of each of four chains on the augmented model, whose trajectories are long.
    #[arg(long, default_value_t = 300)]
    augmented_draws: usize,
    /// Draws of each chain's warm-up.
    #[arg(long, default_value_t = 500)]
    warmup: usize,
    /// The largest depth of the sampler's trees.
    #[arg(long, default_value_t = 10)]
    max_depth: u32,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.shared.quick {
            (self.areas, self.steps, self.draws, self.augmented_draws, self.warmup) = (100, 300, 60, 20, 60);
            (self.max_depth, self.rho) = (6, vec![1.0]);
        }
        self
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let session = Session::start("vertical_poisson", &options.shared)?;
    let world = World::new(options.areas, options.shared.seed, session.device()?)?;
    println!("{} areas with {} cases\n", options.areas, world.cases());
    let study = Study::new(&world, &options);
    let mut hows = vec![How::TrueSampled, How::TrueMeanField];
    hows.extend(options.rho.iter().flat_map(|&rho| [How::AugmentedSampled { rho }, How::AugmentedAmortised { rho }]));
    let mut found = Vec::new();
    for how in hows {
        session.check()?;
        let one = study.found(how)?;
        println!("{one}");
        found.push(one);
    }
    draw(&options, &session, &found, &world)?;
    let mut claims = Claims::from(claims::judge(&found, &world));
    claims.print_new(&format!(
        "Claims of section 5.2 (tolerances in {}, fixed before the first full run):",
        claims::FILE
    ));
    let result = json!({
        "found": found,
        "claims": claims,
        "mu": world.mu,
        "sigma": world.sigma,
        "beta": world.beta,
        "intercept": world.intercept,
        "options": format!("{options:?}"),
    });
    session.finish(&result, " and marginals.svg")
}

/// Draws the marginals of the first mean and of the first coefficient as in Figure 4.
fn draw(options: &Options, session: &Session, found: &[Found], world: &World) -> Result<()> {
    let mut panels = Vec::new();
    for (title, truth, of) in [("mu 1", world.mu[0], 0), ("beta 1, level 1", world.beta[0], world::MEANS)] {
        for &rho in &options.rho {
            let own = found.iter().filter(|one| one.how.rho().is_none_or(|other| other.to_bits() == rho.to_bits()));
            let curves = own.map(|one| (one.how.name(), one.density(of))).collect();
            let title = format!("{title}, rho {rho}; true {truth:.2}");
            panels.push(Panel { title, unit: "log rate a unit".into(), curves });
        }
    }
    plot::marginals(&session.file("marginals.svg"), &panels)?;
    Ok(())
}

impl Found {
    fn density(&self, place: usize) -> Density {
        Density::Draws(self.draws[place].clone())
    }
}
