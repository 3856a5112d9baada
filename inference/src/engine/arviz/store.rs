//! Writes groups as a Zarr store, whole or not at all.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use zarrs::array::{ArrayBuilder, FillValue, ZARR_NAN_F64, data_type};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;

use super::options::ExistingFile;
use super::tree::{Elements, Group, Variable};
use crate::engine::error::{Error, Result};

/// The file of every group of a store.
const METADATA: &str = "zarr.json";

/// Writes `root` and the groups in it into the folder `path`.
///
/// # Errors
/// [`Error::Setting`] for a path that is taken and not to be replaced; [`Error::File`].
pub(crate) fn write(root: &Group, path: &Path, existing: ExistingFile) -> Result<()> {
    let replaces = path.exists();
    let may_be_written = !replaces || (existing != ExistingFile::Refuse && path.join(METADATA).is_file());
    let found = format_args!("{}, where there is something", path.display());
    let expected = "a path where nothing is; `ExistingFile::Replace` replaces a Zarr store, and nothing else";
    Error::unless(may_be_written, "path", found, expected)?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error: &dyn Display| Error::file("writing", path, error);
    fs::create_dir_all(folder).map_err(|error| fail(&error))?;
    let beside = tempfile::Builder::new().prefix(".arviz").tempdir_in(folder).map_err(|error| fail(&error))?;
    let [new, old] = ["new", "old"].map(|name| beside.path().join(name));
    let store = Arc::new(FilesystemStore::new(&new).map_err(|error| fail(&error))?);
    write_group(&store, "", root).map_err(|error| fail(&error))?;
    if replaces {
        fs::rename(path, &old).map_err(|error| fail(&error))?;
    }
    fs::rename(&new, path).map_err(|error| {
        // What was there is there again; where that fails too, the first error says more.
        let _ = fs::rename(&old, path);
        fail(&error)
    })
}

/// What a store reports.
type Stored = std::result::Result<(), Box<dyn std::error::Error>>;

fn write_group(store: &Arc<FilesystemStore>, path: &str, group: &Group) -> Stored {
    let Group { attributes, variables, groups, .. } = group;
    let coordinates = group.coordinates();
    let mut attributes = attributes.clone();
    // Words along an axis that is called otherwise are coordinates, not data.
    let words = variables.iter().filter(|variable| matches!(variable.elements, Elements::Words(_)));
    let names: Vec<&str> = words.map(|variable| variable.name.as_str()).collect();
    if !names.is_empty() {
        attributes.insert("coordinates".into(), json!(names.join(" ")));
    }
    let root = if path.is_empty() { "/" } else { path };
    GroupBuilder::new().attributes(attributes).build(Arc::clone(store), root)?.store_metadata()?;
    for variable in coordinates.iter().chain(variables) {
        write_array(store, &format!("{path}/{}", variable.name), variable)?;
    }
    groups.iter().try_for_each(|inner| write_group(store, &format!("{path}/{}", inner.name), inner))
}

fn write_array(store: &Arc<FilesystemStore>, path: &str, variable: &Variable) -> Stored {
    let shape: Vec<u64> = variable.axes.iter().map(|axis| axis.length as u64).collect();
    if shape.contains(&0) {
        return Ok(());
    }
    let mut builder = match &variable.elements {
        Elements::Numbers(_) => ArrayBuilder::new(shape.clone(), shape, data_type::float64(), ZARR_NAN_F64),
        Elements::Counts(_) => ArrayBuilder::new(shape.clone(), shape, data_type::int64(), 0_i64),
        Elements::Marks(_) => ArrayBuilder::new(shape.clone(), shape, data_type::bool(), FillValue::from(false)),
        Elements::Words(_) => ArrayBuilder::new(shape.clone(), shape, data_type::string(), ""),
    };
    builder.dimension_names(Some(variable.axes.iter().map(|axis| axis.name.clone())));
    let array = builder.build(Arc::clone(store), path)?;
    array.store_metadata()?;
    let only = vec![0; variable.axes.len()];
    match &variable.elements {
        Elements::Numbers(all) => array.store_chunk(&only, all)?,
        Elements::Counts(all) => array.store_chunk(&only, all)?,
        Elements::Marks(all) => array.store_chunk(&only, all)?,
        Elements::Words(all) => array.store_chunk(&only, all)?,
    }
    Ok(())
}
