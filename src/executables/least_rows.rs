//! Refuses to say how probable rows never seen in training are, where these are fewer than their owner allows.

use partita_flower::Program;
use partita_inference::{Error, Message, Result, SiloProgram};

/// A silo whose owner names the fewest rows of an evaluation.
struct LeastRows {
    own: Box<dyn SiloProgram>,
    least: u64,
}

/// The program that `make` makes, with the fewest rows of an evaluation.
pub(super) fn least_rows(least: Option<u64>, mut make: Program) -> Program {
    match least {
        None => make,
        Some(least) => Box::new(move || Ok(Box::new(LeastRows { own: make()?, least }))),
    }
}

impl SiloProgram for LeastRows {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.own)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let answer = self.own.answer(request)?;
        if !request.kind.starts_with("evaluate.") {
            return Ok(answer);
        }
        match answer.get_word("rows")? {
            rows if rows >= self.least => Ok(answer),
            rows => Err(Error::Declined {
                problem: format!(
                    "an evaluation on {rows} rows never seen in training, and their owner allows one on {} or more \
                     (`least_held_out_rows`)",
                    self.least
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that it has so many rows.
    struct Rows(u64);

    impl SiloProgram for Rows {
        fn name(&self) -> &str {
            "north"
        }

        fn answer(&mut self, request: &Message) -> Result<Message> {
            Ok(Message::new(&request.kind).word("rows", self.0))
        }
    }

    #[test]
    fn an_evaluation_of_too_few_rows_is_refused_and_nothing_else() {
        let asked = |rows, kind: &str| {
            let mut make = least_rows(Some(10), Box::new(move || Ok(Box::new(Rows(rows)) as _)));
            make().unwrap().answer(&Message::new(kind))
        };
        assert!(asked(10, "evaluate.rows").is_ok() && asked(1, "pvi.solve").is_ok());
        let refused = asked(9, "evaluate.rows").unwrap_err().to_string();
        assert!(refused.contains("on 9 rows") && refused.contains("least_held_out_rows"), "{refused}");
    }
}
