//! Holds the search for data files to its contract: the order of places, the checksum and the atomic move.
#![expect(clippy::unwrap_used, reason = "a failure to set the scene fails the test")]

#[path = "../../tests/fixtures/skip.rs"]
mod skip;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

use partita_datasets::{Checksum, Dataset, DatasetError, Source, dataset, datasets};

const BODY: &[u8] = b"rownames,y\n1,2\n";

/// SHA-256 of [`BODY`], by `sha256sum`.
const SHA256: &str = "db12c5037549651c8c8f8dd45e9b0a270260b119aa6a1d69b3b7f6eed1615cc6";

/// Answers one request on the loopback interface with `status` and `body`, announcing `length` bytes.
fn serve(status: &str, body: &'static [u8], length: usize) -> (Dataset, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/made_up.csv", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            request.push(byte[0]);
        }
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
    });
    (made_up(Box::leak(address.into_boxed_str())), server)
}

fn made_up(address: &'static str) -> Dataset {
    Dataset {
        name: "made_up",
        file: "folder/made_up.csv",
        staged: "folder/made_up.csv",
        source: Source::Address(address),
        checksum: Checksum::Content(SHA256),
    }
}

/// An address at which nothing listens; these tests never connect to it.
fn unreachable() -> Dataset {
    made_up("http://127.0.0.1:9/made_up.csv")
}

/// [`BODY`] compressed by gzip.
const COMPRESSED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x2b\xca\x2f\xcf\x4b\xcc\x4d\x2d\xd6\xa9\xe4\x32\xd4\x31\xe2\x02\x00\x00\x88\x29\x3e\x0f\x00\x00\x00";

/// SHA-256 of [`COMPRESSED`], by `sha256sum`.
const COMPRESSED_SHA256: &str = "cd791fcd68dd17ee69320e68efd0ada5270596ad97b39e6790ff190db2a2781b";

/// The compressed [`BODY`], with one of its two checksums.
fn compressed(dataset: Dataset, checksum: Checksum) -> Dataset {
    Dataset { file: "folder/made_up.csv.gz", staged: "folder/made_up.csv.gz", checksum, ..dataset }
}

fn put(folder: &Path, bytes: &[u8]) {
    fs::create_dir_all(folder.join("folder")).unwrap();
    fs::write(folder.join("folder/made_up.csv"), bytes).unwrap();
}

/// The names of all files in `folder/folder`; empty if there is no such folder.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join("folder")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_download_lands_in_the_cache_and_is_not_repeated() {
    let cache = tempfile::tempdir().unwrap();
    let (dataset, server) = serve("200 OK", BODY, BODY.len());
    let first = dataset.locate_in(None, Some(cache.path())).unwrap();
    server.join().unwrap();
    assert_eq!(fs::read(&first).unwrap(), BODY);
    assert_eq!(files(cache.path()), ["made_up.csv"]);
    // The server is stopped, so that a second download would fail.
    assert_eq!(dataset.locate_in(None, Some(cache.path())).unwrap(), first);
}

#[test]
fn staged_files_come_before_cached_ones() {
    let (staged, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(staged.path(), BODY);
    put(cache.path(), BODY);
    let path = unreachable().locate_in(Some(staged.path()), Some(cache.path())).unwrap();
    assert!(path.starts_with(staged.path()), "{}", path.display());
    fs::remove_file(&path).unwrap();
    let path = unreachable().locate_in(Some(staged.path()), Some(cache.path())).unwrap();
    assert!(path.starts_with(cache.path()), "{}", path.display());
}

#[test]
fn a_download_with_another_checksum_is_refused_and_leaves_no_file() {
    let cache = tempfile::tempdir().unwrap();
    let (dataset, server) = serve("200 OK", b"something else\n", 15);
    let error = dataset.locate_in(None, Some(cache.path())).unwrap_err();
    server.join().unwrap();
    let DatasetError::Checksum { found, expected, .. } = &error else { panic!("{error}") };
    assert_eq!(expected, SHA256);
    assert_ne!(found, SHA256);
    let message = error.to_string();
    assert!(message.contains(found) && message.contains(expected), "{message}");
    assert!(files(cache.path()).is_empty());
}

#[test]
fn a_damaged_file_in_place_is_refused_and_kept() {
    let cache = tempfile::tempdir().unwrap();
    put(cache.path(), b"damaged\n");
    let error = unreachable().locate_in(None, Some(cache.path())).unwrap_err();
    assert!(matches!(error, DatasetError::Checksum { .. }), "{error}");
    assert_eq!(files(cache.path()), ["made_up.csv"]);
}

#[test]
fn a_broken_off_download_is_an_error_and_leaves_no_file() {
    let cache = tempfile::tempdir().unwrap();
    let (dataset, server) = serve("200 OK", &BODY[..5], BODY.len());
    let error = dataset.locate_in(None, Some(cache.path())).unwrap_err();
    server.join().unwrap();
    assert!(matches!(error, DatasetError::Download { .. }), "{error}");
    assert!(files(cache.path()).is_empty());
}

#[test]
fn an_address_without_the_file_is_an_error_that_names_it() {
    let cache = tempfile::tempdir().unwrap();
    let (dataset, server) = serve("404 Not Found", b"", 0);
    let error = dataset.locate_in(None, Some(cache.path())).unwrap_err();
    server.join().unwrap();
    let Source::Address(address) = dataset.source else { panic!("the server has an address") };
    let message = error.to_string();
    assert!(message.contains(address) && message.contains("404"), "{message}");
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error_that_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("a file, not a folder");
    fs::write(&cache, b"").unwrap();
    let (dataset, server) = serve("200 OK", BODY, BODY.len());
    let error = dataset.locate_in(None, Some(&cache)).unwrap_err();
    server.join().unwrap();
    let DatasetError::File { path, .. } = &error else { panic!("{error}") };
    assert!(path.starts_with(&cache), "{error}");
}

#[test]
fn a_compressed_download_is_kept_as_delivered_and_known_by_either_checksum() {
    for checksum in [Checksum::Content(SHA256), Checksum::Delivered(COMPRESSED_SHA256)] {
        let cache = tempfile::tempdir().unwrap();
        let (dataset, server) = serve("200 OK", COMPRESSED, COMPRESSED.len());
        let dataset = compressed(dataset, checksum);
        let path = dataset.locate_in(None, Some(cache.path())).unwrap();
        server.join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), COMPRESSED);
        assert_eq!(files(cache.path()), ["made_up.csv.gz"]);
        assert_eq!(dataset.read_in(None, Some(cache.path())).unwrap(), BODY);
    }
}

#[test]
fn the_checksum_of_the_content_does_not_pass_for_that_of_the_delivered_file_nor_the_other_way_round() {
    for checksum in [Checksum::Delivered(SHA256), Checksum::Content(COMPRESSED_SHA256)] {
        let cache = tempfile::tempdir().unwrap();
        let (dataset, server) = serve("200 OK", COMPRESSED, COMPRESSED.len());
        let error = compressed(dataset, checksum).locate_in(None, Some(cache.path())).unwrap_err();
        server.join().unwrap();
        assert!(matches!(error, DatasetError::Checksum { .. }), "{error}");
        assert!(files(cache.path()).is_empty());
    }
}

#[test]
fn a_download_that_is_not_compressed_as_its_name_says_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let (dataset, server) = serve("200 OK", BODY, BODY.len());
    let error = compressed(dataset, Checksum::Content(SHA256)).locate_in(None, Some(cache.path())).unwrap_err();
    server.join().unwrap();
    let DatasetError::Format { expected, .. } = &error else { panic!("{error}") };
    assert_eq!(expected, "a whole gzip file");
    assert!(files(cache.path()).is_empty());
}

/// A zip archive of stored entries: local headers, contents, directory, end.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let size = u32::try_from(content.len()).unwrap().to_le_bytes();
        let sums = [crc.sum().to_le_bytes(), size, size].concat();
        let lengths = [u16::try_from(name.len()).unwrap().to_le_bytes(), [0, 0]].concat();
        let offset = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        bytes.extend([b"PK\x03\x04".as_slice(), &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0], &sums, &lengths].concat());
        bytes.extend([name.as_bytes(), content].concat());
        directory.extend([b"PK\x01\x02".as_slice(), &[20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0], &sums, &lengths].concat());
        directory.extend([&[0; 10], offset.as_slice(), name.as_bytes()].concat());
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let (length, start) = (u32::try_from(directory.len()).unwrap(), u32::try_from(bytes.len()).unwrap());
    let end = [b"PK\x05\x06".as_slice(), &[0; 4], &count, &count, &length.to_le_bytes(), &start.to_le_bytes(), &[0; 2]];
    [bytes, directory, end.concat()].concat()
}

#[test]
fn a_file_in_an_archive_in_an_archive_is_unpacked_and_kept_alone() {
    let inner = zip(&[("readme.txt", b"nothing"), ("made_up.csv", BODY)]);
    let outer: &'static [u8] = Box::leak(zip(&[("inner.zip", &inner)]).into_boxed_slice());
    let located = |path: &'static [&'static str], cache: &Path| {
        let (dataset, server) = serve("200 OK", outer, outer.len());
        let Source::Address(address) = dataset.source else { panic!("the server has an address") };
        let found = Dataset { source: Source::Zip(address, path), ..dataset }.locate_in(None, Some(cache));
        server.join().unwrap();
        found
    };
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(fs::read(located(&["inner.zip", "made_up.csv"], cache.path()).unwrap()).unwrap(), BODY);
    assert_eq!(files(cache.path()), ["made_up.csv"]);
    let cache = tempfile::tempdir().unwrap();
    let error = located(&["inner.zip", "other.csv"], cache.path()).unwrap_err().to_string();
    assert!(error.contains("found the entries readme.txt, made_up.csv, expected an entry other.csv"), "{error}");
    let error = located(&["inner.zip", "readme.txt"], cache.path()).unwrap_err();
    assert!(matches!(error, DatasetError::Checksum { .. }), "{error}");
    assert!(files(cache.path()).is_empty());
}

#[test]
fn a_file_whose_publisher_gives_no_sha256_is_known_by_its_md5() {
    // MD5 of BODY, by `md5sum`.
    for (checksum, right) in [("a93a8805a5a903caedb0e0ffbba59370", true), ("0123456789abcdef0123456789abcdef", false)] {
        let cache = tempfile::tempdir().unwrap();
        put(cache.path(), BODY);
        let dataset = Dataset { checksum: Checksum::DeliveredMd5(checksum), ..unreachable() };
        assert_eq!(dataset.locate_in(None, Some(cache.path())).is_ok(), right);
    }
}

#[test]
fn a_data_set_without_an_address_says_where_it_is_looked_for_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = dataset("newsgroups_documents").unwrap().locate_in(Some(folder.path()), None).unwrap_err();
    assert!(matches!(error, DatasetError::NotStaged { .. }), "{error}");
    let message = error.to_string();
    for word in ["newsgroups20/docs.txt.gz", "PARTITA_DATA", "https://github.com/MIND-Lab/OCTIS", "octis(folder)"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_download_needs_a_cache() {
    let error = unreachable().locate_in(None, None).unwrap_err();
    assert!(matches!(error, DatasetError::NoCache { .. }), "{error}");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = dataset("six_towns").unwrap_err();
    assert!(matches!(error, DatasetError::Unknown { .. }), "{error}");
    assert!(datasets().iter().all(|known| error.to_string().contains(known.name)), "{error}");
}

#[test]
fn staged_files_of_every_known_data_set_have_their_checksums() {
    let Some(staged) = std::env::var_os("PARTITA_DATA") else {
        skip::skip("data", "PARTITA_DATA does not name a folder of staged data files");
        return;
    };
    for dataset in datasets() {
        if Path::new(&staged).join(dataset.staged).is_file() {
            dataset.locate_in(Some(Path::new(&staged)), None).unwrap();
        } else {
            skip::skip(dataset.name, &format!("PARTITA_DATA has no file {}", dataset.staged));
        }
    }
}
