//! Records the operations of one evaluation on its own thread, where Burn's tape takes a lock of the process for each.
//!
//! A latent is a tensor that Burn keeps no record of, known here by its identifier. What an operation of Partita makes
//! of known tensors is known too. What any other operation makes of them is not: an evaluation whose sum is unknown
//! counts for nothing, and is repeated on Burn's tape.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::fmt;

use burn::backend::{AutodiffBackend, DispatchAutodiffContext, DispatchTensor, TensorMetadata};
use burn::tensor::DType;
use burn_autodiff::NodeId;

use super::Vjp;
use crate::device::Device;
use crate::handle::{Handle, HostDispatch};

/// After how many evaluations of a thread, and after its first, Burn is made to forget operations that no backward pass
/// of its own has met.
const SWEEP: u32 = 1_024;

thread_local! {
    /// The tapes of the evaluations on this thread, the innermost last: a thread that waits for a part of one
    /// evaluation may take up another.
    static OPEN: RefCell<Vec<OwnTape>> = const { RefCell::new(Vec::new()) };
    /// The evaluations of this thread on tapes of this kind.
    static EVALUATIONS: Cell<u32> = const { Cell::new(0) };
}

/// The latents and operations of one evaluation, in the order of their identifiers.
#[derive(Default)]
pub(crate) struct OwnTape {
    nodes: Vec<Node>,
}

impl fmt::Debug for OwnTape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnTape").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// A latent, or the output of an operation.
struct Node {
    id: NodeId,
    size: Size,
    /// The number of operations on the longest way from a latent.
    depth: usize,
    /// What it is computed from, `None` for a constant; nothing for a latent.
    parents: Vec<Option<usize>>,
    /// `None` for a latent.
    vjp: Option<Vjp>,
}

/// How many numbers a tensor has, and whether they are in single precision.
#[derive(Clone, Copy)]
pub(super) struct Size {
    numbers: usize,
    is_single: bool,
}

impl Size {
    pub(super) fn of(tensor: &impl TensorMetadata) -> Self {
        Self { numbers: tensor.shape().num_elements(), is_single: tensor.dtype() != DType::F64 }
    }
}

/// What `body` gives, and the tape of the latents that it notes on this thread.
pub(crate) fn during<T>(body: impl FnOnce() -> T) -> (T, OwnTape) {
    resume(OwnTape::default(), body)
}

/// The same on a tape that has been closed, on whichever thread.
pub(crate) fn resume<T>(tape: OwnTape, body: impl FnOnce() -> T) -> (T, OwnTape) {
    let opened = Opened::new(tape);
    let value = body();
    (value, opened.close())
}

/// Closes a tape, and what was opened above it, after a panic too.
struct Opened(usize);

impl Opened {
    fn new(tape: OwnTape) -> Self {
        OPEN.with_borrow_mut(|open| {
            open.push(tape);
            Self(open.len() - 1)
        })
    }

    fn close(&self) -> OwnTape {
        let closed = OPEN.with_borrow_mut(|open| open.split_off(self.0));
        closed.into_iter().next().unwrap_or_default()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// Notes a latent on the innermost tape of this thread.
pub(crate) fn note(latent: &Handle) {
    if let Some(id) = latent.node_id() {
        push(Node { id, size: Size::of(&latent.tensor), depth: 0, parents: Vec::new(), vjp: None });
    }
}

/// The places of tensors on the innermost tape of this thread, if all are on it.
pub(super) fn find<const N: usize>(ids: [Option<NodeId>; N]) -> Option<[usize; N]> {
    OPEN.with_borrow(|open| {
        let tape = open.last()?;
        let mut places = [0; N];
        for (place, id) in places.iter_mut().zip(ids) {
            *place = tape.find(id?)?;
        }
        Some(places)
    })
}

/// Notes an operation on tensors of which [`find`] has told the places.
pub(super) fn record<const N: usize>(inputs: [usize; N], output: NodeId, size: Size, vjp: Vjp) {
    push(Node { id: output, size, depth: 0, parents: inputs.map(Some).into(), vjp: Some(vjp) });
}

fn push(mut node: Node) {
    OPEN.with_borrow_mut(|open| {
        let Some(tape) = open.last_mut() else { return };
        let depths = node.parents.iter().flatten().map(|parent| tape.nodes[*parent].depth + 1);
        node.depth = depths.max().unwrap_or(0);
        tape.nodes.push(node);
    });
}

/// What an operation of Burn makes of tensors, and how gradients pass it.
pub(crate) struct Made {
    pub(crate) output: Handle,
    /// One gradient for each input; those of constants are not used.
    pub(crate) vjp: Vjp,
}

/// An operation of Burn on latents and constants.
///
/// Its node is on the innermost tape of this thread if its latents are: `operation` is then called with plain tensors.
/// Else it is called with the inputs as they are, and Burn notes what it does with them.
pub(crate) fn burns(inputs: Vec<Handle>, operation: impl FnOnce(&[Handle]) -> Made) -> Handle {
    let Some(Known { parents, context }) = Known::of(&inputs) else { return operation(&inputs).output };
    let inputs: Vec<Handle> = inputs.into_iter().map(plain).collect();
    let Made { output, vjp } = operation(&inputs);
    let tensor = <HostDispatch as AutodiffBackend>::from_inner(output.tensor);
    let output = Handle { tensor: DispatchTensor { autodiff: context, ..tensor } };
    if let Some(id) = output.node_id() {
        push(Node { id, size: Size::of(&output.tensor), depth: 0, parents, vjp: Some(vjp) });
    }
    output
}

/// The places of inputs on the innermost tape of this thread.
struct Known {
    parents: Vec<Option<usize>>,
    context: DispatchAutodiffContext,
}

impl Known {
    /// `None` unless there are latents among the inputs, and all of them are on the tape.
    fn of(inputs: &[Handle]) -> Option<Self> {
        let context = inputs.iter().find(|input| input.is_tracked())?.tensor.autodiff;
        OPEN.with_borrow(|open| {
            let tape = open.last()?;
            let mut parents = Vec::with_capacity(inputs.len());
            for input in inputs {
                parents.push(if input.is_tracked() { Some(tape.find(input.node_id()?)?) } else { None });
            }
            Some(Self { parents, context })
        })
    }
}

/// The numbers of a tensor as a constant.
pub(super) fn plain(tensor: Handle) -> Handle {
    if tensor.is_tracked() {
        Handle { tensor: <HostDispatch as AutodiffBackend>::inner(tensor.tensor) }
    } else {
        tensor
    }
}

/// Lets Burn forget, once in many evaluations, what they made it keep: an operation of Burn on a latent that reaches no
/// density, as that of a `deterministic`, is kept until a backward pass of Burn's sweeps.
///
/// The first evaluation sweeps what threads before this one left: the pool of a short fit ends before it has evaluated
/// often.
pub(crate) fn sweep(device: &Device) {
    let evaluations = EVALUATIONS.get();
    EVALUATIONS.set(evaluations.wrapping_add(1));
    if evaluations.is_multiple_of(SWEEP) {
        drop(device.leaf::<1>(vec![0.0], [1]).backward());
    }
}

impl OwnTape {
    /// The place of a tensor. Identifiers grow, and so does the tape.
    fn find(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// Whether a tensor is a latent of this tape, or the output of one of its operations.
    pub(crate) fn knows(&self, tensor: &Handle) -> bool {
        tensor.node_id().is_some_and(|id| self.find(id).is_some())
    }

    /// The gradients of the sum of `root` by all that it is computed from; `None` if it is not on this tape.
    pub(crate) fn backward(mut self, root: &Handle) -> Option<OwnGradients> {
        let root = self.find(root.node_id()?)?;
        let mut gradients: Vec<Option<Vec<f64>>> = vec![None; self.nodes.len()];
        gradients[root] = Some(vec![1.0; self.nodes[root].size.numbers]);
        for place in self.order(root) {
            let Some(vjp) = self.nodes[place].vjp.take() else { continue };
            let Some(gradient) = gradients[place].take() else { continue };
            for (parent, result) in self.nodes[place].parents.iter().zip(vjp(&gradient)) {
                if let Some(parent) = *parent
                    && !result.is_empty()
                {
                    add(&mut gradients[parent], result, self.nodes[parent].size);
                }
            }
        }
        Some(OwnGradients { tape: self, gradients })
    }

    /// What `root` is computed from, in the order in which Burn's tape takes it: gradients are then summed in the same
    /// order, and have the same bits.
    fn order(&self, root: usize) -> Vec<usize> {
        let mut is_seen = vec![false; self.nodes.len()];
        let (mut order, mut next) = (Vec::new(), vec![root]);
        while let Some(place) = next.pop() {
            if !std::mem::replace(&mut is_seen[place], true) {
                order.push(place);
                next.extend(self.nodes[place].parents.iter().flatten());
            }
        }
        order.sort_by_key(|place| Reverse(self.nodes[*place].depth));
        order
    }
}

/// Adds a gradient to what there is, in the precision that Burn's tape would hold it in.
fn add(sum: &mut Option<Vec<f64>>, mut own: Vec<f64>, size: Size) {
    assert_eq!(own.len(), size.numbers, "a gradient has one number for each of its tensor");
    let round = |numbers: &mut [f64]| {
        if size.is_single {
            numbers.iter_mut().for_each(|number| *number = to_single(*number));
        }
    };
    round(&mut own);
    match sum {
        None => *sum = Some(own),
        Some(sum) => {
            sum.iter_mut().zip(own).for_each(|(slot, number)| *slot += number);
            round(sum);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is what the tensor has")]
fn to_single(number: f64) -> f64 {
    f64::from(number as f32)
}

/// How many evaluations this thread has used tapes of this kind for, and how many tapes are open on it.
#[cfg(all(test, feature = "flex"))]
pub(crate) fn counts() -> (u32, usize) {
    (EVALUATIONS.get(), OPEN.with_borrow(Vec::len))
}

/// Gradients by the latents of a tape.
pub(crate) struct OwnGradients {
    tape: OwnTape,
    gradients: Vec<Option<Vec<f64>>>,
}

impl OwnGradients {
    /// The gradient by a latent, given once; `None` if nothing depends on it.
    pub(crate) fn take(&mut self, latent: &Handle) -> Option<Vec<f64>> {
        let place = self.tape.find(latent.node_id()?)?;
        self.gradients[place].take()
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use std::panic::catch_unwind;

    use burn::tensor::Tensor;

    use super::*;
    use crate::device::Precision;
    use crate::math::operation::elementwise;

    fn latent(device: &Device, values: &[f64]) -> Tensor<1> {
        let latent = device.unregistered_leaf(values, [values.len()]);
        note(&Handle::from(latent.clone()));
        latent
    }

    fn square(x: Tensor<1>) -> Tensor<1> {
        elementwise(x, |x| x * x, |x| 2.0 * x)
    }

    #[test]
    fn gradients_of_several_ways_are_summed() {
        let device = Device::flex();
        let ((x, root), tape) = during(|| {
            let x = latent(&device, &[3.0, 5.0]);
            let (one, two) = (square(x.clone()), square(square(x.clone())));
            (Handle::from(x.clone()), Handle::from(one).plus(two.into()).plus(x.into()))
        });
        assert_eq!(root.read().unwrap().values, [93.0, 655.0]);
        let mut gradients = tape.backward(&root).unwrap();
        assert_eq!(gradients.take(&x).unwrap(), [6.0 + 108.0 + 1.0, 10.0 + 500.0 + 1.0]);
    }

    #[test]
    fn a_change_of_shape_passes_the_gradient_on() {
        let device = Device::flex();
        let ((x, root), tape) = during(|| {
            let x = latent(&device, &[3.0, 5.0]);
            let column = Handle::from(x.clone()).reshaped(&[2, 1]);
            assert_eq!(column.shape(), [2, 1]);
            (Handle::from(x), Handle::from(square(column.reshaped(&[2]).typed())))
        });
        assert_eq!(tape.backward(&root).unwrap().take(&x).unwrap(), [6.0, 10.0]);
    }

    #[test]
    fn what_other_operations_make_is_unknown() {
        let device = Device::flex();
        let (root, tape) = during(|| Handle::from(square(latent(&device, &[3.0]) * 2.0)));
        assert!(tape.backward(&root).is_none());
        // A sum of what is known and what is not.
        let (root, tape) = during(|| {
            let x = latent(&device, &[3.0]);
            Handle::from(square(x.clone())).plus((x * 2.0).into())
        });
        assert!(tape.backward(&root).is_none());
    }

    #[test]
    fn an_evaluation_within_another_neither_sees_nor_disturbs_it() {
        let device = Device::flex();
        let ((x, root), tape) = during(|| {
            let x = latent(&device, &[3.0]);
            let ((y, unknown, inner), own) = during(|| {
                let y = latent(&device, &[7.0]);
                (Handle::from(y.clone()), Handle::from(square(x.clone())), Handle::from(square(y)))
            });
            assert!(own.find(unknown.node_id().unwrap()).is_none());
            assert_eq!(own.backward(&inner).unwrap().take(&y).unwrap(), [14.0]);
            (Handle::from(x.clone()), Handle::from(square(x)))
        });
        assert_eq!(tape.backward(&root).unwrap().take(&x).unwrap(), [6.0]);
    }

    #[test]
    fn leaves_of_burn_stay_on_burns_tape_while_another_is_open() {
        let device = Device::flex();
        let (found, _) = during(|| {
            let _ = latent(&device, &[1.0]);
            let x = device.leaf::<1>(vec![3.0], [1]);
            let gradients = square(x.clone()).backward();
            x.grad(&gradients).unwrap().into_scalar::<f64>()
        });
        assert_eq!(found.to_bits(), 6.0_f64.to_bits());
    }

    #[test]
    fn a_panic_closes_the_tape() {
        let caught = catch_unwind(|| drop(during(|| drop(during::<()>(|| panic!("planted"))))));
        assert!(caught.is_err());
        assert_eq!(counts().1, 0);
    }

    #[test]
    fn gradients_of_single_precision_are_rounded_as_burn_rounds_them() {
        let device = Device::flex().with_precision(Precision::Single);
        let third = |x: Tensor<1>| elementwise(x, |x| x / 3.0, |_| 1.0 / 3.0);
        let both = |x: &Tensor<1>| Handle::from(third(third(x.clone()))).plus(third(x.clone()).into());
        let ((x, root), tape) = during(|| {
            let x = latent(&device, &[0.1]);
            (Handle::from(x.clone()), both(&x))
        });
        let found = tape.backward(&root).unwrap().take(&x).unwrap();
        let leaf = device.leaf::<1>(vec![0.1], [1]);
        let gradients = both(&leaf).typed::<1>().backward();
        let expected = Handle::from(leaf.grad(&gradients).unwrap()).read().unwrap().values;
        assert_eq!(found, expected);
        assert_ne!(found, [1.0 / 9.0 + 1.0 / 3.0]);
    }
}
