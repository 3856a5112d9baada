//! Reads the published data of the mixed models, and deals their groups to silos.

use std::path::Path;

use partita::{Design, Device, Groups, Table};

use super::model::{Outcome, Silo};

/// How groups come to silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deal {
    /// In turn, in the order of the file.
    InTurn,
    /// In blocks of the file, which in some data puts all of one treatment into one silo.
    Blocks,
}

/// All rows of one study.
#[derive(Debug)]
pub(super) struct Study {
    pub(super) outcome: Outcome,
    group: Vec<String>,
    /// Those of each row, the intercept's one first.
    covariates: Vec<Vec<f64>>,
    y: Vec<f64>,
    trials: Vec<f64>,
}

/// The study of this name; `None`, with a word about it, where its file is not to be had.
pub(super) fn read(name: &str) -> Option<Study> {
    let Some(folder) = std::env::var_os("PARTITA_DATA") else {
        fixtures::skip("data", "PARTITA_DATA does not name a folder of staged data files");
        return None;
    };
    let path = Path::new(&folder).join("mixed_models").join(name).with_extension("csv");
    if !path.is_file() {
        fixtures::skip("data", &format!("PARTITA_DATA has no file mixed_models/{name}.csv"));
        return None;
    }
    Some(Study::of(name, &Table::from_path(path).unwrap()))
}

impl Study {
    /// Models and covariates are those of the packages that publish the data; `mixed_models.py` names the sources.
    fn of(name: &str, table: &Table) -> Self {
        let text = |column: &str| table.text(column).unwrap();
        let numbers = |column: &str| table.numbers([column]).unwrap()[0].clone();
        let is = |column: &str, level: &str| -> Vec<f64> {
            text(column).iter().map(|cell| f64::from(u8::from(*cell == level))).collect()
        };
        let by = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        let group = |column: &str| text(column).iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let (outcome, group, columns, y) = match name {
            "epil" => {
                let (treated, base) = (is("trt", "progabide"), numbers("lbase"));
                let both = by(&treated, &base);
                let columns = vec![treated, base, both, numbers("lage"), numbers("V4")];
                (Outcome::Count, group("subject"), columns, numbers("y"))
            }
            "bacteria" => {
                let late = numbers("week").iter().map(|week| f64::from(u8::from(*week > 2.0))).collect();
                (Outcome::Binary, group("ID"), vec![is("trt", "drug"), is("trt", "drug+"), late], is("y", "y"))
            }
            "cbpp" => {
                let columns = ["2", "3", "4"].map(|period| is("period", period));
                (Outcome::Successes, group("herd"), columns.into(), numbers("incidence"))
            }
            "respiratory" => {
                let (centre, id) = (text("center"), text("id"));
                let patient = centre.iter().zip(id).map(|(centre, id)| format!("{centre}/{id}"));
                let decades = numbers("age").iter().map(|age| (age - 33.0) / 10.0).collect();
                let columns = vec![is("center", "2"), is("treat", "A"), is("sex", "M"), decades, numbers("baseline")];
                (Outcome::Binary, patient.collect(), columns, numbers("outcome"))
            }
            "toenail" => {
                let (treated, time) = (is("treatment", "terbinafine"), numbers("time"));
                let both = by(&treated, &time);
                let y = is("outcome", "moderate or severe");
                (Outcome::Binary, group("patientID"), vec![treated, time, both], y)
            }
            "radon" => {
                let columns = vec![numbers("basement"), numbers("uranium")];
                (Outcome::Number, group("county"), columns, numbers("log.radon"))
            }
            other => panic!("no study is called {other}"),
        };
        let trials = if outcome == Outcome::Successes { numbers("size") } else { vec![1.0; y.len()] };
        let covariates =
            (0..y.len()).map(|row| std::iter::once(1.0).chain(columns.iter().map(|own| own[row])).collect()).collect();
        Self { outcome, group, covariates, y, trials }
    }

    pub(super) fn columns(&self) -> usize {
        self.covariates[0].len()
    }

    /// So many silos, with whole groups.
    pub(super) fn silos(&self, count: usize, deal: Deal, device: &Device) -> Vec<(String, Silo)> {
        let all = Groups::by_key(&self.group).unwrap();
        let of_group = |group: usize| match deal {
            Deal::InTurn => group % count,
            Deal::Blocks => group * count / all.groups(),
        };
        (0..count)
            .map(|silo| {
                let rows: Vec<usize> = (0..all.rows()).filter(|row| of_group(all.of_row(*row)) == silo).collect();
                (format!("silo-{silo}"), self.silo(&rows, device))
            })
            .collect()
    }

    fn silo(&self, rows: &[usize], device: &Device) -> Silo {
        let keys: Vec<&str> = rows.iter().map(|row| self.group[*row].as_str()).collect();
        let covariates = rows.iter().flat_map(|row| self.covariates[*row].clone()).collect();
        let column = |values: &[f64]| device.tensor(rows.iter().map(|row| values[*row]).collect(), [rows.len(), 1]);
        Silo {
            groups: Groups::by_key(&keys).unwrap(),
            design: Design::new(covariates, [rows.len(), 1, self.columns()]).unwrap(),
            y: column(&self.y),
            trials: column(&self.trials),
        }
    }
}
