//! Lists the public files that are known by name, with the address and the checksum of each.

use super::{Checksum, Dataset, Source};

/// A file of the pinned copy of Rdatasets.
macro_rules! rdatasets {
    ($name:literal, $package:literal, $sha256:literal) => {
        rdatasets!(
            $name,
            $package,
            $name,
            concat!("mixed_models/", $name, ".csv"),
            concat!("mixed_models/", $name, ".csv"),
            $sha256
        )
    };
    ($name:literal, $package:literal, $source:literal, $file:expr, $staged:expr, $sha256:literal) => {
        Dataset {
            name: $name,
            file: $file,
            staged: $staged,
            source: Source::Address(concat!(
                "https://raw.githubusercontent.com/vincentarelbundock/Rdatasets/",
                "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/csv/",
                $package,
                "/",
                $source,
                ".csv"
            )),
            checksum: Checksum::Content($sha256),
        }
    };
}

/// An archive of MNIST, at the address that PyTorch uses; its checksum covers the content.
macro_rules! mnist {
    ($name:literal, $file:literal, $sha256:literal) => {
        Dataset {
            name: $name,
            file: concat!("mnist/", $file, ".gz"),
            staged: concat!("mnist/", $file, ".gz"),
            source: Source::Address(concat!("https://ossci-datasets.s3.amazonaws.com/mnist/", $file, ".gz")),
            checksum: Checksum::Content($sha256),
        }
    };
}

/// An archive of Fashion-MNIST, whose publishers give the checksums of the compressed files only.
macro_rules! fashion_mnist {
    ($name:literal, $file:literal, $sha256:literal) => {
        Dataset {
            name: $name,
            file: concat!("fashion_mnist/", $file, ".gz"),
            staged: concat!("fashion_mnist/", $file, ".gz"),
            source: Source::Address(concat!(
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
                $file,
                ".gz"
            )),
            checksum: Checksum::Delivered($sha256),
        }
    };
}

/// A file of the prepared 20 Newsgroups, which is not published.
macro_rules! newsgroups {
    ($name:literal, $file:literal, $sha256:literal) => {
        Dataset {
            name: $name,
            file: concat!("newsgroups20/", $file),
            staged: concat!("newsgroups20/", $file),
            source: Source::Prepared(NEWSGROUPS),
            checksum: Checksum::Content($sha256),
        }
    };
}

/// A file of the UCI repository, which delivers zip archives; its checksum covers the content.
macro_rules! uci {
    ($name:literal, $file:literal, $staged:literal, $address:literal, $path:expr, $sha256:literal) => {
        Dataset {
            name: $name,
            file: concat!("uci/", $file),
            staged: concat!("uci/", $staged),
            source: Source::Zip(concat!("https://archive.ics.uci.edu/static/public/", $address), $path),
            checksum: Checksum::Content($sha256),
        }
    };
}

/// An archive of Kuzushiji-49. No SHA-256 is published; the MD5 checksums are those on which readers in five public
/// projects agree. The published files have not been tested.
macro_rules! kuzushiji {
    ($name:literal, $file:literal, $md5:literal) => {
        Dataset {
            name: $name,
            file: concat!("k49/", $file),
            staged: concat!("k49/", $file),
            source: Source::Address(concat!("http://codh.rois.ac.jp/kmnist/dataset/k49/", $file)),
            checksum: Checksum::DeliveredMd5($md5),
        }
    };
}

const NEWSGROUPS: &str = "This form of 20 Newsgroups (2000 lemmas) is published nowhere: put a copy in place, or download corpus.tsv and \
    vocabulary.txt of OCTIS from https://github.com/MIND-Lab/OCTIS/tree/master/preprocessed_datasets/20NewsGroup into one \
    folder and read them with `octis(folder)`.";

/// Every data set known by name.
#[must_use]
pub fn datasets() -> &'static [Dataset] {
    &DATASETS
}

const DATASETS: [Dataset; 29] = [
    rdatasets!(
        "six_cities",
        "geepack",
        "ohio",
        "six_cities/ohio.csv",
        "six_cities/ohio.rdatasets.csv.gz",
        "d8b15f07aad13776e6b9bbf858c62f19b99978a90ebdec8f55b6fc1aa2b41e05"
    ),
    rdatasets!("bacteria", "MASS", "923b0e1969b6a391caa30a938447e60fba8ff6b839bbd49653ac7f84c244b907"),
    rdatasets!("cbpp", "lme4", "8919ad586aabfa75fa3b3ece7ad7b398c7b31bf17467f17c304cbec86afa910a"),
    rdatasets!("epil", "MASS", "6d4aded9dda1c8cd051d370ce77816264c972e773417e62cfad3d061d3083a99"),
    rdatasets!("radon", "HLMdiag", "ff4829f63360178130568cfddc0b01b8121c7c905384197623275d1b733a8eb3"),
    rdatasets!("respiratory", "geepack", "035875079fb7990f29880b6cffa144615e50d9eb7259752b343aa4365f5e0ecb"),
    rdatasets!("toenail", "lme4", "2d147344995318ae5fd4de6d7eb05765b095084eb20f6821e1850a216b022564"),
    Dataset {
        name: "rugged",
        file: "rugged/rugged.csv",
        staged: "rugged/rugged.csv",
        source: Source::Address(
            "https://raw.githubusercontent.com/rmcelreath/rethinking/ac1b3b2cda83f3e14096e2d997a6e30ad109eeee/data/rugged.csv",
        ),
        checksum: Checksum::Content("8c5cfbaf782abffc522b362eb430acf54d73cab6f2a1360c41ef21bc7def89dc"),
    },
    mnist!(
        "mnist_train_images",
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    mnist!(
        "mnist_train_labels",
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    mnist!(
        "mnist_test_images",
        "t10k-images-idx3-ubyte",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    mnist!(
        "mnist_test_labels",
        "t10k-labels-idx1-ubyte",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
    fashion_mnist!(
        "fashion_mnist_train_images",
        "train-images-idx3-ubyte",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
    ),
    fashion_mnist!(
        "fashion_mnist_train_labels",
        "train-labels-idx1-ubyte",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
    ),
    fashion_mnist!(
        "fashion_mnist_test_images",
        "t10k-images-idx3-ubyte",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
    ),
    fashion_mnist!(
        "fashion_mnist_test_labels",
        "t10k-labels-idx1-ubyte",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
    ),
    newsgroups!(
        "newsgroups_documents",
        "docs.txt.gz",
        "2ce67f86221ca957c16c3d114abdba1cf3b5e876a45c631f47b8de31f22cd006"
    ),
    newsgroups!(
        "newsgroups_vocabulary",
        "vocab.txt",
        "bd9906c1320dde06032fecc1ba9fc5aad4f6786fbc628a62c1d80528ee6159f5"
    ),
    uci!(
        "adult_train",
        "adult.data",
        "adult.data.gz",
        "2/adult.zip",
        &["adult.data"],
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
    ),
    uci!(
        "adult_test",
        "adult.test",
        "adult.test.gz",
        "2/adult.zip",
        &["adult.test"],
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
    ),
    uci!(
        "bank",
        "bank-full.csv",
        "bank-full.csv.gz",
        "222/bank+marketing.zip",
        &["bank.zip", "bank-full.csv"],
        "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d"
    ),
    uci!(
        "credit",
        "crx.data",
        "crx.data",
        "27/credit+approval.zip",
        &["crx.data"],
        "fff49bc186cbddb3ace7371d40d9fbbb3af4f126019c13ff3f562249b1454f4d"
    ),
    // Several public projects use this address without an account; it has not been tested. The checksum is that of two
    // unrelated copies.
    Dataset {
        name: "heart_failure",
        file: "heart_failure/heart.csv",
        staged: "heart_failure/heart.csv",
        source: Source::Zip(
            "https://www.kaggle.com/api/v1/datasets/download/fedesoriano/heart-failure-prediction",
            &["heart.csv"],
        ),
        checksum: Checksum::Content("948420b084d8a3a0ca42b8419fce9aee175879e43f8aedf712377899a67aa49b"),
    },
    // Four unrelated public projects give this checksum; the archive itself has not been tested.
    Dataset {
        name: "cifar_10",
        file: "cifar_10/cifar-10-binary.tar.gz",
        staged: "cifar_10/cifar-10-binary.tar.gz",
        source: Source::Address("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
        checksum: Checksum::Delivered("c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    },
    kuzushiji!("kuzushiji_49_train_images", "k49-train-imgs.npz", "7ac088b20481cf51dcd01ceaab89d821"),
    kuzushiji!("kuzushiji_49_train_labels", "k49-train-labels.npz", "44a8e1b893f81e63ff38d73cad420f7a"),
    kuzushiji!("kuzushiji_49_test_images", "k49-test-imgs.npz", "d352e201d846ce6b94f42c990966f374"),
    kuzushiji!("kuzushiji_49_test_labels", "k49-test-labels.npz", "4da6f7a62e67a832d5eb1bd85c5ee448"),
    newsgroups!("newsgroups_labels", "labels.txt", "e639d15e21a5fef5fa90955acc42bbf428a9bd3a379cd3084b9595cb0066831b"),
];
