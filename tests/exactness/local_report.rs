//! Claims that the report of a silo's own rows has the moments and quantiles of closed forms.

use burn::module::Module;
use burn::tensor::Tensor;
use fixtures::{conjugate, conjugate_silos, groups};
use partita::core::{HalfNormal, LogNormal, special::normal_quantile};
use partita::inference::{Error, LocalReport, LocalScale, fit};
use partita::{Device, FitOptions, Model, Normal, Result, Scope};

#[test]
fn rows_have_the_marginal_moments_and_quantiles_of_the_exact_posterior() {
    let (model, device, groups) = (conjugate(), Device::flex(), groups(6, 3));
    let exact = model.posterior(&groups);
    let silos = conjugate_silos(&groups, 2);
    let mut fit = fit(&model, &silos, &device, &FitOptions::default(), None).unwrap();
    // That of b given mu, and that of mu times the slope.
    let sd = exact.group_sd.hypot(exact.slope * exact.sd);
    for (silo, (name, data)) in silos.iter().enumerate() {
        let report = LocalReport::of(&*fit.exchange.programs()[silo], &model, data, &device).unwrap();
        assert_eq!((&report.silo, report.numbers.len()), (name, 3));
        for (row, found) in report.numbers.iter().enumerate() {
            assert_eq!((found.plate.as_deref(), found.row, found.scale), (Some("group"), row, LocalScale::Natural));
            assert_eq!((&found.summary.site[..], &found.summary.label[..]), ("b", "b"));
            let (mean, summary) = (exact.group_means[3 * silo + row], &found.summary);
            let expected = [mean, sd, mean + sd * normal_quantile(0.025), mean, mean + sd * normal_quantile(0.95)];
            let quantiles = &summary.quantiles;
            let found = [summary.mean, summary.sd, quantiles.p2_5, quantiles.p50, quantiles.p95];
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
        }
    }
}

/// Rows with a positive latent, and a non-centred one under a name that a table must quote.
#[derive(Module, Debug)]
struct Positive {}

impl Model for Positive {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("deviation", HalfNormal::new(1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, deviation: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let level = scope.sample("level", LogNormal::new(0.0, 1.0).over(rows))?;
            let shift = scope.sample("shift, own", Normal::new(0.0, deviation.clone()).over(rows).non_centred())?;
            scope.observe("y", Normal::new(level + shift, 0.5), rows.take(data)?)
        })
    }
}

#[test]
fn positive_numbers_are_shown_as_declared_and_files_have_what_the_report_has() {
    let device = Device::flex();
    let silos = [("north".to_owned(), device.tensor(vec![1.5, 0.4, 3.0], [3]))];
    let options = FitOptions { summary_draws: 100, trust_draws: Some(64), ..FitOptions::default() };
    let mut fit = fit(&Positive {}, &silos, &device, &options, None).unwrap();
    let silo = &fit.exchange.programs()[0];
    let report = LocalReport::of(&**silo, &Positive {}, &silos[0].1, &device).unwrap();
    let (means, sds) = silo.local_moments().unwrap().remove(0);
    assert_eq!(report.numbers.len(), 6);
    for number in &report.numbers {
        let column = usize::from(number.summary.site != "level");
        let (mean, sd) = (means[2 * number.row + column], sds[2 * number.row + column]);
        // The moments of a log-normal number; a non-centred latent stays as it is.
        let natural = (mean + 0.5 * sd * sd).exp();
        let (scale, expected) = match column {
            0 => (LocalScale::Natural, [natural, natural * ((sd * sd).exp() - 1.0).sqrt(), mean.exp()]),
            _ => (LocalScale::Standardised, [mean, sd, mean]),
        };
        let found = [number.summary.mean, number.summary.sd, number.summary.quantiles.p50];
        assert!(number.scale == scale && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{number:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    report.write_json(&path).unwrap();
    assert_eq!(serde_json::from_str::<LocalReport>(&std::fs::read_to_string(&path).unwrap()).unwrap(), report);
    report.write_csv(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (7, "plate,row,site,scale,mean,sd,p2_5,p5,p25,p50,p75,p95,p97_5"));
    let summary = &report.numbers[1].summary;
    assert!(lines[2].starts_with(&format!("row,1,level,natural,{},{},", summary.mean, summary.sd)), "{}", lines[2]);
    assert!(lines[4].starts_with("row,0,\"shift, own\",standardised,"), "{}", lines[4]);
    // Data of other rows are not the silo's.
    let other = device.tensor(vec![1.0; 4], [4]);
    let refused = LocalReport::of(&**silo, &Positive {}, &other, &device);
    assert!(
        matches!(refused, Err(Error::Setting { found, .. }) if found.contains("8 local numbers in block 0, and 6"))
    );
}
