//! Turns a formula and the CSV file of each silo into designs that agree over silos, without a row leaving one.
//!
//! | room | contents |
//! |---|---|
//! | `syntax` | the text of a formula as a tree, with places; the tree as R writes it |
//! | `formula`, `response`, `term`, `random`, `variable` | what the tree means |
//! | `read` | the file of one silo as typed columns |
//! | `agree` | profiles of silos, and the agreement they merge to |
//! | `design` | columns, groups and outcome of one silo, and sums of its columns |

mod agree;
mod design;
mod error;
mod formula;
mod random;
mod read;
mod response;
mod syntax;
mod term;
mod variable;

pub use agree::{
    Agreement, AgreementError, Boundary, ChebyshevSums, Contrast, Declared, DesignPart, Histogram, HistogramCell, Item,
    Moments, OrthogonalPolynomial, Profile, Scaling,
};
pub use design::{Collinear, ColumnSums, Design, DesignError, GroupScope, Matrix, Outcome, RandomDesign, RowPlace};
pub use error::{FormulaError, nearest};
pub use formula::Formula;
pub use random::Grouping;
pub use read::{
    CellPlace, ColumnKind, Columns, Decimal, Delimiter, Encoding, Frame, FrameError, FrameProblem, MissingCells,
    ReadOptions,
};
pub use syntax::Place;
