//! Finds the learning rate of a run: high until iterates are stationary, then lower phase by phase, then down to zero.

mod window;

use self::window::{Average, WATCHED, Window};
use crate::engine::checkpoint::{NamedVectors, named, prefixed, with_prefix};
use crate::engine::explosion::{real, whole};
use crate::engine::trainer::units::MeanUnit;

/// The rate of a phase in that of the one before.
const FACTOR: f64 = 0.5;
/// The rate after a step that is undone, in that before it, and how often a step may be undone.
const SETBACK: f64 = 0.25;
const SETBACKS: u64 = 3;
/// The R-hat at which iterates are stationary.
const STATIONARY: f64 = 1.2;
/// The most, in what the run has gained, that the bound of many coordinates may rise from half to half of a window in which
/// they rest.
const WORTH: f64 = 0.002;
/// The standard errors by which the bound of few may rise, and by which that of many is taken to rise more than it did.
const RISE: f64 = 2.0;
/// What the rate of a phase times the iterates of its first chunks is: half the way to a distance of one unit.
const CHUNK: f64 = 0.5;
/// The distance in units of the coordinates that is accurate enough: of few coordinates, and of many.
const ACCURACY: [f64; 2] = [0.02, 0.1];
/// The steps that count as none.
const CHEAP: f64 = 250.0;
/// The steps of the fall to zero in those before it, of few coordinates and of many, and the first part of them that the
/// answer leaves out.
const FALL: [[u64; 2]; 2] = [[1, 2], [1, 1]];
const LEFT_OUT: [u64; 2] = [1, 4];
/// The limit of steps in those of the fall to zero that leads there, and of many globals alone.
const LAST: [u64; 2] = [4, 2];
/// The first rate of many globals alone, in that of others.
const OF_MANY: f64 = 0.6;
/// The unit of the mean of each of many globals beside latents of rows, in standard deviations.
const MEANS: f64 = 4.0;

/// The learning rate of a run with what it follows from.
///
/// A phase has one rate $`\gamma`$. It ends when the bound no longer rises by two standard errors from half to half of the
/// window of its iterates, and split $`\hat R`$ of all watched coordinates together is at most 1.2. Weights of a network
/// wander long after the bound rests: of 2,048 coordinates or more the bound alone ends a phase, where its rise and two
/// standard errors are together at most 0.002 of what the run has gained. The average of the window is where the next phase begins, at
/// $`\gamma/2`$. With $`m`$ the root mean square, over coordinates in their units, of the distance between the averages of
/// two phases, or of that between the means of the two halves of the window where it is larger, and $`n`$ the steps of the
/// phase, the next one promises to halve $`m^2`$ in $`2n`$ steps. It is worth them while
///
/// ```math
/// \frac{m^2/2 + \xi^2}{m^2 + \xi^2} \cdot \frac{2n}{n + n_0} \le 1, \quad\text{that is}\quad n \le n_0\,(1 + m^2/\xi^2),
/// ```
/// with $`\xi`$ the accuracy that is enough, 0.02, or 0.1 for 2,048 coordinates or more, and $`n_0`$ = 250 the steps that
/// count as none. Otherwise the rate falls to zero like the square of the steps that are left, over half as many steps as
/// were taken before, as many for so many coordinates, and the answer is the average over the last three quarters of that.
///
/// # References
/// Welandawe, Andersen, Vehtari and Huggins (2022), section 4: the phases, and the index of inefficiency.
#[derive(Debug)]
pub(crate) struct Adaptive {
    /// Steps of the run at most, that limit in those of the fall to zero which leads there, and those done.
    limit: u64,
    last: u64,
    done: u64,
    rate: f64,
    means: MeanUnit,
    stage: Stage,
    /// Steps of the present phase.
    age: u64,
    /// Steps of one iterate: of a round, where silos take several.
    stride: u64,
    window: Option<Window>,
    /// The average of the phase before.
    before: Option<Vec<f64>>,
    /// Where the run goes back to: where the present phase began.
    anchor: Vec<f64>,
    setbacks: u64,
    /// The mean sampled bound of the first iterates.
    start: Option<f64>,
    /// The average over the latter part of the fall to zero of a run that converges.
    answer: Average,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Phases of one rate each.
    Phases,
    /// Like a square to zero, from this step over so many.
    Falling { first: u64, steps: u64, end: End },
}

/// What a fall of the rate to zero ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing is left to gain.
    Converged,
    /// The limit of steps.
    Limit,
}

/// Where what is trained goes on from.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Where it is.
    Here,
    /// The same, with a rule that forgets the way there.
    Afresh,
    /// Another place.
    At(Vec<f64>),
    /// Back where steps began that are undone, with a rule that forgets them.
    Back(Vec<f64>),
}

impl Adaptive {
    /// A run of at most so many steps that begins with this rate.
    pub(crate) fn new(initial: f64, limit: u64) -> Self {
        Self {
            limit,
            last: LAST[0],
            done: 0,
            rate: initial,
            means: MeanUnit::OWN,
            stage: Stage::Phases,
            age: 0,
            stride: 1,
            window: None,
            before: None,
            anchor: Vec::new(),
            setbacks: 0,
            start: None,
            answer: Average::default(),
        }
    }

    /// Makes the run that of so many coordinates, which are many from 2,048 on.
    ///
    /// Many globals alone, such as the weights of a network, begin lower and fall to zero over half of the limit: at a higher rate their
    /// deviations grow before their means have found their places, and what is lost to noise then does not come back. Their means
    /// move in units between their own standard deviations and that of all: in their own alone those of weights that the data
    /// determine lag behind. Latents of rows move at the same rate, and would lag. Beside these the means of many globals, such as the
    /// words of topics, move in units of four standard deviations: they are far from their places, and rows and encoders that find
    /// theirs first hold them back.
    pub(crate) fn know_rows(&mut self, count: usize, have_latents: bool) {
        match (is_many(count), have_latents) {
            (false, _) => {}
            (true, true) => self.means = MeanUnit::Own(MEANS),
            (true, false) => {
                self.rate *= OF_MANY;
                self.last = LAST[1];
                self.means = MeanUnit::Between;
            }
        }
    }

    /// The unit in which the means of a family move.
    pub(crate) fn means(&self) -> MeanUnit {
        self.means
    }

    /// The rates of the first and the last of the next steps, from this iterate; between them it changes along a straight
    /// line.
    pub(crate) fn rates(&mut self, steps: u64, iterate: &[f64]) -> [f64; 2] {
        self.stride = steps.max(1);
        if self.window.is_none() && self.stage == Stage::Phases {
            self.anchor = iterate.to_vec();
            self.window = Some(Window::new(iterate, chunk(self.rate, self.stride)));
        }
        let left = self.limit.saturating_sub(self.done);
        if self.stage == Stage::Phases && left <= (self.limit / self.last).max(self.stride) {
            self.stage = Stage::Falling { first: self.done, steps: left, end: End::Limit };
        }
        [self.done, self.done + self.stride - 1].map(|step| self.rate_at(step))
    }

    fn rate_at(&self, step: u64) -> f64 {
        let Stage::Falling { first, steps, .. } = self.stage else { return self.rate };
        let left = (first + steps).saturating_sub(step).max(1);
        self.rate * (real(left) / real(steps.max(1))).powi(2)
    }

    /// Leaves out the first phase, where a run begins at the end of one.
    pub(crate) fn leave_out_first(&mut self) {
        self.rate *= FACTOR;
    }

    /// Whether the rate falls to zero.
    pub(crate) fn is_falling(&self) -> bool {
        self.stage != Stage::Phases
    }

    /// Whether the run is over, since nothing is left to gain.
    pub(crate) fn has_converged(&self) -> bool {
        let Stage::Falling { first, steps, end } = self.stage else { return false };
        end == End::Converged && self.done >= first + steps
    }

    /// Takes where the steps of [`Adaptive::rates`] led, with their sampled bound; `units` makes those of the coordinates.
    pub(crate) fn take(&mut self, iterate: &[f64], bound: f64, units: impl FnOnce() -> Vec<f64>) -> Next {
        self.done += self.stride;
        if let Stage::Falling { first, steps, end } = self.stage {
            if end == End::Limit {
                return Next::Here;
            }
            if self.done - first > share(steps, LEFT_OUT) {
                self.answer.add(iterate);
            }
            return if self.done >= first + steps { Next::At(self.answer.mean()) } else { Next::Here };
        }
        self.age += self.stride;
        let may_undo = self.can_undo();
        let Some(window) = &mut self.window else { return Next::Here };
        if !window.add(iterate, bound) {
            return Next::Here;
        }
        if may_undo && window.has_exploded(iterate.len()) {
            return Next::Back(self.undo());
        }
        let Some([first, latest]) = window.bounds() else { return Next::Here };
        let gained = latest - *self.start.get_or_insert(first);
        if let Some(halves) = window.halves()
            && if window.has_many() {
                halves.rise + RISE * halves.standard_error <= WORTH * gained
            } else {
                halves.rise <= RISE * halves.standard_error && halves.r_hat <= STATIONARY
            }
        {
            return Next::At(self.end_phase(&halves.apart, &units()));
        }
        let is_late = window.make_room();
        if is_late && self.before.is_none() { Next::Afresh } else { Next::Here }
    }

    /// Ends a phase in whose window the watched coordinates moved so far from half to half; where the next stage begins.
    fn end_phase(&mut self, apart: &[f64], units: &[f64]) -> Vec<f64> {
        let Some(window) = self.window.take() else { return self.anchor.clone() };
        let (average, places) = (window.average().mean(), window.places());
        let in_units = |distances: &mut dyn Iterator<Item = f64>| {
            let squares: f64 = distances.zip(places).map(|(distance, place)| (distance / units[*place]).powi(2)).sum();
            (squares / real(places.len().max(1) as u64)).sqrt()
        };
        let within = in_units(&mut apart.iter().copied());
        let between = self
            .before
            .as_ref()
            .map_or(0.0, |before| in_units(&mut places.iter().map(|place| average[*place] - before[*place])));
        let moved = within.max(between);
        let age = std::mem::take(&mut self.age);
        let size = usize::from(window.has_many());
        if self.before.is_some() && is_over(moved / ACCURACY[size], real(age)) {
            let steps = share(self.done, FALL[size]).max(1);
            let left = self.limit.saturating_sub(self.done);
            let end = if steps <= left { End::Converged } else { End::Limit };
            self.stage = Stage::Falling { first: self.done, steps: steps.min(left), end };
        } else {
            self.rate *= FACTOR;
        }
        self.before = Some(average.clone());
        // What comes next begins there: a fall to zero too, whose rounds may fail.
        self.anchor.clone_from(&average);
        average
    }

    /// Whether steps may be undone: some were taken, if only in a round that failed, and not too many were undone.
    pub(crate) fn can_undo(&self) -> bool {
        self.setbacks < SETBACKS && !self.anchor.is_empty() && (self.age > 0 || self.stride > 1)
    }

    /// Undoes the steps of the present phase, and lowers the rate; where the run goes on from.
    pub(crate) fn undo(&mut self) -> Vec<f64> {
        self.setbacks += 1;
        self.rate *= SETBACK;
        self.age = 0;
        self.window = None;
        self.anchor.clone()
    }

    /// Counts steps that were lost.
    pub(crate) fn lose(&mut self) {
        self.done += self.stride;
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> NamedVectors {
        let (stage, first, steps) = match self.stage {
            Stage::Phases => (0, 0, 0),
            Stage::Falling { first, steps, end: End::Limit } => (1, first, steps),
            Stage::Falling { first, steps, end: End::Converged } => (2, first, steps),
        };
        let counts = [self.done, self.age, self.stride, self.setbacks, stage, first, steps].map(real);
        let mut state = vec![
            ("counts".to_owned(), counts.to_vec()),
            ("rate".to_owned(), vec![self.rate]),
            ("last".to_owned(), vec![real(self.last)]),
            ("means".to_owned(), self.means.save()),
            ("anchor".to_owned(), self.anchor.clone()),
        ];
        state.push(("answer".to_owned(), [&[real(self.answer.count)], self.answer.sum.as_slice()].concat()));
        state.extend(self.start.iter().map(|bound| ("start".to_owned(), vec![*bound])));
        state.extend(self.before.iter().map(|average| ("before".to_owned(), average.clone())));
        state.extend(prefixed(WINDOW, self.window.iter().flat_map(Window::save).collect()));
        state
    }

    /// Restores what [`Adaptive::save`] gave of vectors of this length; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)], length: usize) -> bool {
        let find = |name: &str| named(state, name);
        let (Some(counts), Some([rate]), Some(anchor)) = (find("counts"), find("rate"), find("anchor")) else {
            return false;
        };
        let [done, age, stride, setbacks, stage, first, steps] = *counts else { return false };
        let Some([count, sum @ ..]) = find("answer").filter(|own| [1, length + 1].contains(&own.len())) else {
            return false;
        };
        self.answer = Average { count: whole(*count), sum: sum.to_vec() };
        let (first, steps) = (whole(first), whole(steps));
        let window = with_prefix(state, WINDOW);
        let restored = Window::load(&window, length);
        let fits = |values: &[f64]| values.len() == length;
        if !(anchor.is_empty() || fits(anchor)) || !find("before").is_none_or(fits) {
            return false;
        }
        if restored.is_none() && !window.is_empty() {
            return false;
        }
        self.stage = match whole(stage) {
            0 => Stage::Phases,
            1 => Stage::Falling { first, steps, end: End::Limit },
            2 => Stage::Falling { first, steps, end: End::Converged },
            _ => return false,
        };
        if let Some([last]) = find("last") {
            self.last = whole(*last).max(1);
        }
        if let Some(means) = find("means") {
            self.means = MeanUnit::load(means);
        }
        [self.done, self.age, self.stride, self.setbacks] = [done, age, stride, setbacks].map(whole);
        (self.rate, self.anchor, self.window) = (*rate, anchor.to_vec(), restored);
        self.before = find("before").map(<[f64]>::to_vec);
        self.start = find("start").and_then(|bound| bound.first().copied());
        true
    }
}

/// Whether so many coordinates are many, of which the bound alone says when they rest.
pub(crate) const fn is_many(count: usize) -> bool {
    count >= WATCHED
}

/// What the names of a window's vectors begin with.
const WINDOW: &str = "window.";

/// Iterates of the first chunks of a phase.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of steps")]
fn chunk(rate: f64, stride: u64) -> u64 {
    ((CHUNK / rate / real(stride)).ceil() as u64).max(1)
}

/// A part of some steps.
const fn share(steps: u64, [of, parts]: [u64; 2]) -> u64 {
    steps * of / parts
}

/// Whether the next phase is not worth its steps, after one of so many whose average moved by so many times the accuracy
/// that is enough.
fn is_over(moved: f64, steps: f64) -> bool {
    steps > CHEAP * (1.0 + moved * moved)
}

#[cfg(test)]
mod tests;
