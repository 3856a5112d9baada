//! Defines topic models of word counts with global topics and local mixtures of topics for documents.

mod encoder;
mod known;

pub use encoder::TopicEncoder;
pub use known::KnownTopics;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use partita_core::{Device, Model, Normal, Result, Scope, SparseRows, SymmetricDirichlet, low_rank_multinomial};

/// The link from the weights of a document and the topics to its word probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopicLink {
    /// A product of experts, as in ProdLDA: $p_{dv} \propto \prod_k T_{kv}^{W_{dk}}$, the softmax of $W \log T$.
    #[default]
    Experts,
    /// The formula printed in the SFVI paper: the softmax of $W T$ with $T$ itself.
    Printed,
}

/// ProdLDA with topics on the simplex; the weights of a document need not sum to one.
///
/// ```math
/// T_k \sim \mathrm{Dirichlet}(\beta 1_V), \qquad W_d \sim N(\alpha 1_K, I), \qquad
/// c_d \sim \mathrm{Multinomial}\left(n_d, \mathrm{softmax}(W_d^\top \log T)\right)
/// ```
/// for topics $`k`$ = 1, ..., `topics` over a vocabulary of $`V`$ = `vocabulary` words.
/// The point parameters are $`\theta = (\alpha, \log\beta)`$. The likelihood is that of the words in their order,
/// without the multinomial coefficient.
///
/// The SFVI paper prints the softmax of $`W_d^\top T`$, for [`TopicLink::Printed`]. Entries of $`T`$ are about $`1/V`$,
/// so that weights of unit variance move no logit by more than a few thousandths unless a topic has only a handful of
/// words: all documents have nearly the same distribution of words. In ProdLDA (Srivastava and Sutton, 2017) the
/// natural parameter of a topic enters, its log probabilities up to a constant; that is [`TopicLink::Experts`].
///
/// # Shapes
/// Global `topics` `[topics, vocabulary]`; local `weights` `[documents, topics]` in the plate `document`, whose latent
/// is $`W_d - \alpha`$. Data: counts `[documents, vocabulary]`.
///
/// # Example
/// ```
/// use partita_core::{Device, SiteTable, SparseRows};
/// use partita_models::TopicModel;
/// let device = Device::flex();
/// let counts = SparseRows::new(&[vec![(0, 2.0)], vec![(1, 1.0), (2, 4.0)]], 3)?;
/// let table = SiteTable::of(&TopicModel::new(2, 3, &device), &device, &counts)?;
/// // Two topics on the simplex of three words.
/// assert_eq!(table.global_len(), 4);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Hassan, Salomone and Mengersen (2023), section 4.2; Srivastava and Sutton (2017).
#[derive(Module, Debug)]
pub struct TopicModel {
    alpha: Param<Tensor<1>>,
    log_beta: Param<Tensor<1>>,
    #[module(skip)]
    topics: usize,
    #[module(skip)]
    vocabulary: usize,
    #[module(skip)]
    link: TopicLink,
}

impl TopicModel {
    /// The model with this many topics and words, starting at $\alpha$ = 1/`topics` and $\beta$ = 1/10.
    #[must_use]
    pub fn new(topics: usize, vocabulary: usize, device: &Device) -> Self {
        let alpha = number(1.0 / topics.max(1) as f64, device);
        Self { alpha, log_beta: number(f64::ln(0.1), device), topics, vocabulary, link: TopicLink::Experts }
    }

    /// The same model with another link.
    #[must_use]
    pub fn link(self, link: TopicLink) -> Self {
        Self { link, ..self }
    }

    /// The same model with other starting values of $\alpha$ and $\beta$.
    #[must_use]
    pub fn starting(self, alpha: f64, beta: f64, device: &Device) -> Self {
        Self { alpha: number(alpha, device), log_beta: number(beta.ln(), device), ..self }
    }
}

fn number(value: f64, device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(device.tensor(vec![value], [1]))
}

impl TopicLink {
    /// The factor that the weights multiply.
    fn loadings(self, topics: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Experts => topics.log(),
            Self::Printed => topics,
        }
    }
}

impl Model for TopicModel {
    /// The loadings: topics, or their logarithms.
    type Globals = Tensor<2>;
    type Data = SparseRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        let concentration = self.log_beta.val().exp();
        let topics = scope.sample("topics", SymmetricDirichlet::new(concentration, [self.topics, self.vocabulary]))?;
        Ok(self.link.loadings(topics))
    }

    fn local(&self, scope: &mut Scope<'_>, loadings: &Tensor<2>, data: &SparseRows) -> Result<()> {
        documents(scope, self.alpha.val(), loadings, data)
    }
}

/// The plate of documents given the loadings.
fn documents(scope: &mut Scope<'_>, alpha: Tensor<1>, loadings: &Tensor<2>, data: &SparseRows) -> Result<()> {
    let [topics, _] = loadings.dims();
    scope.plate("document", data.rows(), |scope, rows| {
        let prior = Normal::new(alpha, 1.0).iid([rows.len(), topics]).non_centred();
        let weights = scope.sample("weights", prior)?;
        scope.factor("words", low_rank_multinomial(&data.take(rows)?, weights, loadings.clone())?)
    })
}
