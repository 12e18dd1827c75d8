//! Charts as values, and as SVG. A chart holds numbers with units; `svg` and `scale` turn them into shapes. A drawn
//! chart is self-contained: colours for light and dark backgrounds, a legend, and a text for each mark.

mod foot;
mod heat;
mod scale;
mod svg;

pub use foot::with_foot;
pub use heat::{Heat, HeatScale};
pub use scale::{Scale, Unit};
pub use svg::{STYLE, draw};

/// A bar or line chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// Width in units of the drawing; text is 12 units high.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Draws the line y = x, for charts of completed against offered load.
    pub diagonal: bool,
    /// Whether each point of a line has a mark with its own text. Lines with many points have none: their values are
    /// read off the axes.
    pub marked: bool,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name, without unit.
    pub label: String,
    /// Unit of its numbers.
    pub unit: Unit,
    /// How numbers map to positions.
    pub scale: Scale,
}

/// Marks of one subject.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Index of one of the eight colours, the same in all charts of a report.
    pub colour: usize,
    /// How values are drawn.
    pub marks: Marks,
}

/// The marks of a series.
#[derive(Clone, Debug)]
pub enum Marks {
    /// One bar for each category of the horizontal axis that has a value.
    Bars(Vec<Bar>),
    /// A line through points in ascending order of x.
    Line(Vec<Point>),
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Index of the category.
    pub category: usize,
    /// Its height.
    pub value: f64,
    /// Ends of the whisker.
    pub ends: Option<(f64, f64)>,
    /// Text shown on hover.
    pub tip: String,
}

/// A point of a line.
#[derive(Clone, Debug)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
    /// Text shown on hover.
    pub tip: String,
}

impl Chart {
    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| match &series.marks {
            Marks::Bars(bars) => bars.is_empty(),
            Marks::Line(points) => points.is_empty(),
        })
    }

    /// All vertical values, including the ends of whiskers.
    fn values(&self) -> Vec<f64> {
        let of = |series: &Series| -> Vec<f64> {
            match &series.marks {
                Marks::Bars(bars) => {
                    let ends = bars
                        .iter()
                        .filter_map(|bar| bar.ends)
                        .flat_map(|(low, high)| [low, high]);
                    bars.iter().map(|bar| bar.value).chain(ends).collect()
                }
                Marks::Line(points) => points.iter().map(|point| point.y).collect(),
            }
        };
        self.series
            .iter()
            .flat_map(of)
            .filter(|value| value.is_finite())
            .collect()
    }
}
