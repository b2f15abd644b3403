//! Spend against plan as a picture: one panel a scenario and auction, in SVG.
//!
//! Above, what each strategy has spent, mean over binding campaigns, in percent of the budget, by the hour of the day;
//! the plan is the dashed line. Below, how far it is from the plan, on a logarithmic axis: strategies differ by a factor
//! of a hundred there. Colours are those of Okabe and Ito, which colour-blind people can tell apart.

use std::fmt::Write as _;

use super::day::MINUTES;
use super::measure::Course;

/// One scenario and auction.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Said above it.
    pub title: String,
    /// What happens, in a smaller line below the title.
    pub about: String,
    /// The strategies, in the order of the legend.
    pub lines: Vec<Line>,
}

/// A strategy's line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Said in the legend.
    pub name: &'static str,
    /// The day by minutes.
    pub course: Course,
}

const PANEL_WIDTH: f64 = 620.0;
const PANEL_HEIGHT: f64 = 560.0;
/// Panels side by side, if there are more than one.
const COLUMNS: usize = 2;
/// A point of a line every so many minutes.
const STEP: usize = 5;

const SPEND: Frame = Frame { left: 56.0, top: 100.0, width: 540.0, height: 220.0 };
const DEVIATION: Frame = Frame { left: 56.0, top: 368.0, width: 540.0, height: 144.0 };
/// Ends of the axis of deviations, percent.
const DEVIATION_MIN: f64 = 0.01;
const DEVIATION_MAX: f64 = 100.0;

const INK: &str = "#222222";
const FAINT: &str = "#6b6b6b";
const GRID: &str = "#e4e4e4";
const COLOURS: [&str; 7] =
    ["#7f7f7f", "#D55E00", "#E69F00", "#CC79A7", "#0072B2", "#009E73", "#56B4E9"];

/// Where a diagram is in its panel.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn x(&self, minute: usize) -> f64 {
        self.left + self.width * minute as f64 / MINUTES as f64
    }

    /// `share` of the height, from below.
    fn y(&self, share: f64) -> f64 {
        self.top + self.height * (1.0 - share.clamp(0.0, 1.0))
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// The picture of these panels.
pub fn svg(panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns).max(1);
    let (width, height) = (PANEL_WIDTH * columns as f64, PANEL_HEIGHT * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\" \
         fill=\"{INK}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (place, panel) in panels.iter().enumerate() {
        let x = PANEL_WIDTH * (place % columns) as f64;
        let y = PANEL_HEIGHT * (place / columns) as f64;
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">");
        draw(&mut text, panel);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel) {
    let left = SPEND.left;
    let (title, about) = (escaped(&panel.title), escaped(&panel.about));
    let _ = writeln!(
        text,
        "<text x=\"{left}\" y=\"26\" font-size=\"15\" font-weight=\"600\">{title}</text>\n\
         <text x=\"{left}\" y=\"44\" font-size=\"11\" fill=\"{FAINT}\">{about}</text>"
    );
    legend(text, panel);
    axes(text, &SPEND, "spent, % of budget", &[0.0, 25.0, 50.0, 75.0, 100.0], spend_share);
    axes(
        text,
        &DEVIATION,
        "mean distance from the plan, % of budget",
        &[0.01, 0.1, 1.0, 10.0, 100.0],
        deviation_share,
    );
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\" fill=\"{FAINT}\">hour of the day</text>",
        DEVIATION.right(),
        DEVIATION.bottom() + 32.0
    );
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let stroke = format!("stroke=\"{colour}\" stroke-width=\"1.8\"");
        curve(text, &SPEND, &line.course.spent, spend_share, &stroke);
        curve(text, &DEVIATION, &line.course.deviation, deviation_share, &stroke);
    }
    if let Some(line) = panel.lines.first() {
        let stroke = format!("stroke=\"{INK}\" stroke-width=\"1.4\" stroke-dasharray=\"5 4\"");
        curve(text, &SPEND, &line.course.planned, spend_share, &stroke);
    }
}

fn legend(text: &mut String, panel: &Panel) {
    let mut x = SPEND.left;
    let names = panel.lines.iter().map(|line| line.name).zip(COLOURS.iter().copied().cycle());
    for (name, colour, dashes) in names.map(|(name, colour)| (name, colour, "")).chain([(
        "plan",
        INK,
        " stroke-dasharray=\"5 4\"",
    )]) {
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"64\" x2=\"{:.1}\" y2=\"64\" stroke=\"{colour}\" stroke-width=\"2.4\"{dashes}/>\
             <text x=\"{:.1}\" y=\"68\">{}</text>",
            x + 20.0,
            x + 25.0,
            escaped(name)
        );
        // Letters are about 6.6 wide at this size.
        x += 25.0 + 6.6 * name.len() as f64 + 16.0;
    }
}

/// Grid, ticks and the name of a diagram. `share` tells how far up a tick is.
fn axes(text: &mut String, frame: &Frame, name: &str, ticks: &[f64], share: fn(f64) -> f64) {
    let (left, right, bottom) = (frame.left, frame.right(), frame.bottom());
    for &tick in ticks {
        let y = frame.y(share(tick / 100.0));
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"{GRID}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\" fill=\"{FAINT}\">{tick}</text>",
            left - 7.0,
            y + 4.0
        );
    }
    for hour in (0..=24).step_by(3) {
        let x = frame.x(hour * 60);
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{FAINT}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"{FAINT}\">{hour}</text>",
            bottom + 4.0,
            bottom + 17.0
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\" stroke=\"{FAINT}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{FAINT}\">{}</text>",
        left,
        frame.top - 10.0,
        escaped(name)
    );
}

fn curve(text: &mut String, frame: &Frame, points: &[f64], share: fn(f64) -> f64, stroke: &str) {
    let _ = write!(text, "<polyline fill=\"none\" stroke-linejoin=\"round\" {stroke} points=\"");
    for (minute, &point) in points.iter().enumerate().step_by(STEP) {
        let _ = write!(text, "{:.1},{:.1} ", frame.x(minute), frame.y(share(point)));
    }
    text.push_str("\"/>\n");
}

/// Even.
fn spend_share(of_budget: f64) -> f64 {
    of_budget
}

/// Logarithmic, between the ends of the axis.
fn deviation_share(of_budget: f64) -> f64 {
    let percent = (of_budget * 100.0).max(DEVIATION_MIN);
    (percent / DEVIATION_MIN).ln() / (DEVIATION_MAX / DEVIATION_MIN).ln()
}

/// Text that XML may hold: what is not a letter of it is written as a reference, control characters are left out.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ if character.is_control() => {}
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &str) -> Panel {
        let course = Course {
            spent: (0..=MINUTES).map(|minute| minute as f64 / MINUTES as f64).collect(),
            planned: vec![0.5; MINUTES + 1],
            deviation: vec![0.01; MINUTES + 1],
        };
        Panel {
            title: title.into(),
            about: "About.".into(),
            lines: vec![Line { name: "curve", course }],
        }
    }

    #[test]
    fn text_cannot_break_out_of_the_picture() {
        let text = svg(&[panel("<script>\"&\u{1}\" ]]>")]);
        assert!(text.contains("&lt;script&gt;&quot;&amp;&quot; ]]&gt;</text>"), "{text}");
        assert!(!text.contains("<script") && !text.contains('\u{1}'));
    }

    #[test]
    fn a_line_goes_from_the_lower_left_to_the_upper_right() {
        let text = svg(&[panel("day")]);
        let (first, last) = ("points=\"56.0,320.0 ", "596.0,100.0 \"");
        assert!(text.contains(first) && text.contains(last), "{text}");
    }

    #[test]
    fn deviations_are_placed_by_their_logarithm() {
        let shares = [0.0, 0.000_1, 0.01, 1.0, 5.0].map(deviation_share);
        for (share, expected) in shares.into_iter().zip([0.0, 0.0, 0.5, 1.0, 1.175]) {
            assert!((share - expected).abs() < 1e-3, "{share} for {expected}");
        }
        assert_eq!(DEVIATION.y(2.0), DEVIATION.top, "what is above stays in the frame");
    }

    #[test]
    fn every_panel_is_inside_the_picture() {
        let text = svg(&[panel("a"), panel("b"), panel("c")]);
        assert!(text.contains("viewBox=\"0 0 1240 1120\""), "{}", &text[..200]);
        assert_eq!(text.matches("translate(").count(), 3);
        assert!(text.contains("translate(620 0)") && text.contains("translate(0 560)"));
    }
}
