//! Holds every variational family and every optimiser to their laws, and the laws to faults planted in a family.

use partita::inference::{
    Adam, AdamW, CovarianceMatrix, Delta, DiagonalGaussian, Family, FamilyDraw, FullRankGaussian, IsotropicGaussian,
    LowRankGaussian, MarginalOver, MomentGradient, Optimiser, Plug, PointMass, RmsProp, RowDraw, RowGaussian,
    RowGradient, RowInputs, RowMarginals, RowOptions, RowReach, Sgd, UpdateRule,
};
use partita::{Device, FamilyPlan, Gaussian, Model, Normal, Precision, Result, Scope, SiteTable, burn};
use partita_laws::{FamilyLaw, RowFamily, UpdateRuleLaw, adam, family, row_family, update_rule};

#[test]
fn every_family_keeps_the_laws() {
    let families: [Box<dyn Family>; 12] = [
        Box::new(DiagonalGaussian::new(1)),
        Box::new(DiagonalGaussian::new(4)),
        Box::new(IsotropicGaussian::new(1)),
        Box::new(IsotropicGaussian::new(4)),
        Box::new(FullRankGaussian::new(1)),
        Box::new(FullRankGaussian::new(4)),
        Box::new(LowRankGaussian::new(4, 1)),
        Box::new(LowRankGaussian::new(3, 2)),
        // More directions than components is wasteful, not wrong.
        Box::new(LowRankGaussian::new(2, 3)),
        Box::new(Delta::new(3)),
        // Over nothing.
        Box::new(FullRankGaussian::new(0)),
        Box::new(IsotropicGaussian::new(0)),
    ];
    for own in families {
        family(&*own).unwrap_or_else(|violation| panic!("{own:?}: {violation:?}"));
    }
}

/// Two vectors and two numbers, none of them in the order in which their families are joined.
#[derive(burn::module::Module, Debug)]
struct FourSites {}

impl Model for FourSites {
    type Globals = ();
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
        scope.sample("a", Normal::new(0.0, 1.0).iid([2]))?;
        scope.sample("b", Normal::new(0.0, 1.0))?;
        scope.sample("c", Normal::new(0.0, 1.0).iid([3]))?;
        scope.sample("d", Normal::new(0.0, 1.0)).map(drop)
    }

    fn local(&self, _: &mut Scope<'_>, (): &(), (): &()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn families_joined_site_by_site_keep_the_laws() {
    let table = SiteTable::globals(&FourSites {}, &Device::flex()).unwrap();
    let plan = FamilyPlan::new().site("b", PointMass).site("c", Gaussian::low_rank(1));
    family(&*plan.global_family(&table).unwrap()).unwrap();
    let plan = plan.global(Gaussian::diagonal()).site("a", Gaussian::full_rank());
    family(&*plan.global_family(&table).unwrap()).unwrap();
    let plan = plan.global(Gaussian::isotropic()).site("c", Gaussian::isotropic());
    family(&*plan.global_family(&table).unwrap()).unwrap();
}

/// A row-wise family of three rows; each list gives one option to the columns it names.
fn rows(width: usize, globals: usize, [dense, given, scale, delta]: [&[usize]; 4]) -> RowGaussian {
    inner_rows([width, globals, 0], [dense, given, scale, delta, &[]])
}

/// The same, inside rows of some width.
fn inner_rows([width, globals, outer]: [usize; 3], options: [&[usize]; 5]) -> RowGaussian {
    let [dense, given, scale, delta, given_outer] = options;
    let flags = |columns: &[usize]| (0..width).map(|column| columns.contains(&column)).collect();
    let options = RowOptions {
        dense: flags(dense),
        given_globals: flags(given),
        scale_given_globals: flags(scale),
        given_outer: flags(given_outer),
        delta: flags(delta),
    };
    RowGaussian::new(3, width, globals, options).inside(outer)
}

macro_rules! rows_keep_the_laws {
    ($($name:ident: $width:literal, $globals:literal, $options:expr;)+) => {
        $(
            #[test]
            fn $name() {
                row_family(&rows($width, $globals, $options)).unwrap();
            }
        )+
    };
}

rows_keep_the_laws! {
    rows_that_depend_on_nothing_keep_the_laws: 2, 2, [&[], &[], &[], &[]];
    rows_of_one_number_keep_the_laws: 1, 3, [&[0], &[0], &[0], &[]];
    dense_rows_keep_the_laws: 3, 2, [&[0, 1, 2], &[], &[], &[]];
    rows_dense_in_some_columns_keep_the_laws: 3, 2, [&[0, 2], &[], &[], &[]];
    rows_whose_means_are_linear_in_the_globals_keep_the_laws: 2, 2, [&[], &[0, 1], &[], &[]];
    rows_whose_scales_are_linear_in_the_globals_keep_the_laws: 2, 2, [&[], &[], &[0, 1], &[]];
    rows_with_every_option_keep_the_laws: 3, 2, [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2], &[]];
    rows_with_an_option_for_each_column_keep_the_laws: 3, 2, [&[0, 1], &[0, 2], &[1], &[]];
    rows_of_point_masses_keep_the_laws: 2, 2, [&[], &[0], &[], &[0, 1]];
    rows_with_a_point_mass_among_them_keep_the_laws: 3, 2, [&[0, 2], &[0, 1], &[0, 2], &[1]];
    a_point_mass_asked_to_be_dense_keeps_the_laws: 3, 2, [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2], &[1]];
    rows_without_globals_keep_the_laws: 2, 0, [&[0, 1], &[0, 1], &[0, 1], &[]];
    rows_of_nothing_keep_the_laws: 0, 2, [&[], &[], &[], &[]];
}

#[test]
fn rows_linear_in_their_outer_rows_keep_the_laws() {
    row_family(&inner_rows([1, 0, 1], [&[], &[], &[], &[], &[0]])).unwrap();
    row_family(&inner_rows([1, 2, 1], [&[], &[0], &[0], &[], &[0]])).unwrap();
    row_family(&inner_rows([2, 2, 3], [&[0, 1], &[0, 1], &[0, 1], &[], &[0, 1]])).unwrap();
    // Some columns alone, one of them a point mass.
    row_family(&inner_rows([3, 2, 2], [&[0, 1], &[1], &[0], &[2], &[0, 2]])).unwrap();
    // Rows that could depend on outer rows and do not.
    row_family(&inner_rows([2, 2, 2], [&[0, 1], &[0, 1], &[], &[], &[]])).unwrap();
}

/// Rows inside others with one planted mistake, which the laws must find.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::enum_variant_names, reason = "each is what is dropped")]
enum RowMistake {
    /// What reaches the draw's offset is taken to be what reaches its mean.
    OffsetDropped,
    /// The density of rows is taken not to depend on the outer rows.
    ScoreDropped,
    /// Nothing passes on to the outer rows through the draw.
    ReachDropped,
    /// Slopes by outer rows do not move.
    SlopesDropped,
    /// Marginals are those at the outer rows' means.
    OuterSpreadDropped,
    /// Marginals are those at the globals' mean.
    GlobalSpreadDropped,
}

struct WithMistake(RowGaussian, RowMistake);

impl RowFamily for WithMistake {
    fn whole(&self) -> &RowGaussian {
        &self.0
    }

    fn draw(&self, inputs: RowInputs<'_>) -> RowDraw {
        let mut draw = self.0.draw(inputs);
        if self.1 == RowMistake::ScoreDropped {
            draw.outer_score.fill(0.0);
        }
        draw
    }

    fn vjp(&self, inputs: RowInputs<'_>, draw: &RowDraw, gradient: RowGradient<'_>, out: &mut [f64]) -> RowReach {
        let before = out.to_vec();
        let gradient = match self.1 {
            RowMistake::OffsetDropped => RowGradient { grad_offset: gradient.grad_mean, ..gradient },
            _ => gradient,
        };
        let mut reached = self.0.vjp(inputs, draw, gradient, out);
        if self.1 == RowMistake::ReachDropped {
            reached.outer.fill(0.0);
        }
        if self.1 == RowMistake::SlopesDropped {
            let slopes = out.len() - self.0.rows() * self.0.width() * self.0.outer();
            out[slopes..].copy_from_slice(&before[slopes..]);
        }
        reached
    }

    fn marginals(&self, parameters: &[f64], over: MarginalOver<'_>) -> RowMarginals {
        self.0.marginals(
            parameters,
            match self.1 {
                RowMistake::OuterSpreadDropped => MarginalOver { outer: None, ..over },
                RowMistake::GlobalSpreadDropped => MarginalOver { globals: None, ..over },
                _ => over,
            },
        )
    }
}

#[test]
fn the_laws_find_every_mistake_planted_in_rows() {
    use FamilyLaw as Law;
    let found = |mistake| {
        row_family(&WithMistake(inner_rows([2, 1, 2], [&[0, 1], &[0], &[1], &[], &[0, 1]]), mistake)).unwrap_err().law
    };
    assert!(matches!(found(RowMistake::OffsetDropped), Law::Vjp { path: "gradient by parameter", .. }));
    assert!(matches!(found(RowMistake::ScoreDropped), Law::Score { by: "outer row", index: 0, .. }));
    assert!(matches!(found(RowMistake::ReachDropped), Law::Vjp { path: "gradient by outer row", index: 0, .. }));
    assert!(matches!(found(RowMistake::SlopesDropped), Law::Vjp { path: "gradient by parameter", .. }));
    for mistake in [RowMistake::OuterSpreadDropped, RowMistake::GlobalSpreadDropped] {
        assert!(matches!(found(mistake), Law::Moment { moment: "standard deviation", .. }), "{mistake:?}");
    }
}

#[test]
fn every_optimiser_goes_on_from_a_saved_state_with_the_same_bits() {
    let device = Device::flex();
    for optimiser in [
        Plug::<dyn Optimiser>::from(Adam::default()),
        AdamW { weight_decay: 0.01 }.into(),
        Sgd { momentum: 0.0 }.into(),
        Sgd { momentum: 0.9 }.into(),
        RmsProp { momentum: 0.0 }.into(),
        RmsProp { momentum: 0.9 }.into(),
    ] {
        update_rule(&format!("{optimiser:?}"), || optimiser.start(&device)).unwrap();
    }
    let single = device.with_precision(Precision::Single);
    update_rule("Adam in single precision", || Adam::default().start(&single)).unwrap();
}

#[test]
fn the_fused_adam_is_that_of_burn() {
    adam(&Device::flex()).unwrap();
}

/// A full-rank family with one planted mistake, which the laws must find.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    Length,
    Start,
    StandardDeviation,
    Deviation,
    LogDensity,
    Score,
    Memory,
    Unscored,
    Diagonal,
    Location,
    Path,
    Assignment,
    Moments,
    Entropy,
    EntropyGradient,
    Moment,
}

fn sound() -> FullRankGaussian {
    FullRankGaussian::new(3)
}

impl Mistake {
    /// Noise of one sign gives draws that are each valid, but wrong together.
    fn bend(self, noise: &[f64]) -> Vec<f64> {
        noise.iter().map(|noise| if self == Self::Moment { noise.abs() } else { *noise }).collect()
    }
}

impl Family for Mistake {
    fn len(&self) -> usize {
        sound().len()
    }

    fn parameter_len(&self) -> usize {
        sound().parameter_len()
    }

    fn noise_len(&self) -> usize {
        sound().noise_len()
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        let mut initial = sound().initial(if *self == Self::Start { 1.1 * scale } else { scale });
        if *self == Self::Length {
            initial.push(0.0);
        }
        initial
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let mut draw = sound().draw(parameters, &self.bend(noise));
        match self {
            Self::Deviation => draw.deviation[1] += 1e-6,
            Self::LogDensity => draw.log_density += 1e-6,
            Self::Score => draw.score[2] *= 1.001,
            _ => {}
        }
        draw
    }

    fn draw_into(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        let before = draw.deviation.first().copied();
        *draw = self.draw(parameters, noise);
        if let (Self::Memory, Some(before)) = (self, before) {
            draw.deviation[0] = before;
        }
    }

    fn draw_without_score(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        self.draw_into(parameters, noise, draw);
        draw.score.clear();
        if *self == Self::Unscored {
            draw.log_density = 0.0;
        }
    }

    fn diagonal(&self) -> Option<DiagonalGaussian> {
        (*self == Self::Diagonal).then(|| DiagonalGaussian::new(3))
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        if *self == Self::Assignment {
            out.fill(0.0);
        }
        sound().vjp(parameters, &self.bend(noise), grad_mean, grad_offset, out);
        match self {
            // The gradient of the mean reaches the scales too.
            Self::Location => out[3] += 1e-3 * grad_mean[0],
            Self::Path => out[6] += 1e-3 * grad_offset[1],
            _ => {}
        }
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        sound().vjp_moments(parameters, gradient, out);
        if *self == Self::Moments {
            out[7] += 1e-3 * gradient.covariance.at(3, 0, 2);
        }
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        sound().entropy(parameters) + if *self == Self::Entropy { 0.1 } else { 0.0 }
    }

    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]) {
        sound().add_entropy_gradient(parameters, out);
        if *self == Self::EntropyGradient {
            out[8] += 1e-3;
        }
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        sound().covariance_matrix(parameters)
    }

    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        let mut deviations = sound().deviations(parameters);
        if *self == Self::StandardDeviation {
            deviations[1] += 1e-6;
        }
        deviations
    }

    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> partita::inference::Result<Vec<f64>> {
        sound().with_moments(mean, spread)
    }

    fn mean(&self, parameters: &[f64]) -> Vec<f64> {
        sound().mean(parameters)
    }
}

#[test]
fn the_laws_find_every_planted_mistake() {
    use FamilyLaw as Law;
    let found = |mistake: Mistake| family(&mistake).unwrap_err().law;
    assert!(matches!(found(Mistake::Length), Law::Length { expected: 9, found: 10, .. }));
    assert!(matches!(found(Mistake::Start), Law::Start { moment: "standard deviation", .. }));
    assert!(matches!(found(Mistake::Diagonal), Law::Length { expected: 9, found: 6, .. }));
    assert!(matches!(found(Mistake::StandardDeviation), Law::Deviation { index: 1, .. }));
    assert!(matches!(found(Mistake::Deviation), Law::Draw { index: 1, .. }));
    assert!(matches!(found(Mistake::LogDensity), Law::LogDensity { .. }));
    assert!(matches!(found(Mistake::Score), Law::Score { index: 2, .. }));
    // After the three numbers of the draw.
    assert!(matches!(found(Mistake::Memory), Law::Draw { law: "a draw into other memory", index: 3, .. }));
    // After those of its deviation and score too.
    assert!(matches!(found(Mistake::Unscored), Law::Draw { law: "a draw without score", index: 9, .. }));
    assert!(matches!(found(Mistake::Location), Law::Vjp { path: "grad_mean", index: 3, .. }));
    assert!(matches!(found(Mistake::Path), Law::Vjp { path: "grad_offset", index: 6, .. }));
    assert!(matches!(found(Mistake::Assignment), Law::Vjp { path: "grad_mean", .. }));
    assert!(matches!(found(Mistake::Moments), Law::Vjp { path: "moments", index: 7, .. }));
    assert!(matches!(found(Mistake::Entropy), Law::Entropy { .. }));
    assert!(matches!(found(Mistake::EntropyGradient), Law::EntropyGradient { index: 8, .. }));
    assert!(matches!(found(Mistake::Moment), Law::Moment { moment: "mean", index: 0, .. }));
}

/// Gradient descent with momentum that forgets to save its momentum.
#[derive(Default)]
struct Forgetful {
    momentum: Vec<f64>,
}

impl UpdateRule for Forgetful {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        self.momentum.resize(parameters.len(), 0.0);
        for ((parameter, m), g) in parameters.iter_mut().zip(&mut self.momentum).zip(gradient) {
            *m = 0.9 * *m + g;
            *parameter -= rate * *m;
        }
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        Vec::new()
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        state.is_empty()
    }
}

#[test]
fn the_laws_find_an_optimiser_that_forgets() {
    let found = update_rule("forgetful", || Box::new(Forgetful::default())).unwrap_err();
    assert!(matches!(found.law, UpdateRuleLaw::Resumed { step: 20, .. }), "{found}");
}
