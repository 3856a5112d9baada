//! Claims that fits begin where a model, a plan or the data say, by every method.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::inference::{Nuts, PviOptions, parties};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gamma, Gaussian, Model, Normal, Result, RoundOptions, Scope,
    Settings, SiteTable, fit,
};

/// Squares of a number whose sign the data do not know, and of numbers a row of which the same is true.
#[derive(Module, Debug)]
struct Squares {
    #[module(skip)]
    start: f64,
}

impl Model for Squares {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("root", Normal::new(0.0, 3.0).start(self.start).start_scale(0.05))
    }

    fn local(&self, scope: &mut Scope<'_>, root: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let own = scope.sample("own", Normal::new(0.0, 3.0).start(-self.start).start_scale(0.05).over(rows))?;
            scope.observe("whole", Normal::new(root.clone() * root.clone(), 0.5).over(rows), rows.take(data)?)?;
            scope.observe("part", Normal::new(own.clone() * own, 0.5), rows.take(data)?)
        })
    }
}

fn squares(device: &Device, count: usize) -> Vec<(String, Tensor<1>)> {
    let silos = [("a", vec![4.1, 3.8]), ("b", vec![4.0, 4.3, 3.9])];
    let made = silos.into_iter().map(|(name, values)| {
        let rows = values.len();
        (name.to_owned(), device.tensor(values, [rows]))
    });
    made.take(count).collect()
}

#[test]
fn every_method_keeps_to_the_mode_that_a_start_names() {
    let device = Device::flex();
    let rounds = RoundOptions { scale_entropy: true, ..RoundOptions::paper(50) };
    let choices = [
        (AlgorithmChoice::Sfvi, 2),
        (AlgorithmChoice::Central, 1),
        (AlgorithmChoice::SfviAvg(rounds), 2),
        (AlgorithmChoice::Pvi(PviOptions::new(100)), 2),
        (AlgorithmChoice::OnDevice { interval: 100 }, 1),
    ];
    for sign in [-1.0, 1.0] {
        let model = Squares { start: 2.0 * sign };
        for (algorithm, count) in choices.clone() {
            let name = format!("{algorithm:?}");
            let family = FamilyPlan::new().local(Gaussian::diagonal());
            let settings = Settings { steps: 800, family, ..Settings::default() };
            let options = FitOptions { algorithm, settings, elbo_draws: 50, ..FitOptions::default() };
            let mut fit = fit(&model, &squares(&device, count), &device, &options, None).unwrap();
            let found = fit.report.site("root").unwrap().mean;
            assert!((found - 2.0 * sign).abs() < 0.1, "{name}: {found}");
            for silo in fit.exchange.programs() {
                let own = silo.local_moments().unwrap().swap_remove(0).0;
                assert!(own.iter().all(|mean| (mean + 2.0 * sign).abs() < 0.3), "{name}: {own:?}");
            }
        }
        let nuts = Nuts { warmup: 200, draws: 100, chains: 3, ..Nuts::default() };
        let sampled = nuts.sample(&model, &squares(&device, 2), &device).unwrap();
        assert!((sampled.sites[0].mean - 2.0 * sign).abs() < 0.1, "{}", sampled.sites[0].mean);
    }
}

#[test]
fn a_start_is_where_the_posterior_is_before_the_first_step() {
    #[derive(Module, Debug)]
    struct Starts {}
    impl Model for Starts {
        type Globals = Tensor<1>;
        type Data = Tensor<1>;
        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            let device = scope.device().clone();
            let level = scope.sample("level", Normal::new(5.0, 2.0).start(6.0).start_scale(3.0))?;
            scope.sample("shifted", Normal::new(level, 2.0).non_centred().start(10.0))?;
            scope.sample("rate", Gamma::new(2.0, 1.0).truncated(1.0, f64::INFINITY).start(3.0))?;
            let cuts = device.tensor(vec![-1.0, 0.0, 2.0], [3]);
            scope.sample("cuts", Normal::new(0.0, 1.0).iid([3]).ordered().start(cuts))?;
            scope.sample("plain", Normal::new(0.0, 1.0))
        }
        fn local(&self, scope: &mut Scope<'_>, plain: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
            scope.observe("y", Normal::new(plain.clone(), 1.0), data.clone())
        }
    }
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![0.5], [1]))];
    for family in [Gaussian::full_rank(), Gaussian::diagonal()] {
        let settings = Settings { family: FamilyPlan::new().global(family), ..Settings::default() };
        let options = FitOptions { settings, ..FitOptions::default() };
        let (algorithm, _) = parties(&Starts {}, &silos, &device, &options).unwrap();
        let posterior = algorithm.posterior();
        let table = SiteTable::globals(&Starts {}, &device).unwrap();
        let values = table.natural_globals(&Starts {}, &device, &posterior.family.mean(posterior.parameters)).unwrap();
        let flat: Vec<f64> = values.into_iter().flat_map(|(_, array)| array.values).collect();
        for (found, expected) in flat.iter().zip([6.0, 10.0, 3.0, -1.0, 0.0, 2.0, 0.0]) {
            assert!((found - expected).abs() < 1e-12, "{flat:?}");
        }
        let sds = posterior.family.covariance_matrix(posterior.parameters).deviations();
        assert!((sds[0] - 3.0).abs() < 1e-12 && sds[1..].iter().all(|sd| (sd - 0.1).abs() < 1e-12), "{sds:?}");
    }
}

/// The square of a number, whose negative root the prior makes less probable.
#[derive(Module, Debug)]
struct Root {}

impl Model for Root {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("root", Normal::new(1.0, 1.0).start(-1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, root: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(root.clone() * root.clone(), 0.5).over(rows), rows.take(data)?)
        })
    }
}

#[test]
fn of_several_starts_the_best_is_kept_and_all_are_reported() {
    let device = Device::flex();
    let fitted = |starts, threads| {
        let settings = Settings { steps: 3_000, ..Settings::default() };
        let options = FitOptions { settings, starts, threads, elbo_draws: 200, ..FitOptions::default() };
        fit(&Root {}, &squares(&device, 2), &device, &options, None).unwrap()
    };
    let one = fitted(1, 1).report;
    assert!((one.site("root").unwrap().mean + 2.0).abs() < 0.1 && one.starts.is_empty() && one.warnings.is_empty());
    let many = fitted(6, 1).report;
    assert!((many.site("root").unwrap().mean - 2.0).abs() < 0.1, "{many}");
    let kept: Vec<_> = many.starts.iter().filter(|start| start.is_kept).collect();
    assert!(many.starts.len() == 6 && kept.len() == 1, "{many}");
    assert!(many.starts.iter().all(|start| start.elbo <= kept[0].elbo) && !many.starts[0].is_kept);
    // The priors of the two modes are 4 nats apart.
    let warning = &many.warnings[0];
    assert!(warning.problem.contains("starts differ") && (warning.number.unwrap() - 4.0).abs() < 1.0, "{warning}");
    assert!(many.to_string().contains("6 starts, went on from the"), "{many}");
    // Six tenths of the steps, and what was left of the kept one.
    assert_eq!(many.gradient_steps, 5 * 300 + 3_000);
    let again = fitted(6, 2).report;
    assert_eq!((many.elbo.to_bits(), many.starts), (again.elbo.to_bits(), again.starts));
}
