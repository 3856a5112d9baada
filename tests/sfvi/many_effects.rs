//! Claims that fits of the effects of many places, centred and not, find their spread, a parameter, from far below it.

use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, Purpose};
use partita::inference::StartFrom;
use partita::{AlgorithmChoice, Device, FitOptions, Model, Normal, Result, RoundOptions, Scope, Settings, fit};

const PLACES: usize = 1_024;
const SPREAD: f64 = 3.0;

#[derive(Module, Debug)]
struct Places {
    log_spread: Param<Tensor<1>>,
    #[module(skip)]
    centred: bool,
}

/// The spread is declared as a thirtieth of the true one.
fn places(centred: bool) -> Places {
    Places { log_spread: Param::from_tensor(Device::flex().tensor(vec![0.1_f64.ln()], [1])), centred }
}

impl Model for Places {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let effects = Normal::new(0.0, self.log_spread.val().exp()).iid([PLACES]);
        scope.sample("effects", if self.centred { effects } else { effects.non_centred() })
    }

    fn local(&self, scope: &mut Scope<'_>, effects: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("place", PLACES, |scope, rows| {
            scope.observe("y", Normal::new(effects.clone(), 1.0), rows.take(data)?)
        })
    }
}

/// The evidence of outcomes, the same number of each place, at the variance of effects that makes it largest.
///
/// Means of a place are normal with variance $`\sigma^2 + 1/n`$, and what is left of its outcomes has nothing of it.
fn evidence(outcomes: &[Vec<f64>]) -> (f64, f64) {
    let count = outcomes.len() as f64;
    let sum = |place: usize| outcomes.iter().map(|own| own[place]).sum::<f64>();
    let squares: f64 = (0..PLACES).map(|place| sum(place).powi(2)).sum();
    let variance = squares / (PLACES as f64 * count * count) - 1.0 / count;
    let all: f64 = outcomes.iter().flatten().map(|y| y * y).sum();
    let by_place = 0.5 * (count * (2.0 * std::f64::consts::PI).ln() + (1.0 + count * variance).ln());
    let explained = variance / (1.0 + count * variance) * squares;
    (variance.sqrt(), -(PLACES as f64) * by_place - 0.5 * (all - explained))
}

#[test]
fn effects_of_many_places_and_their_spread_are_found_from_a_thirtieth_of_it() {
    let device = Device::flex();
    let mut stream = Noise::new(9).stream(Key::new(Purpose::Prior, 0));
    let effects: Vec<f64> = (0..PLACES).map(|_| SPREAD * stream.standard_normal()).collect();
    let outcomes: Vec<Vec<f64>> =
        (0..2).map(|_| effects.iter().map(|effect| effect + stream.standard_normal()).collect()).collect();
    let (spread, evidence) = evidence(&outcomes);
    let silos: Vec<(String, Tensor<1>)> = ["a", "b"]
        .into_iter()
        .zip(&outcomes)
        .map(|(name, own)| (name.to_owned(), device.tensor(own.clone(), [PLACES])))
        .collect();
    for centred in [false, true] {
        let settings = Settings { steps: 3_000, ..Settings::default() };
        let options =
            FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, elbo_draws: 64, ..FitOptions::default() };
        let report = fit(&places(centred), &silos, &device, &options, None).unwrap().report;
        let found = report.theta[0].exp();
        assert!((found / spread - 1.0).abs() < 0.005, "{found} and {spread}");
        // The posterior of each effect is normal: the bound is the evidence, and its draws are all the same.
        assert!((report.elbo - evidence).abs() < 0.005, "{} and {evidence}", report.elbo);
        assert!(centred || report.gradient_steps < 3_000, "{report}");
    }
}

#[test]
fn from_the_mode_at_another_spread_many_non_centred_effects_have_a_long_way_and_fits_start_as_declared() {
    let device = Device::flex();
    let silos = vec![("a".to_owned(), device.tensor(vec![2.0; PLACES], [PLACES]))];
    for algorithm in [AlgorithmChoice::Central, AlgorithmChoice::Sfvi, AlgorithmChoice::SfviAvg(RoundOptions::paper(5))]
    {
        let fitted = |centred, start| {
            let settings = Settings { steps: 10, start, ..Settings::default() };
            let options = FitOptions {
                algorithm: algorithm.clone(),
                settings,
                elbo_draws: 2,
                trust_draws: Some(0),
                ..FitOptions::default()
            };
            fit(&places(centred), &silos, &device, &options, None).unwrap()
        };
        for centred in [false, true] {
            let [one, other] = [StartFrom::Declared, StartFrom::Mode].map(|start| fitted(centred, start));
            let is_same = one.posterior().parameters == other.posterior().parameters;
            assert_eq!(is_same, !centred, "{algorithm:?}");
        }
    }
}
