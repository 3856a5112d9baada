//! Refuses questions at more draws than the owner of the rows allows, and how probable fewer rows than they allow are.

use partita_flower::Program;
use partita_inference::{Error, Message, Result, SiloProgram};

/// A silo whose owner limits questions about its rows.
struct OwnersLimits {
    own: Box<dyn SiloProgram>,
    /// Draws of an evaluation, checks, rows left out, predictions by columns, or a look of the round of trust.
    most_draws: Option<u64>,
    /// Rows never seen in training of an evaluation.
    least_rows: Option<u64>,
}

/// What the requests begin with that ask about a silo's rows at draws of a fitted posterior, and say how many. A request for an
/// averaged contrast has the draws themselves: the silo of a study counts them. Behind masks a silo answers none of these.
const ASKED: [&str; 5] = ["evaluate.", "predictive.", "leave_one_out.", "trust.", "vertical.predict"];

/// Refuses a question at more draws than the owner of the rows allows.
pub(super) fn check_draws(most: Option<u64>, kind: &str, draws: u64) -> Result<()> {
    match most {
        Some(most) if draws > most => Err(Error::Declined {
            problem: format!(
                "`{kind}` at {draws} draws, and the owner of the rows allows {most} or fewer (`most_draws`)"
            ),
        }),
        _ => Ok(()),
    }
}

/// The program that `make` makes, with the most draws of a question about its rows and the fewest rows of an evaluation.
pub(super) fn limited(most_draws: Option<u64>, least_rows: Option<u64>, mut make: Program) -> Program {
    if most_draws.is_none() && least_rows.is_none() {
        return make;
    }
    Box::new(move || Ok(Box::new(OwnersLimits { own: make()?, most_draws, least_rows })))
}

impl SiloProgram for OwnersLimits {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.own)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let kind = &request.kind;
        if self.most_draws.is_some() && ASKED.iter().any(|word| kind.starts_with(word)) {
            check_draws(self.most_draws, kind, request.get_word("draws")?)?;
        }
        let answer = self.own.answer(request)?;
        if let Some(least) = self.least_rows
            && kind.starts_with("evaluate.")
        {
            let rows = answer.get_word("rows")?;
            if rows < least {
                return Err(Error::Declined {
                    problem: format!(
                        "an evaluation on {rows} rows never seen in training, and their owner allows one on {least} or \
                         more (`least_held_out_rows`)"
                    ),
                });
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers whatever it is asked, and that it has so many rows.
    struct Rows(u64);

    impl SiloProgram for Rows {
        fn name(&self) -> &str {
            "north"
        }

        fn answer(&mut self, request: &Message) -> Result<Message> {
            Ok(Message::new(&request.kind).word("rows", self.0))
        }
    }

    fn asked(most: Option<u64>, least: Option<u64>, rows: u64, request: &Message) -> Result<Message> {
        limited(most, least, Box::new(move || Ok(Box::new(Rows(rows)) as _)))().unwrap().answer(request)
    }

    #[test]
    fn an_evaluation_of_too_few_rows_is_refused_and_nothing_else() {
        let asked = |rows, kind: &str| asked(None, Some(10), rows, &Message::new(kind));
        assert!(asked(10, "evaluate.rows").is_ok() && asked(1, "pvi.solve").is_ok());
        let refused = asked(9, "evaluate.rows").unwrap_err().to_string();
        assert!(refused.contains("on 9 rows") && refused.contains("least_held_out_rows"), "{refused}");
    }

    #[test]
    fn a_question_at_more_draws_than_the_owner_allows_is_refused_and_nothing_else() {
        let at = |most, kind: &str, draws| asked(most, None, 1, &Message::new(kind).word("draws", draws));
        for kind in ["evaluate.rows", "predictive.check", "leave_one_out.rows", "trust.values", "vertical.predict"] {
            assert!(at(Some(1_000), kind, 1_000).is_ok() && at(None, kind, 1 << 20).is_ok(), "{kind}");
            let refused = at(Some(1_000), kind, 1_001).unwrap_err().to_string();
            assert!(refused.contains(&format!("`{kind}` at 1001 draws")), "{refused}");
            assert!(refused.contains("allows 1000 or fewer (`most_draws`)"), "{refused}");
        }
        assert!(at(Some(1_000), "few.round", 1 << 20).is_ok());
        // One that does not say how many draws is not answered.
        assert!(asked(Some(1_000), None, 1, &Message::new("evaluate.rows")).is_err());
    }
}
