//! Claims that steps on some rows take memory for those rows only, however many rows there are in all.
#![expect(clippy::unwrap_used, reason = "a failure to set the scene fails the test")]
#![expect(unsafe_code, reason = "an allocator that counts is the only witness of what was allocated")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use partita::core::{Key, Noise, Purpose};
use partita::inference::{Algorithm, Exchange, InProcess, VerticalOptions, vertical};
use partita::vertical::{BernoulliHead, Labels, Linear, Party, WithIntercept, binary_labels};
use partita::{AlgorithmChoice, Design, Device, FitOptions, Normal, Settings};

/// The system's allocator, with counts of the live bytes and of their maximum.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator; counting does not touch its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `alloc` returned the pointer for this layout.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH: usize = 500;
const STEPS: usize = 20;

/// The largest number of live bytes beyond the data in twenty steps on 500 of `rows` rows.
fn peak(rows: usize, how: VerticalOptions) -> usize {
    let device = Device::flex();
    let each = 10;
    let mut stream = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    let parties = ["first", "second"].map(|name| {
        let mut columns = vec![0.0; rows * each];
        stream.normal(&mut columns);
        Party::new(name, Linear::new(each), Design::new(columns, [rows, 1, each]).unwrap())
    });
    let labels: Vec<bool> = (0..rows).map(|_| stream.uniform() < 0.4).collect();
    let labels =
        Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), binary_labels(&labels, &device));
    let mut settings = Settings { steps: STEPS as u64, ..Settings::default() };
    settings.minibatch.insert("row".into(), BATCH);
    let options = FitOptions { algorithm: AlgorithmChoice::Vertical(how), settings, ..FitOptions::default() };
    let before = LIVE.load(Relaxed);
    let (mut algorithm, mut exchange): (Box<dyn Algorithm>, InProcess) =
        vertical::parties(&parties, &labels, &device, &options).unwrap();
    PEAK.store(LIVE.load(Relaxed), Relaxed);
    for _ in 0..STEPS {
        let requests = algorithm.outgoing().unwrap();
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        algorithm.incoming(outcomes).unwrap();
    }
    PEAK.load(Relaxed) - before
}

#[test]
fn memory_beyond_the_data_grows_with_the_rows_of_the_family_and_not_of_the_table() {
    let (few, many) = (20_000, 200_000);
    // The order of the rows in an epoch, an index a row at the coordinator, and the temporary memory of threads.
    let bound = size_of::<usize>() * (many - few) + 65_536;
    for how in [VerticalOptions::augmented(1.0), VerticalOptions::direct()] {
        let grown = peak(many, how).saturating_sub(peak(few, how));
        assert!(grown <= bound, "{grown} bytes more for 180,000 more rows");
    }
    // Two parties' means and log scales with their two moments in Adam: 96 bytes a row.
    let mean_field = VerticalOptions::augmented(1.0).mean_field();
    let grown = peak(many, mean_field) - peak(few, mean_field);
    assert!(grown >= 96 * (many - few), "{grown} bytes more for 180,000 more rows");
}
