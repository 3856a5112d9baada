//! Defines the topic model with known topics, for the weights of new documents.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Array, Error, Model, Result, Scope, SparseRows};

use super::{TopicLink, documents};

/// A [`super::TopicModel`] whose topics and $\alpha$ are known: only the weights of documents are latent.
///
/// # Shapes
/// Local `weights` `[documents, topics]` in the plate `document`.
#[derive(Module, Debug)]
pub struct KnownTopics {
    #[module(skip)]
    topics: Array,
    #[module(skip)]
    alpha: f64,
    #[module(skip)]
    link: TopicLink,
}

impl KnownTopics {
    /// The model with these `topics` `[topics, vocabulary]` and this mean of the weights.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the topics are a matrix; [`Error::NotFinite`] for an entry that is not a number > 0.
    pub fn new(topics: Array, alpha: f64, link: TopicLink) -> Result<Self> {
        if topics.shape.len() != 2 {
            return Err(Error::Shape {
                operation: "known topics".into(),
                found: topics.shape,
                expected: vec![0, 0],
                remedy: "Give a matrix with one row a topic and one column a word.".into(),
            });
        }
        if let Some(index) = topics.values.iter().position(|x| !(*x > 0.0 && x.is_finite())) {
            let found = topics.values[index];
            return Err(Error::NotFinite { operation: "logarithm of known topics".into(), found, index });
        }
        Ok(Self { topics, alpha, link })
    }
}

impl Model for KnownTopics {
    type Globals = Tensor<2>;
    type Data = SparseRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        let shape = [self.topics.shape[0], self.topics.shape[1]];
        Ok(self.link.loadings(scope.device().tensor(self.topics.values.clone(), shape)))
    }

    fn local(&self, scope: &mut Scope<'_>, loadings: &Tensor<2>, data: &SparseRows) -> Result<()> {
        let alpha = scope.device().tensor(vec![self.alpha], [1]);
        documents(scope, alpha, loadings, data)
    }
}
