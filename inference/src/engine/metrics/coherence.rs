//! Measures whether the words of a topic occur in the same documents.

use std::collections::HashMap;

use partita_core::SparseRows;

use super::{MetricError, real};

/// Keeps the logarithm finite for words that never occur together; gensim's number.
const EPSILON: f64 = 1e-12;

/// The UMass coherence of a topic's top words over the documents of a corpus, as gensim computes it.
///
/// ```math
/// \frac{2}{n (n - 1)} \sum_{i=2}^{n} \sum_{j=1}^{i-1}
/// \ln \frac{D(w_i, w_j) / D + \epsilon}{D(w_j) / D}
/// ```
/// with $`w_1, \dots, w_n`$ = `top_words`, the most probable first; $`D`$ the number of documents, $`D(w)`$ those that
/// hold $`w`$ and $`D(w, w')`$ those that hold both, however often; and $`\epsilon = 10^{-12}`$. It is never above
/// $`\epsilon D`$; nearer to zero is more coherent. A pair that never occurs together counts $`-27.6 - \ln (D(w_j) /
/// D)`$.
///
/// This is `CoherenceModel(coherence="u_mass")` of gensim but for one case: where a word occurs in no document gensim
/// sets the terms it conditions to zero, the best value there is, and this function refuses. Mimno and others add one
/// to the number of documents instead of $`\epsilon D`$, and take the sum of the pairs instead of their mean.
///
/// # Shapes
/// `counts`: one row a document, one column a word. `top_words` are columns.
///
/// # Errors
/// [`MetricError::Empty`] for fewer than two words, [`MetricError::Word`] for a word that is no column or is named
/// twice, [`MetricError::NeverOccurs`].
///
/// # Example
/// ```
/// use partita_core::SparseRows;
/// use partita_inference::metrics::umass_coherence;
/// // Word 0 is in three of four documents, and word 1 in two of these three.
/// let counts = SparseRows::new(&[vec![(0, 2.0), (1, 1.0)], vec![(0, 1.0)], vec![(0, 1.0), (1, 5.0)], vec![]], 2)?;
/// assert!((umass_coherence(&[0, 1], &counts)? - (2.0_f64 / 3.0).ln()).abs() < 1e-11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Mimno, Wallach, Talley, Leenders and McCallum (2011), Optimizing semantic coherence in topic models, EMNLP, 262-272;
/// Röder, Both and Hinneburg (2015), Exploring the space of topic coherence measures, WSDM, 399-408.
pub fn umass_coherence(top_words: &[usize], counts: &SparseRows) -> Result<f64, MetricError> {
    let size = top_words.len();
    if size < 2 {
        let found = format!("{size} words");
        return Err(MetricError::Empty { operation: "coherence", found, expected: "at least two words to compare" });
    }
    let mut places = HashMap::new();
    for (place, &word) in top_words.iter().enumerate() {
        let wrong = |problem| MetricError::Word { word, problem, columns: counts.columns() };
        let column = u32::try_from(word).ok().filter(|_| word < counts.columns());
        if places.insert(column.ok_or_else(|| wrong("out of range"))?, place).is_some() {
            return Err(wrong("twice"));
        }
    }
    // together[i * size + j]: the documents that hold both words; on the diagonal those that hold one.
    let mut together = vec![0_usize; size * size];
    let mut present: Vec<usize> = Vec::with_capacity(size);
    for document in 0..counts.rows() {
        let (columns, values) = counts.row(document);
        present.clear();
        let held = columns.iter().zip(values).filter(|(_, count)| **count != 0.0);
        present.extend(held.filter_map(|(column, _)| places.get(column)));
        for &i in &present {
            for &j in &present {
                together[i * size + j] += 1;
            }
        }
    }
    let documents = real(counts.rows());
    if let Some(place) = (0..size).find(|&place| together[place * size + place] == 0) {
        return Err(MetricError::NeverOccurs { word: top_words[place], documents: counts.rows() });
    }
    let mut sum = 0.0;
    for i in 1..size {
        for j in 0..i {
            let both = real(together[i * size + j]) / documents;
            sum += ((both + EPSILON) / (real(together[j * size + j]) / documents)).ln();
        }
    }
    Ok(sum / real(size * (size - 1) / 2))
}
