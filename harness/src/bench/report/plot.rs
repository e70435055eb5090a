//! Drawings as SVG, without any script.

use std::fmt::Write as _;

use crate::scenario::printable;

/// The size of a drawing in its own units; it is shown as wide as there is room.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;

/// How values are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Equal ratios are equally long.
    Log,
    /// Parts of all from 0 to 1: 0.9, 0.99 and 0.999 lie equally far apart.
    Nines,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Log => value.max(1e-9).log10(),
            Scale::Nines => -(1.0 - value.min(0.9999)).log10(),
        }
    }

    fn label(self, value: f64) -> String {
        match self {
            Scale::Log if value >= 1e6 => format!("{}M", value / 1e6),
            Scale::Log if value >= 1e3 => format!("{}k", value / 1e3),
            Scale::Log => format!("{value}"),
            Scale::Nines if value >= 1.0 => "max".to_owned(),
            Scale::Nines => format!("p{}", (value * 1e5).round() / 1e3),
        }
    }
}

/// A line of a drawing.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Its name.
    pub(super) name: String,
    /// Which of the colours.
    pub(super) colour: usize,
    /// Whether it is somebody else's work: dashed.
    pub(super) peer: bool,
    /// The points, and whether something was lost there.
    pub(super) points: Vec<(f64, f64, bool)>,
}

/// A text that a page may hold.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Lines over two axes; the vertical one is logarithmic. `ticks` are the horizontal axis's marks.
pub(super) fn lines(title: &str, x_label: &str, y_label: &str, x: Scale, ticks: &[f64], series: &[Series]) -> String {
    let ys = series.iter().flat_map(|one| one.points.iter()).filter(|point| is_drawn(point)).map(|point| point.1);
    let (low, high) = ys.fold((f64::INFINITY, 0.0f64), |(low, high), y| (low.min(y), high.max(y)));
    if !low.is_finite() || ticks.is_empty() {
        return String::new();
    }
    // Whole powers of ten on both sides.
    let (low, high) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let (first, last) = (x.place(ticks[0]), x.place(ticks[ticks.len() - 1]));
    let across = |value: f64| {
        let part = if last > first { (x.place(value) - first) / (last - first) } else { 0.5 };
        LEFT + 8.0 + part * (WIDTH - LEFT - RIGHT - 16.0)
    };
    let up = |value: f64| HEIGHT - BOTTOM - (value.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(title)
    );
    let mut power = low;
    while power <= high {
        let y = up(10f64.powf(power));
        let label = Scale::Log.label(10f64.powf(power));
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 4.0
        );
        power += 1.0;
    }
    let mut until = f64::NEG_INFINITY;
    for &tick in ticks {
        let at = across(tick);
        let _ = write!(out, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{:.1}\"/>", HEIGHT - BOTTOM);
        // Labels that would run into each other are left out.
        if at - until > 30.0 {
            until = at;
            let label = x.label(tick);
            let _ = write!(out, "<text class=\"mid\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>", HEIGHT - BOTTOM + 15.0);
        }
    }
    let _ = write!(
        out,
        "<text class=\"mid\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text class=\"mid\" transform=\"rotate(-90)\" x=\"{:.1}\" y=\"12\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(x_label),
        -(HEIGHT - BOTTOM + TOP) / 2.0,
        escape(y_label)
    );
    for one in series {
        let points: Vec<(f64, f64, bool)> = one.points.iter().copied().filter(is_drawn).collect();
        let path: Vec<String> = points.iter().map(|(a, b, _)| format!("{:.1} {:.1}", across(*a), up(*b))).collect();
        if path.is_empty() {
            continue;
        }
        let dash = if one.peer { " dash" } else { "" };
        let _ = write!(
            out,
            "<g class=\"c{}\"><title>{}</title><path class=\"line{dash}\" d=\"M{}\"/>",
            one.colour,
            escape(&one.name),
            path.join("L")
        );
        for (a, b, lost) in points {
            let (a, b) = (across(a), up(b));
            let _ = match lost {
                true => write!(out, "<path class=\"lost\" d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\"/>", a - 4.0, b - 4.0),
                false if x == Scale::Nines => Ok(()),
                false => write!(out, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"2.6\"/>"),
            };
        }
        out.push_str("</g>");
    }
    out.push_str("</svg>");
    out.push_str(&legend(series));
    out.push_str("</figure>");
    out
}

/// Nothing, and a part of nothing, have no place on a logarithmic axis.
fn is_drawn(point: &(f64, f64, bool)) -> bool {
    point.1 > 0.0 && point.1.is_finite()
}

fn legend(series: &[Series]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for one in series {
        let lost = one.points.iter().any(|point| point.2);
        let dash = if one.peer { " dash" } else { "" };
        let _ = write!(
            out,
            "<li class=\"c{}\"><svg viewBox=\"0 0 22 8\" aria-hidden=\"true\"><path class=\"line{dash}\" d=\"M0 4H22\"/></svg><span{}>{}{}</span></li>",
            one.colour,
            if lost { " class=\"bad\"" } else { "" },
            escape(&one.name),
            if lost { " &#215; lost tasks" } else { "" }
        );
    }
    out.push_str("</ul>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_bounds_has_no_place_and_stretches_no_axis() {
        let drawn = |value: f64| {
            let points = vec![(1.0, 5.0, false), (8.0, value, true)];
            let one = Series { name: "s".into(), colour: 0, peer: false, points };
            lines("cost", "x", "y", Scale::Log, &[1.0, 8.0], &[one])
        };
        assert_eq!(drawn(20.0).matches("class=\"lost\"").count(), 1);
        for value in [f64::INFINITY, f64::NAN, 0.0] {
            let page = drawn(value);
            assert!(page.len() < 2000 && !page.contains("inf") && !page.contains("NaN"), "{value}: {page}");
            assert_eq!(page.matches("class=\"lost\"").count(), 0, "{value}");
        }
    }
}
