//! Runs the study of package manuals on two of its data sets, and checks its table, its page and that its commands give it.

use std::path::Path;
use std::process::Command;

use fixtures::executable;
use serde_json::Value;

use crate::{QuickRun, quick_run};

#[test]
fn packages_compares_one_file_and_three_silos_with_estimates_of_r() {
    let QuickRun { text, rows, claims, page } = quick_run("packages");
    assert!(text.contains("partita fit 'dist ~ speed' --family 'gaussian(log)' --silo cars.csv"), "{text}");
    assert_eq!(rows.len(), 4);
    // Of these four analyses all claims hold, those of every printed digit too; which others they hold of the page tells.
    assert_eq!(claims.len(), 6);
    assert!(claims.iter().all(|own| own["met"] == true), "{claims:?}");
    assert!(page.contains("| `partita fit 'Menarche \\| trials(Total) ~ Age'"), "{page}");
    assert_eq!(page.matches("\n| `(Intercept)` |").count(), 4, "{page}");
    rows.iter().for_each(command_gives_what_the_study_says);
}

/// Runs the command of an analysis in a shell, as a user does, and compares its table with the numbers of the study.
fn command_gives_what_the_study_says(row: &Value) {
    let (program, command) = (executable("partita"), row["command"].as_str().unwrap());
    let path = std::env::join_paths([program.parent().unwrap(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/family_data");
    let done = Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(data).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("verdict: trust these numbers\n"), "{command}: {text}");
    let coefficients = row["coefficients"].as_array().unwrap();
    assert!(!coefficients.is_empty(), "{command}");
    for own in coefficients {
        let name = own["name"].as_str().unwrap();
        let numbers = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')));
        let numbers = numbers.unwrap_or_else(|| panic!("{command}: no `{name}` in {text}"));
        let printed: Vec<&str> = numbers.split_whitespace().take(2).collect();
        let [mean, sd] = [0, 1].map(|place: usize| own["one_file"][place].as_f64().unwrap());
        for (printed, of_study) in printed.into_iter().zip([mean, sd]) {
            // Half a unit of the last digit that is printed, and a hundredth of a standard deviation.
            let digits = printed.split_once('.').map_or(0, |(_, digits)| digits.len());
            let bound = 0.5 * 0.1_f64.powi(i32::try_from(digits).unwrap()) + 0.01 * sd;
            let found: f64 = printed.parse().unwrap();
            assert!((found - of_study).abs() <= bound, "{command}, {name}: {found} and {of_study} of the study");
        }
    }
}
