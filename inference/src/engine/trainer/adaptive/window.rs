//! Keeps what is to be known of the iterates of a phase: means and variances of chunks of them, and their average.

use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::explosion::{self, Stretch, real, whole};

/// Coordinates that are watched: of more, as many at equal distances.
pub(super) const WATCHED: usize = 2_048;
/// Chunks after which pairs are joined, so that there are always at least half as many.
const CHUNKS: usize = 32;
/// The chunk with which the window begins: what comes before it is on the way.
const SKIPPED: usize = CHUNKS / 4;
/// The most that the square of the R-hat of one coordinate counts.
const LARGEST: f64 = 10.0;

/// The iterates of a phase: of the latter part, from half to three quarters of it, what stationarity is judged by.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The watched coordinates.
    places: Vec<usize>,
    /// Where they began: what chunks hold is relative to it, so that it keeps its digits.
    origin: Vec<f64>,
    /// Iterates of a chunk.
    length: u64,
    chunks: Vec<Chunk>,
    open: Chunk,
    /// The average of the window, and of the window after the next join of chunks.
    averages: [Average; 2],
}

/// Sums over some iterates, relative to the origin, with the sampled bounds.
#[derive(Debug, Clone, Default, PartialEq)]
struct Chunk {
    bounds: Stretch,
    sum: Vec<f64>,
    square: Vec<f64>,
}

/// A running average of whole iterates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Average {
    pub(super) count: u64,
    pub(super) sum: Vec<f64>,
}

/// What the halves of a window say of each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Halves {
    /// Split $`\hat R`$ of all watched coordinates together: the root of the mean of their squares.
    pub(super) r_hat: f64,
    /// By how much the mean bound rose from half to half, in nats.
    pub(super) rise: f64,
    /// The standard error of that.
    pub(super) standard_error: f64,
    /// How far the mean of each watched coordinate moved from half to half.
    pub(super) apart: Vec<f64>,
}

/// The watched coordinates of vectors of this length.
fn watched(length: usize) -> Vec<usize> {
    let count = length.min(WATCHED);
    (0..count).map(|index| index * length / count).collect()
}

impl Chunk {
    fn empty(places: usize) -> Self {
        Self { sum: vec![0.0; places], square: vec![0.0; places], ..Self::default() }
    }

    fn join(&mut self, other: &Self) {
        self.bounds = self.bounds.with(other.bounds);
        let add = |sums: &mut [f64], more: &[f64]| sums.iter_mut().zip(more).for_each(|(sum, own)| *sum += own);
        add(&mut self.sum, &other.sum);
        add(&mut self.square, &other.square);
    }

    fn joined(chunks: &[Self]) -> Self {
        let mut all = Self::empty(chunks.first().map_or(0, |chunk| chunk.sum.len()));
        chunks.iter().for_each(|chunk| all.join(chunk));
        all
    }

    fn count(&self) -> f64 {
        real(self.bounds.count)
    }

    /// Mean and variance of a watched coordinate, relative to the origin.
    fn moments(&self, index: usize) -> (f64, f64) {
        let mean = self.sum[index] / self.count();
        (mean, (self.square[index] / self.count() - mean * mean).max(0.0))
    }
}

impl Average {
    pub(super) fn add(&mut self, iterate: &[f64]) {
        self.sum.resize(iterate.len(), 0.0);
        self.sum.iter_mut().zip(iterate).for_each(|(sum, own)| *sum += own);
        self.count += 1;
    }

    /// The average; nothing of nothing.
    pub(super) fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / real(self.count)).collect()
    }
}

impl Window {
    /// An empty window of a phase that begins at `iterate`, in chunks of `length` iterates.
    pub(super) fn new(iterate: &[f64], length: u64) -> Self {
        let places = watched(iterate.len());
        Self {
            origin: places.iter().map(|place| iterate[*place]).collect(),
            length: length.max(1),
            chunks: Vec::with_capacity(CHUNKS),
            open: Chunk::empty(places.len()),
            averages: <[Average; 2]>::default(),
            places,
        }
    }

    /// Takes an iterate with its sampled bound; whether a chunk is full with it.
    pub(super) fn add(&mut self, iterate: &[f64], bound: f64) -> bool {
        let chunks = self.chunks.len();
        if chunks >= SKIPPED {
            self.averages[0].add(iterate);
        }
        if chunks >= CHUNKS / 2 {
            self.averages[1].add(iterate);
        }
        let open = &mut self.open;
        let watched = self.places.iter().zip(&self.origin);
        for ((place, origin), (sum, square)) in watched.zip(open.sum.iter_mut().zip(&mut open.square)) {
            let own = iterate[*place] - origin;
            *sum += own;
            *square += own * own;
        }
        open.bounds = open.bounds.with(Stretch::of(bound));
        if open.bounds.count < self.length {
            return false;
        }
        self.chunks.push(std::mem::replace(&mut self.open, Chunk::empty(self.places.len())));
        true
    }

    /// Joins chunks where there are too many; whether it did.
    pub(super) fn make_room(&mut self) -> bool {
        if self.chunks.len() < CHUNKS {
            return false;
        }
        self.chunks = self.chunks.chunks(2).map(Chunk::joined).collect();
        self.length *= 2;
        self.averages = [std::mem::take(&mut self.averages[1]), Average::default()];
        true
    }

    /// The mean bounds of the first chunk, and of the latest.
    pub(super) fn bounds(&self) -> Option<[f64; 2]> {
        Some([self.chunks.first()?.bounds.mean(), self.chunks.last()?.bounds.mean()])
    }

    /// Whether the bounds of the latest chunk have fallen far below those before, in a run that trains so many numbers.
    pub(super) fn has_exploded(&self, trained: usize) -> bool {
        let bounds: Vec<Stretch> = self.chunks.iter().map(|chunk| chunk.bounds).collect();
        explosion::has_exploded(&bounds, trained)
    }

    /// What the two halves of the window say of each other; `None` where there are too few chunks to judge.
    pub(super) fn halves(&self) -> Option<Halves> {
        let window = self.chunks.get(SKIPPED..).filter(|window| window.len() >= CHUNKS / 4)?;
        let (one, two) = window.split_at(window.len() / 2);
        let (one, two) = (Chunk::joined(one), Chunk::joined(two));
        let length = one.count().min(two.count());
        let (mut squares, mut apart) = (0.0, Vec::with_capacity(self.places.len()));
        for index in 0..self.places.len() {
            let ((mean_one, variance_one), (mean_two, variance_two)) = (one.moments(index), two.moments(index));
            let between = 0.5 * (mean_one - mean_two).powi(2);
            let within = 0.5 * (variance_one + variance_two);
            // A coordinate that rests is stationary.
            let square = if between == 0.0 { 1.0 } else { (length - 1.0) / length + between / within };
            squares += square.min(LARGEST);
            apart.push(mean_one - mean_two);
        }
        let count = real(self.places.len().max(1) as u64);
        let [before, after] = [one.bounds, two.bounds];
        let variance = before.variance() / one.count() + after.variance() / two.count();
        let (rise, standard_error) = (after.mean() - before.mean(), variance.sqrt());
        Some(Halves { r_hat: (squares / count).sqrt(), rise, standard_error, apart })
    }

    /// Whether there are more coordinates than can be watched.
    pub(super) fn has_many(&self) -> bool {
        self.places.len() == WATCHED
    }

    /// The watched coordinates.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The average of the whole iterates in the window.
    pub(super) fn average(&self) -> &Average {
        &self.averages[0]
    }

    /// Everything as named vectors.
    pub(super) fn save(&self) -> NamedVectors {
        let [window, next] = &self.averages;
        let mut state = vec![
            ("length".to_owned(), vec![real(self.length)]),
            ("origin".to_owned(), self.origin.clone()),
            ("averages".to_owned(), vec![real(window.count), real(next.count)]),
            ("average.0".to_owned(), window.sum.clone()),
            ("average.1".to_owned(), next.sum.clone()),
        ];
        for (index, chunk) in self.chunks.iter().chain([&self.open]).enumerate() {
            let numbers = chunk.bounds.save();
            state.push((format!("chunk.{index}"), [numbers.as_slice(), &chunk.sum, &chunk.square].concat()));
        }
        state
    }

    /// What [`Window::save`] gave of vectors of this length; `None` if it does not fit.
    pub(super) fn load(state: &[(String, Vec<f64>)], length: usize) -> Option<Self> {
        let find = |name: &str| named(state, name);
        let places = watched(length);
        let chunk = |index: usize| {
            let (numbers, sums) = find(&format!("chunk.{index}"))?.split_first_chunk::<4>()?;
            let (sum, square) = sums.split_at_checked(places.len()).filter(|(_, rest)| rest.len() == places.len())?;
            Some(Chunk { bounds: Stretch::load(*numbers), sum: sum.to_vec(), square: square.to_vec() })
        };
        let mut chunks: Vec<Chunk> = (0..=CHUNKS).map_while(chunk).collect();
        let open = chunks.pop()?;
        let [one, two] = *find("averages")? else { return None };
        let average = |name: &str, count: f64| {
            let sum = find(name)?.to_vec();
            (sum.len() == length || sum.is_empty()).then_some(Average { count: whole(count), sum })
        };
        Some(Self {
            origin: find("origin").filter(|origin| origin.len() == places.len())?.to_vec(),
            length: whole(*find("length")?.first()?),
            chunks,
            open,
            averages: [average("average.0", one)?, average("average.1", two)?],
            places,
        })
    }
}
