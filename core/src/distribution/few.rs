//! Holds a short list without the heap: one entry for each parameter of a distribution, of which most have three or fewer.

use std::ops::{Deref, DerefMut};

/// A list of which up to three entries are held in place, and more on the heap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Few<T> {
    inline: [T; 3],
    length: usize,
    heap: Vec<T>,
}

impl<T: Default> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self { inline: Default::default(), length: 0, heap: Vec::new() };
        for item in items {
            match list.inline.get_mut(list.length) {
                Some(slot) => *slot = item,
                None if list.heap.is_empty() => {
                    list.heap.extend(list.inline.iter_mut().map(std::mem::take));
                    list.heap.push(item);
                }
                None => list.heap.push(item),
            }
            list.length += 1;
        }
        list
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if self.heap.is_empty() { &self.inline[..self.length] } else { &self.heap }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.heap.is_empty() { &mut self.inline[..self.length] } else { &mut self.heap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_keeps_its_entries_in_order() {
        for length in 0..7 {
            let mut list: Few<usize> = (0..length).collect();
            assert!(list.iter().copied().eq(0..length), "{list:?}");
            list.iter_mut().for_each(|entry| *entry += 1);
            assert!(list.iter().copied().eq(1..=length), "{list:?}");
        }
    }
}
