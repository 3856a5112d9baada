//! Wraps a model so that its silos hold outcomes drawn from the prior in place of their own.

use burn::module::{Module, ModuleDisplay};

use super::draw::{Draw, silo_draw};
use crate::array::Array;
use crate::declare::encoding::Encoding;
use crate::declare::model::Model;
use crate::declare::rows::Rows;
use crate::declare::scope::{Outcomes, Scope};
use crate::declare::site::{Part, Role, SiteTable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::noise::{DrawNoise, Noise};

/// A model of data whose outcomes were drawn: `M` with [`SimulatedData`].
///
/// Wherever `M` observes a site the outcome drawn for it stands in for that of the data. All else that the model reads
/// of its data (covariates, groups, numbers of rows, numbers of trials) stays.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Noise, Normal, Result, Scope, SiloNoise, Simulated, SimulatedData, burn};
/// use partita_core::{Latents, LogDensity, SiteTable};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let data = device.tensor(vec![100.0], [1]);
/// let noise = SiloNoise { noise: Noise::new(7), draw: 0, silo: 0 };
/// let drawn = SimulatedData::draw(&Mean {}, &device, &data, noise)?;
/// let (mean, y) = (drawn.globals()[0].1.values[0], drawn.outcomes()[0].1.values[0]);
/// // The density of the outcome that was drawn, not of the one hundred in the data.
/// let model = Simulated::new(Mean {});
/// let table = SiteTable::of(&model, &device, &drawn)?;
/// let found = LogDensity::new(&model, &device, &table).local(Latents { globals: &[mean], locals: &[vec![]] }, &drawn)?;
/// assert!((found.value + 0.5 * (y - mean).powi(2) + 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct Simulated<M: Module> {
    model: M,
}

/// One silo's data with outcomes drawn from the prior in place of its own.
#[derive(Debug, Clone)]
pub struct SimulatedData<D> {
    data: D,
    drawn: Draw,
    /// The first of the values drawn, as many as the global part has.
    globals: usize,
    outcomes: Outcomes,
}

/// Identifies the random numbers of what is drawn for one silo; silos share those of the global latents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiloNoise {
    /// The seed.
    pub noise: Noise,
    /// The number of the draw; draws of other numbers are independent.
    pub draw: u32,
    /// The place of the silo.
    pub silo: u32,
}

impl SiloNoise {
    /// The noise of the globals: that of a draw without a silo.
    fn globals(self) -> DrawNoise {
        DrawNoise { noise: self.noise, index: u64::from(self.draw) }
    }

    fn own(self) -> DrawNoise {
        DrawNoise { noise: self.noise, index: (u64::from(self.silo) + 1) << u32::BITS | u64::from(self.draw) }
    }
}

impl<M: Module> Simulated<M> {
    /// The model of simulated data.
    #[must_use]
    pub fn new(model: M) -> Self {
        Self { model }
    }
}

impl<D: Clone> SimulatedData<D> {
    /// Draws all latents from the prior, the globals alike for all silos of a draw, and outcomes given them.
    ///
    /// # Errors
    /// [`Error::Argument`] for a model that cannot be simulated: with a factor, an improper prior or an encoder;
    /// otherwise what the model's statements refuse.
    pub fn draw<M: Model<Data = D>>(model: &M, device: &Device, data: &D, noise: SiloNoise) -> Result<Self> {
        let table = SiteTable::of(model, device, data)?;
        refuse(model, &table, data)?;
        let drawn = silo_draw(model, device, &table, data, noise.globals(), noise.own())?;
        // Those of globals come first, of which a model may keep some to itself.
        let is_global = |name: &str| table.site(name).is_some_and(|site| site.part == Part::Global);
        let globals = drawn.values.iter().take_while(|(name, _)| is_global(name)).count();
        let outcomes = Outcomes::new(&drawn.observed, device);
        Ok(Self { data: data.clone(), drawn, globals, outcomes })
    }

    /// The global latents and deterministic sites that were drawn, on their natural scale.
    #[must_use]
    pub fn globals(&self) -> &[(String, Array)] {
        &self.drawn.values[..self.globals]
    }

    /// The outcomes that were drawn.
    #[must_use]
    pub fn outcomes(&self) -> &[(String, Array)] {
        &self.drawn.observed
    }
}

/// Refuses models whose draws are not those of their density, and encoders, which read outcomes of the data.
fn refuse<M: Model>(model: &M, table: &SiteTable, data: &M::Data) -> Result<()> {
    let refused = |site: &str, found: &str, expected| {
        Err(Error::argument(format_args!("drawing site `{site}`"), "model", found, expected))
    };
    for site in table.sites() {
        if site.role == Role::Factor {
            let expected =
                "a model whose densities are all of distributions: state the factor by `sample` or `observe`";
            return refused(&site.name, "a factor, which nothing can be drawn from", expected);
        }
        if site.improper {
            return refused(&site.name, "an improper prior, which nothing can be drawn from", "a proper prior");
        }
    }
    for (index, block) in table.blocks().iter().enumerate() {
        if super::Encoded::of(model, table, index, data, None)?.is_some() {
            let plate = block.plate.as_deref().unwrap_or_default();
            let expected = "a model without encoder: leave out `Amortised`, so that each row has parameters of its own";
            return refused(plate, "an encoder, which reads the outcomes of the data", expected);
        }
    }
    Ok(())
}

impl<M: Model + ModuleDisplay> Model for Simulated<M> {
    type Globals = M::Globals;
    type Data = SimulatedData<M::Data>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        self.model.global(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        scope.with_outcomes(&data.outcomes, |scope| self.model.local(scope, globals, &data.data))
    }

    fn encode(&self, plate: &str, data: &Self::Data, rows: &Rows<'_>) -> Result<Option<Encoding>> {
        self.model.encode(plate, &data.data, rows)
    }

    fn private_len(&self) -> usize {
        self.model.private_len()
    }
}
