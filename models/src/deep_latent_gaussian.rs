//! Defines a deep latent Gaussian model of binary pictures (a variational autoencoder) and the encoder of its rows.

mod pictures;

pub use pictures::BinaryPictures;

use burn::module::Module;
use partita_core::{
    Amortised, Bernoulli, Device, Encoder, Encoding, Error, Handle, Model, Normal, Result, Rows, Scope,
};

use crate::sigmoid::sigmoid;
use crate::{Activation, Mlp, Network};

/// A deep latent Gaussian model of binary pixels.
///
/// ```math
/// z_r \sim N(0, I_K), \qquad x_{rp} \mid z_r \sim \mathrm{Bernoulli}\left(\sigma(f_\theta(z_r)_p)\right)
/// ```
/// for pictures $`r`$ and pixels $`p`$, with $`K`$ = `latents` and the decoder $`f_\theta`$ a network of rectified
/// units. There are no global latents: θ, the decoder's weights, are point parameters, and $`z_r`$ is local to picture
/// $`r`$.
///
/// # Shapes
/// Local `z` `[pictures, latents]` in the plate `picture`; data `[pictures, pixels]`.
///
/// # Example
/// ```
/// use partita_core::{Device, SiteTable, theta};
/// use partita_models::{BinaryPictures, DeepLatentGaussian};
/// let device = Device::flex();
/// let pictures = BinaryPictures::new(&[0, 255, 200, 10, 0, 130], 3, 128, &device)?;
/// let model = DeepLatentGaussian::new(2, &[8], 3, 1, &device).with_encoder(&[8], 1, &device);
/// let table = SiteTable::of(&model, &device, &pictures)?;
/// assert_eq!((table.global_len(), table.blocks()[0].rows, table.blocks()[0].width), (0, 2, 2));
/// // Decoder 2-8-3 and encoder 3-8-4, weights and biases.
/// assert_eq!(theta(&model)?.len(), (2 * 8 + 8 + 8 * 3 + 3) + (3 * 8 + 8 + 8 * 4 + 4));
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Kingma and Welling (2014), Auto-encoding variational Bayes; Rezende, Mohamed and Wierstra (2014), Stochastic
/// backpropagation and approximate inference in deep generative models.
#[derive(Module, Debug)]
pub struct DeepLatentGaussian {
    decoder: Mlp,
    #[module(skip)]
    latents: usize,
    #[module(skip)]
    pixels: usize,
}

impl DeepLatentGaussian {
    /// The plate whose rows are pictures.
    pub const PLATE: &'static str = "picture";

    /// The model whose decoder has hidden layers of these widths, with keyed starting weights from `seed`.
    #[must_use]
    pub fn new(latents: usize, hidden: &[usize], pixels: usize, seed: u64, device: &Device) -> Self {
        let widths = [&[latents], hidden, &[pixels]].concat();
        Self { decoder: Mlp::new(&widths, Activation::Relu, seed, device), latents, pixels }
    }

    /// The model with a [`PictureEncoder`] with hidden layers of these widths.
    #[must_use]
    pub fn with_encoder(self, hidden: &[usize], seed: u64, device: &Device) -> Amortised<Self, PictureEncoder> {
        let encoder = PictureEncoder::new(self.pixels, hidden, self.latents, seed, device);
        Amortised::new(self, Self::PLATE, encoder)
    }

    /// The probability of each pixel given latents: generated pictures for latents from the prior, reconstructions for
    /// posterior means.
    ///
    /// # Shapes
    /// `latents`: `[pictures, latents]`, row-major. Returns `[pictures, pixels]`, row-major.
    ///
    /// # Errors
    /// [`Error::Length`] if the numbers do not make whole rows of latents; [`Error::Device`].
    pub fn intensities(&self, latents: &[f64], device: &Device) -> Result<Vec<f64>> {
        if self.latents == 0 || !latents.len().is_multiple_of(self.latents) {
            return Err(Error::Length {
                operation: "intensities of pictures".into(),
                found: latents.len(),
                expected: self.latents,
                remedy: "Give whole rows, each with one number for each latent of a picture.".into(),
            });
        }
        let latents = device.tensor(latents.to_vec(), [latents.len() / self.latents, self.latents]);
        Ok(Handle::from(sigmoid(self.decoder.forward(latents))).read()?.values)
    }
}

impl Model for DeepLatentGaussian {
    type Globals = ();
    type Data = BinaryPictures;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), data: &BinaryPictures) -> Result<()> {
        scope.plate(Self::PLATE, data.len(), |scope, rows| {
            let z = scope.sample("z", Normal::new(0.0, 1.0).iid([rows.len(), self.latents]))?;
            scope.observe("pixels", Bernoulli::logits(self.decoder.forward(z)), data.take(rows)?)
        })
    }
}

/// Gives pictures their local posteriors: a network from pixels to the means and log-scales of the latents.
#[derive(Module, Debug)]
pub struct PictureEncoder {
    network: Mlp,
    #[module(skip)]
    latents: usize,
}

impl PictureEncoder {
    /// An encoder with hidden layers of these widths, with keyed starting weights from `seed`.
    #[must_use]
    pub fn new(pixels: usize, hidden: &[usize], latents: usize, seed: u64, device: &Device) -> Self {
        let widths = [&[pixels], hidden, &[2 * latents]].concat();
        Self { network: Mlp::new(&widths, Activation::Relu, seed, device), latents }
    }
}

impl Encoder<BinaryPictures> for PictureEncoder {
    fn encode(&self, data: &BinaryPictures, rows: &Rows<'_>) -> Result<Encoding> {
        let both = self.network.forward(data.take(rows)?);
        Ok(Encoding {
            mean: both.clone().narrow(1, 0, self.latents),
            log_scale: both.narrow(1, self.latents, self.latents),
        })
    }
}
