//! Fits forty posteriors with default options, and six cities by every method, and sets each verdict beside the right answer.
//!
//! ```sh
//! cargo run --release -p partita-studies -- verdicts --page docs/src/study-verdicts.md
//! ```
//!
//! What you should see: every wrong answer is one not to trust, and nearly every right one is trusted.

mod data;
mod exact;
mod grid;
mod judged;
mod larger;
mod methods;
mod small;

use partita::inference::write_atomically;
use partita::{Device, FitOptions, Nuts, fit};

use self::judged::{HEAD, Judged, Moments, Reference, Truth};
use self::larger::{Form, Larger};
use self::small::Hard;
use crate::harness::{Claim, Claims, Result, Session, WithPage};

/// How far a corrected mean of six cities may be from long chains, in standard deviations, by any method.
const TENTH: f64 = 0.1;

/// What was found, by list.
struct Lists {
    small: Vec<Judged>,
    larger: Vec<Judged>,
    by_defaults: Vec<Judged>,
    badly: Vec<Judged>,
}

pub(crate) fn run(options: &WithPage) -> Result<()> {
    let session = Session::start("verdicts", &options.shared)?;
    let device = session.device()?;
    let (threads, quick) = (options.shared.threads, options.shared.quick);
    let kept = |list: &str, name: &str, make: &dyn Fn() -> Result<Judged>| {
        session.kept(&format!("{list}-{name}"), &(name, options.shared.seed), || {
            let own = make()?;
            println!("{}", own.cells().join(", "));
            Ok(own)
        })
    };
    let small = small::CASES.into_iter().map(|case| kept("small", &format!("{case:?}"), &|| of_small(case, &device)));
    let larger = larger::CASES.into_iter().filter(|case| !quick || case.is_quick());
    let larger = larger.map(|case| kept("larger", &format!("{case:?}"), &|| of_larger(case, &device, threads)));
    let methods = |is_by_defaults: bool| {
        let cases = methods::CASES.into_iter().filter(move |case| case.is_by_defaults() == is_by_defaults);
        cases.map(|case| kept("method", &format!("{case:?}"), &|| methods::judge(case, &device, threads)))
    };
    let lists = Lists {
        small: small.collect::<Result<_>>()?,
        larger: larger.collect::<Result<_>>()?,
        by_defaults: methods(true).collect::<Result<_>>()?,
        badly: methods(false).collect::<Result<_>>()?,
    };
    lists.tables().into_iter().for_each(|(heading, all)| judged::print(heading, all));
    let mut claims = Claims::from(lists.claims());
    claims.print_new("claims");
    if let Some(page) = &options.page {
        write_atomically(page, lists.page(&claims).as_bytes())?;
    }
    session.finish(&(lists.all().collect::<Vec<_>>(), &claims), "")
}

fn of_small(case: small::Case, device: &Device) -> Result<Judged> {
    let (data, sides) = small::given(case);
    let rows = data.len();
    let (model, data) = (Hard::new(case), device.tensor(data, [rows]));
    let truth = Truth { moments: grid::moments(&model, &data, &sides, device)?, reference: Reference::Grid };
    let found = fit(&model, &[("a".to_owned(), data)], device, &FitOptions::default(), None);
    Ok(Judged::of(&format!("{case:?}"), found, &truth))
}

fn of_larger(case: larger::Case, device: &Device, threads: usize) -> Result<Judged> {
    let silos = data::given(case, device);
    let truth = match silos.first().and_then(|(_, rows)| exact::moments(case, rows)) {
        Some(moments) => Truth { moments, reference: Reference::Grid },
        None => {
            let chains = Nuts { warmup: 600, draws: 1_500, chains: 4, threads, target_accept: 0.95, ..Nuts::default() };
            let chains = chains.sample(&Larger::new(case, Form::NonCentred), &silos, device)?;
            Truth { moments: Moments::of(&chains.sites), reference: Reference::Chains(chains.verdict) }
        }
    };
    let options = FitOptions { threads, ..FitOptions::default() };
    let found = fit(&Larger::new(case, Form::Declared), &silos, device, &options, None);
    Ok(Judged::of(&format!("{case:?}"), found, &truth))
}

impl Lists {
    fn tables(&self) -> [(&'static str, &[Judged]); 4] {
        [
            ("Posteriors of one or two globals", &self.small),
            ("Larger posteriors", &self.larger),
            ("Six cities by every method", &self.by_defaults),
            ("Fits gone wrong", &self.badly),
        ]
    }

    fn all(&self) -> impl Iterator<Item = &Judged> {
        self.tables().into_iter().flat_map(|(_, all)| all)
    }

    fn claims(&self) -> Vec<Claim> {
        let count = |of: &dyn Fn(&Judged) -> bool| self.all().filter(|own| of(own)).count();
        let (right, trusted) = (count(&Judged::is_right), count(&Judged::is_trusted));
        let named = |of: &dyn Fn(&Judged) -> bool| -> Vec<&str> {
            self.all().filter(|own| of(own)).map(|own| own.name.as_str()).collect()
        };
        let comforted = named(&|own| !own.is_right() && own.is_trusted());
        let doubted = named(&|own| own.is_right() && !own.is_trusted());
        let without = named(&|own| own.said.is_err());
        let of = |names: &[&str]| if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        let near = |own: &&Judged| own.mean_off.is_some_and(|off| off <= TENTH) || !own.is_trusted();
        let met = self.by_defaults.iter().filter(near).count();
        vec![
            Claim::new("no wrong answer is trusted", comforted.is_empty()).by(format!(
                "{} of {trusted} trusted answers are wrong{}",
                comforted.len(),
                of(&comforted)
            )),
            Claim::new("at most a tenth of right answers are not trusted", 10 * doubted.len() <= right).by(format!(
                "{} of {right}{}",
                doubted.len(),
                of(&doubted)
            )),
            Claim::new("every fit has an answer", without.is_empty()).by(format!(
                "{} have none{}",
                without.len(),
                of(&without)
            )),
            Claim::new(
                "six cities by every method: trusted means are within a tenth of a standard deviation of long chains",
                met == self.by_defaults.len(),
            )
            .by(format!("{met} of {} methods", self.by_defaults.len())),
        ]
    }

    /// The page of the book.
    fn page(&self, claims: &Claims) -> String {
        let mut text = "# Verdicts beside right answers\n\n\
            `cargo run --release -p partita-studies -- verdicts --page docs/src/study-verdicts.md` makes this page. The lists were fixed\n\
            before the first run (`studies/src/verdicts`). An answer is the corrected posterior of the report. It is wrong where a mean is\n\
            off by more than a fifth of the right standard deviation, or a standard deviation by more than a quarter. The worst number of\n\
            each posterior is shown.\n\n"
            .to_owned();
        text += &claims.table();
        for (heading, all) in self.tables() {
            text += &format!("\n## {heading}\n\n| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
            all.iter().for_each(|own| text += &format!("| {} |\n", own.cells().join(" | ")));
        }
        text
    }
}
