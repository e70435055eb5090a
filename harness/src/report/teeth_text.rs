//! Teeth for people.

use super::{
    Detail, HumanOptions, Teeth, Tooth, Verdict, lanes::lanes, paint::Paint, paint::Tone, render, text::count,
    text::line, text::listed, text::wrap,
};

/// One guard as text; the last line says how many of its protections it would miss.
pub fn render_teeth(teeth: &Teeth, options: HumanOptions) -> String {
    let paint = Paint(options.colour);
    let (tone, word) = match (teeth.as_expected(), teeth.has_gap()) {
        (true, _) => (Tone::Good, if teeth.teeth.is_empty() { "nothing to weaken" } else { "has teeth" }),
        (false, true) if teeth.guard.verdict == Verdict::Clean => (Tone::Bad, "toothless"),
        (false, true) => (Tone::Bad, teeth.guard.verdict.name()),
        (false, false) => (Tone::Unsure, Verdict::CannotTell.name()),
    };
    let mut lines = vec![format!("{}  {}", paint.text(tone, word), paint.text(Tone::Strong, &line(&teeth.scenario)))];
    if options.detail == Detail::Quiet && teeth.as_expected() {
        return String::new();
    }
    if teeth.guard.verdict != Verdict::Clean {
        let why = "The guard is not clean as it is: nothing was weakened.";
        lines.push(format!("\n  {why}\n"));
        return lines.join("\n") + &render(&teeth.guard, options);
    }
    for tooth in &teeth.teeth {
        lines.push(String::new());
        lines.extend(one(tooth, options, paint));
    }
    if !teeth.notes.is_empty() {
        lines.push(String::new());
    }
    for note in &teeth.notes {
        lines.extend(entry("note", note, options, paint));
    }
    lines.push(String::new());
    lines.push(coverage(teeth));
    lines.join("\n") + "\n"
}

fn one(tooth: &Tooth, options: HumanOptions, paint: Paint) -> Vec<String> {
    let (tone, word) = match (tooth.needed, &tooth.covered_by) {
        (Some(true), _) => (Tone::Good, "needed"),
        (Some(false), Some(_)) => (Tone::Faint, "covered"),
        (Some(false), None) => (Tone::Bad, "not seen"),
        (None, _) => (Tone::Unsure, "cannot tell"),
    };
    let workers = listed(&tooth.workers.iter().map(|w| line(w)).collect::<Vec<_>>());
    let what = format!("{} {}", tooth.weakening.kind, line(&tooth.weakening.path));
    let mut lines = vec![format!(
        "  {}  {}  ({workers})",
        paint.text(tone, &format!("{word:<11}")),
        paint.text(Tone::Strong, &what)
    )];
    let mut without = format!("{}: {}", tooth.weakening.kind.weakened(), tooth.report.verdict.name());
    if tooth.needed != Some(true) {
        without += &format!(", {}", tooth.report.coverage);
    }
    lines.extend(entry("without it", &without, options, paint));
    lines.extend(entry("", &tooth.summary(), options, paint));
    for advice in &tooth.advice {
        lines.extend(entry("advice", advice, options, paint));
    }
    if let Some(anomaly) = tooth.report.anomalies.first() {
        if matches!(options.detail, Detail::Full | Detail::Verbose) {
            lines.push(String::new());
            let all = options.detail == Detail::Verbose;
            lines.extend(lanes(&tooth.report, anomaly, options.width.clamp(40, 200), all, paint));
            lines.push(String::new());
        }
        if let Some(file) = &anomaly.replay {
            // Never broken, so that it can be copied.
            lines.push(format!("  {}noclobber replay {}", label("replay", paint), line(&shell_words::quote(file))));
        }
    }
    lines
}

fn coverage(teeth: &Teeth) -> String {
    if teeth.teeth.is_empty() {
        return format!(
            "coverage: no two workers meet on a protection; with all in place {}",
            line(&teeth.guard.coverage)
        );
    }
    let needed = teeth.teeth.iter().filter(|t| t.needed == Some(true)).count();
    let covered = teeth.teeth.iter().filter(|t| t.needed == Some(false) && t.covered_by.is_some()).count();
    let unseen = teeth.teeth.iter().filter(|t| t.is_gap()).count();
    let unknown = teeth.teeth.iter().filter(|t| t.needed.is_none()).count();
    let parts = [(covered, "covered by another"), (unseen, "not seen"), (unknown, "cannot tell")];
    let mut text = format!("coverage: {needed} of {} needed", count(teeth.teeth.len() as u64, "protection"));
    for (n, what) in parts.into_iter().filter(|(n, _)| *n > 0) {
        text += &format!(", {n} {what}");
    }
    text + &format!("; with all in place {}", line(&teeth.guard.coverage))
}

fn label(label: &str, paint: Paint) -> String {
    paint.text(Tone::Faint, &format!("{label:<13}"))
}

fn entry(name: &str, text: &str, options: HumanOptions, paint: Paint) -> Vec<String> {
    let lines = wrap(&line(text), options.width.clamp(40, 200).saturating_sub(15));
    let label_of = |i| if i == 0 { label(name, paint) } else { " ".repeat(13) };
    lines.iter().enumerate().map(|(i, text)| format!("  {}{text}", label_of(i))).collect()
}
