//! Says to a coordinator why a silo refused and what to do, from the name of the check, which is all that crosses the wire.

use crate::error::{Error, Result, shown};

/// The names of checks by which a silo refuses.
pub(crate) const OTHER_SILO: &str = "the silo that a request is for";
pub(crate) const IDENTITY: &str = "the model and settings of a request";
pub(crate) const IDENTITY_OF_RUN: &str = "the model and settings of a run";
pub(crate) const ASKED: &str = "what a silo is asked";
pub(crate) const LISTED: &str = "what a study asks of its silos";
pub(crate) const AGE_OF_REQUEST: &str = "the age of a request";
pub(crate) const AGE_OF_RUN: &str = "the age of a run";
pub(crate) const START_OF_RUN: &str = "the start of a run";
pub(crate) const STATE: &str = "the state of this silo";
pub(crate) const STATES: &str = "the states that a run asks to be kept";
pub(crate) const ROWS: &str = "the rows of this silo";
pub(crate) const REQUESTS_OF_A_DAY: &str = "the requests of a day";
pub(crate) const DAY_OF_REQUESTS: &str = "the day of the requests that a silo has counted";

/// The word of a silo's `allow` that a request needs: what stands before its first dot.
pub(crate) fn word(kind: &str) -> &str {
    kind.split_once('.').map_or(kind, |(word, _)| word)
}

/// Refuses a request whose word is not among `asks` of a study's file, where it has that entry.
pub(crate) fn check_listed(asks: Option<&[String]>, kind: &str) -> Result<()> {
    let word = word(kind);
    match asks {
        Some(asks) if !asks.iter().any(|known| known == word) => Err(Error::Unwelcome {
            what: LISTED,
            found: format!("`{}`, of the request `{}`", shown(word), shown(kind)),
            expected: format!("one of {}, which `asks` of study.toml lists", asks.join(", ")),
            remedy: "Add it to `asks` in study.toml at all parties, if all agree: the study is then another run.",
        }),
        _ => Ok(()),
    }
}

/// What a coordinator says of a silo that refused `kind`: by the check `what`, or else by an error of this name.
pub(crate) fn told(kind: &str, error: &str, what: Option<&str>) -> String {
    match what {
        Some(what) => format!("the silo refused ({}): {}", shown(what), remedy(kind, what)),
        None => format!("the silo refused: {}. Its own log says what was found and what to do", reason(error)),
    }
}

/// What a refusal by a check means, and what to do.
fn remedy(kind: &str, what: &str) -> String {
    let word = word(kind);
    let words = match what {
        ASKED => {
            return format!(
                "its owner does not allow `{word}`. Ask the owner to add `{word}` to `allow` in the silo's file, or ask silos for less"
            );
        }
        LISTED => {
            return format!(
                "`asks` of study.toml does not list `{word}`. Add `{word}` to `asks` at all parties, if all agree, or ask silos for less"
            );
        }
        OTHER_SILO => "it has another name. Give every silo the name that `silos` lists",
        IDENTITY => {
            "it has another model or other settings. Start all parties with the same file of the study, or of the run, and the same version of Partita"
        }
        IDENTITY_OF_RUN => {
            "this run began with another model or other settings. Start the coordinator with the file that the run began with, or give the run up by `--restart`"
        }
        AGE_OF_REQUEST => {
            "it has answered a later request of this run. Another coordinator, or this one from a later state, went on with the run. Stop one of the two; give the run up by `--restart` where the later state is lost"
        }
        AGE_OF_RUN => {
            "another coordinator has begun a run with these silos since, or this machine's clock was set back. Stop one of the two, or correct the clock, and begin this run anew by `--restart`; or give the silos their state folders of this run, of which `archive` in each has three"
        }
        START_OF_RUN => {
            "the clocks of coordinator and silo differ by more than an hour. Set them, and begin anew by `--restart`"
        }
        STATE => {
            "its state folder is not the latest one of this run. It was put back, replaced or deleted, or the silo was started from a copy of its folder. Start it with the latest one, or give the run up by `--restart`"
        }
        STATES => "too many rounds have passed without a checkpoint. Let the coordinator write checkpoints more often",
        ROWS => {
            "it began the run with another number of rows than it has now. Have its owner restore the file of its rows, or give the run up by `--restart`"
        }
        REQUESTS_OF_A_DAY => {
            "it has answered as many requests today as its owner allows. Go on tomorrow by `--resume`, or have the owner raise `requests_a_day` in the silo's file"
        }
        DAY_OF_REQUESTS => {
            "it has answered as many requests as its owner allows, on a day to come: the clock of its machine was set back, or was ahead. Have its owner correct the clock, or remove `requests.json` in its state folder"
        }
        _ => "its own log says what was found and what to do",
    };
    words.to_owned()
}

/// What an error of a silo is about, as far as its name says.
fn reason(error: &str) -> String {
    match error {
        "Declined" => "its rows, its file or its keys do not fit what it was asked".into(),
        "Message" => "it cannot follow the request".into(),
        other => format!("it failed, with an error of kind `{}`", shown(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_that_lists_what_it_asks_is_asked_nothing_else() {
        let asks = ["formula", "few"].map(str::to_owned);
        for kind in ["formula.profile", "few.round", "few"] {
            assert!(check_listed(Some(&asks), kind).is_ok(), "{kind}");
        }
        for kind in ["predictive.check", "fewer.round", "", ".few"] {
            assert!(check_listed(Some(&asks), kind).is_err() && check_listed(None, kind).is_ok(), "{kind}");
        }
        let found = check_listed(Some(&asks), "predictive.check").unwrap_err().to_string();
        assert!(found.contains("one of formula, few, which `asks` of study.toml lists"), "{found}");
        assert!(found.contains("Add it to `asks` in study.toml at all parties"), "{found}");
    }

    #[test]
    fn a_refusal_names_the_word_to_allow_and_what_else_is_to_be_done() {
        let asked = told("leave_one_out.rows", "Unwelcome", Some(ASKED));
        assert!(asked.contains("add `leave_one_out` to `allow`"), "{asked}");
        let listed = told("leave_one_out.rows", "Unwelcome", Some(LISTED));
        assert!(listed.contains("Add `leave_one_out` to `asks` at all parties"), "{listed}");
        for (what, words) in [
            (AGE_OF_RUN, "another coordinator has begun a run"),
            (AGE_OF_RUN, "or this machine's clock was set back"),
            (REQUESTS_OF_A_DAY, "`requests_a_day`"),
            (DAY_OF_REQUESTS, "the clock of its machine was set back"),
            (STATE, "a copy of its folder"),
            (ROWS, "restore the file of its rows"),
        ] {
            let found = told("pvi.solve", "Unwelcome", Some(what));
            assert!(found.contains(what) && found.contains(words), "{found}");
        }
        let keys = told("private.masked_round", "Declined", None);
        assert!(keys.contains("its keys do not fit") && !keys.contains("Declined"), "{keys}");
        let hostile = told("pvi.solve", "Unwelcome", Some(&"x".repeat(1_000)));
        assert!(hostile.contains("xxx…): its own log"), "{hostile}");
    }
}
