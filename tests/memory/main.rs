//! Claims that memory grows with what a step needs: not with rows that it leaves out, nor with silos that are added up.
#![expect(clippy::unwrap_used, reason = "a failure to set the scene fails the test")]
#![expect(unsafe_code, reason = "an allocator that counts is the only witness of what was allocated")]

mod fifty_silos;
mod own_tape;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use partita::core::{Key, Noise, Purpose};
use partita::inference::{
    Algorithm, Arrival, Exchange, InProcess, Manifest, Outcome, Request, RunOptions, Silent, SiloProgram, StartFrom,
    VerticalOptions, coordinator, run, silo_program, vertical,
};
use partita::models::{BinaryRows, LogisticRegression};
use partita::vertical::{BernoulliHead, Labels, Linear, Party, WithIntercept, binary_labels};
use partita::{
    AlgorithmChoice, Design, Device, FamilyPlan, FitOptions, Gaussian, Normal, RoundOptions, Schedule, Settings,
};

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

/// The counts are of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

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
    let _alone = ALONE.lock().unwrap();
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

/// Silos that are far away, and answer alike when their turn has come.
struct Far {
    names: Vec<String>,
    own: Box<dyn SiloProgram>,
    open: VecDeque<Request>,
}

impl Exchange for Far {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, requests: Vec<Request>, _: Option<Duration>) -> partita::inference::Result<()> {
        self.open.extend(requests);
        Ok(())
    }

    fn receive(&mut self, _: &Manifest, _: Option<Duration>) -> partita::inference::Result<Option<Arrival>> {
        let Some(Request { silo, message }) = self.open.pop_front() else { return Ok(None) };
        Ok(Some(Arrival { silo, outcome: Outcome::Reply(self.own.answer(&message)?) }))
    }
}

/// With the intercept so many latents, each with a mean and a log standard deviation.
const COLUMNS: usize = 19_999;
/// The bytes of an answer of a round: all parameters.
const AN_ANSWER: usize = 8 * 2 * (COLUMNS + 1);

/// Whether answers are added up as they come, or all are held first.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    InTurn,
    AllAtOnce,
}

/// The largest number of live bytes beyond those of the parties in two steps over so many silos.
fn peak_of_silos(silos: usize, algorithm: &AlgorithmChoice, answers: Answers) -> usize {
    let (device, family) = (Device::flex(), FamilyPlan::new().global(Gaussian::diagonal()));
    let (schedule, start) = (Schedule::Constant { rate: 0.01 }, StartFrom::Declared);
    let settings = Settings { steps: 2, family, schedule, start, ..Settings::default() };
    let fit = FitOptions { algorithm: algorithm.clone(), settings, elbo_draws: 0, ..FitOptions::default() };
    let inputs: Vec<f64> = (0..2 * COLUMNS).map(|place| if place % 3 == 0 { 0.5 } else { -0.25 }).collect();
    let rows = BinaryRows::new(&inputs, COLUMNS, &[true, false], &device).unwrap();
    let model = LogisticRegression::new(COLUMNS);
    let names: Vec<String> = (0..silos).map(|index| format!("silo-{index}")).collect();
    let own = silo_program(&model, &names, 0, &rows, &device, &fit).unwrap().0;
    let mut method = coordinator(&model, &names, &vec![2; silos], &device, &fit).unwrap();
    let mut far = Far { names, own, open: VecDeque::new() };
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    match answers {
        Answers::InTurn => {
            let how = RunOptions { steps: 2, ..RunOptions::default() };
            run(&mut *method, &mut far, &how, &mut Silent).unwrap();
        }
        Answers::AllAtOnce => {
            let requests = method.outgoing().unwrap();
            let outcomes = far.exchange(requests, method.manifest(), None).unwrap();
            method.incoming(outcomes).unwrap();
        }
    }
    PEAK.load(Relaxed) - before
}

#[test]
fn memory_of_a_coordinator_that_adds_up_answers_does_not_grow_with_silos() {
    let _alone = ALONE.lock().unwrap();
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::SfviAvg(RoundOptions::paper(1))] {
        let grown = |answers| {
            let [few, many] = [5, 50].map(|silos| peak_of_silos(silos, &algorithm, answers));
            many.saturating_sub(few)
        };
        let found = grown(Answers::InTurn);
        assert!(found < 2 * AN_ANSWER, "{algorithm:?}: {found} bytes more for 45 more silos");
        // The fault: an answer of SFVI is a gradient by latents, half of the parameters.
        let found = grown(Answers::AllAtOnce);
        assert!(found > 40 * AN_ANSWER / 2, "{algorithm:?}: {found} bytes more for 45 more silos, all at once");
    }
}
