//! Runs Burn's own optimisers on one host vector of parameters.

use std::collections::BTreeMap;

use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, Optimizer, RecordState, RmsPropConfig, SgdConfig, StateSink, StateSource};
use burn::tensor::{Tensor, TensorData};
use burn_pack::Scalar;
use partita_core::Device;

use super::UpdateRule;

/// Adam with decoupled weight decay.
pub(super) fn adam_w(weight_decay: f32, device: &Device) -> Box<dyn UpdateRule> {
    let config = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(weight_decay);
    Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone() })
}

/// Stochastic gradient descent, with momentum where it is not zero.
pub(super) fn sgd(momentum: f64, device: &Device) -> Box<dyn UpdateRule> {
    let config = SgdConfig::new();
    let config = if momentum > 0.0 {
        config.with_momentum(Some(MomentumConfig { momentum, dampening: 0.0, nesterov: false }))
    } else {
        config
    };
    Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone() })
}

/// RMSProp.
pub(super) fn rms_prop(momentum: f32, device: &Device) -> Box<dyn UpdateRule> {
    let config = RmsPropConfig::new().with_epsilon(1e-8).with_momentum(momentum);
    Box::new(BurnRule { optimiser: config.build(), state: None, device: device.clone() })
}

/// One of Burn's optimisers with its state for one vector.
struct BurnRule<O: Optimizer> {
    optimiser: O,
    state: Option<O::State<1>>,
    device: Device,
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

    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 steps")]
    fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut sink = StateSink::default();
        if let Some(state) = &self.state {
            state.state_flatten("", &mut sink);
        }
        let scalars = sink.scalars.into_iter().map(|(name, scalar)| match scalar {
            Scalar::Int(value) => (format!("int {name}"), vec![value as f64]),
            Scalar::UInt(value) => (format!("uint {name}"), vec![value as f64]),
            Scalar::Float(value) => (format!("float {name}"), vec![value]),
            Scalar::Bool(value) => (format!("bool {name}"), vec![f64::from(u8::from(value))]),
        });
        let tensors = sink.tensors.into_iter().map(|(name, data)| (format!("tensor {name}"), numbers(data)));
        scalars.chain(tensors).collect()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts were saved from integers")]
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        if state.is_empty() {
            self.state = None;
            return true;
        }
        let mut scalars = BTreeMap::new();
        let mut tensors = Vec::new();
        for (name, values) in state {
            let first = values.first().copied().unwrap_or_default();
            match name.split_once(' ') {
                Some(("int", name)) => drop(scalars.insert(name.to_owned(), Scalar::Int(first as i64))),
                Some(("uint", name)) => drop(scalars.insert(name.to_owned(), Scalar::UInt(first as u64))),
                Some(("float", name)) => drop(scalars.insert(name.to_owned(), Scalar::Float(first))),
                Some(("bool", name)) => drop(scalars.insert(name.to_owned(), Scalar::Bool(first > 0.5))),
                Some(("tensor", name)) => tensors.push((name.to_owned(), values)),
                _ => return false,
            }
        }
        let mut source = StateSource::new(scalars);
        for (name, values) in tensors {
            let length = values.len();
            source.insert_tensor(name, TensorData::new(values, [length]));
        }
        self.state = RecordState::state_unflatten("", &mut source, self.device.burn());
        self.state.is_some()
    }
}
