//! Reads run files: what the algorithm takes reaches its options, and what it does not take is refused by name.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_flower::{Error, RunFile};
use partita_inference::{
    Adam, AlgorithmChoice, Barycentre, BetaDivergence, Conjugate, Delays, EarlyStop, Expectation, FDivergence, Factors,
    FedOptOptions, FitOptions, GammaDivergence, GradientDescent, JensenShannon, KullbackLeibler, Lbfgs, LogPool, Mask,
    Monitor, NaturalGradient, NoDivergence, Order, ParameterMean, PowerExpectation, PriorShare, PviOptions, Renyi,
    ReverseKullbackLeibler, RoundOptions, Settings, SiloSchedule, Start, VerticalOptions,
};

fn options(algorithm: &str, more: &str) -> Result<FitOptions, Error> {
    let text = format!(
        "model = \"six-cities\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\", \"b\"]\nsteps = 40\nlocal_steps = 1\n{more}"
    );
    RunFile::parse(&text).unwrap().fit_options(&Settings::default())
}

fn pvi(more: &str) -> PviOptions {
    let AlgorithmChoice::Pvi(found) = options("pvi", more).unwrap().algorithm else { panic!("another algorithm") };
    found
}

#[test]
fn every_entry_of_the_table_reaches_the_options_and_a_file_without_it_has_the_usual_ones() {
    let usual = PviOptions::new(1);
    assert_eq!(pvi(""), usual);
    assert_eq!(pvi("[pvi]\n"), usual);
    let text = "schedule = \"synchronous\"\ndamping = 0.5\n[pvi]\ndivergence = { Renyi = 0.5 }\nfirst_damping = 0.25\n\
                hold_improper = true\nbacktracking = 3\nprior = \"BySize\"\ndamping_by_size = true\n\
                theta_every = 2\n";
    let expected = PviOptions {
        schedule: SiloSchedule::Synchronous,
        damping: Some(0.5),
        divergence: Renyi { alpha: 0.5 }.into(),
        first_damping: Some(0.25),
        hold_improper: true,
        backtracking: 3,
        prior: PriorShare::BySize,
        damping_by_size: true,
        theta_every: 2,
        ..usual.clone()
    };
    assert_eq!(pvi(text), expected);
    assert_eq!(pvi("[pvi]\non_device = true\n"), PviOptions { on_device: true, ..usual.clone() });
    assert_eq!(pvi("[pvi]\nfactors = \"Shared\"\n"), PviOptions { factors: Factors::Shared, ..usual.clone() });
    for (words, divergence) in [
        ("\"KullbackLeibler\"", KullbackLeibler.into()),
        ("\"ReverseKullbackLeibler\"", ReverseKullbackLeibler.into()),
        ("{ Renyi = 2 }", Renyi { alpha: 2.0 }.into()),
        ("{ Beta = 1.5 }", BetaDivergence { beta: 1.5 }.into()),
        ("{ Gamma = 1.3 }", GammaDivergence { gamma: 1.3 }.into()),
        ("{ JensenShannon = { draws = 100 } }", FDivergence::new(JensenShannon, 100).into()),
        ("\"None\"", NoDivergence.into()),
    ] {
        assert_eq!(
            pvi(&format!("[pvi]\ndivergence = {words}\n")),
            PviOptions { divergence, ..usual.clone() },
            "{words}"
        );
    }
}

#[test]
fn every_schedule_of_pvi_can_be_said() {
    let said = |words: &str| pvi(&format!("schedule = {words}\n")).schedule;
    for (words, schedule) in [
        ("\"sequential\"", SiloSchedule::Sequential(Order::Fixed)),
        ("\"random\"", SiloSchedule::Sequential(Order::Random)),
        ("\"residual\"", SiloSchedule::Sequential(Order::Residual)),
        ("\"synchronous\"", SiloSchedule::Synchronous),
        ("{ subset = 2 }", SiloSchedule::Subset(2)),
        ("\"asynchronous\"", SiloSchedule::Asynchronous(Delays::default())),
    ] {
        assert_eq!(said(words), schedule, "{words}");
    }
    let found = options("pvi", "schedule = { subset = 0 }\n").unwrap_err().to_string();
    assert!(found.contains("a subset of 0 silos"), "{found}");
}

#[test]
fn every_option_of_averaging_reaches_it_and_a_file_without_the_table_is_the_paper() {
    let rounds = |more: &str| match options("sfvi-avg", more).unwrap().algorithm {
        AlgorithmChoice::SfviAvg(found) => found,
        other => panic!("{other:?}"),
    };
    let paper = RoundOptions::paper(1);
    assert_eq!((rounds(""), rounds("[sfvi-avg]\n")), (paper.clone(), paper.clone()));
    let text = "[sfvi-avg]\naveraging = \"LogPool\"\nby_size = true\nkeep_optimiser = true\nscale_entropy = true\nmost = 3\non_device = true\n";
    let expected = RoundOptions {
        local_steps: 1,
        averaging: LogPool.into(),
        by_size: true,
        keep_optimiser: true,
        scale_entropy: true,
        most: Some(3),
        on_device: true,
        private: None,
    };
    assert_eq!(rounds(text), expected);
    for averaging in [Barycentre.into(), ParameterMean.into()] {
        let found = rounds(&format!("[sfvi-avg]\naveraging = \"{averaging:?}\"\n"));
        assert_eq!(found, RoundOptions { averaging, ..paper });
    }
}

#[test]
fn every_option_of_point_estimation_reaches_it_and_a_file_without_the_table_is_fed_avg() {
    let points = |more: &str| match options("fed-opt", more).unwrap().algorithm {
        AlgorithmChoice::FedOpt(found) => found,
        other => panic!("{other:?}"),
    };
    let usual = FedOptOptions::fed_avg(1);
    assert_eq!((points(""), points("[fed-opt]\n")), (usual.clone(), usual.clone()));
    let server = |words: &str| points(&format!("[fed-opt]\nserver = {words}\n")).server;
    for (words, expected) in [
        ("{ Mean = { rate = 1.0 } }", usual.clone()),
        ("{ Mean = {} }", usual.clone()),
        ("{ Adagrad = { rate = 0.5 } }", FedOptOptions::fed_adagrad(1, 0.5)),
        ("{ Adam = { rate = 0.5 } }", FedOptOptions::fed_adam(1, 0.5)),
        ("{ Yogi = { rate = 0.5, decay = [0.9, 0.99], adaptivity = 1e-3 } }", FedOptOptions::fed_yogi(1, 0.5)),
    ] {
        assert_eq!(server(words), expected.server, "{words}");
    }
    let text = "[fed-opt]\nproximal = 0.1\nmask = { threshold = 0.4, soft = true }\nsilos_a_round = 1\nprior = false\n\
                optimiser = { Adam = {} }\non_device = true\n";
    let expected = FedOptOptions {
        proximal: 0.1,
        mask: Some(Mask { threshold: 0.4, soft: true }),
        silos_a_round: Some(1),
        prior: false,
        optimiser: Adam::default().into(),
        on_device: true,
        ..usual.clone()
    };
    assert_eq!(points(text), expected);
}

#[test]
fn columns_at_different_parties_are_fitted_as_the_table_says() {
    let vertical = |more: &str| options("vertical", &format!("[vertical]\n{more}")).map(|found| found.algorithm);
    let augmentation = "augmentation = { Auxiliary = { rho = 0.5 } }\n";
    let expected = VerticalOptions::augmented(0.5).mean_field();
    let found = vertical(&format!("{augmentation}auxiliary = \"MeanField\"\n")).unwrap();
    assert_eq!(found, AlgorithmChoice::Vertical(expected));
    let found = vertical(&format!("{augmentation}auxiliary = \"MeanField\"\nlocal_steps = 3\n")).unwrap();
    assert_eq!(found, AlgorithmChoice::Vertical(expected.local_steps(3)));
    for (text, words) in [
        ("auxiliary = \"MeanField\"\n", "missing field `augmentation`"),
        (augmentation, "missing field `auxiliary`"),
        (
            "augmentation = { Auxiliary = { rho = 0.5, roh = 1 } }\nauxiliary = \"MeanField\"\n",
            "augmentation.Auxiliary.roh",
        ),
    ] {
        let found = vertical(text).unwrap_err().to_string();
        assert!(found.contains(words), "`{words}` is not in: {found}");
    }
}

#[test]
fn a_run_counts_its_exchanges_by_its_algorithm() {
    let exchanges = |algorithm: &str, more: &str| {
        let text = format!(
            "model = \"m\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\"]\nsteps = 45\nlocal_steps = 10\n{more}"
        );
        RunFile::parse(&text).unwrap().exchanges()
    };
    for algorithm in ["sfvi-avg", "fed-opt", "pvi"] {
        assert_eq!(exchanges(algorithm, ""), 5);
    }
    // Two rounds of ten steps, and after that an exchange a step.
    assert_eq!(exchanges("sfvi-avg", "[sfvi-avg]\nmost = 2\n"), 27);
    assert_eq!(exchanges("sfvi-avg", "[sfvi-avg]\nmost = 9\n"), 5);
}

#[test]
fn a_silo_that_allows_what_there_is_not_or_too_little_for_the_run_is_refused_before_the_first_round() {
    let run = |algorithm: &str| {
        let text = format!("model = \"m\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\"]\nsteps = 1\n");
        RunFile::parse(&text).unwrap()
    };
    let allowed = |algorithm: &str, words: &[&str]| {
        run(algorithm).check_allowed(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>())
    };
    for (algorithm, words) in [
        ("sfvi", &["sfvi"][..]),
        ("sfvi-avg", &["evaluate", "sfvi", "avg"]),
        ("fed-opt", &["fed", "sfvi"]),
        ("pvi", &["pvi", "sfvi", "avg"]),
        ("vertical", &["vertical"]),
    ] {
        assert!(allowed(algorithm, words).is_ok(), "{algorithm} {words:?}");
    }
    for (algorithm, words, said) in [
        ("sfvi-avg", &["averages", "sfvi"][..], "found `averages`, expected `sfvi`, `few`, `private`, `avg`, `fed`"),
        ("sfvi-avg", &["sfvi"], "found no `avg` among sfvi, expected `avg` and `sfvi`, which `sfvi-avg` asks"),
        ("pvi", &["pvi"], "found no `sfvi` among pvi"),
        ("vertical", &["sfvi", "pvi"], "found no `vertical`"),
    ] {
        let found = allowed(algorithm, words).unwrap_err().to_string();
        assert!(found.contains(said), "`{said}` is not in: {found}");
    }
}

#[test]
fn solvers_are_said_in_words_with_their_numbers_and_what_is_not_said_is_as_usual() {
    let hermite = Expectation::GaussHermite { points: 20 };
    let stop = EarlyStop { monitor: Monitor::LogLikelihood, window: 1, patience: 3 };
    let tight = GradientDescent { start: Start::Tight { deviation: 0.03 }, stop: Some(stop), ..Default::default() };
    let natural = NaturalGradient { rate: 0.5, expectation: Expectation::MonteCarlo { draws: 10 } };
    for (words, solver) in [
        ("{ Gradient = {} }", GradientDescent::default().into()),
        (
            "{ Gradient = { halvings = 3, start = \"Previous\", keep_optimiser = true } }",
            GradientDescent { start: Start::Previous, keep_optimiser: true, stop: None, halvings: 3 }.into(),
        ),
        (
            "{ Gradient = { start = { Tight = { deviation = 0.03 } }, stop = { monitor = \"LogLikelihood\", window = 1, patience = 3 } } }",
            tight.into(),
        ),
        ("\"Conjugate\"", Conjugate.into()),
        ("{ NaturalGradient = { rate = 0.5, expectation = { MonteCarlo = { draws = 10 } } } }", natural.into()),
        ("{ Lbfgs = { expectation = { GaussHermite = { points = 20 } } } }", Lbfgs::new(hermite).into()),
        ("{ PowerExpectation = { alpha = 0.5 } }", PowerExpectation::new(0.5).into()),
    ] {
        assert_eq!(pvi(&format!("[pvi]\nsolver = {words}\n")).solver, solver, "{words}");
    }
}

#[test]
fn entries_that_an_algorithm_does_not_take_are_refused_with_its_name_and_what_to_do() {
    let table =
        "[vertical]\naugmentation = { Auxiliary = { rho = 0.5 } }\nauxiliary = \"MeanField\"\nlocal_steps = 1\n";
    for (algorithm, entry, text) in [
        ("sfvi", "schedule", "schedule = \"synchronous\"\n"),
        // Said as it would be anyway, it is still not taken.
        ("sfvi-avg", "schedule", "schedule = \"sequential\"\n"),
        ("sfvi-avg", "damping", "damping = 0.5\n"),
        (
            "vertical",
            "damping",
            "damping = 0.5\n[vertical]\naugmentation = { Auxiliary = { rho = 0.5 } }\nauxiliary = \"MeanField\"\nlocal_steps = 1\n",
        ),
        ("sfvi-avg", "pvi", "[pvi]\nbacktracking = 1\n"),
        ("sfvi", "pvi", "[pvi]\n"),
        ("pvi", "sfvi-avg", "[sfvi-avg]\nscale_entropy = true\n"),
        ("sfvi-avg", "fed-opt", "[fed-opt]\n"),
        ("fed-opt", "sfvi-avg", "[sfvi-avg]\n"),
        ("fed-opt", "damping", "damping = 0.5\n"),
        ("pvi", "vertical", table),
    ] {
        let found = options(algorithm, text).unwrap_err();
        assert!(matches!(found, Error::Unwelcome { .. }), "{found}");
        let said = found.to_string();
        for words in [format!("`{entry}`"), format!("the algorithm `{algorithm}`"), "Take the entry out".into()] {
            assert!(said.contains(&words), "`{words}` is not in: {said}");
        }
    }
    let run = "model = \"m\"\nalgorithm = \"sfvi\"\nsilos = [\"a\"]\nsteps = 40\nlocal_steps = 2\n";
    let found = RunFile::parse(run).unwrap().fit_options(&Settings::default()).unwrap_err().to_string();
    assert!(found.contains("`local_steps`") && found.contains("`sfvi-avg` or `fed-opt` or `pvi`"), "{found}");
}

#[test]
fn sums_behind_masks_are_refused_where_answers_of_single_silos_are_needed_with_the_reason() {
    let direct = "[vertical]\naugmentation = \"None\"\nauxiliary = \"MeanField\"\n";
    let power = "[vertical]\naugmentation = { PowerLikelihood = { rho = 0.5 } }\nauxiliary = { Amortised = { hidden = 4, labels = true } }\n";
    for (algorithm, more, words) in [
        ("few-rounds", "", "a start of each silo's own"),
        ("sfvi-avg", "", "counts by its number of rows"),
        ("fed-opt", "", "counts by its number of rows"),
        ("pvi", "", "a factor of its own"),
        ("vertical", power, "another gradient"),
        ("sfvi", "held_out_draws = 10\n", "`held_out_draws` asks each silo about its own rows"),
        ("sfvi", "leave_one_out_draws = 10\n", "`leave_one_out_draws` asks each silo"),
        ("sfvi", "checks = [\"mean of y\"]\n", "`checks` asks each silo"),
    ] {
        let found = options(algorithm, &format!("secure_sums = true\n{more}")).unwrap_err().to_string();
        assert!(found.contains(words) && found.contains("`secure_sums`"), "{algorithm}: {found}");
    }
    for (algorithm, more) in [("sfvi", String::new()), ("vertical", format!("held_out_draws = 10\n{direct}"))] {
        let text = |own: &str| {
            format!("model = \"m\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\", \"b\"]\nsteps = 4\n{own}{more}")
        };
        let run = RunFile::parse(&text("secure_sums = true\n")).unwrap();
        assert_eq!(run.fit_options(&Settings::default()).unwrap().trust_draws, Some(0));
        assert_eq!(run.asks(), ["private"]);
        assert!(
            run.check_allowed(&["private".to_owned()]).is_ok() && run.check_allowed(&[algorithm.to_owned()]).is_err()
        );
        // Whoever masks and whoever does not are of different runs.
        let [masked, plain] =
            [&run, &RunFile::parse(&text("")).unwrap()].map(|own| own.identity(&Settings::default()).unwrap());
        assert_ne!(masked, plain);
    }
}

#[test]
fn an_entry_is_known_by_the_word_of_what_it_asks_after_the_fit() {
    for (more, word, entry) in [
        ("held_out_draws = 10\n", "evaluate", "held_out_draws"),
        ("leave_one_out_draws = 10\n", "leave_one_out", "leave_one_out_draws"),
        ("checks = [\"mean of y\"]\n", "predictive", "checks"),
    ] {
        let text = format!("model = \"m\"\nalgorithm = \"sfvi\"\nsilos = [\"a\", \"b\"]\nsteps = 4\n{more}");
        let run = RunFile::parse(&text).unwrap();
        assert_eq!(run.asks(), ["sfvi", "trust", word]);
        assert_eq!(run.entry_asking(word), Some(entry));
        assert_eq!(run.entry_asking("sfvi").or(run.entry_asking("trust")), None);
    }
    let predicting = "held_out_draws = 10\n[vertical]\naugmentation = \"None\"\nauxiliary = \"MeanField\"\n";
    let text = format!("model = \"m\"\nalgorithm = \"vertical\"\nsilos = [\"a\", \"b\"]\nsteps = 4\n{predicting}");
    assert_eq!(RunFile::parse(&text).unwrap().asks(), ["vertical"]);
}

#[test]
fn parties_with_other_files_are_told_the_first_entry_that_differs() {
    let entries = |algorithm: &str, more: &str| {
        let text = format!("model = \"m\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\", \"b\"]\nsteps = 40\n{more}");
        RunFile::parse(&text).unwrap().entries(&Settings::default()).unwrap()
    };
    let own = entries("pvi", "");
    assert_eq!(entries("pvi", ""), own);
    for (algorithm, more, entry) in [
        ("sfvi-avg", "", "algorithm"),
        ("pvi", "local_steps = 10\n", "local_steps"),
        ("pvi", "damping = 0.5\n", "damping"),
        ("pvi", "elbo_draws = 7\n", "elbo_draws"),
        ("pvi", "columns = [\"x\"]\n", "columns"),
        ("pvi", "[settings]\nparticles = 7\n", "settings"),
        ("pvi", "[pvi]\nfirst_damping = 0.5\n", "pvi"),
    ] {
        let other = entries(algorithm, more);
        let differing = own.iter().find(|known| !other.contains(known)).map(|(name, _)| name.as_str());
        assert_eq!(differing, Some(entry), "{more}");
    }
    // A run that follows from another file tells of that one, and is the same run.
    let text = "model = \"m\"\nalgorithm = \"pvi\"\nsilos = [\"a\"]\nsteps = 40\n";
    let run = RunFile::parse(text).unwrap();
    let told = run.clone().told_as(&[("formula", "y ~ x".into())]);
    let identity = |run: &RunFile| run.identity(&Settings::default()).unwrap();
    assert_eq!(identity(&told), identity(&run));
    let names: Vec<String> = told.entries(&Settings::default()).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["version of Partita", "formula"]);
}

#[test]
fn a_run_of_no_silos_or_of_one_twice_is_refused() {
    let run = |silos: &str| {
        let text = format!("model = \"six-cities\"\nalgorithm = \"sfvi\"\nsilos = [{silos}]\nsteps = 40\n");
        RunFile::parse(&text).unwrap().fit_options(&Settings::default())
    };
    run("\"north\", \"south\"").unwrap();
    for (silos, words) in [("\"north\", \"south\", \"north\"", "found `north` twice"), ("", "found none")] {
        let found = run(silos).unwrap_err().to_string();
        assert!(found.contains(words) && found.contains("`silos` in the file that all parties share"), "{found}");
    }
}

#[test]
fn entries_that_there_are_not_are_elsewhere_or_mean_nothing_are_refused_by_name() {
    for (text, words) in [
        ("[pvi]\ndiverging = 1\n", "`diverging` is none of backtracking"),
        ("[pvi]\ndamping = 0.5\n", "`damping` is said before the first table"),
        ("[pvi]\nschedule = \"synchronous\"\n", "`schedule` is said before"),
        ("[pvi]\nlocal_steps = 3\n", "`local_steps` is said before"),
        ("[pvi]\nmissing_silo = \"GoOn\"\n", "`lost_silo`"),
        ("[pvi]\ndivergence = { Reny = 0.5 }\n", "Reny"),
        ("[pvi]\nsolver = { Gradient = { haltings = 3 } }\n", "`solver.Gradient.haltings`"),
        ("[pvi]\nsolver = { Lbfgs = { memory = 3 } }\n", "missing field `expectation`"),
        ("[pvi]\nsolver = { PowerExpectation = { points = 20 } }\n", "missing field `alpha`"),
        ("[pvi]\ndivergence = { Renyi = -1.0 }\n", "alpha of R"),
        ("[pvi]\nfirst_damping = 1.5\n", "first_damping"),
        ("[pvi]\ndivergence = { Renyi = 0.5 }\nsolver = \"Conjugate\"\n", "a solver that takes any divergence"),
        ("[settings]\nsteps = 41\n", "`steps` is 41 in `[settings]` and 40"),
        ("[settings]\nparticle = 4\n", "`particle` is none of"),
        ("[settings]\nschedule = { Constant = { rate = 0.1, decay = 2 } }\n", "`schedule.Constant.decay`"),
    ] {
        let found = options("pvi", text).unwrap_err().to_string();
        assert!(found.contains(words), "`{words}` is not in: {found}");
    }
    for (algorithm, text, words) in [
        ("sfvi-avg", "scaled_entropy = true\n", "`scaled_entropy` is none of averaging, by_size, keep_optimiser, most"),
        ("sfvi-avg", "local_steps = 3\n", "`local_steps` is said before"),
        ("sfvi-avg", "averaging = \"Mean\"\n", "Mean"),
        ("fed-opt", "proximity = 0.1\n", "`proximity` is none of mask, on_device, optimiser, prior"),
        ("fed-opt", "server = { Adam = {} }\n", "missing field `rate`"),
        ("fed-opt", "server = { Adam = { rate = -1.0 } }\n", "rate > 0"),
        ("fed-opt", "mask = { threshold = -1.0, soft = true }\n", "mask.threshold"),
    ] {
        let found = options(algorithm, &format!("[{algorithm}]\n{text}")).unwrap_err().to_string();
        assert!(found.contains(words), "`{words}` is not in: {found}");
    }
    // The same number twice is no contradiction.
    assert_eq!(options("pvi", "[settings]\nsteps = 40\n").unwrap().settings.steps, 40);
}
