//! Charts as values, and as SVG. A chart holds numbers with units; how they become shapes is in `svg` and `scale`. A drawn
//! chart is complete by itself: colours for light and dark ground, keys, and a text for each mark.

mod heat;
mod scale;
mod svg;

pub use heat::Heat;
pub use scale::{Scale, Unit};
pub use svg::{STYLE, draw};

/// A chart of bars or lines.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in the order of keys.
    pub series: Vec<Series>,
    /// Width in units of the drawing; text has 12 of them.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// A line from equal to equal, for charts of answered against offered.
    pub diagonal: bool,
    /// Whether each point of a line has a mark with a text of its own. Lines of many points have none: their values are
    /// read off the axes.
    pub marked: bool,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it tells, without unit.
    pub label: String,
    /// Unit of its numbers.
    pub unit: Unit,
    /// How numbers are placed.
    pub scale: Scale,
}

/// Marks of one subject.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the keys.
    pub name: String,
    /// Which of the eight colours, the same in all charts of a report.
    pub colour: usize,
    /// The marks.
    pub marks: Marks,
}

/// What is drawn for a series.
#[derive(Clone, Debug)]
pub enum Marks {
    /// One bar for each category of the horizontal axis that has a value.
    Bars(Vec<Bar>),
    /// A line through points in rising order of x.
    Line(Vec<Point>),
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Position among the categories.
    pub category: usize,
    /// Its height.
    pub value: f64,
    /// Ends of the whisker.
    pub ends: Option<(f64, f64)>,
    /// What is shown when it is pointed at.
    pub tip: String,
}

/// A point of a line.
#[derive(Clone, Debug)]
pub struct Point {
    /// Horizontal place.
    pub x: f64,
    /// Vertical place.
    pub y: f64,
    /// What is shown when it is pointed at.
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

    /// All vertical values, ends of whiskers included.
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
