//! Lists the public files that are known by name, with the address and the checksum of each.

use std::sync::LazyLock;

use super::{Checksum, Dataset, Source};

const NEWSGROUPS: &str = "This form of 20 Newsgroups (2000 lemmas) is published nowhere: put a copy in place, or download corpus.tsv and \
    vocabulary.txt of OCTIS from https://github.com/MIND-Lab/OCTIS/tree/master/preprocessed_datasets/20NewsGroup into one \
    folder and read them with `octis(folder)`.";

/// Every data set known by name.
#[must_use]
pub fn datasets() -> &'static [Dataset] {
    // One file a line; a zip archive in another is written `outer.zip > entry`.
    static DATASETS: LazyLock<Vec<Dataset>> = LazyLock::new(|| {
        let lines = include_str!("registry.txt").lines();
        lines.filter(|line| !line.starts_with('#')).filter_map(read).collect()
    });
    &DATASETS
}

/// The data set of a line of the table.
fn read(line: &'static str) -> Option<Dataset> {
    let columns: Vec<&str> = line.split(" | ").collect();
    let [name, file, staged, covered, digits, address, entry] = columns[..] else { return None };
    let checksum = match covered {
        "content" => Checksum::Content(digits),
        "delivered" => Checksum::Delivered(digits),
        "md5" => Checksum::DeliveredMd5(digits),
        _ => return None,
    };
    let source = match (address, entry) {
        ("-", _) => Source::Prepared(NEWSGROUPS),
        (address, "-") => Source::Address(address),
        // The path lives as long as the table.
        (address, entry) => Source::Zip(address, entry.split(" > ").collect::<Vec<_>>().leak()),
    };
    Some(Dataset { name, file, staged, source, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_data_set() {
        let lines = include_str!("registry.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!((datasets().len(), lines.count()), (29, 29));
        let bank = datasets().iter().find(|known| known.name == "bank").unwrap();
        assert!(matches!(bank.source, Source::Zip(_, ["bank.zip", "bank-full.csv"])));
    }
}
