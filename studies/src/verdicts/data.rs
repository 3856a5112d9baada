//! Makes the data of the larger posteriors, by literal seeds, in one silo or two.

use partita::Device;
use partita::core::{Key, Noise, Purpose};

use super::larger::{Case, Rows};

/// Rows of columns and outcomes, in silos.
pub(super) fn given(case: Case, device: &Device) -> Vec<(String, Rows)> {
    let mut stream = Noise::new(11).stream(Key::new(Purpose::Prior, case as u64));
    let mut normal = |count: usize| {
        let mut numbers = vec![0.0; count];
        stream.normal(&mut numbers);
        numbers
    };
    let rows = |columns: Vec<f64>, outcomes: Vec<f64>, count: usize| Rows {
        columns: device.tensor(columns.clone(), [count, columns.len() / count]),
        outcomes: device.tensor(outcomes.clone(), [count, outcomes.len() / count]),
    };
    let one = |rows: Rows| vec![("a".to_owned(), rows)];
    let two = |first: Rows, second: Rows| vec![("a".to_owned(), first), ("b".to_owned(), second)];
    let plain = |outcomes: Vec<f64>, count: usize| rows(vec![1.0; count], outcomes, count);
    let line = |x: &[f64], y: Vec<f64>| rows(x.iter().flat_map(|x| [1.0, *x]).collect(), y, x.len());
    match case {
        Case::Years => {
            let (x, errors) = ((0..30).map(|year| 1_990.0 + f64::from(year)).collect::<Vec<_>>(), normal(30));
            let y = x.iter().zip(&errors).map(|(x, error)| 0.3 * (x - 2_000.0) + 20.0 + 1.5 * error).collect();
            one(line(&x, y))
        }
        Case::Incomes => {
            let (x, errors): (Vec<f64>, _) =
                (normal(40).iter().map(|z| 50_000.0 * (0.4 * z).exp()).collect(), normal(40));
            let y = x.iter().zip(&errors).map(|(x, error)| 3.0 + x * 1e-4 + 2.0 * error).collect();
            one(line(&x, y))
        }
        Case::Collinear => {
            let (x, off, errors) = (normal(50), normal(50), normal(50));
            let columns = x.iter().zip(&off).flat_map(|(x, off)| [1.0, *x, x + 0.02 * off]).collect();
            one(rows(columns, x.iter().zip(&errors).map(|(x, error)| x + error).collect(), 50))
        }
        Case::TwentyCorrelated => {
            let (shared, own, errors) = (normal(120), normal(2_400), normal(120));
            let columns = (0..2_400).map(|at| shared[at / 20] + 0.3 * own[at]).collect();
            one(rows(columns, shared.iter().zip(&errors).map(|(x, error)| x + 2.0 * error).collect(), 120))
        }
        Case::RareEvents => {
            let x = normal(200);
            let y = (0..200).map(|row| f64::from(row == 3 || row == 77)).collect();
            one(line(&x, y))
        }
        Case::SeparableFour => {
            let columns = normal(240);
            let y = columns.chunks(4).map(|x| f64::from(x[0] + x[1] > 0.0)).collect();
            one(rows(columns, y, 60))
        }
        Case::CountsWithEffects => {
            let y = normal(40).iter().map(|z| (0.5 + 0.8 * z).exp().floor()).collect();
            one(plain(y, 40))
        }
        Case::ThreeGroups | Case::ThreeGroupsCentred => {
            let errors = normal(15);
            one(plain((0..15).map(|at| [1.0, 4.0, -2.0][at / 5] + errors[at]).collect(), 3))
        }
        Case::CentredSchools => {
            let errors = vec![15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
            one(rows(errors, vec![28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], 8))
        }
        Case::FunnelOfRows => one(plain(normal(9), 9)),
        Case::SilosInConflict => {
            let far = normal(20).iter().map(|z| 10.0 + z).collect();
            two(plain(normal(20), 20), plain(far, 20))
        }
        Case::OneRowAlone => two(plain(normal(50), 50), plain(vec![2.5], 1)),
        Case::SmallClusters => {
            let effects = normal(10);
            let y = (0..20).map(|at| f64::from(1.5 * effects[at / 2] + [0.4, -0.4][at % 2] > 0.0)).collect();
            one(plain(y, 10))
        }
        Case::Outliers => {
            let mut y = normal(40);
            (y[3], y[17], y[31]) = (9.0, -12.0, 15.0);
            one(plain(y, 40))
        }
        Case::Confounded => one(plain(normal(30).iter().map(|z| 1.5 * z).collect(), 30)),
        Case::ShapeAndRate => one(plain(normal(20).iter().map(|z| (0.6 * z).exp()).collect(), 20)),
        Case::RandomWalk => {
            let errors = normal(20);
            let identity = (0..400).map(|at| f64::from(at / 20 == at % 20)).collect();
            let y = errors.iter().zip(0..20).map(|(error, at)| f64::from(at) * 0.05 + 0.5 * error).collect();
            one(rows(identity, y, 20))
        }
        Case::Horseshoe => {
            let (columns, errors) = (normal(150), normal(30));
            let y = columns.chunks(5).zip(&errors).map(|(x, error)| 2.0 * x[0] + error).collect();
            one(rows(columns, y, 30))
        }
        Case::FourEffects => {
            let errors = normal(100);
            let y = (0..100).map(|at| [1.0, -1.0, 0.5, 0.0][at % 4] + errors[at]).collect();
            one(plain(y, 25))
        }
    }
}
