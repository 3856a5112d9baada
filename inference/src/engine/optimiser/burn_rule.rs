//! Runs Burn's own optimisers on one host vector of parameters.

use std::collections::BTreeMap;

use burn::optim::momentum::{MomentumConfig, MomentumState};
use burn::optim::{
    AdamWConfig, AdamWState, AdaptiveMomentumState, CenteredState, Optimizer, RecordState, RmsPropConfig,
    RmsPropMomentumState, RmsPropState, SgdConfig, SgdState, SquareAvgState, StateSink,
};
use burn::tensor::{Tensor, TensorData};
use burn_pack::Scalar;
use partita_core::Device;
use serde::{Deserialize, Serialize};

use super::{Optimiser, UpdateRule, defined, keeps};
use crate::engine::error::Result;

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// How strongly parameters are drawn to zero.
    pub weight_decay: f32,
}

impl Optimiser for AdamW {
    fn start(&self, device: &Device) -> Box<dyn UpdateRule> {
        let config = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(self.weight_decay);
        let rebuild = |parts: &mut Parts<'_>| {
            let (first, second) = (parts.tensor("momentum.moment_1")?, parts.tensor("momentum.moment_2")?);
            Some(AdamWState::new(AdaptiveMomentumState::new(parts.count("momentum.time")?, first, second)))
        };
        Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone(), rebuild })
    }

    fn check(&self) -> Result<()> {
        defined(self, self.weight_decay >= 0.0 && self.weight_decay.is_finite())
    }
}

/// Stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// Momentum; 0 for none.
    pub momentum: f64,
}

impl Optimiser for Sgd {
    fn start(&self, device: &Device) -> Box<dyn UpdateRule> {
        let momentum = self.momentum;
        let config = SgdConfig::new();
        let config = if momentum > 0.0 {
            config.with_momentum(Some(MomentumConfig { momentum, dampening: 0.0, nesterov: false }))
        } else {
            config
        };
        let rebuild =
            |parts: &mut Parts<'_>| Some(SgdState::new(parts.tensor("momentum.velocity").map(MomentumState::new)));
        Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone(), rebuild })
    }

    fn check(&self) -> Result<()> {
        defined(self, keeps(self.momentum))
    }
}

/// RMSProp.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RmsProp {
    /// Momentum; 0 for none.
    pub momentum: f32,
}

impl Optimiser for RmsProp {
    fn start(&self, device: &Device) -> Box<dyn UpdateRule> {
        let config = RmsPropConfig::new().with_epsilon(1e-8).with_momentum(self.momentum);
        let rebuild = |parts: &mut Parts<'_>| {
            let square = SquareAvgState::new(parts.tensor("square_avg.square_avg")?);
            let centered = CenteredState::new(parts.tensor("centered.grad_avg"), parts.tensor("centered.avg")?);
            Some(RmsPropState::new(square, centered, parts.tensor("momentum.buf").map(RmsPropMomentumState::new)))
        };
        Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone(), rebuild })
    }

    fn check(&self) -> Result<()> {
        defined(self, keeps(f64::from(self.momentum)))
    }
}

/// One of Burn's optimisers with its state for one vector.
struct BurnRule<O: Optimizer> {
    optimiser: O,
    state: Option<O::State<1>>,
    device: Device,
    /// Puts a saved state together again. Burn's own way does it in the default precision of the process, which would
    /// lose half the digits of a double-precision run.
    rebuild: fn(&mut Parts<'_>) -> Option<O::State<1>>,
}

/// A saved state taken apart, as Burn names its parts.
struct Parts<'a> {
    saved: BTreeMap<String, Vec<f64>>,
    device: &'a Device,
}

impl Parts<'_> {
    fn tensor(&mut self, name: &str) -> Option<Tensor<1>> {
        let values = self.saved.remove(name)?;
        let length = values.len();
        Some(self.device.tensor(values, [length]))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts were saved from integers")]
    fn count(&mut self, name: &str) -> Option<usize> {
        match self.saved.remove(name)?.as_slice() {
            [count] => Some(*count as usize),
            _ => None,
        }
    }
}

fn numbers(data: TensorData) -> Vec<f64> {
    data.iter::<f64>().collect()
}

impl<O: Optimizer> UpdateRule for BurnRule<O> {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        let tensor = |values: &[f64]| -> Tensor<1> { self.device.tensor(values.to_vec(), [values.len()]) };
        let (moved, state) = self.optimiser.step(rate, tensor(parameters), tensor(gradient), self.state.take());
        self.state = state;
        parameters.copy_from_slice(&numbers(moved.into_data()));
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut sink = StateSink::default();
        if let Some(state) = &self.state {
            state.state_flatten("", &mut sink);
        }
        let scalars = sink.scalars.into_iter().map(|(name, scalar)| match scalar {
            Scalar::Int(value) => (name, vec![value as f64]),
            Scalar::UInt(value) => (name, vec![value as f64]),
            Scalar::Float(value) => (name, vec![value]),
            Scalar::Bool(value) => (name, vec![f64::from(u8::from(value))]),
        });
        scalars.chain(sink.tensors.into_iter().map(|(name, data)| (name, numbers(data)))).collect()
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        if state.is_empty() {
            self.state = None;
            return true;
        }
        let mut parts = Parts { saved: state.into_iter().collect(), device: &self.device };
        let rebuilt = (self.rebuild)(&mut parts);
        if rebuilt.is_none() || !parts.saved.is_empty() {
            return false;
        }
        self.state = rebuilt;
        true
    }
}
