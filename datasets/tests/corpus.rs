//! Holds corpora to their published counts and to given words, and malformed lines to errors that name them.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "../../tests/fixtures/skip.rs"]
mod skip;

use std::fs;
use std::path::Path;

use partita_core::SparseRows;
use partita_datasets::{Corpus, DatasetError, Part, newsgroups, octis};

const VOCABULARY: &str = "goal\nmatch\nvote\n";
const CORPUS: &str = "goal match goal\ttrain\tsport\nvote\tval\tpolitics\nmatch vote vote vote\ttest\tpolitics\n";

fn read(vocabulary: &str, corpus: &str) -> Result<Corpus, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vocabulary.txt"), vocabulary).unwrap();
    fs::write(folder.path().join("corpus.tsv"), corpus).unwrap();
    octis(folder.path())
}

fn refused(vocabulary: &str, corpus: &str, words: &[&str]) {
    let error = read(vocabulary, corpus).unwrap_err();
    assert!(matches!(error, DatasetError::Line { .. }), "{error:?}");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

fn entries(corpus: &Corpus, document: usize) -> Vec<(u32, f64)> {
    let (words, counts) = corpus.counts().row(document);
    words.iter().copied().zip(counts.iter().copied()).collect()
}

#[test]
fn a_corpus_in_the_layout_of_octis_is_counted() {
    let corpus = read(VOCABULARY, CORPUS).unwrap();
    assert_eq!((corpus.len(), corpus.vocabulary()), (3, ["goal", "match", "vote"].map(String::from).as_slice()));
    assert_eq!(corpus.label_names(), ["politics", "sport"]);
    assert_eq!(
        (corpus.labels(), corpus.parts()),
        ([1, 0, 0].as_slice(), [Part::Train, Part::Validation, Part::Test].as_slice())
    );
    assert_eq!(entries(&corpus, 0), [(0, 2.0), (1, 1.0)]);
    assert_eq!(entries(&corpus, 2), [(1, 1.0), (2, 3.0)]);
    assert_eq!((corpus.lengths(), corpus.counts().entries()), (vec![3.0, 1.0, 4.0], 5));
}

#[test]
fn parts_and_selections_keep_what_belongs_to_a_document() {
    let corpus = read(VOCABULARY, CORPUS).unwrap();
    assert_eq!(
        (corpus.part(Part::Train).len(), corpus.part(Part::Validation).len(), corpus.part(Part::Test).len()),
        (1, 1, 1)
    );
    assert_eq!(
        (corpus.part(Part::Test).labels(), entries(&corpus.part(Part::Test), 0)),
        ([0].as_slice(), entries(&corpus, 2))
    );
    let turned = corpus.select(&[2, 0, 2]).unwrap();
    assert_eq!((turned.labels(), turned.lengths()), ([0, 1, 0].as_slice(), vec![4.0, 3.0, 4.0]));
    assert_eq!(turned.vocabulary(), corpus.vocabulary());
    let error = corpus.select(&[0, 3]).unwrap_err();
    assert!(matches!(error, DatasetError::Index { index: 3, count: 3, .. }), "{error}");
}

#[test]
fn lines_of_another_form_are_refused_by_file_and_number() {
    refused(VOCABULARY, "goal\ttrain\tsport\ngoal\ttrain\n", &["corpus.tsv, line 2", "2 columns"]);
    refused(VOCABULARY, "goal\tlearn\tsport\n", &["line 1", "learn", "train, val or test"]);
    refused(
        VOCABULARY,
        "goal\ttrain\tsport\ngaol\ttrain\tsport\n",
        &["corpus.tsv, line 2", "`gaol`", "vocabulary.txt"],
    );
    refused(VOCABULARY, " \ttrain\tsport\n", &["line 1", "no word"]);
    refused("goal\nvote\ngoal\n", CORPUS, &["vocabulary.txt, line 3", "`goal`, as in line 1", "once"]);
    refused("goal\n\nvote\n", CORPUS, &["vocabulary.txt, line 2"]);
}

#[test]
fn text_that_is_not_unicode_and_folders_without_a_corpus_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vocabulary.txt"), b"goal\nma\xfftch\n").unwrap();
    let error = octis(folder.path()).unwrap_err();
    assert!(error.to_string().contains("vocabulary.txt, line 2"), "{error}");
    fs::write(folder.path().join("vocabulary.txt"), VOCABULARY).unwrap();
    let error = octis(folder.path()).unwrap_err();
    assert!(matches!(&error, DatasetError::File { path, .. } if path.ends_with("corpus.tsv")), "{error}");
}

#[test]
fn a_corpus_whose_parts_disagree_is_refused() {
    let corpus = |row: &[(u32, f64)], words: usize, labels: Vec<usize>| {
        let counts = SparseRows::new(&[row.to_vec()], 2).unwrap();
        let words = (0..words).map(|word| format!("word {word}")).collect();
        Corpus::new(counts, words, labels, vec!["sport".into()], vec![Part::Train])
    };
    assert!(corpus(&[(0, 1.0)], 2, vec![0]).is_ok());
    for (result, word) in [
        (corpus(&[(0, 1.0)], 3, vec![0]), "3 words"),
        (corpus(&[(0, 1.0)], 2, vec![0, 0]), "2 labels"),
        (corpus(&[(0, 1.0)], 2, vec![1]), "label 1 of document 0"),
        (corpus(&[], 2, vec![0]), "no word in document 0"),
        (corpus(&[(1, 0.5)], 2, vec![0]), "the count 0.5"),
        (corpus(&[(1, -1.0)], 2, vec![0]), "the count -1"),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, DatasetError::Format { .. }) && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn the_prepared_newsgroups_have_their_published_counts() {
    let staged = std::env::var_os("PARTITA_DATA");
    if !staged.is_some_and(|folder| Path::new(&folder).join("newsgroups20/docs.txt.gz").is_file()) {
        skip::skip("data", "PARTITA_DATA does not name a folder with newsgroups20/docs.txt.gz");
        return;
    }
    let corpus = newsgroups().unwrap();
    assert_eq!((corpus.len(), corpus.part(Part::Train).len(), corpus.part(Part::Test).len()), (18_654, 11_205, 7_449));
    assert_eq!((corpus.vocabulary().len(), corpus.label_names().len()), (2_000, 20));
    assert_eq!((corpus.vocabulary()[0].as_str(), corpus.label_names()[0].as_str()), ("use", "alt.atheism"));
    let mut lengths = corpus.lengths();
    lengths.sort_by(f64::total_cmp);
    assert_eq!((corpus.counts().entries(), lengths.iter().sum::<f64>()), (639_289, 1_049_377.0));
    assert_eq!((lengths[lengths.len() / 2], lengths.last()), (25.0, Some(&3_859.0)));
}
