//! Holds three silos with an agreement to the pooled file, and conflicts between silos to messages that name both.

use partita_formula::{
    Agreement, AgreementError, ColumnKind, ColumnSums, Declared, Design, DesignError, Formula, GroupScope, Item,
    Moments, OrthogonalPolynomial, Outcome, Profile,
};
use proptest::prelude::*;

use crate::golden::{CHILDREN, columns, declared, designs, difference, golden};

/// Sums in another order lose about as many digits as polynomials of degree four.
const TOLERANCE: f64 = 1e-10;

/// The rows of `CHILDREN` by the silo that each is of, and where each went.
fn split(of: &[usize]) -> ([String; 3], [Vec<usize>; 3]) {
    let mut lines = CHILDREN.lines();
    let header = lines.next().unwrap();
    let (mut texts, mut rows) = ([(); 3].map(|()| format!("{header}\n")), [const { Vec::new() }; 3]);
    for (row, (line, silo)) in lines.zip(of).enumerate() {
        texts[*silo] += &format!("{line}\n");
        rows[*silo].push(row);
    }
    (texts, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn three_silos_with_an_agreement_have_the_designs_of_the_pooled_file(
        of in proptest::collection::vec(0_usize..3, 30).prop_filter("each has rows", |of| (0..3).all(|silo| of.contains(&silo)))
    ) {
        let (texts, rows) = split(&of);
        let golden = golden();
        for case in golden["designs"].as_array().unwrap() {
            let text = case["formula"].as_str().unwrap();
            let formula = Formula::parse(text).unwrap();
            let declared = declared(case["contrast"].as_str().unwrap());
            let (_, pooled) = designs(&[("all", CHILDREN)], &formula, &declared);
            let silos = [("north", texts[0].as_str()), ("south", texts[1].as_str()), ("west", texts[2].as_str())];
            let (_, parts) = designs(&silos, &formula, &declared);
            let width = pooled[0].fixed.names.len();
            for (part, rows) in parts.iter().zip(&rows) {
                prop_assert_eq!(&part.fixed.names, &pooled[0].fixed.names);
                let chosen = |values: &[f64], width: usize| rows.iter().flat_map(|row| values[row * width..][..width].to_vec()).collect::<Vec<_>>();
                let apart = difference(&part.fixed.values, &chosen(&pooled[0].fixed.values, width));
                prop_assert!(apart < TOLERANCE, "{}: {:e}", text, apart);
                for (one, all) in part.random.iter().zip(&pooled[0].random) {
                    let columns = chosen(&all.columns.values, all.columns.names.len());
                    prop_assert!(difference(&one.columns.values, &columns) < TOLERANCE, "{}", text);
                    let names: Vec<&String> = one.group.iter().map(|group| &one.levels[*group]).collect();
                    let expected: Vec<&String> = rows.iter().map(|row| &all.levels[all.group[*row]]).collect();
                    prop_assert_eq!(names, expected);
                }
            }
            let merged = ColumnSums::merge(&parts.iter().map(Design::sums).collect::<Vec<_>>()).unwrap();
            let sums = pooled[0].sums();
            prop_assert!(difference(&merged.means, &sums.means) < TOLERANCE);
            prop_assert!(difference(&merged.sds(), &sums.sds()) < TOLERANCE);
            prop_assert!(difference(&merged.products.unwrap(), &sums.products.unwrap()) < TOLERANCE);
        }
    }
}

/// The profiles of silos with `texts`, called north, south and west.
fn profiles(texts: &[&str], formula: &Formula, declared: &Declared) -> Vec<Profile> {
    let silo = |(text, name): (&&str, &str)| Profile::of(&[formula], &columns(name, text, formula), declared).unwrap();
    texts.iter().zip(["north", "south", "west"]).map(silo).collect()
}

fn merge(texts: &[&str], formula: &str) -> Result<Agreement, AgreementError> {
    let formula = Formula::parse(formula).unwrap();
    Agreement::merge(&profiles(texts, &formula, &Declared::default()), &Declared::default())
}

#[test]
fn columns_are_found_by_name_and_levels_are_those_of_all_silos() {
    let agreement = merge(&["y,x,f\n1,2,b\n2,3,c\n", "f,extra,x,y\na,1,4,3\n"], "y ~ x * f + (1 | f)").unwrap();
    assert_eq!(agreement.levels["f"], ["a", "b", "c"]);
    assert_eq!(agreement.silos, [("north".into(), Some(2)), ("south".into(), Some(1))]);
    assert_eq!(agreement.kinds["f"], ColumnKind::Text);
    let ages = merge(&["y,age\n1,9\n2,10\n", "y,age\n1,7\n"], "y ~ factor(age)").unwrap();
    assert_eq!(ages.levels["factor(age)"], ["7", "9", "10"]);
}

#[test]
fn identifiers_are_levels_as_they_are_written_and_numbers_as_r_writes_them() {
    let levels = |text: &str| merge(&[text], "y ~ factor(id)").unwrap().levels["factor(id)"].clone();
    assert_eq!(levels("y,id\n1,7\n2,007\n3,10\n"), ["007", "7", "10"]);
    assert_eq!(levels("y,id\n1,12345678901234567\n2,12345678901234568\n"), ["12345678901234567", "12345678901234568"]);
    assert_eq!(levels("y,id\n1,1.50\n2,1.5\n3,100000\n4,-0\n5,0\n"), ["0", "1.5", "1e+05"]);
}

#[test]
fn a_merge_is_the_same_in_every_order_of_the_silos() {
    let (texts, _) = split(&(0..30).map(|row| row % 3).collect::<Vec<_>>());
    let formula = Formula::parse("y ~ scale(x) + poly(age, 3) + bs(z, df = 5) + f").unwrap();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut profiles = profiles(&texts, &formula, &Declared::default());
    let one = Agreement::merge(&profiles, &Declared::default()).unwrap();
    profiles.reverse();
    let other = Agreement::merge(&profiles, &Declared::default()).unwrap();
    assert_eq!((&one.levels, &one.kinds), (&other.levels, &other.kinds));
    let (a, b) = (one.moments["scale(x)"], other.moments["scale(x)"]);
    assert!(difference(&[a.mean, a.squares], &[b.mean, b.squares]) < TOLERANCE);
    let (a, b) = (&one.polynomials["poly(age, 3)"], &other.polynomials["poly(age, 3)"]);
    assert!(difference(&a.norms, &b.norms) < TOLERANCE && difference(&a.alpha, &b.alpha) < TOLERANCE);
    let (a, b) = (&one.splines["bs(z, df = 5)"].knots, &other.splines["bs(z, df = 5)"].knots);
    assert_eq!(a.len(), 2);
    assert_eq!(a, b);
}

#[test]
fn silos_that_differ_are_both_named() {
    let north = "y,x,f\n1,2,a\n";
    let text = merge(&[north, "y,x,f\n1,low,a\n2,high,b\n"], "y ~ x").unwrap_err().to_string();
    assert_eq!(
        text,
        "merging profiles: column `x` holds numbers in silo `north` and text in silo `south`, expected the same in all. Correct the file of one of them, or write `factor(x)` if its values are levels."
    );
    assert!(merge(&[north, "y,x,f\n1,low,a\n2,high,b\n"], "y ~ factor(x)").is_ok());
    let text = merge(&[north, "y,x,f\n1,2,TRUE\n"], "y ~ f").unwrap_err().to_string();
    assert!(text.contains("text in silo `north` and TRUE and FALSE in silo `south`"), "{text}");

    let formula = Formula::parse("y ~ scale(x) + f").unwrap();
    let declared = Declared::default();
    let mut two = profiles(&[north, "y,x,f\n3,4,b\n"], &formula, &declared);
    two[1].items.retain(|item| item.name() != "levels:f");
    let text = Agreement::merge(&two, &declared).unwrap_err().to_string();
    assert!(text.contains("silo `south` has no item `levels:f`, which silo `north` has"), "{text}");

    two[1].silo = "north".into();
    let text = Agreement::merge(&two, &declared).unwrap_err().to_string();
    assert!(text.contains("found two of silo `north`"), "{text}");
    assert!(matches!(Agreement::merge(&[], &declared), Err(AgreementError::Silos { .. })));
    let few = merge(&["y,x\n1,2\n2,2\n", "y,x\n3,4\n"], "y ~ poly(x, 2)").unwrap_err().to_string();
    assert!(few.contains("poly(x, 2) needs more than 2 values that differ"), "{few}");
}

#[test]
fn an_owner_reads_each_item_and_refuses_it_by_name_and_a_study_may_fix_it() {
    let formula = Formula::parse("y ~ scale(x) + f").unwrap();
    let mut declared = Declared::default();
    let texts = ["y,x,f\n1,2,a\n2,4,b\n", "y,x,f\n3,6,b\n"];
    let mut two = profiles(&texts, &formula, &declared);
    let expected = "What silo north says of its rows:
  rows: 2 rows used, 0 left out for missing cells
  kind:y: column y holds numbers
  kind:x: column x holds numbers
  kind:f: column f holds text
  mean-sd:scale(x): what scale(x) scales: 2 numbers, mean 3, standard deviation 1.4142135623730951
  levels:f: f has the levels a, b
  columns: once silos agree on the columns of the design, the mean and the sum of squares of each, and of an offset
  products: then the sums of products of two of them, which show which columns are given by others
  outcome: then count, mean and sum of squares of the outcome, and of it less an offset
";
    assert_eq!(two[0].to_string(), expected);
    assert!(two[0].refuse("levels:f") && !two[0].refuse("levels:g"));
    assert!(two[0].to_string().ends_with("  levels:f: refused\n"));
    let text = Agreement::merge(&two, &declared).unwrap_err().to_string();
    assert!(text.contains("silo `north` refuses the item `levels:f`. Fix it in the study instead"), "{text}");

    declared.levels.insert("f".into(), vec!["b".into(), "a".into()]);
    let two = profiles(&texts, &formula, &declared);
    assert!(two.iter().all(|profile| profile.items.iter().all(|item| item.name() != "levels:f")));
    let agreement = Agreement::merge(&two, &declared).unwrap();
    let design = Design::of(&formula, &columns("north", texts[0], &formula), &agreement).unwrap();
    assert_eq!(design.fixed.names, ["(Intercept)", "scale(x)", "fa"]);
    assert_eq!(design.fixed.values, [1.0, -1.0, 1.0, 1.0, 0.0, 0.0]);

    // A level that the study does not have, and a declaration that no formula has.
    let other = columns("west", "y,x,f\n1,2,a\n2,3,z\n", &formula);
    let text = Design::of(&formula, &other, &agreement).unwrap_err().to_string();
    assert!(text.contains("`f` is the level \"z\" in line 3, expected one of b, a"), "{text}");
    declared.levels.insert("scale(X)".into(), Vec::new());
    let text = Profile::of(&[&formula], &other, &declared).unwrap_err().to_string();
    assert!(text.contains("`scale(X)` is declared and in no formula. Did you mean `scale(x)`?"), "{text}");
}

#[test]
fn numbers_and_levels_that_no_rows_give_are_refused_with_the_silo() {
    let formula = Formula::parse("y ~ scale(x) + poly(x, 2) + bs(x, df = 5) + f").unwrap();
    let declared = Declared::default();
    let texts = ["y,x,f\n1,2,a\n2,4,b\n3,9,a\n4,1,b\n", "y,x,f\n3,6,b\n1,7,a\n2,8,b\n5,3,a\n"];
    let good = profiles(&texts, &formula, &declared);
    assert!(Agreement::merge(&good, &declared).is_ok());
    let spoilt: [fn(&mut Item); 9] = [
        |item| {
            if let Item::Levels { levels, .. } = item {
                levels.push(levels[0].clone())
            }
        },
        |item| {
            if let Item::MeanSd { moments, .. } = item {
                moments.squares = -1.0
            }
        },
        |item| {
            if let Item::MeanSd { moments, .. } = item {
                *moments = Moments { count: 0, ..*moments }
            }
        },
        |item| {
            if let Item::Sums { sums, .. } = item {
                sums.sums[1] = f64::NAN
            }
        },
        |item| {
            if let Item::Sums { sums, .. } = item {
                sums.sums.truncate(1)
            }
        },
        |item| {
            if let Item::Quantiles { counts, .. } = item {
                counts.knots = 0
            }
        },
        |item| {
            if let Item::Quantiles { counts, .. } = item {
                counts.low = f64::INFINITY
            }
        },
        |item| {
            if let Item::Quantiles { counts, .. } = item {
                counts.cells[1].at += 1_000
            }
        },
        |item| {
            if let Item::Quantiles { counts, .. } = item {
                counts.cells[1].rows = u64::MAX
            }
        },
    ];
    for (index, spoil) in spoilt.into_iter().enumerate() {
        let mut bad = good.clone();
        bad[1].items.iter_mut().for_each(spoil);
        let error = Agreement::merge(&bad, &declared).unwrap_err();
        assert!(matches!(&error, AgreementError::Malformed { silo, .. } if silo == "south"), "{index}: {error}");
    }
}

#[test]
fn an_agreement_that_no_merge_gives_is_refused() {
    let formula = Formula::parse("y ~ poly(x, 2)").unwrap();
    let text = "y,x\n1,2\n2,4\n3,9\n4,1\n";
    let columns = columns("north", text, &formula);
    let profile = Profile::of(&[&formula], &columns, &Declared::default()).unwrap();
    let agreement = Agreement::merge(&[profile], &Declared::default()).unwrap();
    assert!(Design::of(&formula, &columns, &agreement).is_ok());
    let spoilt: [fn(&mut OrthogonalPolynomial); 4] = [
        |polynomial| polynomial.alpha.clear(),
        |polynomial| polynomial.norms.truncate(2),
        |polynomial| polynomial.norms[1] = 0.0,
        |polynomial| polynomial.centre = f64::NAN,
    ];
    for spoil in spoilt {
        let mut bad = agreement.clone();
        bad.polynomials.values_mut().for_each(spoil);
        let error = Design::of(&formula, &columns, &bad).unwrap_err();
        assert_eq!(error, DesignError::NotAgreed { item: "sums:poly(x, 2)".into() });
    }
}

#[test]
fn profiles_and_agreements_are_the_same_after_a_file() {
    let formula = Formula::parse("y ~ scale(x) + poly(age, 3) + bs(z, df = 5) + f + (1 | child)").unwrap();
    let profiles = profiles(&[CHILDREN], &formula, &Declared::default());
    let text = serde_json::to_string(&profiles).unwrap();
    assert!(!text.contains("k01"), "the names of groups within a silo stay there");
    let read: Vec<Profile> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, profiles);
    let agreement = Agreement::merge(&read, &Declared::default()).unwrap();
    let again: Agreement = serde_json::from_str(&serde_json::to_string(&agreement).unwrap()).unwrap();
    assert_eq!(again, agreement);
}

#[test]
fn groups_are_of_the_silo_inside_of_it_or_over_silos_as_declared() {
    let formula = Formula::parse("y ~ x + silo + (1 | child) + (1 | region) + (1 | silo)").unwrap();
    let declared = Declared { groups_across_silos: ["region".into()].into(), ..Declared::default() };
    let texts = ["y,x,child,region\n1,2,1,e\n2,3,2,e\n", "y,x,child,region\n3,4,1,w\n2,2,1,e\n"];
    let two = profiles(&texts, &formula, &declared);
    let agreement = Agreement::merge(&two, &declared).unwrap();
    let design = Design::of(&formula, &columns("south", texts[1], &formula), &agreement).unwrap();
    assert_eq!(design.fixed.names, ["(Intercept)", "x", "silosouth"]);
    let found: Vec<_> =
        design.random.iter().map(|term| (term.scope, term.levels.clone(), term.group.clone())).collect();
    let list = |levels: &[&str]| levels.iter().map(|level| (*level).to_owned()).collect::<Vec<_>>();
    let expected = [
        (GroupScope::WithinSilo, list(&["1"]), vec![0, 0]),
        (GroupScope::AcrossSilos, list(&["e", "w"]), vec![1, 0]),
        (GroupScope::Silo, list(&["south"]), vec![0, 0]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn collinear_columns_are_named_with_those_that_give_them() {
    let found = |formula: &str, texts: &[(&str, &str)]| {
        let (_, parts) = designs(texts, &Formula::parse(formula).unwrap(), &Declared::default());
        let sums = ColumnSums::merge(&parts.iter().map(Design::sums).collect::<Vec<_>>()).unwrap();
        sums.collinear().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let north = ("north", "y,a,b,c,d,f\n1,1,2,3,5,u\n2,2,7,9,5,v\n4,5,1,6,5,u\n2,3,3,6,5,u\n");
    let south = ("south", "y,a,b,c,d,f\n3,1,1,2,5,w\n1,0,4,4,5,w\n2,8,2,10,5,u\n");
    assert_eq!(found("y ~ a + b + c", &[north, south]), ["`c` is `a` plus `b`"]);
    assert_eq!(found("y ~ d + a", &[north, south]), ["`d` is 5 times `(Intercept)`"]);
    assert_eq!(
        found("y ~ 0 + d + f", &[north, south]),
        ["`fw` is 0.2 times `d` plus -1 times `fu` plus -1 times `fv`"]
    );
    assert_eq!(
        found("y ~ 0 + f + a + I(2 * a - 3)", &[north, south]),
        ["`I(2 * a - 3)` is -3 times `fu` plus -3 times `fv` plus -3 times `fw` plus 2 times `a`"]
    );
    assert!(found("y ~ a + b + f", &[north, south]).is_empty());
    assert!(found("y ~ poly(a, 4, raw = TRUE)", &[north, south]).is_empty());
    // In one silo a column may be constant that is not over both.
    assert!(found("y ~ a + f", &[("one", "y,a,f\n1,2,u\n2,3,u\n"), ("two", "y,a,f\n1,2,v\n2,5,v\n")]).is_empty());
    let without = designs(&[north], &Formula::parse("y ~ a + b + c").unwrap(), &Declared::default()).1[0]
        .sums()
        .without_products();
    assert!(without.collinear().is_empty() && without.sds().len() == 4 && without.left_sds() == without.sds());
    let other = designs(&[south], &Formula::parse("y ~ a").unwrap(), &Declared::default()).1[0].sums();
    assert!(matches!(ColumnSums::merge(&[without, other]), Err(DesignError::Columns { silo, .. }) if silo == "south"));
}

#[test]
fn levels_that_differ_in_case_or_white_space_are_told_of() {
    let told = |south: &str| {
        let north = ("north", "y,sex,ward\n1,m,A 1\n2,f,A 2\n");
        let formula = Formula::parse("y ~ sex + ward").unwrap();
        designs(&[north, ("south", south)], &formula, &Declared::default()).0.levels_alike()
    };
    assert!(told("y,sex,ward\n1,m,A 3\n2,f,B\n").is_empty());
    let found = told("y,sex,ward\n1,M,A 1\n2,F,A  2\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("the levels \"F\" and \"f\" of `sex` differ in case or white space alone"), "{found:?}");
    assert!(
        found[1].contains("\"A  2\" and \"A 2\" of `ward`") || found[1].contains("\"A 2\" and \"A  2\""),
        "{found:?}"
    );
}

#[test]
fn a_level_that_silos_write_with_other_digits_is_refused_with_who_wrote_what() {
    let said = |texts: [&str; 3], formula: &str| merge(&texts, formula).unwrap_err().to_string();
    let [padded, plain] = ["y,month\n1,01\n2,12\n", "y,month\n1,1\n2,12\n"];
    let found = said([padded, plain, padded], "y ~ factor(month)");
    let words = "the levels of `factor(month)` have \"01\" in silo north, west and \"1\" in silo south";
    assert!(found.contains(words) && found.contains("levels = c(\"01\", \"1\", …)"), "{found}");
    let [text, numbers] = ["y,month\n1,1.0\n2,none\n3,other\n", "y,month\n1,1.0\n2,2.0\n"];
    let found = said([text, numbers, numbers], "y ~ factor(month)");
    assert!(found.contains("\"1\" in silo south, west and \"1.0\" in silo north"), "{found}");
    // A silo that writes both means two, and identifiers of more digits than a number keeps are none of these.
    assert!(merge(&["y,id\n1,7\n2,007\n", "y,id\n1,7\n2,8\n"], "y ~ factor(id)").is_ok());
    let [one, two] = ["y,id\n1,12345678901234567\n", "y,id\n1,12345678901234568\n"];
    assert!(merge(&[one, two], "y ~ factor(id)").is_ok());
    assert!(merge(&["y,id\n1,nan\n2,inf\n", "y,id\n1,infinity\n2,b\n"], "y ~ factor(id)").is_ok());
    // As one says who states them.
    let stated = "y ~ factor(month, levels = c(\"01\", \"1\", \"12\"))";
    assert!(merge(&[padded, plain], stated).is_ok());
}

#[test]
fn what_other_columns_leave_of_a_column_is_as_by_regression() {
    let sums = |formula: &str, texts: &[(&str, &str)]| {
        let (_, parts) = designs(texts, &Formula::parse(formula).unwrap(), &Declared::default());
        ColumnSums::merge(&parts.iter().map(Design::sums).collect::<Vec<_>>()).unwrap()
    };
    let north = ("north", "y,a,b\n1,36.1,0\n2,37.4,1\n4,38.0,1\n2,36.6,0\n");
    let south = ("south", "y,a,b\n3,39.2,0\n1,36.9,1\n2,37.1,0\n");
    let close = |found: &[f64], expected: &[f64]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-7), "{found:?} {expected:?}");
    };
    // Residuals of `lm` in R, the column of ones left out: sd(resid(lm(a ~ b + I(a * b)))), and so on.
    let found = sums("y ~ a * b", &[north, south]);
    assert_eq!(found.names, ["(Intercept)", "a", "b", "a:b"]);
    close(&found.left_sds()[1..], &[0.963_500_562_186_31, 0.008_069_571_226_76, 0.301_960_375_476_02]);
    // About zero without an intercept: sqrt(sum(resid(lm(a ~ 0 + b))^2) / 6).
    close(&sums("y ~ 0 + a + b", &[north, south]).left_sds(), &[30.431_416_515_028, 0.533_523_630_378]);
    // Of a column that others give nothing is left.
    assert!(sums("y ~ a + I(2 * a)", &[north]).left_sds()[2].abs() <= 0.0);
    assert!(sums("y ~ a + b", &[north]).left_sds()[1] > 0.0);
}

#[test]
fn left_sides_are_checked_row_by_row() {
    let design = |formula: &str, text: &str| {
        let formula = Formula::parse(formula).unwrap();
        let columns = columns("north", text, &formula);
        let profile = Profile::of(&[&formula], &columns, &Declared::default())?;
        let agreement = Agreement::merge(&[profile], &Declared::default()).unwrap();
        Design::of(&formula, &columns, &agreement)
    };
    let message = |formula: &str, text: &str| design(formula, text).unwrap_err().to_string();
    let text = "y,n,t,s,w,g,one\n2,5,1.5,1,1,lo,k\n3,3,0,2,-1,hi,k\n";
    let fine = "y,n,t,s,w,g\n2,5,1.5,TRUE,1,lo\n3,3,2,FALSE,0,hi\n";
    assert!(message("surv(t, s) ~ 1", text).contains("`t` is 0 in line 3, expected a time above zero"));
    assert!(message("surv(t + 1, s) ~ 1", text).contains("`s` is 2 in line 3, expected 1 where the event happened and 0 where not. Where the file has 2 and 1, write `surv(time, status - 1)`."));
    assert!(message("y | weights(w) ~ 1", text).contains("`w` is -1 in line 3"));
    assert!(message("n | trials(y) ~ 1", text).contains("`n` is 5 in line 2, expected at most the number of trials"));
    assert!(message("y | trials(t) ~ 1", text).contains("`t` is 1.5 in line 2, expected a whole number of trials"));
    assert!(message("y ~ log(t)", text).contains("`log(t)` is -inf in line 3, expected a finite number"));
    assert!(message("y ~ log(t)", text).ends_with("  y ~ log(t)\n      ^^^^^^"));
    assert!(message("y ~ one", text).contains("one has the level k alone over all silos, expected two levels or more"));
    assert!(message("y ~ bs(n, Boundary.knots = c(0, 4))", text).contains("`n` is 5 in line 2, expected 0 to 4"));
    assert!(message("y ~ bs(n, knots = 9)", text).contains("has the range 3 to 5 and the knots [9.0]"));
    let constant = "y,n\n1,5\n2,5\n";
    assert!(message("y ~ scale(n)", constant).contains("scale(n) has the standard deviation 0 over all silos"));
    let survival = design("surv(t, s) ~ n", fine).unwrap();
    assert_eq!((survival.outcome, survival.status), (Some(Outcome::Numbers(vec![1.5, 2.0])), Some(vec![1.0, 0.0])));
    let grades = design("g ~ n", fine).unwrap().outcome;
    assert_eq!(grades, Some(Outcome::Levels { levels: vec!["hi".into(), "lo".into()], codes: vec![1, 0] }));
    let binomial = design("y | trials(n) + weights(w) ~ 1", fine).unwrap();
    assert_eq!((binomial.trials, binomial.weights), (Some(vec![5.0, 3.0]), Some(vec![1.0, 0.0])));
}

#[test]
fn polynomials_are_orthogonal_over_silos_that_share_no_value_and_where_numbers_are_skewed() {
    let spread = |row: usize| (row as f64 * 0.618_034).fract();
    let years = |silo: usize, row: usize| 1900.0 + 50.0 * silo as f64 + 30.0 * spread(row);
    let skewed = |silo: usize, row: usize| (1.5 * silo as f64 + 3.0 * spread(row)).exp();
    let values: [&dyn Fn(usize, usize) -> f64; 2] = [&years, &skewed];
    for (value, degree) in values.into_iter().flat_map(|value| [2, 4, 6].map(|degree| (value, degree))) {
        let text = |silo: usize| {
            let rows = (0..300 * (silo + 1)).map(|row| format!("{}\n", value(silo, row)));
            format!("x\n{}", rows.collect::<String>())
        };
        let texts = [text(0), text(1), text(2)];
        let formula = Formula::parse(&format!("~ 0 + poly(x, {degree})")).unwrap();
        let silos = [("north", texts[0].as_str()), ("south", texts[1].as_str()), ("west", texts[2].as_str())];
        let (_, parts) = designs(&silos, &formula, &Declared::default());
        let rows: Vec<&[f64]> = parts.iter().flat_map(|part| part.fixed.values.chunks_exact(degree)).collect();
        for i in 0..degree {
            let sum: f64 = rows.iter().map(|row| row[i]).sum();
            assert!(sum.abs() < TOLERANCE, "degree {degree}, column {i}: {sum:e}");
            for j in 0..=i {
                let inner: f64 = rows.iter().map(|row| row[i] * row[j]).sum();
                let apart = inner - f64::from(u8::from(i == j));
                assert!(apart.abs() < TOLERANCE, "degree {degree}, columns {i} and {j}: {apart:e}");
            }
        }
    }
}

#[test]
fn the_hazard_may_change_at_quantiles_of_the_times_of_events_over_silos() {
    let formula = Formula::parse("surv(time, status, pieces = 2) ~ 1").unwrap();
    let one = [("north", "time,status\n1,1\n9,0\n2,1\n5,1\n100,0\n")];
    let (_, alone) = designs(&one, &formula, &Declared::default());
    assert_eq!(alone[0].cuts, Some(vec![2.0]));
    // A silo without events says that it has none, and changes nothing.
    let with_none = [one[0], ("south", "time,status\n50,0\n60,0\n")];
    let (_, two) = designs(&with_none, &formula, &Declared::default());
    assert_eq!([&two[0].cuts, &two[1].cuts], [&Some(vec![2.0]), &Some(vec![2.0])]);
    let silos = [one[0], ("south", "time,status\n3,1\n4,1\n60,0\n8,1\n")];
    let (_, all) = designs(&silos, &formula, &Declared::default());
    // The median of 1, 2, 5 and 3, 4, 8.
    assert_eq!([&all[0].cuts, &all[1].cuts], [&Some(vec![3.5]), &Some(vec![3.5])]);
    // What the formula says is asked of no silo.
    let written = Formula::parse("surv(time, status, cuts = c(2, 30)) ~ 1").unwrap();
    let asked = profiles(&[silos[0].1], &written, &Declared::default());
    assert!(asked[0].items.iter().all(|item| !item.name().starts_with("quantiles")), "{}", asked[0]);
    assert_eq!(designs(&silos, &written, &Declared::default()).1[0].cuts, Some(vec![2.0, 30.0]));
    let nothing = profiles(&[with_none[1].1], &formula, &Declared::default());
    let error = Agreement::merge(&nothing, &Declared::default()).unwrap_err();
    assert!(error.to_string().contains("surv(time)"), "{error}");
}

#[test]
fn numbers_of_an_outcome_that_are_read_as_levels_are_in_their_order_over_silos() {
    let formula = Formula::parse("grade ~ 1").unwrap().with_levels_of_outcome();
    let silos = [("north", "grade\n10\n2\n"), ("south", "grade\n9\n2\n")];
    let (_, designs) = designs(&silos, &formula, &Declared::default());
    let levels = ["2", "9", "10"].map(String::from).to_vec();
    assert_eq!(designs[0].outcome, Some(Outcome::Levels { levels: levels.clone(), codes: vec![2, 0] }));
    assert_eq!(designs[1].outcome, Some(Outcome::Levels { levels, codes: vec![1, 0] }));
}

#[test]
fn contrasts_of_one_factor_stand_in_the_formula_as_in_r() {
    let text = "y,f,g\n1,a,u\n2,b,v\n3,c,u\n4,a,v\n";
    let formula = Formula::parse("y ~ C(f, sum) + C(g, contr.treatment)").unwrap();
    let declared = Declared::default();
    let agreement = Agreement::merge(&profiles(&[text], &formula, &declared), &declared).unwrap();
    let design = Design::of(&formula, &columns("north", text, &formula), &agreement).unwrap();
    assert_eq!(design.fixed.names, ["(Intercept)", "C(f, sum)1", "C(f, sum)2", "C(g, contr.treatment)v"]);
    let expected = [[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0], [1.0, -1.0, -1.0, 0.0], [1.0, 1.0, 0.0, 1.0]];
    assert_eq!(design.fixed.values, expected.concat());
    for (text, words) in [("y ~ C(f, helmert)", "`sum` or `treatment`"), ("y ~ C(log(f))", "the name of a column")] {
        let error = Formula::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
