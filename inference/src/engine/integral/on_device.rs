//! Integrates rows out with tensor operations: rules move on the device, and sums, gradients and rules are read together.
//!
//! The host decides after every move whether another follows. Here a number of moves that is fixed in advance follows in any
//! case, and rules that have come to rest are held where they stand then, so that both take the same moves. Whether they have
//! is read with the sums; where not, moves go on from where they are, and there is another read.

mod part;
mod rules;

use burn::tensor::Tensor;
use partita_core::kernel::add_scaled;
use partita_core::{Handle, SiteTable, ValueAndGradient};

use self::part::{Answer, DevicePart, Found, Ladder, Turn};
use super::alike::{PLACES, away};
use super::at_draws::AtDraws;
use super::centres::PartCentres;
use super::part::{MOVES, Part};
use super::{Centres, Integrand, RowIntegral, Until};
use crate::engine::error::{Error, Result};
use crate::engine::family::real;
use crate::engine::normal::Normal;

/// Times that rules move before they are read.
const MOVES_A_READ: usize = 6;
/// Reads after which rules are taken as they are, as after so many moves on the host.
const READS: usize = MOVES / MOVES_A_READ;

/// What rows give at a draw of the globals, and where their rules stand then.
pub(crate) type RowsAtDraw = (ValueAndGradient, Centres);

/// What was read of a device.
#[derive(Debug)]
pub(crate) enum DeviceRows {
    /// One for each draw; `None` where the device has no number, which is for the host.
    AtDraws(Vec<Option<RowsAtDraw>>),
    /// [`AtDraws::choose_points`] may give rules other points.
    OtherPoints,
}

/// The rules of a part at a draw, which are to be read.
struct Item {
    draw: usize,
    part: usize,
    centres: PartCentres,
    reads: usize,
}

/// What has been found at a draw, part by part.
#[derive(Debug, Clone)]
struct AtDraw {
    parts: Vec<Option<(ValueAndGradient, PartCentres)>>,
    is_for_host: bool,
}

impl AtDraw {
    /// The sum over parts; `None` where the host is to find it.
    fn whole(self) -> Option<RowsAtDraw> {
        if self.is_for_host {
            return None;
        }
        let (mut total, mut centres) = (None::<ValueAndGradient>, Vec::with_capacity(self.parts.len()));
        for (found, own) in self.parts.into_iter().flatten() {
            centres.push(own);
            match &mut total {
                None => total = Some(found),
                Some(total) => {
                    total.value += found.value;
                    add_scaled(&mut total.globals, 1.0, &found.globals);
                }
            }
        }
        Some((total?, Centres { parts: centres }))
    }
}

impl RowIntegral {
    /// Refuses rows that have no integral on a device.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn check_on_device(table: &SiteTable) -> Result<()> {
        let all: Vec<_> = table.blocks().iter().enumerate().filter(|(_, block)| block.width > 0).collect();
        let of = |index: usize| match &table.blocks()[index].plate {
            Some(plate) => format!("rows of plate `{plate}`"),
            None => "the silo".to_owned(),
        };
        let found = match all.as_slice() {
            [] => return Ok(()),
            [(index, block)] if block.plate.is_some() && table.outermost(*index) == *index => {
                if !Self::draws(block.width) {
                    return Ok(());
                }
                format!("{} latents of {}", block.width, of(*index))
            }
            some => {
                let names: Vec<String> = some.iter().map(|(index, _)| of(*index)).collect();
                format!("latents of {}, of which some stand in others or there are several", names.join(" and "))
            }
        };
        let found = format!("true for few rounds of a model with {found}");
        let expected = "a model whose local latents are those of one outermost plate, at most three a row; or false: others are integrated on the host";
        Err(Error::Setting { setting: "on_device", found, expected })
    }
}

impl AtDraws {
    /// Refuses a model whose rows have other log densities on the device, where each is evaluated at all nodes at once.
    ///
    /// # Errors
    /// [`Error::Setting`]; what the model refuses, such as [`partita_core::Error::NoDeviceForm`].
    pub(crate) fn check_rows_on_device(&self) -> Result<()> {
        let integrand = self.integrand();
        let Some(part) = self.integral.parts.first().filter(|part| !part.tree.levels.is_empty()) else { return Ok(()) };
        let device = DevicePart::of(&integrand, part, part.tree.levels[0].each)?;
        for place in 0..PLACES {
            if let Some(is_near) = device.agrees(part, &away(&self.table.start(), place))? {
                let found = "true for few rounds of a model whose rows have other log densities there than on the host";
                let expected =
                    "rows whose log densities do not depend on which others are evaluated, and how often; or false";
                return Error::unless(is_near, "on_device", found, expected);
            }
        }
        Ok(())
    }

    /// What rows give at the globals of each draw, where rules begin at `centres`. With `until` rules are compared with others at
    /// the draws at which [`AtDraws::choose_points`] compares them, for whether it would give them the points that they have.
    ///
    /// # Errors
    /// What the model refuses; [`partita_core::Error::Device`] if numbers cannot be read.
    pub(crate) fn on_device(
        &self,
        globals: &[Vec<f64>],
        centres: &[Centres],
        until: Option<Until>,
    ) -> Result<DeviceRows> {
        let (integrand, parts) = (self.integrand(), &self.integral.parts);
        let answers: Vec<Answer> = parts.iter().map(|part| Answer::of(part, self.table.global_len())).collect();
        let compared = |draw: usize| until.is_some() && (draw == 0 || draw == globals.len() / 2);
        let mut draws = vec![AtDraw { parts: vec![None; parts.len()], is_for_host: false }; globals.len()];
        // Part by part: what the rows of one are evaluated with does not stay in memory for those of the next.
        let item = |part: usize, draw: usize| Item { draw, part, centres: centres[draw].parts[part].clone(), reads: 0 };
        let mut items: Vec<Item> = (0..parts.len())
            .flat_map(|part| (0..globals.len()).map(move |draw| (part, draw)))
            .map(|(part, draw)| item(part, draw))
            .collect();
        while !items.is_empty() {
            let mut flat: Vec<Tensor<1>> = Vec::new();
            for own in items.chunk_by(|one, next| one.part == next.part) {
                let (place, part) = (own[0].part, &parts[own[0].part]);
                let device = DevicePart::of(&integrand, part, part.tree.levels[0].each)?;
                let is_compared = until.filter(|_| own.iter().any(|own| compared(own.draw) && own.reads == 0));
                let ladder = match is_compared {
                    None => None,
                    Some(until) => match self.tried(&integrand, place, until)? {
                        None => return Ok(DeviceRows::OtherPoints),
                        found => found,
                    },
                };
                for Item { draw, centres, reads, .. } in own {
                    let turn = match *reads {
                        _ if !centres.is_settled && compared(*draw) => return Ok(DeviceRows::OtherPoints),
                        _ if !centres.is_settled => Turn::Settling,
                        0 => Turn::First(ladder.as_ref().filter(|_| compared(*draw)).map(|own| own.at(*draw))),
                        reads if reads + 1 == READS => Turn::Last,
                        _ => Turn::Further,
                    };
                    flat.extend(device.ask(&globals[*draw], &centres.levels[0], turn)?);
                }
            }
            let numbers = Handle::from(Tensor::cat(flat, 0)).read()?.values;
            let mut rest = numbers.as_slice();
            for Item { draw, part, reads, centres: before } in std::mem::take(&mut items) {
                let (numbers, after) = rest.split_at(answers[part].len());
                rest = after;
                let Found { value, has_these_points, is_at_rest, centres } = answers[part].read(numbers);
                if !has_these_points {
                    return Ok(DeviceRows::OtherPoints);
                }
                let is_last = is_at_rest || reads + 1 == READS;
                if !numbers.iter().all(|own| own.is_finite()) {
                    draws[draw].is_for_host = true;
                } else if !is_last {
                    let is_settled = before.is_settled;
                    items.push(Item { draw, part, centres: PartCentres { is_settled, ..centres }, reads: reads + 1 });
                } else if before.is_settled {
                    draws[draw].parts[part] = Some((value, centres));
                } else {
                    // What has settled is summed next.
                    items.push(Item { draw, part, centres, reads: 0 });
                }
            }
        }
        Ok(DeviceRows::AtDraws(draws.into_iter().map(AtDraw::whole).collect()))
    }

    /// As [`AtDraws::choose_points`], with rules compared on the device: one read for each number of points that is tried.
    ///
    /// # Errors
    /// As for [`AtDraws::choose_points`].
    pub(crate) fn choose_points_on_device(&mut self, at: &Normal, until: Until) -> Result<()> {
        self.choose_points_by(at, until, |rows, index, globals| {
            let integrand = rows.integrand();
            let tolerance = until.tolerance / real(rows.integral.parts.len());
            let (mut points, mut centres) = (Vec::new(), Vec::new());
            for (part, own) in rows.integral.parts.iter().zip(&rows.centres[index].parts) {
                let until = Until { tolerance, ..until };
                let Some((each, own)) = raised(&integrand, part, globals, own, until)? else { return Ok(false) };
                points.push(each);
                centres.push(own);
            }
            rows.integral.set_points(&points, &rows.table)?;
            rows.centres[index] = Centres { parts: centres };
            Ok(true)
        })
    }

    /// The rules of a part that were tried when points were chosen, up to the next larger ones; `None` if there are none.
    fn tried<'i>(&self, integrand: &'i Integrand<'i>, place: usize, until: Until) -> Result<Option<Tried<'i>>> {
        let (part, parts) = (&self.integral.parts[place], real(self.integral.parts.len()));
        let Some(first) = self.first_points.as_ref().map(|points| points[place]) else { return Ok(None) };
        let steps = part.tree.steps(0);
        let (chosen, first) = (part.tree.levels[0].each, steps.iter().position(|each| *each == first));
        let last = steps.iter().position(|each| *each > chosen);
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        let rules = steps[..=last].iter().map(|each| DevicePart::of(integrand, part, *each)).collect::<Result<_>>()?;
        Ok(Some(Tried { rules, first, tolerance: until.tolerance / parts }))
    }
}

/// Rules of a part, from those of the fewest points to the next larger ones than it has.
struct Tried<'i> {
    rules: Vec<DevicePart<'i>>,
    /// Where the first of the draws that are compared stopped.
    first: usize,
    tolerance: f64,
}

impl Tried<'_> {
    /// Those that are tried at a draw: the second begins with the points that the first one needs.
    fn at(&self, draw: usize) -> Ladder<'_> {
        let last = (self.first + 2).min(self.rules.len());
        let rules = if draw == 0 { &self.rules[..last] } else { &self.rules[self.first.min(last - 1)..] };
        Ladder { rules, tolerance: self.tolerance }
    }
}

/// The points of a part that agree with the next larger ones at these globals, and where their rules stand; `None` where that
/// is for the host.
fn raised(
    integrand: &Integrand<'_>,
    part: &Part,
    globals: &[f64],
    centres: &PartCentres,
    until: Until,
) -> Result<Option<(usize, PartCentres)>> {
    let (answer, mut each) = (Answer::of(part, 0), part.tree.levels[0].each);
    let mut climbing = DevicePart::of(integrand, part, each)?.begin(globals, &centres.levels[0])?;
    while let Some(next) = part.tree.steps(0).iter().copied().find(|next| *next > each) {
        let larger = DevicePart::of(integrand, part, next)?;
        let numbers = Handle::from(Tensor::cat(climbing.compare(&larger)?, 0)).read()?.values;
        let Found { value, is_at_rest, centres, .. } = answer.read(&numbers);
        let apart = value.value;
        if !is_at_rest || !numbers.iter().all(|own| own.is_finite()) {
            return Ok(None);
        }
        if apart <= until.tolerance || next > until.most {
            return Ok(Some((each, centres)));
        }
        climbing.raise();
        each = next;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use partita_core::{AnyData, AnyModel, Device, Groups, Precision};

    use super::*;
    use crate::engine::effects::Effects;
    use crate::engine::terms::particles::Worker;
    use crate::engine::whitened::Draws;

    /// Rows of so many latents at some draws, whose rules have settled around `posterior`.
    fn settled(latents: usize, device: &Device, posterior: &Normal) -> AtDraws {
        let y: Vec<f64> = (0..60).map(|row| f64::from(u8::from(row % 3 == 0))).collect();
        let (model, data) = (Effects { latents, nested: None }, device.tensor(y, [60]));
        let table = SiteTable::of(&model, device, &data).unwrap();
        let worker = Worker { model: AnyModel::new(&model), data: AnyData::new(&data) };
        let mut rows = AtDraws::new(worker, 1, device, table, Draws::new(3, 2, 8).unwrap()).unwrap();
        rows.check_rows_on_device().unwrap();
        rows.settle(posterior).unwrap();
        rows
    }

    /// The globals of each draw.
    fn globals(rows: &AtDraws, at: &Normal) -> Vec<Vec<f64>> {
        (0..rows.draws.len()).map(|index| at.draw(rows.draws.get(index))).collect()
    }

    fn around(mean: [f64; 2]) -> Normal {
        Normal::independent(mean.to_vec(), 0.3)
    }

    /// How far values, gradients and rules of the device are from those of the host, relative to these.
    fn apart(rows: &AtDraws, at: &Normal) -> [f64; 3] {
        let globals = globals(rows, at);
        let DeviceRows::AtDraws(all) = rows.on_device(&globals, &rows.centres, None).unwrap() else {
            panic!("nothing is compared")
        };
        let [mut values, mut gradients, mut rules] = [0.0_f64; 3];
        for ((found, globals), centres) in all.into_iter().zip(&globals).zip(&rows.centres) {
            let ((found, moved), mut own) = (found.unwrap(), centres.clone());
            let expected = rows.integral.gradient(&rows.integrand(), globals, &mut own).unwrap();
            let far = |a: f64, b: f64| (a - b).abs() / (1.0 + b.abs());
            values = values.max(far(found.value, expected.value));
            let pairs = found.globals.iter().zip(&expected.globals);
            gradients = pairs.fold(gradients, |most, (a, b)| most.max(far(*a, *b)));
            rules = moved.flat().iter().zip(own.flat()).fold(rules, |most, (a, b)| most.max(far(*a, b)));
        }
        [values, gradients, rules]
    }

    #[test]
    fn rows_on_a_device_are_those_of_the_host_however_far_rules_have_to_move() {
        for latents in 1..=3 {
            let mut rows = settled(latents, &Device::flex(), &around([0.3, -0.4]));
            // Where they stand, nearby, and where six moves are not enough.
            for mean in [[0.3, -0.4], [0.8, 0.1], [6.0, 2.5]] {
                let found = apart(&rows, &around(mean));
                let bounds = [1e-12, 1e-11, 1e-9];
                let holds = found.iter().zip(bounds).all(|(own, bound)| *own < bound);
                assert!(holds, "{latents} latents around {mean:?}: {found:?}");
            }
            // Rules that have never settled.
            rows.centres.iter_mut().for_each(|own| *own = rows.integral.start());
            let found = apart(&rows, &around([1.0, 1.5]));
            assert!(found[0] < 1e-12 && found[1] < 1e-11 && found[2] < 1e-9, "{latents} latents: {found:?}");
            let single = settled(latents, &Device::flex().with_precision(Precision::Single), &around([0.3, -0.4]));
            // Sums of 60 rows whose slopes cancel.
            let found = apart(&single, &around([0.8, 0.1]));
            assert!(found[0] < 1e-6 && found[1] < 1e-3 && found[2] < 1e-4, "{latents} latents: {found:?}");
        }
    }

    #[test]
    fn densities_that_are_no_numbers_are_for_the_host() {
        let rows = settled(1, &Device::flex(), &around([0.0, 0.0]));
        let mut globals = globals(&rows, &around([0.0, 0.0]));
        globals[2][1] = f64::NAN;
        let DeviceRows::AtDraws(found) = rows.on_device(&globals, &rows.centres, None).unwrap() else {
            panic!("nothing is compared")
        };
        let left: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
        assert_eq!(left, [2]);
    }

    #[test]
    fn rules_keep_their_points_where_the_host_would_give_them_the_same() {
        let until = |tolerance: f64| Until { tolerance, most: usize::MAX, nodes: usize::MAX, noise: f64::INFINITY };
        let points = |rows: &AtDraws| (rows.integral.points(), rows.first_points.clone());
        let at = around([0.5, 1.0]);
        let chosen = |tolerance: f64| {
            let mut rows = settled(1, &Device::flex(), &at);
            let (mut on_device, before) = (settled(1, &Device::flex(), &at), rows.centres.clone());
            rows.choose_points(&at, until(tolerance)).unwrap();
            on_device.choose_points_on_device(&at, until(tolerance)).unwrap();
            assert_eq!(points(&on_device), points(&rows));
            let pairs =
                on_device.centres.iter().zip(&rows.centres).flat_map(|(a, b)| a.flat().into_iter().zip(b.flat()));
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9) && rows.centres != before);
            rows
        };
        let tolerances = [1e-9, 1e-6, 1e-4, 1e-2, 1.0];
        let all = tolerances.map(chosen);
        assert!(
            points(&all[0]).0 > points(&all[2]).0 && points(&all[2]).0 > points(&all[4]).0,
            "{:?}",
            points(&all[2])
        );
        for rows in &all {
            for (tolerance, others) in tolerances.iter().zip(&all) {
                let found = rows.on_device(&globals(rows, &at), &rows.centres, Some(until(*tolerance))).unwrap();
                let keeps = matches!(found, DeviceRows::AtDraws(_));
                assert_eq!(keeps, points(rows) == points(others), "{:?} {:?}", points(rows), points(others));
            }
        }
    }

    #[test]
    fn rows_in_rows_and_more_than_three_latents_are_refused_by_name() {
        let device = Device::flex();
        let groups = Groups::of_sizes(&[2, 1]).unwrap();
        for (latents, nested, named) in
            [(4, None, "4 latents of rows of plate `row`"), (1, Some(groups), "plate `inner`")]
        {
            let data = device.tensor(vec![1.0, 0.0, 1.0], [3]);
            let table = SiteTable::of(&Effects { latents, nested }, &device, &data).unwrap();
            let error = RowIntegral::check_on_device(&table).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("at most three a row"), "{error}");
        }
    }
}
