//! Writes digits below an image of a sheet: what it is, and what it was taken for.

use super::Tile;

/// The digits from 0 to 9 and an arrow, three pixels wide and five high, each row as three bits.
const GLYPHS: [[u8; 5]; 11] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 1, 1, 1],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
    [4, 2, 1, 2, 4],
];
const ARROW: usize = 10;
/// The rows that a caption adds, and the columns of a glyph with the gap after it.
const ROWS: usize = 8;
const PITCH: usize = 5;

impl Tile {
    /// The image with a line below it: the digit that it is, an arrow, and the digit that it was taken for.
    ///
    /// An image that is too narrow for it stays as it is, and so does one of other classes than ten digits.
    #[must_use]
    pub fn taken_for(mut self, truth: usize, prediction: usize) -> Self {
        let [rows, columns] = self.shape;
        let glyphs = [truth, ARROW, prediction];
        if columns < PITCH * glyphs.len() || truth.max(prediction) >= ARROW || self.values.len() != rows * columns {
            return self;
        }
        let bright = self.values.iter().copied().fold(1.0, f64::max);
        let mut line = vec![0.0; ROWS * columns];
        let left = (columns - PITCH * glyphs.len()) / 2;
        for (place, glyph) in glyphs.into_iter().enumerate() {
            for (row, bits) in GLYPHS[glyph].into_iter().enumerate() {
                for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                    line[(row + 2) * columns + left + PITCH * place + 1 + column] = bright;
                }
            }
        }
        self.values.extend(line);
        self.shape = [rows + ROWS, columns];
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_stands_below_the_image() {
        let tile = Tile { title: String::new(), values: vec![0.0; 28 * 28], shape: [28, 28] }.taken_for(7, 1);
        let drawn = |row: usize| -> String {
            tile.values[row * 28..][..28].iter().map(|value| if *value > 0.0 { '#' } else { '.' }).collect()
        };
        assert_eq!(tile.shape, [36, 28]);
        let rows: Vec<String> = (30..35).map(drawn).map(|row| row[6..21].to_owned()).collect();
        assert_eq!(
            rows,
            [".###..#.....#..", "...#...#...##..", "...#....#...#..", "...#...#....#..", "...#..#....###."]
        );
        assert!(drawn(29).chars().chain(drawn(35).chars()).all(|pixel| pixel == '.'));
    }

    #[test]
    fn an_image_too_narrow_stays_as_it_is() {
        let tile = Tile { title: String::new(), values: vec![0.0; 64], shape: [8, 8] };
        assert_eq!(tile.clone().taken_for(7, 1), tile);
    }
}
