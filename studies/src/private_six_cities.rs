//! Fits six cities under differential privacy of its rows, beside the fit without noise, and counts what intervals cover.
//!
//! ```sh
//! cargo run --release -p partita-studies -- private_six_cities
//! ```
//!
//! What you should see: `docs/src/study-privacy.md`.

use clap::{Args, ValueEnum};
use partita::core::{Key, Noise, Purpose, partition_equally};
use partita::inference::{AlgorithmChoice, Estimator, FewRoundsOptions, SiteSummary};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities};
use partita::privacy::SeededBits;
use partita::private::{PrivateMethod, PrivateOptions, simulate};
use partita::{Device, FitOptions, Settings, fit};
use serde::{Deserialize, Serialize};

use crate::harness::{Result, Session, Shared, Table, real};

/// Six cities under epsilon 1, 3 and 10 of its rows, at delta 1e-5, over two and ten silos, by few rounds and by SFVI.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// Runs of the real data with other noise.
    #[arg(long, default_value_t = 5)]
    repeats: u64,
    /// Data sets simulated from known globals, each fitted once, to see what intervals cover.
    #[arg(long, default_value_t = 20)]
    simulated: u64,
    /// The method; both if none is named.
    #[arg(long, value_enum)]
    method: Vec<Method>,
    /// How many silos may work together with the coordinator, where the others divide the noise; all of them, if it is not given.
    #[arg(long)]
    colluders: Option<u64>,
    /// Steps of each child's own posterior before a sum of SFVI, with eight draws in its bound; children are integrated, if it is not
    /// given.
    #[arg(long)]
    local_steps: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum Method {
    FewRounds,
    Sfvi,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::FewRounds => "few rounds",
            Self::Sfvi => "SFVI",
        }
    }

    fn how(self) -> PrivateMethod {
        match self {
            Self::FewRounds => PrivateMethod::FewRounds,
            Self::Sfvi => PrivateMethod::Sfvi { rate: 1.0 },
        }
    }
}

const EPSILONS: [f64; 3] = [1.0, 3.0, 10.0];
const DELTA: f64 = 1e-5;
const SILOS: [usize; 2] = [2, 10];

/// The globals of simulated children: near the posterior of the real ones.
const TRUTH: [f64; 5] = [-3.1, 0.45, -0.22, 0.1, -0.8];

/// One global of one private fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Found {
    label: String,
    mean: f64,
    sd: f64,
    /// By how much noise widened the deviation.
    widened: f64,
    /// Whether the 95 % interval has the truth, or the mean without noise, in it.
    covers: bool,
    /// How far the mean is from it, in deviations of the noise alone.
    by_noise: f64,
}

/// The fits at one epsilon over one number of silos.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    method: Method,
    silos: usize,
    epsilon: f64,
    real: Vec<Vec<Found>>,
    simulated: Vec<Vec<Found>>,
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.shared.quick {
        (options.repeats, options.simulated) = (1, 1);
    }
    if options.method.is_empty() {
        options.method = vec![Method::FewRounds, Method::Sfvi];
    }
    let session = Session::start("private_six_cities", &options.shared)?;
    let device = session.device()?;
    let children = six_cities();
    let plain = without_noise(&children, &device, &options)?;
    println!("Without noise, mean / sd:");
    plain.iter().for_each(|site| println!("  {:<10} {:.3} / {:.3}", site.label, site.mean, site.sd));
    let centres: Vec<f64> = plain.iter().map(|site| site.mean).collect();
    // What chance alone leaves outside: the same data, and no noise.
    let plainly = (0..options.simulated).map(|set| without_noise(&simulation(set), &device, &options));
    let plainly: Vec<SiteSummary> = plainly.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let within = plainly.iter().zip(TRUTH.iter().cycle()).filter(|(site, truth)| covers(site, **truth)).count();
    println!("Without noise {within} of {} intervals of simulated data cover the truth.", plainly.len());
    let epsilons = if options.shared.quick { &EPSILONS[2..] } else { &EPSILONS[..] };
    let mut rows = Vec::new();
    let silos = SILOS.into_iter().flat_map(|silos| epsilons.iter().map(move |epsilon| (silos, *epsilon)));
    for (method, (silos, epsilon)) in
        options.method.iter().flat_map(|method| silos.clone().map(move |settings| (*method, settings)))
    {
        let Options { repeats, simulated, colluders, local_steps, ref shared, .. } = options;
        let settings = (method, silos, epsilon, repeats, simulated, (shared.seed, colluders, local_steps));
        let more = |word: &str, own: Option<u64>| own.map_or(String::new(), |own| format!("-{word}-{own}"));
        let (divided, stepped) = (more("colluders", colluders), more("local-steps", local_steps));
        let method_name = method.name().replace(' ', "-").to_lowercase();
        let name = format!("{method_name}-silos-{silos}-epsilon-{epsilon}{divided}{stepped}");
        rows.push(session.kept(&name, &settings, || {
            let fitted = |children: &[Child], seed: u64, centres: &[f64]| {
                let promise = Promise { method, silos, epsilon, seed, device: &device, options: &options };
                private(&promise, children, centres)
            };
            let real = (0..options.repeats).map(|repeat| fitted(&children, 100 + repeat, &centres));
            let real = real.collect::<Result<_>>()?;
            let simulated = (0..options.simulated).map(|set| fitted(&simulation(set), 1_000 + set, &TRUTH));
            Ok(Row { method, silos, epsilon, real, simulated: simulated.collect::<Result<_>>()? })
        })?);
    }
    print(&rows);
    session.finish(&rows, "")
}

/// Few rounds without noise.
fn without_noise(children: &[Child], device: &Device, options: &Options) -> Result<Vec<SiteSummary>> {
    let silos = [("all".to_owned(), RepeatedBinary::six_cities(children, device)?)];
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let options = FitOptions { algorithm, threads: options.shared.threads, ..FitOptions::default() };
    Ok(fit(&MixedLogistic::new(4), &silos, device, &options, None)?.report.sites)
}

/// What a private fit is carried out with.
struct Promise<'a> {
    method: Method,
    silos: usize,
    epsilon: f64,
    seed: u64,
    device: &'a Device,
    options: &'a Options,
}

/// A private fit, compared with `centres`.
fn private(promise: &Promise<'_>, children: &[Child], centres: &[f64]) -> Result<Vec<Found>> {
    let Promise { method, silos, epsilon, seed, device, options } = *promise;
    let parts = partition_equally(children.len(), silos, &Noise::new(options.shared.seed))?;
    let data = parts.iter().enumerate().map(|(index, rows)| {
        let own: Vec<Child> = rows.iter().map(|row| children[*row]).collect();
        Ok((format!("silo-{index}"), RepeatedBinary::six_cities(&own, device)?))
    });
    let data: Vec<_> = data.collect::<Result<_>>()?;
    let settings = Settings { seed: options.shared.seed, threads: Some(options.shared.threads), ..Settings::default() };
    // With steps of children's own posteriors, the bound in which a Gaussian for a child's effect is mended by draws of it.
    let settings = match method {
        Method::FewRounds => settings,
        Method::Sfvi => Settings { estimator: Estimator::LocallyEnhanced { inner: 8 }, ..settings },
    };
    let how = FitOptions { settings, ..FitOptions::default() };
    let mut bits = |silo: usize| Box::new(SeededBits::new(seed * 1_000 + silo as u64)) as Box<_>;
    let (how_fitted, colluders) = (method.how(), options.colluders);
    let local_steps = options.local_steps;
    let promise = PrivateOptions { method: how_fitted, colluders, local_steps, ..PrivateOptions::new(epsilon, DELTA) };
    let fit = simulate(&MixedLogistic::new(4), &data, device, &how, &promise, &mut bits)?;
    let widened = fit.report.privacy.map(|own| own.widened).unwrap_or_default();
    let found = |((site, widened), centre): ((SiteSummary, f64), &f64)| {
        let noise = site.sd * (1.0 - widened.powi(-2)).sqrt();
        let covers = covers(&site, *centre);
        let by_noise = (site.mean - centre) / noise;
        Found { label: site.label, mean: site.mean, sd: site.sd, widened, covers, by_noise }
    };
    Ok(fit.report.sites.into_iter().zip(widened).zip(centres).map(found).collect())
}

/// Whether the 95 % interval has this number in it.
fn covers(site: &SiteSummary, number: f64) -> bool {
    (site.quantiles.p2_5..=site.quantiles.p97_5).contains(&number)
}

/// As many children as the real ones, at [`TRUTH`].
fn simulation(set: u64) -> Vec<Child> {
    let mut stream = Noise::new(set).stream(Key::new(Purpose::Check, 0));
    let one = |child: &Child| {
        let own = (-TRUTH[4]).exp() * stream.standard_normal();
        let smoke = f64::from(u8::from(child.smoke));
        let wheeze = [-2.0, -1.0, 0.0, 1.0].map(|age| {
            let logit = TRUTH[0] + TRUTH[1] * smoke + TRUTH[2] * age + TRUTH[3] * smoke * age + own;
            stream.uniform() < 1.0 / (1.0 + (-logit).exp())
        });
        Child { wheeze, ..*child }
    };
    six_cities().iter().map(one).collect()
}

fn print(rows: &[Row]) {
    println!("\nThe first run, mean / sd, and how far noise widened the deviation:");
    let mut table = Table::new(["method, silos, epsilon", "b0", "smoke", "age", "both", "omega"]);
    for row in rows {
        let cells = row.real.first().into_iter().flatten();
        let cells = cells.map(|own| format!("{:.2} / {:.2} x {:.2}", own.mean, own.sd, own.widened));
        table.row([format!("{}, {}, {}", row.method.name(), row.silos, row.epsilon)].into_iter().chain(cells));
    }
    println!("{table}");
    let mut table =
        Table::new(["method, silos, epsilon", "widened", "error in noise", "real covered", "simulated covered"]);
    for row in rows {
        let real_ones: Vec<&Found> = row.real.iter().flatten().collect();
        let mean = |of: &dyn Fn(&Found) -> f64, all: &[&Found]| {
            all.iter().map(|own| of(own)).sum::<f64>() / real(all.len().max(1) as u64)
        };
        let simulated: Vec<&Found> = row.simulated.iter().flatten().collect();
        let covered = |own: &Found| f64::from(u8::from(own.covers));
        table.row([
            format!("{}, {}, {}", row.method.name(), row.silos, row.epsilon),
            format!("{:.2}", mean(&|own| own.widened, &real_ones)),
            format!("{:.2}", mean(&|own| own.by_noise.powi(2), &real_ones).sqrt()),
            format!("{:.2}", mean(&covered, &real_ones)),
            format!("{:.2}", mean(&covered, &simulated)),
        ]);
    }
    println!(
        "Over all runs: the root mean square of errors in deviations of the noise, and what 95 % intervals cover."
    );
    println!("{table}");
}
