//! Holds fits whose rows no rule of points resolves to say so, when they are resumed too.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Key, Mixture, Noise, Purpose};
use partita::inference::{Trust, Verdict};
use partita::{Bernoulli, Device, Fit, FitOptions, Model, Normal, Scope, StudentT, fit};

const EVENTS: usize = 4;

/// Groups whose effects have this many degrees of freedom, with four binary outcomes each.
#[derive(Module, Debug)]
struct Groups {
    #[module(skip)]
    degrees: f64,
}

impl Model for Groups {
    type Globals = Tensor<1>;
    /// `[groups, events]`
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope) -> partita::Result<Tensor<1>> {
        scope.sample("omega", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope, omega: &Tensor<1>, y: &Tensor<2>) -> partita::Result<()> {
        let [groups, events] = y.dims();
        scope.plate("group", groups, |s, rows| {
            let scale = omega.clone().exp().expand([rows.len()]);
            let own: Tensor<1> = s.sample("own", StudentT::new(self.degrees, 0.0, scale))?;
            s.observe("y", Bernoulli::logits(own.reshape([rows.len(), 1]).expand([rows.len(), events])), rows.take(y)?)
        })
    }
}

/// Outcomes of groups whose effects are Cauchy.
fn outcomes(groups: usize, device: &Device) -> Tensor<2> {
    let mut stream = Noise::new(3).stream(Key::new(Purpose::Prior, 0));
    let mut y = Vec::with_capacity(groups * EVENTS);
    for _ in 0..groups {
        let effect = (std::f64::consts::PI * (stream.uniform() - 0.5)).tan();
        y.extend((0..EVENTS).map(|_| f64::from(u8::from(stream.uniform() < 1.0 / (1.0 + (-effect).exp())))));
    }
    device.tensor(y, [groups, EVENTS])
}

fn fitted(degrees: f64, change: impl FnOnce(&mut FitOptions)) -> Fit {
    let device = Device::flex();
    let silos = [("north".to_owned(), outcomes(200, &device))];
    let mut options = FitOptions { summary_draws: 0, ..super::options() };
    change(&mut options);
    fit(&Groups { degrees }, &silos, &device, &options, None).unwrap()
}

#[test]
fn rows_that_no_rule_of_points_resolves_are_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Some((folder.path().to_owned(), 1));
    let whole = fitted(1.0, |options| options.checkpoint = checkpoint.clone()).report;
    assert_eq!(whole.verdict, Verdict::DoNotTrust, "{whole}");
    let text = whole.to_string();
    assert!(text.contains("not resolved by points") && text.contains("`Nuts`"), "{text}");
    // All rounds are done: what is left is the round of trust, in which silos are new.
    let resumed = fitted(1.0, |options| (options.checkpoint, options.resume) = (checkpoint, true)).report;
    assert!(resumed.verdict == Verdict::DoNotTrust && resumed.to_string().contains("not resolved"), "{resumed}");
}

#[test]
fn tails_that_points_resolve_are_checked() {
    let report = fitted(3.0, |_| {}).report;
    assert!(matches!(report.trust, Trust::Checked(_)), "{report}");
}

/// Rows whose latents lie on one of two sides.
#[derive(Module, Debug)]
struct Sides {}

impl Model for Sides {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> partita::Result<Tensor<1>> {
        scope.sample("z", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope, z: &Tensor<1>, y: &Tensor<1>) -> partita::Result<()> {
        scope.plate("row", y.dims()[0], |s, rows| {
            let halves: Tensor<1> = s.device().tensor(vec![0.5, 0.5], [2]);
            let sides = Mixture::weights(halves, vec![Normal::new(-3.0, 0.1), Normal::new(3.0, 0.1)]);
            let own: Tensor<1> = s.sample("own", sides.iid([rows.len()]))?;
            s.observe("y", Normal::new(own, z.clone().exp().expand([rows.len()])), rows.take(y)?)
        })
    }
}

#[test]
fn a_second_mode_of_rows_is_seen() {
    // Outcomes between the sides: the rule of a row settles on one of them, and larger rules with it.
    let device = Device::flex();
    let y = (0..60).map(|row| 0.05 * f64::from(row) - 1.475).collect();
    let silos = [("north".to_owned(), device.tensor(y, [60]))];
    let report = fit(&Sides {}, &silos, &device, &super::options(), None).unwrap().report;
    assert!(report.verdict == Verdict::DoNotTrust && report.to_string().contains("not resolved by points"), "{report}");
}
