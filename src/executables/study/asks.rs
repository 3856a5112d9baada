//! Says which requests silos get in a study: those that its file lists, or else those that its entries need.

use partita_flower::{Error, Result, RunFile};

use super::StudyFile;
use super::agree::{AVERAGE_VERB, VERB};

impl StudyFile {
    /// The first words of the requests that silos get in this study: `asks` of the file, or what its other entries need.
    ///
    /// # Errors
    /// As for [`StudyFile::parse`].
    pub fn asks(&self) -> Result<Vec<&str>> {
        match &self.asks {
            Some(asks) => Ok(asks.iter().map(String::as_str).collect()),
            None => self.needs(),
        }
    }

    /// The first words of the requests that its entries need, `asks` aside.
    fn needs(&self) -> Result<Vec<&'static str>> {
        let mut words = vec![VERB];
        words.extend(self.run_file()?.asks());
        if self.contrasts.iter().any(|own| own.is_averaged) {
            words.push(AVERAGE_VERB);
        }
        Ok(words)
    }

    /// Refuses `asks` without a word that another entry needs.
    pub(super) fn check_asks(&self) -> Result<()> {
        let Some(asks) = &self.asks else { return Ok(()) };
        let needs = self.needs()?;
        let Some(missing) = needs.iter().find(|word| !asks.iter().any(|own| own == *word)) else { return Ok(()) };
        Err(Error::Unwelcome {
            what: "`asks` of a study",
            found: format!("no `{missing}` among {}", asks.join(", ")),
            expected: format!("it, which {} needs", self.entry_of(missing, &self.run_file()?)),
            remedy: "Add it to `asks`, or take out the entry that needs it.",
        })
    }

    /// The entry that needs requests of a word, of this file or of the run that it makes.
    fn entry_of(&self, word: &str, run: &RunFile) -> String {
        match (word, run.entry_asking(word)) {
            (VERB, _) => "`formula`".into(),
            (AVERAGE_VERB, _) => "an averaged contrast of `contrasts`".into(),
            (_, Some(entry)) if self.run.contains_key(entry) => format!("`{entry}` of `[run]`"),
            (_, Some(entry)) => format!("`{entry}`"),
            _ if self.privacy.is_some() => "the method of `[run]` with `[privacy]`".into(),
            _ if self.run.contains_key("algorithm") => "`algorithm` of `[run]`".into(),
            _ => "the usual `algorithm` of `[run]`, few-rounds,".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &str) -> Result<StudyFile> {
        StudyFile::parse(&format!("formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"north\"]\n{more}"))
    }

    #[test]
    fn what_a_study_lists_is_what_it_asks_and_has_all_that_its_entries_need() {
        assert_eq!(read("").unwrap().asks().unwrap(), ["formula", "few", "trust"]);
        let more = read("asks = [\"trust\", \"few\", \"formula\", \"average\"]").unwrap();
        assert_eq!(more.asks().unwrap(), ["trust", "few", "formula", "average"]);
        let usual = "asks = [\"formula\", \"few\", \"trust\"]\n";
        for (more, words) in [
            ("asks = []".to_owned(), "no `formula`"),
            (
                "asks = [\"formula\", \"trust\"]".to_owned(),
                "no `few` among formula, trust, expected it, which the usual `algorithm` of `[run]`",
            ),
            (format!("{usual}checks = [\"mean of y\"]"), "expected it, which `checks` needs. Add it to `asks`"),
            (
                format!("{usual}leave_one_out_draws = 10"),
                "no `leave_one_out` among formula, few, trust, expected it, which `leave_one_out_draws` needs",
            ),
            (format!("{usual}contrasts = [\"x: 1 - 0 averaged\"]"), "an averaged contrast of `contrasts` needs"),
            (format!("{usual}[run]\nheld_out_draws = 10"), "`held_out_draws` of `[run]` needs"),
            (
                format!("{usual}[run]\nalgorithm = \"sfvi\""),
                "no `sfvi` among formula, few, trust, expected it, which `algorithm`",
            ),
            ("asks = [\"formula\", \"few\", \"trsut\"]".to_owned(), "`trsut`, expected words of `sfvi`, `few`"),
        ] {
            let found = read(&more).unwrap_err().to_string();
            assert!(found.contains("`asks` of a study") && found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn an_owner_allows_no_more_than_the_study_lists() {
        let allow = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let study = read("asks = [\"formula\", \"few\", \"trust\", \"predictive\"]").unwrap();
        let run = study.run_file().unwrap();
        assert!(run.check_allowed(&allow(&["formula", "few", "trust"])).is_ok());
        let wider = allow(&["formula", "few", "trust", "average"]);
        let found = run.check_allowed(&wider).unwrap_err().to_string();
        assert!(
            found.contains("`average` in `allow` of the silo's file, expected words of `asks` of study.toml"),
            "{found}"
        );
        assert!(found.contains("or add it to `asks` in study.toml at all parties"), "{found}");
        // Without the entry an owner's file may serve several studies.
        assert!(read("").unwrap().run_file().unwrap().check_allowed(&wider).is_ok());
    }
}
