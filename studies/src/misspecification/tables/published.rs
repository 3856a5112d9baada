//! Holds the numbers printed in the thesis' tables 3.1, 3.2, 4.1 and 4.2, one run each.

/// Silos, then the differences from pooled inference: of means, of covariances, of log determinants.
pub(crate) type BySilos = [(usize, [f64; 3]); 13];

/// Table 3.1: PVI against VI.
pub(crate) const TABLE_3_1: BySilos = [
    (2, [0.0422, 0.0021, 0.0636]),
    (3, [0.0536, 0.0053, 0.1774]),
    (4, [0.0320, 0.0017, 0.0548]),
    (5, [0.0223, 0.0001, 0.0045]),
    (6, [0.0314, 0.0076, 0.2285]),
    (8, [0.0209, 0.0116, 0.3412]),
    (10, [0.0292, 0.0083, 0.2505]),
    (12, [0.0405, 0.0018, 0.0590]),
    (15, [0.0328, 0.0055, 0.1845]),
    (17, [0.0320, 0.0096, 0.2851]),
    (20, [0.0341, 0.0220, 0.6035]),
    (25, [0.0210, 0.0013, 0.0409]),
    (50, [0.0310, 0.0017, 0.0546]),
];

/// Table 4.1: PGVI with Rényi's divergence of index 0.5 against GVI.
pub(crate) const TABLE_4_1: BySilos = [
    (2, [0.0216, 0.0019, 0.0291]),
    (3, [0.0135, 0.0382, 0.6687]),
    (4, [0.0068, 0.0111, 0.1720]),
    (5, [0.0211, 0.0177, 0.2819]),
    (6, [0.0213, 0.0279, 0.4648]),
    (8, [0.0181, 0.0056, 0.0856]),
    (10, [0.0161, 0.0187, 0.2987]),
    (12, [0.0073, 0.0114, 0.1773]),
    (15, [0.0055, 0.0122, 0.1903]),
    (17, [0.0078, 0.0062, 0.0946]),
    (20, [0.0049, 0.0181, 0.2892]),
    (25, [0.0047, 0.0042, 0.0639]),
    (50, [0.0068, 0.0127, 0.1990]),
];

/// Sequential, synchronous and asynchronous, with the same differences.
pub(crate) type BySchedule = [[f64; 3]; 3];

/// Table 3.2: PVI against VI.
pub(crate) const TABLE_3_2: BySchedule = [[0.0363, 4.3671, 0.5720], [0.0279, 4.1251, 0.4171], [0.5546, 0.1938, 0.3547]];

/// Table 4.2: PGVI with Rényi's divergence of index 0.6 against GVI.
pub(crate) const TABLE_4_2: BySchedule = [[0.8275, 3.3246, 0.0211], [0.8457, 3.0150, 0.0727], [0.4920, 2.3456, 0.1810]];
