//! Refuses evaluations, checks and rows left out at more draws than the owner of the rows allows.

use partita_flower::Program;
use partita_inference::{Error, Message, Result, SiloProgram};

/// A silo whose owner names the most draws of a question about its rows.
struct MostDraws {
    own: Box<dyn SiloProgram>,
    most: u64,
}

/// What the requests begin with that ask about a silo's rows at draws of a fitted posterior.
const ASKED: [&str; 3] = ["evaluate.", "predictive.", "leave_one_out."];

/// The program that `make` makes, with the most draws of a question about its rows.
pub(super) fn most_draws(most: Option<u64>, mut make: Program) -> Program {
    match most {
        None => make,
        Some(most) => Box::new(move || Ok(Box::new(MostDraws { own: make()?, most }))),
    }
}

impl SiloProgram for MostDraws {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.own)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        if !ASKED.iter().any(|word| request.kind.starts_with(word)) {
            return self.own.answer(request);
        }
        match request.get_word("draws")? {
            draws if draws <= self.most => self.own.answer(request),
            draws => Err(Error::Declined {
                problem: format!(
                    "`{}` at {draws} draws, and the owner of the rows allows {} or fewer (`most_draws`)",
                    request.kind, self.most
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers whatever it is asked.
    struct Answers;

    impl SiloProgram for Answers {
        fn name(&self) -> &str {
            "north"
        }

        fn answer(&mut self, request: &Message) -> Result<Message> {
            Ok(Message::new(&request.kind))
        }
    }

    #[test]
    fn a_question_at_more_draws_than_the_owner_allows_is_refused_and_nothing_else() {
        let asked = |most, kind: &str, draws| {
            let mut make = most_draws(most, Box::new(|| Ok(Box::new(Answers) as _)));
            make().unwrap().answer(&Message::new(kind).word("draws", draws))
        };
        for kind in ["evaluate.rows", "predictive.check", "leave_one_out.rows"] {
            assert!(asked(Some(1_000), kind, 1_000).is_ok() && asked(None, kind, 1 << 20).is_ok(), "{kind}");
            let refused = asked(Some(1_000), kind, 1_001).unwrap_err().to_string();
            assert!(refused.contains(&format!("`{kind}` at 1001 draws")), "{refused}");
            assert!(refused.contains("allows 1000 or fewer (`most_draws`)"), "{refused}");
        }
        assert!(asked(Some(1_000), "trust.values", 1 << 20).is_ok());
        // One that does not say how many draws is not answered.
        let mut make = most_draws(Some(1_000), Box::new(|| Ok(Box::new(Answers) as _)));
        assert!(make().unwrap().answer(&Message::new("evaluate.rows")).is_err());
    }
}
