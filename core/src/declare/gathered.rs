//! Keeps the rows that a minibatch took of constants, so that they are gathered once instead of once a draw.

use std::sync::{Arc, Mutex, PoisonError};

use crate::data::Groups;
use crate::handle::Handle;

/// Rows taken of constants by the evaluations of one minibatch, on any thread.
///
/// A constant is identified by the address of its numbers; a kept entry holds the numbers, so that none can reuse it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered(Arc<Mutex<Kept>>);

type Numbers = Arc<Vec<f64>>;

/// The rows taken of each constant.
#[derive(Debug, Default)]
struct Kept {
    rows: Arc<[usize]>,
    numbers: Vec<(Numbers, Numbers)>,
    tensors: Vec<(Handle, Handle)>,
    expanded: Vec<(Handle, Handle)>,
    followed: Vec<(Groups, Followed)>,
}

/// The rows of an inner plate that belong to rows chosen of its outer plate, in the order of these.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    pub(crate) rows: Arc<[usize]>,
    /// The place among the chosen outer rows of each of `rows`.
    pub(crate) places: Arc<[usize]>,
    /// What was taken of these rows.
    pub(crate) gathered: Gathered,
}

impl Followed {
    fn of(outer: &[usize], groups: &Groups) -> Self {
        let mut rows = Vec::new();
        let mut places = Vec::new();
        for (place, row) in outer.iter().enumerate() {
            let own = groups.rows_of(*row);
            rows.extend_from_slice(own);
            places.extend(std::iter::repeat_n(place, own.len()));
        }
        Self { rows: rows.into(), places: places.into(), gathered: Gathered::default() }
    }
}

/// The number of constants kept, more than data have parts. Rows of computed tensors would fill it without any use.
const MOST: usize = 8;

/// Gathered rows are a cache and do not take part in equality.
impl PartialEq for Gathered {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Gathered {}

impl Gathered {
    /// These rows of host numbers, by `gather` the first time.
    pub(crate) fn numbers(&self, rows: &Arc<[usize]>, source: &Numbers, gather: impl FnOnce() -> Vec<f64>) -> Numbers {
        self.with(rows, |kept| find_or(&mut kept.numbers, source, Numbers::ptr_eq, || Arc::new(gather())))
    }

    /// These rows of a tensor, by `gather` the first time; by `gather` every time if the tensor cannot be identified.
    pub(crate) fn tensor(&self, rows: &Arc<[usize]>, source: &Handle, gather: impl FnOnce() -> Handle) -> Handle {
        if !source.is_same_constant(source) {
            return gather();
        }
        self.with(rows, |kept| find_or(&mut kept.tensors, source, Handle::is_same_constant, gather))
    }

    /// The same for what outer rows have, repeated for these rows by `expand`.
    pub(crate) fn expanded(&self, rows: &Arc<[usize]>, source: &Handle, expand: impl FnOnce() -> Handle) -> Handle {
        if !source.is_same_constant(source) {
            return expand();
        }
        self.with(rows, |kept| find_or(&mut kept.expanded, source, Handle::is_same_constant, expand))
    }

    /// The inner rows that belong to these rows, found the first time.
    pub(crate) fn follow(&self, rows: &Arc<[usize]>, groups: &Groups) -> Followed {
        self.with(rows, |kept| find_or(&mut kept.followed, groups, Groups::is_same, || Followed::of(rows, groups)))
    }

    /// What is kept for these rows; nothing if it was kept for other rows.
    fn with<T>(&self, rows: &Arc<[usize]>, read: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The same list is mostly at the same place, and then there is nothing to compare.
        if !Arc::ptr_eq(&kept.rows, rows) && kept.rows != *rows {
            *kept = Kept { rows: Arc::clone(rows), ..Kept::default() };
        }
        read(&mut kept)
    }
}

fn find_or<S: Clone, T: Clone>(
    kept: &mut Vec<(S, T)>,
    source: &S,
    same: impl Fn(&S, &S) -> bool,
    gather: impl FnOnce() -> T,
) -> T {
    if let Some((_, taken)) = kept.iter().find(|(known, _)| same(known, source)) {
        return taken.clone();
    }
    let taken = gather();
    if kept.len() < MOST {
        kept.push((source.clone(), taken.clone()));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn take(gathered: &Gathered, rows: &[usize], source: &Arc<Vec<f64>>) -> (Vec<f64>, bool) {
        let mut fresh = false;
        let taken = gathered.numbers(&rows.into(), source, || {
            fresh = true;
            rows.iter().map(|row| source[*row]).collect()
        });
        (taken.to_vec(), fresh)
    }

    #[test]
    fn rows_are_gathered_once_for_each_constant_and_list_of_rows() {
        let gathered = Gathered::default();
        let (a, b) = (Arc::new(vec![1.0, 2.0, 3.0]), Arc::new(vec![1.0, 5.0, 6.0]));
        assert_eq!(take(&gathered, &[2, 0], &a), (vec![3.0, 1.0], true));
        assert_eq!(take(&gathered, &[2, 0], &b), (vec![6.0, 1.0], true));
        assert_eq!(take(&gathered.clone(), &[2, 0], &a), (vec![3.0, 1.0], false));
        assert_eq!(take(&gathered, &[1], &a), (vec![2.0], true));
        assert_eq!(take(&gathered, &[2, 0], &a), (vec![3.0, 1.0], true));
    }

    #[test]
    fn a_tensor_is_the_same_only_if_its_memory_is() {
        let device = Device::flex();
        let a = Handle::from(device.tensor(vec![1.0, 2.0], [2]));
        let equal = Handle::from(device.tensor(vec![1.0, 2.0], [2]));
        let tracked = Handle::from(device.leaf(vec![1.0, 2.0], [2]));
        assert!(a.is_same_constant(&a.clone()));
        assert!(!a.is_same_constant(&equal) && !tracked.is_same_constant(&tracked.clone()));
        // Another view of the same memory is another constant.
        let view = Handle::from(a.clone().typed::<1>().narrow(0, 1, 1));
        assert!(!a.is_same_constant(&view));
    }
}
