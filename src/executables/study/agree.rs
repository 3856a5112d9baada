//! Lets silos agree on columns, levels and scales before the fit, in two exchanges of what each may say of its rows.

use std::path::Path;

use partita_flower::Flower;
use partita_inference::{Exchange, Field, Manifest, Message, Release, Request, write_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::formula::contrast::Averaged;
use crate::formula::{Agreed, Contrast, DesignSummary, Profile, Study};

/// The word in a silo's `allow` for these requests.
pub(super) const VERB: &str = "formula";
/// Asks for a [`Profile`].
pub(super) const PROFILE: &str = "formula.profile";
/// Tells the agreement, and asks for a [`DesignSummary`].
pub(super) const DESIGN: &str = "formula.design";
/// Tells what was agreed, with what all silos together say of their designs, and asks for the number of rows.
pub(super) const MODEL: &str = "formula.model";
/// The word in a silo's `allow` for averages over its rows.
pub(super) const AVERAGE_VERB: &str = "average";
/// Tells a contrast and draws of the globals, and asks for what the contrast is over the rows, draw by draw.
pub(super) const AVERAGE: &str = "average.contrast";
/// Tells what was found.
pub(super) const REPORT: &str = "formula.report";

/// The most bytes that a silo may say of its rows.
const MOST: usize = 1 << 22;

/// The most rows that a silo may say it has: more would outweigh every other silo.
const MOST_ROWS: u64 = 1_000_000_000;

/// What the coordinator keeps for a run that is resumed: silos have the model in their own states.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Announced {
    pub(super) agreed: Agreed,
    /// Of each silo.
    pub(super) rows: Vec<usize>,
}

/// What may leave a silo before and after the fit of a study.
pub(super) fn fields() -> Vec<Field> {
    let field = |name, meaning, limit| Field { name, meaning, limit, release: Release::Forbidden };
    vec![
        field("profile", "what the formula needs to know of the rows: `partita describe` lists it", MOST / 8),
        field(
            "design",
            "counts, means and products of the columns, numbers of groups and which cross, and what was agreed of levels and cuts",
            MOST / 8,
        ),
        field(
            "differences",
            "the sum over the rows of the difference that an averaged contrast of study.toml is of, for each level and draw of the globals",
            MOST / 8,
        ),
        field(
            "weight",
            "the sum of the weights of the rows over which an averaged contrast is: their number without weights",
            1,
        ),
        field("rows", "the number of rows, or of groups where rows are in groups", 1),
    ]
}

/// What may leave a silo of a private study beside its noised sums.
pub(super) fn public_fields() -> Vec<Field> {
    let own = fields().into_iter().filter(|field| field.name == "rows");
    own.map(|field| Field { release: Release::Public, ..field }).collect()
}

/// A value in a message.
pub(super) fn put(message: Message, name: &str, value: &impl Serialize) -> partita_inference::Result<Message> {
    let text = serde_json::to_string(value).map_err(declined)?;
    Ok(message.setting(name, &text))
}

/// The value that a message carries.
pub(super) fn get<T: DeserializeOwned>(message: &Message, name: &str) -> partita_inference::Result<T> {
    let wrong = |problem: String| partita_inference::Error::Message { kind: message.kind.clone(), problem };
    serde_json::from_str(message.get_setting(name)?).map_err(|error| wrong(format!("`{name}`: {error}")))
}

/// The same of what another party says of columns and levels, whose names reach logs and reports: none has an end of a line, which no
/// cell of a file has, and which could begin a line that looks like one of theirs.
pub(super) fn said<T: DeserializeOwned>(message: &Message, name: &str) -> partita_inference::Result<T> {
    if breaks_line(&get(message, name)?) {
        let problem = format!("`{name}` has a name or a level with an end of a line, which no file has");
        return Err(partita_inference::Error::Message { kind: message.kind.clone(), problem });
    }
    get(message, name)
}

/// Whether a text in a value, or the name of an entry, has an end of a line.
fn breaks_line(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\n'),
        Value::Array(all) => all.iter().any(breaks_line),
        Value::Object(all) => all.iter().any(|(name, own)| name.contains('\n') || breaks_line(own)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(super) fn declined(error: impl std::fmt::Display) -> partita_inference::Error {
    partita_inference::Error::Declined { problem: error.to_string() }
}

/// Both exchanges: what silos agreed on, and the rows of each.
pub(super) fn agree(study: &Study, exchange: &mut Flower) -> partita_inference::Result<Agreed> {
    let profiles = ask(exchange, &Message::new(PROFILE), |reply| said::<Profile>(reply, "profile"))?;
    in_own_name("formula.profiled", profiles.iter().map(|own| own.silo.as_str()), exchange.silos())?;
    let agreement = study.agree(&profiles).map_err(declined)?;
    let request = put(Message::new(DESIGN), "agreement", &agreement)?;
    let summaries = ask(exchange, &request, |reply| said::<DesignSummary>(reply, "design"))?;
    in_own_name("formula.designed", summaries.iter().map(|own| own.sums.silo.as_str()), exchange.silos())?;
    let summary = DesignSummary::merge(&summaries).map_err(declined)?;
    Ok(Agreed { agreement, summary })
}

/// Refuses what a silo says in the name of another: `says` are the names in what each of `silos` sent.
fn in_own_name<'a>(kind: &str, says: impl Iterator<Item = &'a str>, silos: &[String]) -> partita_inference::Result<()> {
    let Some((says, name)) = says.zip(silos).find(|(says, name)| says != name) else { return Ok(()) };
    let problem = format!("it speaks for silo `{says}`, expected the silo that sends it");
    Err(partita_inference::Error::Message { kind: kind.to_owned(), problem }.in_silo(name, 0))
}

/// Tells all silos the model; the rows of each.
pub(super) fn announce(agreed: &Agreed, exchange: &mut Flower) -> partita_inference::Result<Vec<usize>> {
    let request = put(Message::new(MODEL), "agreed", agreed)?;
    ask(exchange, &request, |reply| Ok(usize::try_from(reply.get_count("rows", MOST_ROWS)?).unwrap_or(usize::MAX)))
}

/// What each silo has for an averaged contrast at draws of the globals; `compared` numbers of every row are compared.
pub(super) fn average(
    contrast: &Contrast,
    globals: &[Vec<f64>],
    compared: usize,
    exchange: &mut Flower,
) -> partita_inference::Result<Vec<Averaged>> {
    let request = Message::new(AVERAGE).setting("contrast", &contrast.text).floats("draws", &globals.concat());
    ask(exchange, &request, |reply| {
        let sums = reply.expect_floats("differences", compared * globals.len())?;
        let weight = reply.expect_floats("weight", 1)?[0];
        if weight.is_finite() && weight > 0.0 {
            return Ok(Averaged { sums: sums.chunks(globals.len().max(1)).map(<[f64]>::to_vec).collect(), weight });
        }
        let problem = format!("`weight` is {weight}, expected a number above 0");
        Err(partita_inference::Error::Message { kind: reply.kind.clone(), problem })
    })
}

/// Sends one message to all silos, and reads what each replies.
pub(super) fn ask<T>(
    exchange: &mut Flower,
    message: &Message,
    read: impl Fn(&Message) -> partita_inference::Result<T>,
) -> partita_inference::Result<Vec<T>> {
    let names = exchange.silos().to_vec();
    let outcomes = exchange.exchange(Request::to_all(names.len(), message), &Manifest { fields: fields() }, None)?;
    let each = outcomes.into_iter().zip(&names);
    each.map(|(outcome, name)| read(&outcome.reply(name, 0)?).map_err(|error| error.in_silo(name, 0))).collect()
}

impl Agreed {
    /// The file of a silo's state.
    const FILE: &str = "agreed.json";

    /// Writes it into a folder.
    pub(super) fn write(&self, folder: &Path) -> partita_inference::Result<()> {
        write(self, &folder.join(Self::FILE))
    }

    /// Reads it from a folder; `None` where it has none.
    pub(super) fn read(folder: &Path) -> partita_inference::Result<Option<Self>> {
        read(&folder.join(Self::FILE))
    }
}

impl Announced {
    /// The file of the coordinator's state.
    const FILE: &str = "announced.json";

    /// Writes it into the coordinator's folder.
    pub(super) fn write(&self, folder: &Path) -> partita_inference::Result<()> {
        write(self, &folder.join(Self::FILE))
    }

    /// Reads that of a run that has a checkpoint there.
    ///
    /// # Errors
    /// [`partita_inference::Error::Declined`] for a folder without it: to agree anew would begin another run at every silo.
    pub(super) fn read(folder: &Path) -> partita_inference::Result<Self> {
        let path = folder.join(Self::FILE);
        let none = || partita_inference::Error::Declined {
            problem: format!(
                "resuming the study: found no {}, expected what its silos agreed on beside the checkpoint. Put the file back, or begin anew by `--restart`.",
                path.display()
            ),
        };
        read(&path)?.ok_or_else(none)
    }
}

/// Writes what a party keeps.
pub(super) fn write(own: &impl Serialize, path: &Path) -> partita_inference::Result<()> {
    write_atomically(path, &serde_json::to_vec_pretty(own).map_err(declined)?)
}

/// Reads what a party kept; `None` where there is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> partita_inference::Result<Option<T>> {
    let wrong = |problem: String| partita_inference::Error::Declined {
        problem: format!("{}: {problem}. Start the run anew.", path.display()),
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use partita_formula::Item;

    use super::*;

    #[test]
    fn what_a_silo_says_in_the_name_of_another_is_refused() {
        let silos = ["north", "south"].map(str::to_owned);
        in_own_name("formula.profiled", ["north", "south"].into_iter(), &silos).unwrap();
        let error = in_own_name("formula.profiled", ["north", "north"].into_iter(), &silos).unwrap_err().to_string();
        assert!(error.contains("silo `south`") && error.contains("speaks for silo `north`"), "{error}");
    }

    #[test]
    fn what_a_party_says_with_an_end_of_a_line_in_a_name_or_a_level_is_refused() {
        let profile = |silo: &str, of: &str, level: &str| {
            let items = vec![Item::Levels { of: of.into(), levels: vec!["never".into(), level.into()] }];
            Profile { silo: silo.into(), items, refused: Vec::new() }
        };
        let received = |profile: &Profile| {
            said::<Profile>(&put(Message::new("formula.profiled"), "profile", profile).unwrap(), "profile")
        };
        let honest = profile("north", "smoke", "now and\tthen");
        assert_eq!(received(&honest).unwrap(), honest);
        let line = "\n12:00 run finished";
        for hostile in [
            profile(&format!("north{line}"), "smoke", "ever"),
            profile("north", &format!("smoke{line}"), "ever"),
            profile("north", "smoke", &format!("ever{line}")),
        ] {
            let error = received(&hostile).unwrap_err().to_string();
            assert!(error.contains("a name or a level with an end of a line") && !error.contains('\n'), "{error}");
        }
        // The name of an entry, as of the levels of an agreement.
        assert!(breaks_line(&serde_json::json!({"levels": {"smoke\n12:00 run finished": []}})));
        assert!(!breaks_line(&serde_json::json!({"levels": {"smoke": [null, true, 1]}})));
    }
}
