//! Compares the choice of a family site by site with the same choice for all sites, and with the posterior mode.

use fixtures::{ConjugateGaussian, conjugate, groups};
use partita::inference::PointMass;
use partita::models::{EIGHT_SCHOOLS, EightSchools, Schools};
use partita::{Device, FamilyPlan, Fit, FitOptions, Gaussian, Schedule, Settings, fit};

fn schools(family: FamilyPlan) -> Fit {
    let device = Device::flex();
    let silos = [("north", &EIGHT_SCHOOLS[..5]), ("south", &EIGHT_SCHOOLS[5..])]
        .map(|(name, schools)| (name.to_owned(), Schools::new(schools, &device)));
    let settings = Settings { steps: 300, family, ..Settings::default() };
    let options = FitOptions { settings, elbo_draws: 64, summary_draws: 64, ..FitOptions::default() };
    fit(&EightSchools {}, &silos, &device, &options, None).unwrap()
}

#[test]
fn diagonal_chosen_for_each_site_equals_diagonal_chosen_for_all() {
    let rows = Gaussian::diagonal().given_globals();
    let all = schools(FamilyPlan::new().global(Gaussian::diagonal()).local(rows));
    let each = FamilyPlan::new().site("mu", Gaussian::diagonal()).site("tau", Gaussian::diagonal()).site("theta", rows);
    let each = schools(each);
    let moments = |fit: &Fit| {
        let posterior = fit.posterior();
        [posterior.family.mean(posterior.parameters), posterior.family.covariance(posterior.parameters)].concat()
    };
    for (a, b) in moments(&each).iter().zip(&moments(&all)) {
        assert!((a - b).abs() < 1e-12, "{a} against {b}");
    }
    assert!((each.report.elbo - all.report.elbo).abs() < 1e-9);
}

#[test]
fn a_site_may_be_a_point_while_the_others_are_gaussian() {
    let fit = schools(FamilyPlan::new().site("tau", PointMass));
    let (mu, tau) = (fit.report.site("mu").unwrap(), fit.report.site("tau").unwrap());
    assert!(tau.sd < 1e-12 && tau.mean > 0.0, "a point mass has sd {}", tau.sd);
    assert!(mu.sd > 0.1, "the other site has sd {}", mu.sd);
}

#[test]
fn point_masses_for_all_sites_find_the_posterior_mode() {
    let (device, groups) = (Device::flex(), groups(8, 3));
    let data = ConjugateGaussian::data(&groups, &device).unwrap();
    let settings = Settings {
        steps: 3_000,
        family: FamilyPlan::new().global(PointMass).local(PointMass),
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { settings, ..FitOptions::default() };
    let mut fit = fit(&conjugate(), &[("all".into(), data)], &device, &options, None).unwrap();
    // The joint posterior is Gaussian: its mode is its mean.
    let exact = conjugate().posterior(&groups);
    assert!((fit.posterior().parameters[0] - exact.mean).abs() < 1e-6);
    let (means, deviations) = fit.exchange.programs()[0].local_moments().unwrap().remove(0);
    for (found, expected) in means.iter().zip(&exact.group_means) {
        assert!((found - expected).abs() < 1e-6, "{found} against {expected}");
    }
    assert!(deviations.iter().all(|sd| *sd < 1e-300));
}

#[test]
fn low_rank_with_as_many_directions_as_needed_reaches_the_bound_of_full_rank() {
    let bound = |global| {
        let device = Device::flex();
        let silos = [("all".to_owned(), Schools::new(&EIGHT_SCHOOLS, &device))];
        let settings = Settings {
            steps: 8_000,
            family: FamilyPlan::new().global(global),
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            ..Settings::default()
        };
        let options = FitOptions { settings, elbo_draws: 4_000, ..FitOptions::default() };
        let report = fit(&EightSchools {}, &silos, &device, &options, None).unwrap().report;
        (report.elbo, report.elbo_se)
    };
    let ((full, full_error), (low, low_error)) = (bound(Gaussian::full_rank()), bound(Gaussian::low_rank(1)));
    // Two globals: one direction and a diagonal are any covariance. Five standard errors of the difference.
    assert!((full - low).abs() < 5.0 * full_error.hypot(low_error), "{full} against {low}");
}
