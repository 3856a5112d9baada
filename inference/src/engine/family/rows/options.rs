//! Says what each column of a row of local latents may do in the row-wise family.

/// What each column of a row may do; each list has one entry for each of the row's `width` columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOptions {
    /// The column is correlated with the row's other dense columns.
    pub dense: Vec<bool>,
    /// The column's mean is linear in the globals.
    pub given_globals: Vec<bool>,
    /// The column's log-scale is linear in the globals.
    pub scale_given_globals: Vec<bool>,
    /// The column's mean is linear in what the row's outer row deviates from its mean.
    pub given_outer: Vec<bool>,
    /// The column is a point mass.
    pub delta: Vec<bool>,
}

impl RowOptions {
    /// So many independent columns that depend on nothing.
    #[must_use]
    pub fn independent(columns: usize) -> Self {
        let none = vec![false; columns];
        Self {
            dense: none.clone(),
            given_globals: none.clone(),
            scale_given_globals: none.clone(),
            given_outer: none.clone(),
            delta: none,
        }
    }

    /// Puts the options of some columns in the place of those from `start` on.
    pub(in crate::engine::family) fn place(&mut self, start: usize, own: &Self) {
        let pairs = [
            (&mut self.dense, &own.dense),
            (&mut self.given_globals, &own.given_globals),
            (&mut self.scale_given_globals, &own.scale_given_globals),
            (&mut self.given_outer, &own.given_outer),
            (&mut self.delta, &own.delta),
        ];
        for (all, own) in pairs {
            all[start..].iter_mut().zip(own).for_each(|(slot, own)| *slot = *own);
        }
    }
}
