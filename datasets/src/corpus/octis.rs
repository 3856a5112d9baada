//! Reads a corpus in the layout of OCTIS: one document a line with its part and its label, and a vocabulary.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use super::{Corpus, Documents, Part, names, text, wrong};
use crate::dataset::DatasetError;

/// The corpus in a folder of OCTIS's layout, its classes in alphabetical order.
///
/// `vocabulary.txt` has one word a line. `corpus.tsv` has one document a line with three columns separated by tabs: its
/// words separated by spaces, its part (`train`, `val` or `test`) and its label.
///
/// # Errors
/// [`DatasetError::File`], and [`DatasetError::Line`] for the first line that is malformed, holds a word that is not in
/// the vocabulary, or holds no word.
///
/// # References
/// Terragni, Fersini, Galuzzi, Tropeano and Candelieri (2021), OCTIS: comparing and optimizing topic models is simple!,
/// EACL system demonstrations, 263-270.
pub fn octis(folder: impl AsRef<Path>) -> Result<Corpus, DatasetError> {
    let [vocabulary, corpus] = ["vocabulary.txt", "corpus.tsv"].map(|name| folder.as_ref().join(name));
    let read = |path: &Path| {
        let failed = |source| DatasetError::File { operation: "reading", path: path.into(), source };
        text(path, fs::read(path).map_err(failed)?)
    };
    let words = names(&vocabulary, &read(&vocabulary)?)?;
    let (documents, label_names) = parse(&corpus, &read(&corpus)?, &words)?;
    documents.corpus(&corpus, words, label_names)
}

fn parse(file: &Path, text: &str, vocabulary: &[String]) -> Result<(Documents, Vec<String>), DatasetError> {
    let places: HashMap<&str, u32> = vocabulary.iter().map(String::as_str).zip(0..).collect();
    let mut documents = Documents { rows: Vec::new(), labels: Vec::new(), parts: Vec::new() };
    let mut labels = Vec::new();
    for (line, content) in text.lines().enumerate() {
        let fields: Vec<&str> = content.split('\t').collect();
        let [words, part, label] = fields[..] else {
            return Err(wrong(file, line, format!("{} columns", fields.len()), "3 columns: text, part and label"));
        };
        documents.parts.push(match part {
            "train" => Part::Train,
            "val" => Part::Validation,
            "test" => Part::Test,
            other => return Err(wrong(file, line, format!("part `{other}`"), "train, val or test")),
        });
        let mut row: BTreeMap<u32, f64> = BTreeMap::new();
        for word in words.split_whitespace() {
            let place = places.get(word).ok_or_else(|| {
                wrong(
                    file,
                    line,
                    format!("`{word}`"),
                    format!("words of vocabulary.txt, which has {}", vocabulary.len()),
                )
            })?;
            *row.entry(*place).or_default() += 1.0;
        }
        if row.is_empty() {
            return Err(wrong(file, line, "no word", "at least one word in each document"));
        }
        documents.rows.push(row.into_iter().collect());
        labels.push(label);
    }
    let label_names: Vec<&str> = labels.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    documents.labels = labels.iter().filter_map(|label| label_names.binary_search(label).ok()).collect();
    Ok((documents, label_names.into_iter().map(String::from).collect()))
}
