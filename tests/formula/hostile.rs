//! Gives the parties of a study what a silo or a coordinator should never say: it is refused or borne, without a panic.

use partita::formula::{Agreement, Columns, DesignSummary, Profile, SiloTable, Study};
use serde_json::Value;

/// A study with all kinds of items, and the columns of two silos.
fn study() -> (Study, Vec<Columns>) {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(
        "surv(t, d) ~ scale(x) + poly(z, 2) + bs(w, df = 4) + s + (1 + x | h/g) + (1 | a)",
        "piecewise_exponential".parse().unwrap(),
    )
    .unwrap();
    study.declared.groups_across_silos.insert("a".into());
    let columns = (0..2).map(|silo| {
        let line = |row: usize| {
            let (t, d, x, z, w) = (1 + (row * 7) % 23, row % 3 / 2, row % 11, (row * row) % 13, row * 5 % 17);
            format!("{t},{d},{x},{z},{w},{},h{},g{},a{}\n", ["p", "q"][row % 2], row / 9, row / 3, row % 4)
        };
        let path = folder.path().join(format!("{silo}.csv"));
        std::fs::write(&path, "t,d,x,z,w,s,h,g,a\n".to_owned() + &(0..54).map(line).collect::<String>()).unwrap();
        study.columns(&SiloTable { name: format!("silo {silo}"), path }).unwrap()
    });
    let columns = columns.collect();
    (study, columns)
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
    let (study, columns) = study();
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
