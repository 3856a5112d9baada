//! Gives a party of SOUL: a step of its auxiliary variables, then Langevin steps of its latents given them.

use partita::core::{Key, Noise, Purpose, SiteTable};
use partita::inference::{Error, Message, NamedVectors, Program, Result, Standing};
use partita::vertical::Party;
use partita::{Device, Settings};

use super::{MOST_STEPS, Rule, Soul, finite};
use crate::harness::real;

/// A party of [`Soul`].
pub struct SoulParty {
    how: Soul,
    index: u32,
    party: Party,
    table: SiteTable,
    device: Device,
    settings: Settings,
    /// That of z, and that of point parameters.
    rules: [Rule; 2],
    step: u64,
    state: State,
}

/// Latents beyond this have run away: from here on squares overflow.
const AWAY: f64 = 1e100;

/// What changes from round to round.
#[derive(Debug, Clone, Default)]
struct State {
    auxiliary: Vec<f64>,
    /// The mean contribution over the draws of the last round.
    contribution: Vec<f64>,
    latents: Vec<f64>,
    theta: Vec<f64>,
    /// Number, means and summed squared deviations of the draws after the burn-in.
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl std::fmt::Debug for SoulParty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SoulParty")
            .field("party", &self.party)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl SoulParty {
    /// The program of the `index`-th party: latents start at 0 on the unconstrained scale, $`z_j`$ at the contribution
    /// there.
    pub(super) fn new(how: Soul, mut party: Party, index: u32, device: &Device, settings: &Settings) -> Result<Self> {
        let table = party.table(device)?;
        let theta = party.theta()?;
        party.set_theta(&theta, device)?;
        let latents = vec![0.0; table.global_len()];
        let start = party.contribute(device, &table, &latents, None)?.outputs().values.clone();
        let zeros = latents.clone();
        Ok(Self {
            how,
            index,
            rules: [(); 2].map(|()| Rule::new(settings, device)),
            device: device.clone(),
            settings: settings.clone(),
            step: 0,
            state: State {
                auxiliary: start.clone(),
                contribution: start,
                theta,
                mean: zeros.clone(),
                squares: zeros,
                latents,
                count: 0.0,
            },
            party,
            table,
        })
    }

    /// A step of $`z_j`$ up its gradient, `likelihood` by the likelihood.
    fn move_auxiliary(&mut self, likelihood: &[f64], step: u64) -> Result<()> {
        let State { auxiliary, contribution, .. } = &mut self.state;
        let precision = self.how.rho.powi(-2);
        let pull = auxiliary.iter().zip(&*contribution).map(|(z, g)| precision * (z - g));
        let gradient: Vec<f64> = pull.zip(likelihood).map(|(pull, a)| pull - a).collect();
        finite(&format!("silo `{}`", self.party.name()), step, |i| format!("the gradient by z[{i}]"), &gradient)?;
        self.rules[0].step(step, auxiliary, &gradient);
        Ok(())
    }

    /// The Langevin steps of a round at the present $`z_j`$.
    fn draw(&mut self, step: u64) -> Result<()> {
        let (h, precision) = (self.how.langevin_step, self.how.rho.powi(-2));
        let State { auxiliary, latents, .. } = &self.state;
        let (mut latents, auxiliary) = (latents.clone(), auxiliary.clone());
        let mut contribution = vec![0.0; auxiliary.len()];
        let mut theta_gradient = vec![0.0; self.state.theta.len()];
        let mut noise = vec![0.0; latents.len()];
        let share = 1.0 / real(self.how.draws);
        for draw in 0..self.how.draws {
            let made = self.party.contribute(&self.device, &self.table, &latents, None)?;
            let outputs = &made.outputs().values;
            contribution.iter_mut().zip(outputs).for_each(|(mean, g)| *mean += share * g);
            let adjoint: Vec<f64> = auxiliary.iter().zip(outputs).map(|(z, g)| precision * (z - g)).collect();
            let gradient = made.vjp(&adjoint)?;
            theta_gradient.iter_mut().zip(&gradient.theta).for_each(|(sum, g)| *sum -= share * g);
            let key = Key::new(Purpose::Fit, step * self.how.draws + draw).silo(self.index);
            Noise::new(self.settings.seed).stream(key).normal(&mut noise);
            for ((latent, g), e) in latents.iter_mut().zip(&gradient.globals).zip(&noise) {
                *latent += h * g + (2.0 * h).sqrt() * e;
            }
            self.check(&latents, step)?;
            if step >= self.how.burn_in {
                self.keep(&latents);
            }
        }
        if !theta_gradient.is_empty() {
            self.rules[1].step(step, &mut self.state.theta, &theta_gradient);
            self.party.set_theta(&self.state.theta, &self.device)?;
        }
        (self.state.latents, self.state.contribution) = (latents, contribution);
        Ok(())
    }

    /// Refuses latents that have run away.
    fn check(&self, latents: &[f64], step: u64) -> Result<()> {
        let Some(index) = latents.iter().position(|latent| latent.is_nan() || latent.abs() > AWAY) else {
            return Ok(());
        };
        let h = self.how.langevin_step;
        Err(Error::NotFinite {
            who: format!("silo `{}`", self.party.name()),
            step,
            quantity: format!("latent {index}, with a Langevin step of {h} that is too long for its curvature,"),
            found: latents[index],
        })
    }

    /// Takes a draw into the moments (Welford).
    fn keep(&mut self, latents: &[f64]) {
        let State { count, mean, squares, .. } = &mut self.state;
        *count += 1.0;
        for ((mean, square), x) in mean.iter_mut().zip(squares).zip(latents) {
            let before = x - *mean;
            *mean += before / *count;
            *square += before * (x - *mean);
        }
    }

    fn round(&mut self, request: &Message) -> Result<Message> {
        let step = request.get_count("step", MOST_STEPS)?;
        if step != self.step {
            let problem = format!("round {step} was asked of a party at round {}", self.step);
            return Err(Error::Message { kind: request.kind.clone(), problem });
        }
        if request.has("gradient") {
            let gradient = request.expect_floats("gradient", self.state.auxiliary.len())?;
            self.move_auxiliary(&gradient, step)?;
        }
        self.draw(step)?;
        self.step = step + 1;
        Ok(Message::new("soul.auxiliary").word("step", step).floats("auxiliary", &self.state.auxiliary))
    }

    fn vectors(&self) -> NamedVectors {
        let State { auxiliary, contribution, latents, theta, count, mean, squares } = self.state.clone();
        let mut vectors: NamedVectors = [
            ("auxiliary", auxiliary),
            ("contribution", contribution),
            ("latents", latents),
            ("theta", theta),
            ("count", vec![count]),
            ("mean", mean),
            ("squares", squares),
        ]
        .map(|(name, values)| (name.to_owned(), values))
        .into();
        vectors.extend(self.rules.iter().zip(RULES).flat_map(|(rule, prefix)| rule.save(prefix)));
        vectors
    }

    fn take_back(&mut self, vectors: &[(String, Vec<f64>)]) -> Result<bool> {
        let find = |wanted: &str, length: usize| {
            let found = vectors.iter().find(|(name, values)| name == wanted && values.len() == length);
            found.map(|(_, values)| values.clone())
        };
        let (rows, latents) = (self.state.auxiliary.len(), self.state.latents.len());
        let state = (|| {
            Some(State {
                auxiliary: find("auxiliary", rows)?,
                contribution: find("contribution", rows)?,
                latents: find("latents", latents)?,
                theta: find("theta", self.state.theta.len())?,
                count: *find("count", 1)?.first()?,
                mean: find("mean", latents)?,
                squares: find("squares", latents)?,
            })
        })();
        let Some(state) = state else { return Ok(false) };
        if !self.rules.iter_mut().zip(RULES).all(|(rule, prefix)| rule.load(vectors, prefix)) {
            return Ok(false);
        }
        self.party.set_theta(&state.theta, &self.device)?;
        self.state = state;
        Ok(true)
    }
}

/// What the names of the optimisers' vectors begin with: that of z, and that of point parameters.
const RULES: [&str; 2] = ["rule.auxiliary.", "rule.theta."];

impl Program for SoulParty {
    fn standing(&self) -> Standing<'_> {
        Standing { name: self.party.name(), seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "soul.step" => self.round(request),
            "soul.estimate_elbo" => {
                let reply = Message::new("soul.auxiliary").word("step", request.get_count("step", MOST_STEPS)?);
                Ok(reply.floats("auxiliary", &self.state.auxiliary))
            }
            other => Err(Error::Message { kind: other.to_owned(), problem: "a party of Soul does not know it".into() }),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok(self.vectors())
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let fits = self.take_back(state)?;
        self.step = if fits { step } else { self.step };
        Ok(fits)
    }

    /// Means and standard deviations of the draws after the burn-in; NaN before.
    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let State { count, mean, squares, .. } = &self.state;
        let scaled = |values: &[f64], power: f64| values.iter().map(|value| (value / count).powf(power)).collect();
        let mean = if *count > 0.0 { mean.clone() } else { vec![f64::NAN; mean.len()] };
        Ok(vec![(mean, scaled(squares, 0.5))])
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.state.theta.clone()
    }
}
