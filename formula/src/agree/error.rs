//! Names every way in which silos cannot agree, with the silos, the item, and what to do.

use std::collections::BTreeMap;

use crate::read::ColumnKind;

/// The error of merging the profiles of silos.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgreementError {
    /// There is no profile, or two of one silo.
    #[error("merging profiles: found {found}, expected one profile of each silo.")]
    Silos {
        /// What was found.
        found: String,
    },
    /// A column holds one thing in a silo and another in the next.
    #[error(
        "merging profiles: column `{column}` holds {kind} in silo `{one}` and {other_kind} in silo `{other}`, expected the same in all. Correct the file of one of them, or write `factor({column})` if its values are levels."
    )]
    Kind {
        /// The column.
        column: String,
        /// The first silo.
        one: String,
        /// What it holds there.
        kind: ColumnKind,
        /// Another silo.
        other: String,
        /// What it holds there.
        other_kind: ColumnKind,
    },
    /// A level that is a number has other digits in some silos than in others.
    #[error(
        "merging profiles: the levels of `{of}` have {}, which are one number, expected one way of writing it. Write it alike in all files; if they are two levels, state all levels in the formula, `factor(x, levels = c({}, …))`, or of groups under `[declared]` of the study.",
        who_wrote(spellings),
        spellings.keys().map(|level| format!("{level:?}")).collect::<Vec<_>>().join(", ")
    )]
    Spellings {
        /// The factor or grouping.
        of: String,
        /// The silos that write the level so, by how it is written.
        spellings: BTreeMap<String, Vec<String>>,
    },
    /// A silo lacks an item that another one has.
    #[error(
        "merging profiles: silo `{lacks}` has no item `{item}`, which silo `{has}` has. Make both profiles for the same formulas and the same study."
    )]
    Absent {
        /// The item.
        item: String,
        /// A silo that has it.
        has: String,
        /// The silo that lacks it.
        lacks: String,
    },
    /// An owner refuses an item.
    #[error(
        "merging profiles: silo `{silo}` refuses the item `{item}`. Fix it in the study instead, or take its term out of the formula."
    )]
    Refused {
        /// The silo.
        silo: String,
        /// The item.
        item: String,
    },
    /// The numbers or the levels of an item cannot come from rows.
    #[error(
        "merging profiles: the item `{item}` of silo `{silo}` has numbers or levels that no rows give. Make the profile anew."
    )]
    Malformed {
        /// The silo.
        silo: String,
        /// The item.
        item: String,
    },
    /// The rows of all silos together do not give what a call needs.
    #[error("merging profiles: {call} needs {expected}, and the rows of all silos do not have it. {remedy}")]
    TooFewValues {
        /// The call.
        call: String,
        /// What it needs.
        expected: String,
        /// What to do.
        remedy: &'static str,
    },
}

fn who_wrote(spellings: &BTreeMap<String, Vec<String>>) -> String {
    let of = |(level, silos): (&String, &Vec<String>)| format!("{level:?} in silo {}", silos.join(", "));
    spellings.iter().map(of).collect::<Vec<_>>().join(" and ")
}
