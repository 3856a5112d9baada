//! Keeps a corpus as bags of words: how often each word of a vocabulary occurs in each document, without zeros.

mod newsgroups;
mod octis;

use std::path::Path;

use partita_core::SparseRows;

use crate::dataset::DatasetError;

pub use newsgroups::newsgroups;
pub use octis::octis;

/// Documents as counts of words, each with a class and the part of the corpus it belongs to.
///
/// The counts stay sparse: no function returns a dense matrix of documents by words.
///
/// # Example
/// ```
/// use partita_core::SparseRows;
/// use partita_datasets::{Corpus, Part};
/// let counts = SparseRows::new(&[vec![(0, 2.0)], vec![(0, 1.0), (2, 4.0)]], 3)?;
/// let words = ["goal", "match", "vote"].map(String::from).to_vec();
/// let names = ["sport", "politics"].map(String::from).to_vec();
/// let corpus = Corpus::new(counts, words, vec![0, 1], names, vec![Part::Train, Part::Test])?;
/// assert_eq!(corpus.lengths(), [2.0, 5.0]);
/// assert_eq!(corpus.part(Part::Test).counts().row(0), ([0, 2].as_slice(), [1.0, 4.0].as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Corpus {
    counts: SparseRows,
    vocabulary: Vec<String>,
    labels: Vec<usize>,
    label_names: Vec<String>,
    parts: Vec<Part>,
}

/// The part of a corpus that a document belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// For fitting.
    Train,
    /// For choosing settings.
    Validation,
    /// For testing.
    Test,
}

impl Corpus {
    /// A corpus from its parts.
    ///
    /// # Shapes
    /// `counts`: one row a document, one column a word. `labels`, an index of `label_names`, and `parts`: one a
    /// document.
    ///
    /// # Errors
    /// [`DatasetError::Format`] if these disagree on the number of documents or words, for a label without a name, for
    /// a count that is not a positive whole number, and for a document without a word.
    pub fn new(
        counts: SparseRows,
        vocabulary: Vec<String>,
        labels: Vec<usize>,
        label_names: Vec<String>,
        parts: Vec<Part>,
    ) -> Result<Self, DatasetError> {
        let wrong = |found, expected: &str| Err(DatasetError::format("corpus", found, expected));
        if counts.columns() != vocabulary.len() || labels.len() != counts.rows() || parts.len() != counts.rows() {
            let sizes = (counts.rows(), counts.columns(), vocabulary.len(), labels.len(), parts.len());
            return wrong(
                format!(
                    "counts of {} documents by {} words, {} words, {} labels and {} parts",
                    sizes.0, sizes.1, sizes.2, sizes.3, sizes.4
                ),
                "one column of counts for each word, and one row, label and part for each document",
            );
        }
        if let Some(document) = labels.iter().position(|&label| label >= label_names.len()) {
            return wrong(
                format!("label {} of document {document}, with {} names", labels[document], label_names.len()),
                "labels below the number of names",
            );
        }
        for document in 0..counts.rows() {
            let values = counts.row(document).1;
            if values.is_empty() {
                return wrong(format!("no word in document {document}"), "at least one word in each document");
            }
            if let Some(count) = values.iter().find(|count| **count < 1.0 || count.fract() != 0.0) {
                return wrong(format!("the count {count} in document {document}"), "whole numbers of at least one");
            }
        }
        Ok(Self { counts, vocabulary, labels, label_names, parts })
    }

    /// The number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How often each word occurs in each document: one row a document, one column a word.
    #[must_use]
    pub fn counts(&self) -> &SparseRows {
        &self.counts
    }

    /// The words, in the order of the columns of the counts.
    #[must_use]
    pub fn vocabulary(&self) -> &[String] {
        &self.vocabulary
    }

    /// The class of each document, an index of [`Corpus::label_names`].
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The names of the classes.
    #[must_use]
    pub fn label_names(&self) -> &[String] {
        &self.label_names
    }

    /// The part of each document.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The number of words of each document, repeated words counted each time.
    #[must_use]
    pub fn lengths(&self) -> Vec<f64> {
        (0..self.len()).map(|document| self.counts.row(document).1.iter().sum()).collect()
    }

    /// The documents of one part of the corpus.
    #[must_use]
    pub fn part(&self, part: Part) -> Self {
        let documents: Vec<usize> = (0..self.len()).filter(|&document| self.parts[document] == part).collect();
        self.select(&documents).unwrap_or_else(|_| unreachable!("invariant: the indices come from this corpus"))
    }

    /// These documents, in this order, over the whole vocabulary.
    ///
    /// # Errors
    /// [`DatasetError::Index`] for an index out of range.
    pub fn select(&self, documents: &[usize]) -> Result<Self, DatasetError> {
        let missing = |index| DatasetError::Index { operation: "selecting documents", index, count: self.len() };
        if let Some(&index) = documents.iter().find(|&&document| document >= self.len()) {
            return Err(missing(index));
        }
        Ok(Self {
            counts: self.counts.select(documents).map_err(|_| missing(self.len()))?,
            vocabulary: self.vocabulary.clone(),
            labels: documents.iter().map(|&document| self.labels[document]).collect(),
            label_names: self.label_names.clone(),
            parts: documents.iter().map(|&document| self.parts[document]).collect(),
        })
    }
}

/// The words or names of a text, one a line.
fn names(file: &Path, text: &str) -> Result<Vec<String>, DatasetError> {
    let mut names: Vec<String> = Vec::new();
    let mut lines = std::collections::HashMap::new();
    for (line, name) in text.lines().enumerate() {
        if name.trim().is_empty() || name.trim() != name {
            return Err(wrong(file, line, format!("{name:?}"), "one name without spaces around it"));
        }
        if let Some(first) = lines.insert(name, line) {
            return Err(wrong(file, line, format!("`{name}`, as in line {}", first + 1), "each name once"));
        }
        names.push(name.into());
    }
    Ok(names)
}

/// The error for a malformed line, counted from 0.
fn wrong(file: &Path, line: usize, found: impl Into<String>, expected: impl Into<String>) -> DatasetError {
    DatasetError::Line { file: file.into(), line: line + 1, found: found.into(), expected: expected.into() }
}

/// Text in UTF-8.
fn text(file: &Path, bytes: Vec<u8>) -> Result<String, DatasetError> {
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        wrong(file, line, "bytes that are not UTF-8", "text in UTF-8")
    })
}

/// The documents of a file: entries of counts, with labels and parts.
struct Documents {
    rows: Vec<Vec<(u32, f64)>>,
    labels: Vec<usize>,
    parts: Vec<Part>,
}

impl Documents {
    fn corpus(self, file: &Path, vocabulary: Vec<String>, label_names: Vec<String>) -> Result<Corpus, DatasetError> {
        let counts = SparseRows::new(&self.rows, vocabulary.len())
            .map_err(|error| DatasetError::format(file.display().to_string(), error.to_string(), "counts of words"))?;
        Corpus::new(counts, vocabulary, self.labels, label_names, self.parts)
    }
}
