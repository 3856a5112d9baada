//! Says how the rows of each plate are integrated: what a silo tells of it, and the lines of a report.

use partita_core::SiteTable;

use crate::engine::algorithm::MethodCount;
use crate::engine::integral::RowIntegral;

/// The most bytes of what a silo tells: plates beyond are left out.
pub(super) const MOST_BYTES: u64 = 1_024;
/// The most plates that are known, of all silos together.
const MOST_PLATES: usize = 64;
/// The name of the latents outside plates.
const SILO: &str = "the silo";

/// A plate, or the latents of the whole silo, with the rules over its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plate {
    name: String,
    /// The plate around it; empty for an outermost one.
    within: String,
    /// Latents a row.
    latents: u64,
    /// Points of a rule along one latent, or all that are drawn; none where there is nothing to integrate.
    points: u64,
}

/// What is known of all plates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plates(Vec<Plate>);

impl Plates {
    /// Those of a silo.
    pub(super) fn of(table: &SiteTable, integral: &RowIntegral) -> Self {
        let blocks = table.blocks();
        let name = |index: usize| {
            let plate = blocks[index].plate.as_deref().unwrap_or(SILO);
            plate.replace(char::is_control, " ")
        };
        let mut own = Self::default();
        for (index, block) in blocks.iter().enumerate() {
            if block.rows == 0 || (block.plate.is_none() && block.width == 0) {
                continue;
            }
            own.0.push(Plate {
                name: name(index),
                within: block.parent.as_ref().map(|parent| name(parent.block)).unwrap_or_default(),
                latents: block.width as u64,
                points: integral.points_of(index).unwrap_or(0) as u64,
            });
            if own.text().len() as u64 > MOST_BYTES {
                own.0.pop();
                break;
            }
        }
        own
    }

    /// As a message has them, a line for each plate.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(Plate::line).collect::<Vec<_>>().join("\n")
    }

    /// From [`Plates::text`]; `None` for other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.lines().map(Plate::parse).collect::<Option<_>>().map(Self)
    }

    /// Takes what a silo tells, the most points of every plate.
    pub(super) fn take(&mut self, told: Self) {
        for own in told.0 {
            let place = self.0.iter().position(|known| known.name == own.name && known.within == own.within);
            if let Some(place) = place {
                let known = &mut self.0[place];
                known.latents = known.latents.max(own.latents);
                known.points = known.points.max(own.points);
            } else if self.0.len() < MOST_PLATES {
                self.0.push(own);
            }
        }
    }

    /// A number for each plate, which a report has with its words.
    pub(super) fn counts(&self) -> Vec<MethodCount> {
        self.0.iter().map(Plate::count).collect()
    }
}

impl Plate {
    fn line(&self) -> String {
        let Self { name, within, latents, points } = self;
        format!("{latents}\t{points}\t{name}\t{within}")
    }

    fn parse(line: &str) -> Option<Self> {
        let parts: [&str; 4] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let [latents, points, name, within] = parts;
        let is_plain = !name.chars().chain(within.chars()).any(char::is_control);
        let (latents, points) = (latents.parse().ok()?, points.parse().ok()?);
        is_plain.then(|| Self { name: name.to_owned(), within: within.to_owned(), latents, points })
    }

    fn count(&self) -> MethodCount {
        let Self { name, within, latents, points } = self;
        let rows = if name == SILO { name.clone() } else { format!("each row of {name}") };
        let rows = if within.is_empty() { rows } else { format!("{rows} in {within}") };
        let is_drawn = RowIntegral::draws(usize::try_from(*latents).unwrap_or(usize::MAX));
        let (number, meaning) = match latents {
            0 => (1, format!("point for {rows}: nothing to integrate")),
            1 => (*points, format!("quadrature points for the latent of {rows}")),
            _ if is_drawn => (*points, format!("draws for the {latents} latents of {rows}")),
            _ => (*points, format!("quadrature points along each of the {latents} latents of {rows}")),
        };
        MethodCount { name: format!("points of {name}").into(), meaning: meaning.into(), number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plate(name: &str, within: &str, latents: u64, points: u64) -> Plate {
        Plate { name: name.into(), within: within.into(), latents, points }
    }

    #[test]
    fn what_is_told_is_read_and_other_text_is_not() {
        let clinics = [plate("clinic | a", SILO, 1, 15), plate("visit", "clinic | a", 0, 0)];
        let own = Plates([vec![plate(SILO, "", 2, 9)], clinics.into()].concat());
        assert_eq!(Plates::parse(&own.text()), Some(own));
        assert_eq!(Plates::parse(""), Some(Plates::default()));
        for wrong in ["1\t15\ta", "1\t15\ta\t\t", "-1\t15\ta\t", "1\t1.5\ta\t", "1\t15\ta\u{7}b\t", "\n1\t15\ta\t"] {
            assert_eq!(Plates::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn of_all_silos_the_most_points_are_kept_and_no_more_plates_than_are_shown() {
        let mut all = Plates(vec![plate("group", "", 1, 15)]);
        all.take(Plates(vec![plate("group", "", 1, 31), plate("row", "group", 0, 0)]));
        all.take(Plates(vec![plate("group", "", 1, 21)]));
        assert_eq!(all, Plates(vec![plate("group", "", 1, 31), plate("row", "group", 0, 0)]));
        all.take(Plates((0..100).map(|index| plate(&format!("made up {index}"), "", 1, 15)).collect()));
        assert_eq!(all.0.len(), MOST_PLATES);
    }

    #[test]
    fn the_words_of_a_plate_name_its_rule_its_latents_and_what_is_around() {
        let own = [
            (plate("child", "", 1, 21), 21, "quadrature points for the latent of each row of child"),
            (plate("visit", "child", 0, 0), 1, "point for each row of visit in child: nothing to integrate"),
            (plate(SILO, "", 2, 9), 9, "quadrature points along each of the 2 latents of the silo"),
            (plate("a", SILO, 3, 7), 7, "quadrature points along each of the 3 latents of each row of a in the silo"),
            (plate("group", "", 4, 1_024), 1_024, "draws for the 4 latents of each row of group"),
        ];
        for (plate, number, meaning) in own {
            let count = plate.count();
            assert_eq!((count.number, &*count.meaning), (number, meaning));
            assert_eq!(count.name, format!("points of {}", plate.name));
        }
    }
}
