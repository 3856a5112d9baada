//! Reads the prepared 20 Newsgroups: 18,654 messages as counts of the 2000 most frequent lemmas.

use std::path::Path;

use super::{Corpus, Documents, Part, names, text, wrong};
use crate::dataset::{DatasetError, dataset};

/// The 20 Newsgroups corpus over 2000 lemmas: 11,205 documents for training, 7,449 for testing.
///
/// Headers, quotes, signatures, addresses and stop words are removed, as are 192 documents that have no words left.
/// This form is not published; [`octis`](super::octis()) reads a published one.
///
/// # Errors
/// [`DatasetError::NotStaged`] if the files are not in place, else as [`Dataset::read`](crate::Dataset::read);
/// [`DatasetError::Line`].
///
/// # References
/// Lang (1995), NewsWeeder: learning to filter netnews, ICML, 331-339.
pub fn newsgroups() -> Result<Corpus, DatasetError> {
    let read = |name| {
        let dataset = dataset(name)?;
        let file = Path::new(dataset.staged);
        Ok::<_, DatasetError>((file, text(file, dataset.read()?)?))
    };
    let (documents, vocabulary, labels) =
        (read("newsgroups_documents")?, read("newsgroups_vocabulary")?, read("newsgroups_labels")?);
    let vocabulary = names(vocabulary.0, &vocabulary.1)?;
    let label_names = names(labels.0, &labels.1)?;
    let (file, documents) = documents;
    parse(file, &documents, label_names.len())?.corpus(file, vocabulary, label_names)
}

/// Documents, one a line: `<train|test> <label> <number of the message> <word>:<count> ...`.
fn parse(file: &Path, text: &str, labels: usize) -> Result<Documents, DatasetError> {
    let mut documents = Documents { rows: Vec::new(), labels: Vec::new(), parts: Vec::new() };
    for (line, content) in text.lines().enumerate() {
        let mut fields = content.split(' ');
        documents.parts.push(match fields.next() {
            Some("train") => Part::Train,
            Some("test") => Part::Test,
            other => return Err(wrong(file, line, format!("part {other:?}"), "train or test")),
        });
        let label = fields.next().and_then(|field| field.parse().ok()).filter(|label| *label < labels);
        let expected = || wrong(file, line, "no such label", format!("a label below {labels} after the part"));
        documents.labels.push(label.ok_or_else(expected)?);
        // The number of the message identifies its source and is not kept.
        fields.next();
        let mut row: Vec<(u32, f64)> = Vec::new();
        for field in fields {
            let entry = field.split_once(':').and_then(|(word, count)| Some((word.parse().ok()?, count.parse().ok()?)));
            let (word, count): (u32, u32) =
                entry.ok_or_else(|| wrong(file, line, format!("{field:?}"), "an entry <word>:<count>"))?;
            if row.last().is_some_and(|(last, _)| *last >= word) {
                return Err(wrong(file, line, format!("word {word} out of order"), "words in ascending order"));
            }
            row.push((word, count.into()));
        }
        documents.rows.push(row);
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, words: &[&str]) {
        let error = parse(Path::new("docs.txt"), text, 20).map(|_| ()).unwrap_err();
        assert!(matches!(error, DatasetError::Line { .. }), "{error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }

    #[test]
    fn lines_of_another_form_are_refused_by_file_and_number() {
        refused("train 0 7 0:1\nvalid 0 7 0:1\n", &["docs.txt, line 2", "valid", "train or test"]);
        refused("train 20 7 0:1\n", &["line 1", "below 20"]);
        refused("test 3 7 0:1 4-2\n", &["4-2", "<word>:<count>"]);
        refused("test 3 7 0:1 4:-2\n", &["4:-2"]);
        refused("test 3 7 5:1 4:2\n", &["word 4 out of order"]);
    }
}
