//! Reads run files: what the algorithm takes reaches its options, and what it does not take is refused by name.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_flower::{Error, RunFile};
use partita_inference::{
    AlgorithmChoice, DivergenceChoice, EarlyStop, Expectation, Factors, FitOptions, GradientDescent, Lbfgs, Monitor,
    NaturalGradient, PowerExpectation, PriorShare, PviOptions, Settings, SolverChoice, Start, VisitSchedule,
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
        schedule: VisitSchedule::Synchronous,
        damping: Some(0.5),
        divergence: DivergenceChoice::Renyi(0.5),
        first_damping: Some(0.25),
        hold_improper: true,
        backtracking: 3,
        prior: PriorShare::BySize,
        damping_by_size: true,
        theta_every: 2,
        ..usual
    };
    assert_eq!(pvi(text), expected);
    assert_eq!(pvi("[pvi]\nfactors = \"Shared\"\n"), PviOptions { factors: Factors::Shared, ..usual });
    for (words, divergence) in [
        ("\"KullbackLeibler\"", DivergenceChoice::KullbackLeibler),
        ("\"ReverseKullbackLeibler\"", DivergenceChoice::ReverseKullbackLeibler),
        ("{ Renyi = 2 }", DivergenceChoice::Renyi(2.0)),
        ("{ Beta = 1.5 }", DivergenceChoice::Beta(1.5)),
        ("{ Gamma = 1.3 }", DivergenceChoice::Gamma(1.3)),
        ("{ JensenShannon = { draws = 100 } }", DivergenceChoice::JensenShannon { draws: 100 }),
        ("\"None\"", DivergenceChoice::None),
    ] {
        assert_eq!(pvi(&format!("[pvi]\ndivergence = {words}\n")), PviOptions { divergence, ..usual }, "{words}");
    }
}

#[test]
fn solvers_are_said_in_words_with_their_numbers_and_what_is_not_said_is_as_usual() {
    let hermite = Expectation::GaussHermite { points: 20 };
    let stop = EarlyStop { monitor: Monitor::LogLikelihood, window: 1, patience: 3 };
    let tight = GradientDescent { start: Start::Tight { deviation: 0.03 }, stop: Some(stop), ..Default::default() };
    let natural = NaturalGradient { rate: 0.5, expectation: Expectation::MonteCarlo { draws: 10 } };
    for (words, solver) in [
        ("{ Gradient = {} }", SolverChoice::Gradient(GradientDescent::default())),
        (
            "{ Gradient = { halvings = 3, start = \"Previous\", keep_optimiser = true } }",
            SolverChoice::Gradient(GradientDescent {
                start: Start::Previous,
                keep_optimiser: true,
                stop: None,
                halvings: 3,
            }),
        ),
        (
            "{ Gradient = { start = { Tight = { deviation = 0.03 } }, stop = { monitor = \"LogLikelihood\", window = 1, patience = 3 } } }",
            SolverChoice::Gradient(tight),
        ),
        ("\"Conjugate\"", SolverChoice::Conjugate),
        (
            "{ NaturalGradient = { rate = 0.5, expectation = { MonteCarlo = { draws = 10 } } } }",
            SolverChoice::NaturalGradient(natural),
        ),
        ("{ Lbfgs = { expectation = { GaussHermite = { points = 20 } } } }", SolverChoice::Lbfgs(Lbfgs::new(hermite))),
        ("{ PowerExpectation = { alpha = 0.5 } }", SolverChoice::PowerExpectation(PowerExpectation::new(0.5))),
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
    assert!(found.contains("`local_steps`") && found.contains("`sfvi-avg` or `pvi`"), "{found}");
}

#[test]
fn entries_that_there_are_not_are_elsewhere_or_mean_nothing_are_refused_by_name() {
    for (text, words) in [
        ("[pvi]\ndiverging = 1\n", "`diverging` is none of backtracking"),
        ("[pvi]\ndamping = 0.5\n", "`damping` is said before the first table"),
        ("[pvi]\nschedule = \"synchronous\"\n", "`schedule` is said before"),
        ("[pvi]\nlocal_steps = 3\n", "`local_steps` is said before"),
        ("[pvi]\nabsence = \"GoOn\"\n", "`lost_silo`"),
        ("[pvi]\ndivergence = { Reny = 0.5 }\n", "Reny"),
        ("[pvi]\nsolver = { Gradient = { haltings = 3 } }\n", "`solver.Gradient.haltings`"),
        ("[pvi]\nsolver = { Lbfgs = { memory = 3 } }\n", "missing field `expectation`"),
        ("[pvi]\nsolver = { PowerExpectation = { points = 20 } }\n", "missing field `alpha`"),
        ("[pvi]\ndivergence = { Renyi = -1.0 }\n", "alpha of R"),
        ("[pvi]\nfirst_damping = 1.5\n", "first_damping"),
        ("[pvi]\ndivergence = { Renyi = 0.5 }\nsolver = \"Conjugate\"\n", "a solver that takes any divergence"),
        ("[settings]\nsteps = 41\n", "`steps` is 41 in `[settings]` and 40"),
    ] {
        let found = options("pvi", text).unwrap_err().to_string();
        assert!(found.contains(words), "`{words}` is not in: {found}");
    }
    // The same number twice is no contradiction.
    assert_eq!(options("pvi", "[settings]\nsteps = 40\n").unwrap().settings.steps, 40);
}
