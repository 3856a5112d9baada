//! Names every input that a measure refuses, with what was found and what to try.

/// What is wrong with predictions, words or chains that were to be judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// There is nothing to judge, or not what it takes.
    #[error("{operation}: found {found}, expected {expected}.")]
    Empty {
        /// The measure.
        operation: &'static str,
        /// What there is.
        found: String,
        /// What it takes.
        expected: &'static str,
    },
    /// The probabilities are not one row of classes for each label.
    #[error(
        "predictions: found {found} probabilities, expected {labels} x {classes}, one for each label and class. Give the rows one after the other."
    )]
    Length {
        /// How many probabilities there are.
        found: usize,
        /// How many labels.
        labels: usize,
        /// How many classes.
        classes: usize,
    },
    /// A number is not a probability.
    #[error(
        "predictions: found {found} as the probability of class {class} in row {row}, expected a number from 0 to 1. Apply the softmax to logits first."
    )]
    Probability {
        /// The row.
        row: usize,
        /// The class.
        class: usize,
        /// The number.
        found: f64,
    },
    /// The probabilities of a row do not add to one.
    #[error(
        "predictions: the probabilities of row {row} add to {found}, expected 1 within {tolerance:e}. Average probabilities over draws, not their logarithms, and divide by the number of draws."
    )]
    Sum {
        /// The row.
        row: usize,
        /// Their sum.
        found: f64,
        /// How far from one it may be.
        tolerance: f64,
    },
    /// A label is not a class.
    #[error("predictions: found label {found} in row {row}, expected one below {classes}. Count classes from 0.")]
    Label {
        /// The row.
        row: usize,
        /// The label.
        found: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A weight of a word is not a number.
    #[error(
        "top words: found weight {found} of word {word}, expected a number. Look for the step at which the fit failed."
    )]
    Weight {
        /// The word.
        word: usize,
        /// Its weight.
        found: f64,
    },
    /// A word is not a column of the counts, or named twice.
    #[error(
        "coherence: found word {word} {problem}, expected each word once and below {columns}, the number of columns of the counts. Count words from 0."
    )]
    Word {
        /// The word.
        word: usize,
        /// What is wrong with it.
        problem: &'static str,
        /// The number of columns.
        columns: usize,
    },
    /// A word occurs in no document, so that its conditional probabilities do not exist.
    #[error(
        "coherence: word {word} occurs in none of the {documents} documents, expected at least one. Count over the corpus that the topics were fitted to, or leave the word out of the vocabulary."
    )]
    NeverOccurs {
        /// The word.
        word: usize,
        /// The number of documents.
        documents: usize,
    },
    /// Draws are not those of Markov chains that can be compared.
    #[error("{operation}: found {found}, expected {expected}.")]
    Chains {
        /// The measure.
        operation: &'static str,
        /// What there is.
        found: String,
        /// What it takes.
        expected: &'static str,
    },
}
