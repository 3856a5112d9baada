//! Lists every field that PVI lets leave a silo, and how long each may be.

use partita_core::Model;

use crate::engine::algorithm::Algorithm;
use crate::engine::natural::{ExponentialFamily, NormalFamily};
use crate::engine::wire::manifest::{Field, Manifest};
use crate::methods::sfvi::Sfvi;

/// What PVI lets leave a silo.
pub(super) fn manifest<M: Model>(inner: &Sfvi<M>, family: &NormalFamily) -> Manifest {
    let mut manifest = inner.manifest().clone();
    let field = |name, meaning, limit, depends_on_data| Field { name, meaning, limit, depends_on_data };
    manifest.fields.extend([
        field("version", "which posterior the answer started from", 1, false),
        field("change", "the change of the silo's factor, in natural parameters", family.natural_len(), true),
        field("log_likelihood", "the silo's expected log likelihood, in nats", 1, true),
        field("steps", "the local steps taken", 1, true),
        field("clipped", "the local steps whose gradient was clipped", 1, true),
        field("shortened", "the local steps that were halved to stay where the divergence exists", 1, true),
        field("held", "the components of the factor that stayed what they were", 1, true),
        field("improper_cavity", "whether the cavity was no density", 1, true),
    ]);
    manifest
}
