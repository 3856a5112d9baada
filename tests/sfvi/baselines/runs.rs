//! Runs point estimation whole: resumed, over some of the silos, by its messages, its report and what it refuses.

use super::*;

/// A run with everything that has a state or a seed: momentum in silos, minibatches, two of three silos, FedYogi, a
/// mask.
fn busy(steps: u64, threads: usize, checkpoint: Option<&Path>, resume: bool) -> Vec<f64> {
    let device = Device::flex();
    let how = FedOptOptions {
        optimiser: Sgd { momentum: 0.5 }.into(),
        silos_a_round: Some(2),
        mask: Some(Mask { threshold: 0.9, soft: true }),
        ..FedOptOptions::fed_yogi(5, 0.05)
    };
    let settings = Settings { minibatch: [("row".to_owned(), 3)].into(), ..settings(steps, 0.1) };
    let options = FitOptions {
        algorithm: AlgorithmChoice::FedOpt(how),
        settings,
        threads,
        checkpoint: checkpoint.map(|folder| (folder.to_owned(), 5)),
        resume,
        ..FitOptions::default()
    };
    let model = MultinomialRegression::new([6, 3], &device);
    let found = fit(&model, &classified(&[10, 4, 10], &device), &device, &options, None).unwrap();
    [found.posterior().parameters, found.posterior().theta].concat()
}

#[test]
fn a_run_resumes_to_the_same_bits_for_any_number_of_threads_and_refuses_another_rules_state() {
    let whole = busy(60, 1, None, false);
    assert_eq!(busy(60, 3, None, false), whole);
    let folder = tempfile::tempdir().unwrap();
    let part = busy(35, 1, Some(folder.path()), false);
    assert_ne!(part, whole);
    assert_eq!(busy(60, 2, Some(folder.path()), true), whole);
    let device = Device::flex();
    let resume = |algorithm| {
        let options = FitOptions {
            algorithm,
            settings: settings(100, 0.1),
            checkpoint: Some((folder.path().to_owned(), 5)),
            resume: true,
            ..FitOptions::default()
        };
        let model = MultinomialRegression::new([6, 3], &device);
        fit(&model, &classified(&[10, 4, 10], &device), &device, &options, None).map(drop)
    };
    for other in [AlgorithmChoice::FedOpt(FedOptOptions::fed_avg(5)), AlgorithmChoice::Sfvi] {
        assert!(matches!(resume(other.clone()), Err(Error::Checkpoint { .. })), "{other:?}");
    }
}

/// Coordinator and silos of lines, to be advanced round by round.
fn parties(silos: &[Rows], silos_a_round: Option<usize>) -> (FedOpt, InProcess) {
    let device = Device::flex();
    let optimiser = Sgd { momentum: 0.0 }.into();
    let settings = Settings { family: FamilyPlan::new().point_masses(), optimiser, ..settings(1_000, 0.1) };
    let data = line_data(silos, &device);
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let rounds = FedOptOptions { silos_a_round, ..FedOptOptions::fed_avg(2) };
    let sizes = silos.iter().map(Vec::len).collect();
    let silo = |((name, data), index): (&(String, <Line as Model>::Data), u32)| {
        let silo = Silo::new(name, index, &Line {}, data, &device, &settings).unwrap();
        Box::new(AveragingSilo::of_points(silo, index).unwrap()) as Box<dyn SiloProgram>
    };
    let programs = data.iter().zip(0..).map(silo).collect();
    (FedOpt::new(&Line {}, &device, &settings, &names, sizes, rounds).unwrap(), InProcess::new(programs, 1).unwrap())
}

#[test]
fn a_random_subset_of_silos_is_asked_and_weighs_by_its_own_rows() {
    let silos = lines();
    let (mut algorithm, mut exchange) = parties(&silos, Some(2));
    let mut asked = [0; 3];
    const ROUNDS: usize = 300;
    for round in 0..ROUNDS {
        let before: Point = algorithm.posterior().parameters.try_into().unwrap();
        let requests = algorithm.outgoing().unwrap();
        assert_eq!(requests.len(), 2);
        let present: Vec<usize> = requests.iter().map(|request| request.silo).collect();
        present.iter().for_each(|&silo| asked[silo] += 1);
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        let info = algorithm.incoming(outcomes).unwrap();
        assert_eq!(info.step, 2 * (round as u64 + 1));
        let rows: usize = present.iter().map(|&silo| silos[silo].len()).sum();
        let mut expected = [0.0; 2];
        for silo in present.into_iter().map(|silo| &silos[silo]) {
            let (curvature, shift) = quadratic(silo);
            let own = (0..2).fold(before, |w, _| {
                let slope = times(curvature, w);
                let step = |k: usize| w[k] - 0.1 * (slope[k] - shift[k] + w[k] / (PRIOR_SD * PRIOR_SD) / 12.0);
                [step(0), step(1)]
            });
            (0..2).for_each(|k| expected[k] += silo.len() as f64 / rows as f64 * own[k]);
        }
        close(algorithm.posterior().parameters, &expected, SAME);
    }
    // Each is asked in 2/3 of the rounds; 5 standard errors of a share of 300.
    let bound = 5.0 * (ROUNDS as f64 * 2.0 / 9.0).sqrt();
    for count in asked {
        assert!((f64::from(count) - ROUNDS as f64 * 2.0 / 3.0).abs() < bound, "{asked:?}");
    }
}

#[test]
fn a_reply_holds_what_the_manifest_lists_and_its_independent_fields_are_the_same_bytes_for_other_data() {
    let other = |rows: &Rows| rows.iter().map(|[x, y]| [2.5 * x, -y]).collect();
    let reply = |silos: &[Rows]| {
        let (mut algorithm, mut exchange) = parties(silos, None);
        let request = algorithm.outgoing().unwrap().swap_remove(1);
        let reply = exchange.programs()[request.silo].answer(&request.message).unwrap();
        algorithm.manifest().check("silo-1", &reply).unwrap();
        (reply, algorithm.manifest().clone())
    };
    let silos = lines();
    let (one, manifest) = reply(&silos);
    let (two, _) = reply(&silos.iter().map(other).collect::<Vec<Rows>>());
    let names: Vec<&str> = one.records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["round", "global", "clipped"]);
    let mut differing = Vec::new();
    for (a, b) in one.records.iter().zip(&two.records) {
        let field = manifest.fields.iter().find(|field| field.name == a.name).unwrap();
        assert!(
            field.release != partita::inference::Release::Public || a == b,
            "`{}` is declared independent of the data and differs",
            a.name
        );
        if a != b {
            differing.push(a.name.as_str());
        }
    }
    assert_eq!(differing, ["global"]);
    let bounds = [&one, &two].map(|reply| reply.get_number("elbo").unwrap());
    assert!((bounds[0] - bounds[1]).abs() > 0.0, "{bounds:?}");
}

#[test]
fn the_report_says_what_ran_and_what_it_cost() {
    let device = Device::flex();
    let ignored = Settings { particles: 8, ..settings(50, 0.1) };
    let how = FedOptOptions { silos_a_round: Some(2), ..FedOptOptions::fed_prox(10, 0.3) };
    let found = fitted(&Line {}, &line_data(&lines(), &device), how.clone(), ignored);
    assert_eq!(found.report.algorithm, serde_json::to_value(AlgorithmChoice::FedOpt(how)).unwrap());
    let options = &found.report.options;
    assert_eq!((options.particles, options.optimiser.clone()), (1, Sgd { momentum: 0.0 }.into()));
    assert_eq!(options.family, FamilyPlan::new().point_masses());
    // Five rounds with two silos, then one exchange with all three for the log joint density; two messages each.
    assert_eq!((found.report.rounds, found.report.messages), (6, 26));
    assert_eq!((found.report.gradient_steps, found.report.silo_steps), (50, 100));
    let line = found.report.site("line[0]").unwrap();
    assert_eq!((line.mean, line.sd), (found.posterior().parameters[0], 0.0));
}

#[test]
fn what_has_no_meaning_for_points_is_refused() {
    let device = Device::flex();
    let refused = |how: FedOptOptions| {
        let options = FitOptions {
            algorithm: AlgorithmChoice::FedOpt(how.clone()),
            settings: settings(10, 0.1),
            ..FitOptions::default()
        };
        match fit(&Line {}, &line_data(&lines(), &device), &device, &options, None) {
            Err(Error::Setting { setting, .. }) => setting,
            other => panic!("{how:?} gave {other:?}"),
        }
    };
    let base = FedOptOptions::fed_avg(2);
    assert_eq!(refused(FedOptOptions::fed_avg(0)), "local_steps");
    assert_eq!(refused(FedOptOptions::fed_prox(2, -0.1)), "proximal");
    assert_eq!(refused(FedOptOptions::fed_prox(2, f64::INFINITY)), "proximal");
    assert_eq!(refused(FedOptOptions { silos_a_round: Some(0), ..base.clone() }), "silos_a_round");
    assert_eq!(refused(FedOptOptions { silos_a_round: Some(4), ..base.clone() }), "silos_a_round");
    assert_eq!(refused(FedOptOptions { server: ServerMean { rate: 0.0 }.into(), ..base.clone() }), "server");
    let adam = FedAdam { rate: 0.1, decay: [0.9, 1.0], adaptivity: 1e-3 }.into();
    assert_eq!(refused(FedOptOptions { server: adam, ..base.clone() }), "server");
    let yogi = FedYogi { rate: 0.1, decay: [0.9, 0.99], adaptivity: 0.0 }.into();
    assert_eq!(refused(FedOptOptions { server: yogi, ..base.clone() }), "server");
    assert_eq!(refused(FedOptOptions::masked(2, f64::NAN)), "mask.threshold");
    assert_eq!(refused(FedOptOptions { optimiser: Sgd { momentum: 1.0 }.into(), ..base.clone() }), "optimiser");
    // A model with a latent in every group has no mean of losses over rows.
    let data = named(vec![ConjugateGaussian::data(&groups(3, 2), &device).unwrap()]);
    let options = FitOptions { algorithm: AlgorithmChoice::FedOpt(base.clone()), ..FitOptions::default() };
    let local = fit(&conjugate(), &data, &device, &options, None);
    assert!(matches!(local, Err(Error::Setting { setting: "algorithm", .. })), "{local:?}");
    // A coordinator with a Gaussian family reports the mistake.
    let names = ["a".to_owned()];
    let gaussian = FedOpt::new(&Line {}, &device, &Settings::default(), &names, vec![1], FedOptOptions::fed_avg(1));
    assert!(matches!(gaussian, Err(Error::Setting { setting: "family", .. })));
}
