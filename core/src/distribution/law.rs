//! Holds a density with its parameters and batch shape, for values of any rank.

use std::borrow::Cow;
use std::ops::Range;

use super::Density;
use super::formula::{Form, Formula, Leaf};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::noise::NoiseStream;

/// One parameter: a number for every event, or a tensor.
#[derive(Debug, Clone)]
pub(crate) enum Parameter {
    Number(f64),
    Tensor(Handle),
}

impl Parameter {
    pub(crate) fn is_tracked(&self) -> bool {
        matches!(self, Self::Tensor(handle) if handle.is_tracked())
    }

    pub(crate) fn read(&self) -> Result<Array> {
        match self {
            Self::Number(value) => Ok(Array::scalar(*value)),
            Self::Tensor(handle) => handle.read(),
        }
    }

    /// Its numbers where they lie.
    pub(crate) fn borrow(&self) -> Result<Cow<'_, [f64]>> {
        match self {
            Self::Number(value) => Ok(Cow::Borrowed(std::slice::from_ref(value))),
            Self::Tensor(handle) => handle.borrow(),
        }
    }
}

/// The rank-free content of a distribution.
#[derive(Debug, Clone)]
pub(crate) struct Law {
    pub(crate) density: Form,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) batch: Vec<usize>,
    pub(crate) event: Vec<usize>,
    pub(crate) non_centred: bool,
    /// Whether the numbers of the last dimension increase.
    pub(crate) ordered: bool,
    /// Where posterior means start, on the natural scale.
    pub(crate) start: Option<Parameter>,
    /// Where posterior standard deviations start, on the unconstrained scale.
    pub(crate) start_scale: Option<f64>,
    /// The error found when it was assembled.
    pub(crate) defect: Option<Error>,
}

impl Law {
    /// The law of one event of a density without parameters.
    pub(super) fn of(density: &'static dyn Density) -> Self {
        let (parameters, batch, event) = (Vec::new(), vec![1], Vec::new());
        let density = Form::Leaf(Leaf(density));
        Self {
            density,
            parameters,
            batch,
            event,
            non_centred: false,
            ordered: false,
            start: None,
            start_scale: None,
            defect: None,
        }
    }

    /// Whether it has shape `[1]`.
    pub(crate) fn is_single(&self) -> bool {
        self.batch == [1] && self.event.is_empty()
    }

    /// The law of the events in `range` of a flat law, with another shape.
    pub(crate) fn part<const D: usize>(&self, range: Range<usize>, shape: [usize; D]) -> Self {
        let numbers = self.batch.iter().product::<usize>();
        let own = |(parameter, rank): (&Parameter, usize)| match parameter {
            Parameter::Tensor(handle) if numbers > 1 && rank == 0 && handle.shape() == [numbers] => {
                let part = handle.clone().typed::<1>().slice([range.clone()]).reshape(shape);
                Parameter::Tensor(Handle::from(part))
            }
            // One vector an event, such as the weights of a mixture.
            Parameter::Tensor(handle)
                if numbers > 1 && rank == 1 && handle.shape().len() == 2 && handle.shape()[0] == numbers =>
            {
                let width = handle.shape()[1];
                Parameter::Tensor(Handle::from(handle.clone().typed::<2>().slice([range.clone(), 0..width])))
            }
            shared => shared.clone(),
        };
        let ranks = self.density.rules().iter().map(|rule| rule.event_rank);
        let parameters = self.parameters.iter().zip(ranks).map(own).collect();
        let start = self.start.as_ref().map(|start| own((start, 0)));
        Self { parameters, start, batch: shape.to_vec(), ..self.clone() }
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        self.batch.iter().chain(&self.event).copied().collect()
    }

    /// Refuses a law that was assembled wrongly.
    pub(crate) fn assembled(&self) -> Result<()> {
        self.defect.clone().map_or(Ok(()), Err)
    }

    /// Refuses a law that was assembled wrongly or is empty.
    pub(crate) fn sound(&self) -> Result<()> {
        self.assembled()?;
        if self.batch.iter().chain(&self.event).all(|length| *length > 0) {
            return Ok(());
        }
        Err(Error::Shape {
            operation: format!("shape of {}", self.density.name()),
            found: self.shape(),
            expected: self.shape().into_iter().map(|length| length.max(1)).collect(),
            remedy: "Give every dimension at least one number; a silo without data is left out of a fit.".into(),
        })
    }

    /// The numbers of every parameter.
    pub(crate) fn arrays(&self) -> Result<Vec<Cow<'_, [f64]>>> {
        self.sound()?;
        self.parameters.iter().map(Parameter::borrow).collect()
    }

    pub(crate) fn check_shape(&self, operation: impl FnOnce() -> String, found: &[usize]) -> Result<()> {
        self.assembled()?;
        let expected = self.shape();
        if found == expected {
            return Ok(());
        }
        Err(Error::Shape {
            operation: format!("{} with {}", operation(), self.density.name()),
            found: found.to_vec(),
            expected,
            remedy: "Reshape one of the two; Partita refuses to broadcast an observation silently.".into(),
        })
    }

    pub(crate) fn draw(&self, noise: &mut NoiseStream) -> Result<Array> {
        let arrays = self.arrays()?;
        if self.density.is_improper() {
            return Err(Error::Improper { operation: "draw".into(), distribution: self.density.name() });
        }
        let view = self.view(&arrays);
        let shape = self.shape();
        let mut values = vec![0.0; shape.iter().product()];
        view.check_parameters(values.len())?;
        let mut at = view.at(0);
        for (index, out) in values.chunks_exact_mut(view.event).enumerate() {
            view.move_to(index, &mut at);
            self.density.draw(&at, noise, out);
        }
        self.put_in_order(&mut values);
        Array::new(values, shape)
    }

    pub(crate) fn moment(&self, of: impl Fn(&dyn Formula, &[&[f64]]) -> Option<Vec<f64>>) -> Result<Option<Array>> {
        if self.ordered {
            return Ok(None);
        }
        let arrays = self.arrays()?;
        let view = self.view(&arrays);
        let shape = self.shape();
        view.check_parameters(shape.iter().product())?;
        let events = shape.iter().product::<usize>() / view.event;
        let mut values = Vec::new();
        // Events with the same parameters have the same moments.
        let one = (0..view.parameters.len()).all(|index| view.is_shared(index));
        for index in 0..if one { events.min(1) } else { events } {
            match of(&*self.density, &view.at(index)) {
                Some(moment) => values.extend(moment),
                None => return Ok(None),
            }
        }
        if one {
            values = values.repeat(events);
        }
        Array::new(values, shape).map(Some)
    }
}
