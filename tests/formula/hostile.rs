//! Gives the parties of a study what a silo or a coordinator should never say: it is refused or borne, without a panic.

use std::collections::BTreeSet;

use partita::formula::{Agreement, Columns, DesignSummary, Profile, Study};
use serde_json::Value;

const FORMULA: &str = "surv(t, d) ~ scale(x) + poly(z, 2) + bs(w, df = 4) + s + (1 + x | h/g) + (1 | a)";
const FAMILY: &str = "piecewise_exponential";

/// A study, the columns of two silos, and the folder with their files.
fn study(formula: &str) -> (Study, Vec<Columns>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(formula, FAMILY.parse().unwrap()).unwrap();
    study.declared.groups_across_silos.insert("a".into());
    let columns = (0..2).map(|silo| {
        let line = |row: usize| {
            let (t, d, x, z, w) = (1 + (row * 7) % 23, row % 3 / 2, row % 11, (row * row) % 13, row * 5 % 17);
            format!("{t},{d},{x},{z},{w},{},h{},g{},a{}\n", ["p", "q"][row % 2], row / 9, row / 3, row % 4)
        };
        let text = "t,d,x,z,w,s,h,g,a\n".to_owned() + &(0..54).map(line).collect::<String>();
        study.columns(&super::silo(folder.path(), &format!("silo {silo}"), &text)).unwrap()
    });
    let columns = columns.collect();
    (study, columns, folder)
}

/// Everything that can be changed in one place: numbers to extremes, texts to others, lists and tables emptied or cut.
fn changed(value: &Value) -> Vec<Value> {
    let with = |place: &dyn Fn(Value) -> Value, of: &Value| changed(of).into_iter().map(place).collect::<Vec<_>>();
    match value {
        Value::Number(_) => [-1.0, 0.0, 1e308, -1e308, 1e-308]
            .map(Value::from)
            .into_iter()
            .chain([Value::Null, u64::MAX.into()])
            .collect(),
        Value::String(_) => ["", "x", "\u{0}", "silo"].map(Value::from).to_vec(),
        Value::Array(all) => {
            let mut found = vec![Value::Array(Vec::new())];
            if let Some(first) = all.first() {
                found.push(Value::Array([std::slice::from_ref(first), all].concat()));
            }
            for (place, own) in all.iter().enumerate() {
                let put = |new: Value| {
                    let mut all = all.clone();
                    all[place] = new;
                    Value::Array(all)
                };
                found.extend(with(&put, own));
            }
            found
        }
        Value::Object(all) => {
            let mut found = Vec::new();
            for (name, own) in all {
                let put = |new: Value| {
                    let mut all = all.clone();
                    all.insert(name.clone(), new);
                    Value::Object(all)
                };
                found.extend(with(&put, own));
                let mut without = all.clone();
                without.remove(name);
                found.push(Value::Object(without));
            }
            found
        }
        Value::Bool(own) => vec![Value::Bool(!own)],
        Value::Null => vec![Value::from(1)],
    }
}

#[test]
fn what_parties_say_of_designs_is_refused_or_borne_whatever_it_is() {
    let (study, columns, _folder) = study(FORMULA);
    let profiles: Vec<Profile> = columns.iter().map(|own| study.profile(own).unwrap()).collect();
    let agreement = study.agree(&profiles).unwrap();
    let design = |agreement: &Agreement, place: usize| study.design(&columns[place], agreement);
    let summaries: Vec<DesignSummary> =
        [0, 1].map(|place| DesignSummary::of(&design(&agreement, place).unwrap())).to_vec();
    let merged = DesignSummary::merge(&summaries).unwrap();
    study.plan(&merged).unwrap();
    let (mut said, mut taken) = (0, 0);
    for own in changed(&serde_json::to_value(&profiles[1]).unwrap()) {
        let Ok(own) = serde_json::from_value::<Profile>(own) else { continue };
        said += 1;
        taken += usize::from(study.agree(&[profiles[0].clone(), own]).is_ok_and(|agreed| design(&agreed, 0).is_ok()));
    }
    for own in changed(&serde_json::to_value(&agreement).unwrap()) {
        let Ok(own) = serde_json::from_value::<Agreement>(own) else { continue };
        said += 1;
        taken += usize::from(design(&own, 0).is_ok());
    }
    for own in changed(&serde_json::to_value(&summaries[1]).unwrap()) {
        let Ok(own) = serde_json::from_value::<DesignSummary>(own) else { continue };
        said += 1;
        let plan = DesignSummary::merge(&[summaries[0].clone(), own]).map_err(|error| error.to_string());
        taken += usize::from(plan.is_ok_and(|own| study.plan(&own).is_ok()));
    }
    // Most of what can be read is other numbers; much is refused.
    assert!(said > 500 && taken > 100 && taken < said, "{taken} of {said}");
}

#[test]
fn every_item_is_refused_in_turn_and_the_message_names_silo_and_item() {
    let formula = format!("{FORMULA} + bs(x, knots = 5)");
    let (study, columns, folder) = study(&formula);
    let profiles: Vec<Profile> = columns.iter().map(|own| study.profile(own).unwrap()).collect();
    let names: Vec<String> = profiles[1].items.iter().map(|item| item.name()).collect();
    let kinds: BTreeSet<&str> = names.iter().map(|name| name.split(':').next().unwrap()).collect();
    let all = "columns groups kind levels mean-sd outcome products quantiles range rows sums";
    assert_eq!(kinds, all.split(' ').collect::<BTreeSet<&str>>());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let text = format!("formula = \"{formula}\"\nfamily = \"{FAMILY}\"\nsilos = [\"north\"]\n");
    write("study.toml", &format!("{text}[declared]\ngroups_across_silos = [\"a\"]\n"));
    for name in &names {
        let mut less = profiles.clone();
        assert!(less[1].refuse(name), "{name}");
        assert!(less[1].items.iter().all(|item| item.name() != *name), "{name} is said all the same");
        let merged = study.agree(&less);
        if name.contains(':') {
            let found = merged.unwrap_err().to_string();
            assert!(found.contains(&format!("silo `silo 1` refuses the item `{name}`")), "{found}");
            continue;
        }
        // What is said later is not merged yet: the silo leaves it out, or says at its start that the study needs it.
        let agreement = merged.unwrap();
        let all = DesignSummary::of(&study.design(&columns[1], &agreement).unwrap());
        assert!(all.sums.products.is_some() && all.sums.outcome.is_some());
        let sums = all.less(&less[1].refused).sums;
        assert_eq!((sums.products.is_none(), sums.outcome.is_none()), (name == "products", name == "outcome"));
        assert_eq!(agreement.silos[1].1.is_none(), name == "rows");
        let own = format!("name = \"north\"\ndata = \"silo 1.csv\"\nstate = \"state\"\nrefuse = [\"{name}\"]\n");
        let engine = "[engine]\naddress = \"127.0.0.1:1\"\ncertificate_authority = \"no.pem\"\n";
        write("north.toml", &format!("{own}{engine}"));
        let done = fixtures::command(folder.path(), &["silo", "--silo", "north.toml"]);
        let found = String::from_utf8_lossy(&done.stderr).into_owned();
        let is_needed = found.contains(&format!("found `{name}`")) && found.contains("do not take part");
        assert!(!done.status.success() && is_needed != (name == "products"), "{name}: {found}");
    }
}
