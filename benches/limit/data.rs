//! Rebuilds the six-cities data from the published counts of response patterns, so that no file is needed.

/// Children by response pattern at the ages 7, 8, 9, 10 (0000, 0001, ..., 1111): Fitzmaurice and Laird (1993).
const NON_SMOKING: [usize; 16] = [237, 10, 15, 4, 16, 2, 7, 3, 24, 3, 3, 2, 6, 2, 5, 11];
const SMOKING: [usize; 16] = [118, 6, 8, 2, 11, 1, 6, 4, 7, 3, 3, 1, 4, 2, 4, 7];

/// Ages of the four visits, in years from nine.
pub(crate) const AGES: [f64; 4] = [-2.0, -1.0, 0.0, 1.0];

/// One child: whether the mother smoked, and whether the child wheezed at each visit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Child {
    /// 1 if the mother smoked, else 0.
    pub(crate) smoke: f64,
    /// 1 where the child wheezed, else 0.
    pub(crate) wheeze: [f64; 4],
}

/// The 537 children, those of smoking mothers last.
pub(crate) fn children() -> Vec<Child> {
    let group = |smoke: f64, counts: &[usize; 16]| {
        let mut children = Vec::new();
        for (pattern, count) in counts.iter().enumerate() {
            let wheeze = [8, 4, 2, 1].map(|bit| if pattern & bit == 0 { 0.0 } else { 1.0 });
            children.extend(std::iter::repeat_n(Child { smoke, wheeze }, *count));
        }
        children
    };
    [group(0.0, &NON_SMOKING), group(1.0, &SMOKING)].concat()
}
