//! Draws the time of a barrier over the number of workers as an SVG file: Grid and the bare echo, both axes logarithmic.

use std::fmt::Write as _;

use crate::row::Row;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 60.0;

/// `None` if there are fewer than two points.
pub fn growth(rows: &[Row]) -> Option<String> {
    let barriers = rows.iter().filter(|row| row.bench == "growth" && row.case == "barrier");
    let points: Vec<(f64, f64, f64)> = barriers
        .filter_map(|row| Some((f64::from(row.setup.workers?), row.found.p50_ms?, row.found.baseline_p50_ms?)))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let x = Axis::over(points.iter().map(|point| point.0), MARGIN, WIDTH - 20.0);
    let y = Axis::over(points.iter().flat_map(|point| [point.1, point.2]), HEIGHT - MARGIN, 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (workers, ..) in &points {
        let at = x.at(*workers);
        let bottom = HEIGHT - MARGIN;
        let _ = writeln!(svg, "<line x1=\"{at:.1}\" y1=\"30\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>");
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{workers}</text>", bottom + 18.0);
    }
    line(&mut svg, "#1664c0", "Grid, durable", 1, points.iter().map(|point| (x.at(point.0), y.at(point.1), point.1)));
    line(&mut svg, "#888888", "bare echo", 0, points.iter().map(|point| (x.at(point.0), y.at(point.2), point.2)));
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">workers (one barrier, p50 in ms, both axes logarithmic)</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 15.0
    );
    Some(svg)
}

fn line(svg: &mut String, colour: &str, name: &str, row: u8, points: impl Iterator<Item = (f64, f64, f64)>) {
    let mut path = String::new();
    for (x, y, ms) in points {
        let _ = write!(path, "{x:.1},{y:.1} ");
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{ms:.0}</text>", x + 6.0, y + 14.0);
    }
    let _ =
        writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.trim());
    let y = 20.0 + 16.0 * f64::from(row);
    let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
}

/// Maps a value to a position by its logarithm.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs: Vec<f64> = values.map(|value| value.max(0.001).ln()).collect();
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { least, most, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(0.001).ln() - self.least) / (self.most - self.least).max(1e-9);
        self.from + share * (self.to - self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::growth;
    use crate::row::{Found, Row, Setup};

    #[test]
    fn two_points_make_a_plot_and_one_does_not() {
        let row = |workers, ms| Row {
            bench: "growth",
            case: "barrier".to_owned(),
            setup: Setup { workers: Some(workers), ..Setup::default() },
            found: Found { p50_ms: Some(ms), baseline_p50_ms: Some(ms / 2.0), ..Found::default() },
        };
        assert!(growth(&[row(1_000, 50.0)]).is_none());
        let svg = growth(&[row(1_000, 50.0), row(10_000, 500.0)]).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains(">500<") && svg.contains(">10000<")
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
    }
}
