//! Turns a name such as `flex` or `cuda:1` into a device, and reports what is missing if there is none.

use burn::tensor::Device as BurnDevice;
use partita_core::{Device, Precision};

/// The variable that names the default device; Burn reads the same variable.
const VARIABLE: &str = "BURN_DEVICE";

/// The device of a run without an argument or a variable.
const DEFAULT: &str = "flex";

/// The error of looking up a device by name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No device has this name.
    #[error(
        "device `{found}` is unknown, expected one of: {expected}. A GPU may be followed by its index, as in `cuda:1`; the name comes from the program's argument or from the variable {VARIABLE}."
    )]
    Unknown {
        /// The name asked for.
        found: String,
        /// The known names.
        expected: String,
    },
    /// The device is known, but this program was built without it.
    #[error(
        "device `{device}` is not part of this program, expected the cargo feature `{device}`. Build again with `--features {device}`."
    )]
    NotCompiled {
        /// The name asked for, without an index; the cargo feature has the same name.
        device: &'static str,
    },
    /// The machine has no such device, or its driver does not offer it.
    #[error(
        "device `{device}:{index}`: found {found} such devices on this machine, expected more than {index}. Check the driver, or use the device `{DEFAULT}`."
    )]
    Absent {
        /// The name asked for, without an index.
        device: &'static str,
        /// The index asked for.
        index: usize,
        /// The number found.
        found: usize,
    },
    /// The device computes wrong values in this precision.
    #[error(
        "device `{device}`: found double precision asked for, expected single. Its exponentials and logarithms are wrong in double precision; use single precision, or the device `{DEFAULT}`."
    )]
    Precision {
        /// The name asked for, without an index.
        device: &'static str,
    },
}

/// The devices that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flex,
    NdArray,
    Wgpu,
    Vulkan,
    Cuda,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Flex, Self::NdArray, Self::Wgpu, Self::Vulkan, Self::Cuda];

    fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::NdArray => "ndarray",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Cuda => "cuda",
        }
    }

    fn compiled(self) -> bool {
        match self {
            Self::Flex => cfg!(feature = "flex"),
            Self::NdArray => cfg!(feature = "ndarray"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Cuda => cfg!(feature = "cuda"),
        }
    }

    fn is_gpu(self) -> bool {
        matches!(self, Self::Wgpu | Self::Vulkan | Self::Cuda)
    }

    /// The default precision of a device of this kind.
    fn precision(self) -> Precision {
        if self.is_gpu() { Precision::Single } else { Precision::Double }
    }

    /// Whether Burn's kernels are right in double precision; on wgpu `exp(1)` is 7e-315 there, without an error.
    fn trusts_double(self) -> bool {
        !matches!(self, Self::Wgpu | Self::Vulkan)
    }

    /// Every device of this kind on this machine; empty if its driver is missing.
    fn devices(self) -> Vec<BurnDevice> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => vec![BurnDevice::flex()],
            #[cfg(feature = "ndarray")]
            #[expect(deprecated, reason = "deprecated in Burn 0.22, and still asked for by name")]
            Self::NdArray => vec![BurnDevice::ndarray()],
            #[cfg(feature = "wgpu")]
            Self::Wgpu => BurnDevice::enumerate(burn::tensor::DeviceType::Wgpu).into_vec(),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => BurnDevice::enumerate(burn::tensor::DeviceType::Vulkan).into_vec(),
            #[cfg(feature = "cuda")]
            Self::Cuda => BurnDevice::enumerate(burn::tensor::DeviceType::Cuda).into_vec(),
            #[allow(unreachable_patterns, reason = "reachable unless every feature is on")]
            _ => Vec::new(),
        }
    }
}

/// The names that [`device`] knows, whether or not this program was built with them.
///
/// # Example
/// ```
/// assert_eq!(partita_gpu::device_names(), ["flex", "ndarray", "wgpu", "vulkan", "cuda"]);
/// ```
#[must_use]
pub fn device_names() -> [&'static str; 5] {
    Kind::ALL.map(Kind::name)
}

/// The device called `name`, else the device that the variable `BURN_DEVICE` names, else the CPU.
///
/// CPU devices work in double precision, GPU devices in single. A GPU's name may carry an index: `cuda:1` is the
/// second one; no index means the first.
///
/// # Errors
/// [`DeviceError::Unknown`] for a name not in [`device_names`], [`DeviceError::NotCompiled`] for one whose cargo
/// feature is off, [`DeviceError::Absent`] if the machine has no such device.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// let device = partita_gpu::device(Some("flex"))?;
/// assert_eq!(device.precision(), partita_core::Precision::Double);
/// # }
/// # Ok::<(), partita_gpu::DeviceError>(())
/// ```
pub fn device(name: Option<&str>) -> Result<Device, DeviceError> {
    device_with_precision(name, None)
}

/// As [`device`], in the given precision instead of the device's usual one.
///
/// # Errors
/// As [`device`]; [`DeviceError::Precision`] for double precision on wgpu and vulkan, which compute wrongly in it.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::Precision;
/// let device = partita_gpu::device_with_precision(Some("flex"), Some(Precision::Single))?;
/// assert_eq!(device.precision(), Precision::Single);
/// # }
/// # Ok::<(), partita_gpu::DeviceError>(())
/// ```
pub fn device_with_precision(name: Option<&str>, precision: Option<Precision>) -> Result<Device, DeviceError> {
    let variable = std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    let (kind, index) = parse(name.or(variable.as_deref()).unwrap_or(DEFAULT))?;
    let precision = precision.unwrap_or(kind.precision());
    if precision == Precision::Double && !kind.trusts_double() {
        return Err(DeviceError::Precision { device: kind.name() });
    }
    if !kind.compiled() {
        return Err(DeviceError::NotCompiled { device: kind.name() });
    }
    let devices = kind.devices();
    let found = devices.len();
    let device = devices.into_iter().nth(index).ok_or(DeviceError::Absent { device: kind.name(), index, found })?;
    Ok(Device::new(device, precision))
}

/// Splits a name into the kind of device and its index among those.
fn parse(name: &str) -> Result<(Kind, usize), DeviceError> {
    let unknown = || DeviceError::Unknown { found: name.into(), expected: device_names().join(", ") };
    let lower = name.trim().to_ascii_lowercase();
    let (word, index) = match lower.split_once(':') {
        Some((word, index)) => (word, Some(index.parse::<usize>().map_err(|_| unknown())?)),
        None => (lower.as_str(), None),
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(unknown)?;
    match index {
        Some(_) if !kind.is_gpu() => Err(unknown()),
        _ => Ok((kind, index.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["tpu", "", "cuda:x", "cuda:-1", "flex:0"] {
            let error = device(Some(name)).unwrap_err();
            assert!(matches!(&error, DeviceError::Unknown { found, .. } if found == name), "{error}");
            assert!(device_names().iter().all(|known| error.to_string().contains(known)), "{error}");
        }
    }

    #[test]
    fn a_known_name_without_its_feature_is_answered_with_the_feature() {
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.compiled()) {
            let error = device(Some(kind.name())).unwrap_err();
            assert_eq!(error, DeviceError::NotCompiled { device: kind.name() });
            assert!(error.to_string().contains(&format!("--features {}", kind.name())), "{error}");
        }
    }

    #[test]
    fn double_precision_is_refused_where_burn_computes_wrongly_in_it() {
        for name in ["wgpu", "vulkan"] {
            let error = device_with_precision(Some(name), Some(Precision::Double)).unwrap_err();
            assert_eq!(error, DeviceError::Precision { device: name });
        }
    }

    #[test]
    fn a_compiled_device_is_found_or_reported_absent_and_never_panics() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.compiled()) {
            match device(Some(kind.name())) {
                Ok(device) => assert_eq!(device.precision(), kind.precision()),
                Err(error) => {
                    assert!(kind.is_gpu(), "{error}");
                    assert_eq!(error, DeviceError::Absent { device: kind.name(), index: 0, found: 0 });
                }
            }
        }
    }

    #[test]
    fn an_index_beyond_the_last_device_is_reported_with_how_many_there_are() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_gpu() && kind.compiled()) {
            let error = device(Some(&format!("{}:4096", kind.name()))).unwrap_err();
            let found = kind.devices().len();
            assert_eq!(error, DeviceError::Absent { device: kind.name(), index: 4096, found });
        }
    }
}
