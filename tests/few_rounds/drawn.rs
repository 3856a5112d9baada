//! Holds fits whose rows have more latents than products of points serve to long chains.

use fixtures::{golden, largest};
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, Purpose};
use partita::inference::{AlgorithmChoice, FewRoundsOptions, Nuts, SiteSummary, Verdict};
use partita::{Bernoulli, Device, FitOptions, HalfNormal, Model, Normal, Scope, fit};

/// Four coefficients of each group, for binary outcomes.
#[derive(Module, Debug)]
struct Coefficients {}

const COLUMNS: usize = 4;

#[derive(Debug, Clone)]
struct Given {
    /// `[groups, events, columns]`
    x: Tensor<3>,
    /// `[groups, events]`
    y: Tensor<2>,
}

impl Model for Coefficients {
    type Globals = [Tensor<1>; 2];
    type Data = Given;

    fn global(&self, scope: &mut Scope) -> partita::Result<[Tensor<1>; 2]> {
        let mean = scope.sample("mean", Normal::new(0.0, 2.0).iid([COLUMNS]))?;
        Ok([mean, scope.sample("scale", HalfNormal::new(1.0))?])
    }

    fn local(&self, scope: &mut Scope, [mean, scale]: &[Tensor<1>; 2], data: &Given) -> partita::Result<()> {
        let [groups, events, columns] = data.x.dims();
        scope.plate("group", groups, |s, rows| {
            let mean = mean.clone().reshape([1, columns]).expand([rows.len(), columns]);
            let scale = scale.clone().reshape([1, 1]).expand([rows.len(), columns]);
            let own: Tensor<2> = s.sample("own", Normal::new(mean, scale).non_centred())?;
            let own = own.reshape([rows.len(), 1, columns]).expand([rows.len(), events, columns]);
            let eta = (rows.take(&data.x)? * own).sum_dim(2).reshape([rows.len(), events]);
            s.observe("y", Bernoulli::logits(eta), rows.take(&data.y)?)
        })
    }
}

/// Twelve binary outcomes of each group, whose coefficients scatter by .8.
fn given(silos: usize, groups: usize, device: &Device) -> Vec<(String, Given)> {
    const EVENTS: usize = 12;
    let mut stream = Noise::new(21).stream(Key::new(Purpose::Prior, 0));
    let mut normal = |count| fixtures::standard_normals(&mut stream, count);
    let mut silo = |index: usize| {
        let (x, errors) = (normal(groups * EVENTS * COLUMNS), normal(groups * EVENTS));
        let scatter = normal(groups * COLUMNS);
        let outcome = |at: usize| {
            let coefficients = [0.5, -0.5, 1.0, 0.0].iter().zip(&scatter[at / EVENTS * COLUMNS..]);
            let eta = coefficients.zip(&x[at * COLUMNS..]).map(|((mean, z), x)| (mean + 0.8 * z) * x).sum::<f64>();
            f64::from(u8::from(eta + 1.7 * errors[at] > 0.0))
        };
        let y = (0..groups * EVENTS).map(outcome).collect();
        let (x, y) = (device.tensor(x.clone(), [groups, EVENTS, COLUMNS]), device.tensor(y, [groups, EVENTS]));
        (format!("silo {index}"), Given { x, y })
    };
    (0..silos).map(&mut silo).collect()
}

/// The farthest mean, in standard deviations of the chains, and the ratio of deviations farthest from one.
fn worst(found: &[&SiteSummary], exact: &[SiteSummary]) -> [f64; 2] {
    let pairs = || found.iter().zip(exact);
    let mean = largest(pairs().map(|(own, exact)| (own.mean - exact.mean).abs() / exact.sd));
    let ratios = pairs().map(|(own, exact)| own.sd / exact.sd);
    [mean, ratios.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap_or(f64::NAN)]
}

#[test]
fn four_coefficients_of_groups_are_those_of_long_chains() {
    let device = Device::flex();
    let few =
        FitOptions { algorithm: AlgorithmChoice::FewRounds(FewRoundsOptions::default()), ..FitOptions::default() };
    let (model, silos) = (Coefficients {}, given(2, 20, &device));
    let exact: Vec<SiteSummary> = golden("four_coefficients", || {
        let chains = Nuts { warmup: 500, draws: 2_500, chains: 4, threads: 2, ..Nuts::default() };
        chains.sample(&model, &silos, &device).unwrap().sites
    });
    for (options, verdict) in [(FitOptions::default(), Verdict::TrustWithLimits), (few, Verdict::Trust)] {
        let report = fit(&model, &silos, &device, &FitOptions { threads: 2, ..options }, None).unwrap().report;
        let [mean, ratio] = worst(&report.answer(), &exact);
        assert!(mean < 0.1 && (ratio - 1.0).abs() < 0.05, "{mean} {ratio}\n{report}");
        assert_eq!(report.verdict, verdict, "{report}");
        let is_few = verdict == Verdict::Trust;
        // 256 and 512 draws a row are noisier than is let pass.
        let words = "few rounds: 1024 draws for the 4 latents of each row of group";
        assert_eq!(report.to_string().contains(words), is_few, "{report}");
        let approximation = worst(&report.sites.iter().collect::<Vec<_>>(), &exact);
        let is_near = approximation[0] <= 0.2 && (approximation[1] - 1.0).abs() <= 0.2;
        assert_eq!(is_near, is_few, "{approximation:?}\n{report}");
    }
}
