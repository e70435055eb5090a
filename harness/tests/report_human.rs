//! The human report, as it is read.

mod common;

use common::{cannot_tell, clean, deadlock, hostile, incident, long};
use noclobber::{
    report::{Detail, Human, HumanOptions, Report, Reporter, advice, page_of, render},
    scenario::{Expect, Kind},
};
use unicode_width::UnicodeWidthStr;

fn plain(report: &Report) -> String {
    render(report, HumanOptions::default())
}

fn all(reports: &[Report], detail: Detail) -> String {
    let mut human = Human::new(Vec::new(), HumanOptions { detail, ..HumanOptions::default() });
    for report in reports {
        human.report(report).unwrap();
    }
    human.finish().unwrap();
    String::from_utf8(human.into_inner()).unwrap()
}

#[test]
fn the_incident() {
    insta::assert_snapshot!(plain(&incident(Some(Expect::Kinds(vec![Kind::LostUpdate])))));
}

#[test]
fn the_incident_verbose_and_not_expected() {
    let options = HumanOptions { detail: Detail::Verbose, ..HumanOptions::default() };
    insta::assert_snapshot!(render(&incident(Some(Expect::Clean)), options));
}

#[test]
fn clean_report() {
    insta::assert_snapshot!(plain(&clean()));
}

#[test]
fn cannot_tell_report() {
    insta::assert_snapshot!(plain(&cannot_tell()));
}

#[test]
fn deadlock_report() {
    insta::assert_snapshot!(plain(&deadlock()));
}

#[test]
fn several_scenarios() {
    let reports = [clean(), incident(Some(Expect::Anomaly)), cannot_tell(), incident(Some(Expect::Clean))];
    insta::assert_snapshot!(all(&reports, Detail::Brief));
}

#[test]
fn hostile_names() {
    insta::assert_snapshot!(plain(&hostile()));
}

#[test]
fn a_long_trace() {
    insta::assert_snapshot!(plain(&long(2)));
}

#[test]
fn many_actors() {
    insta::assert_snapshot!(plain(&long(6)));
}

#[test]
fn the_last_line_is_the_coverage() {
    let one = [Detail::Quiet, Detail::Brief, Detail::Full, Detail::Verbose];
    for detail in one {
        for reports in [vec![clean()], vec![incident(None)], vec![clean(), cannot_tell()], vec![]] {
            let text = all(&reports, detail);
            let last = text.lines().last().unwrap();
            assert!(last.contains("coverage") || last.contains("all 14 classes"), "{detail:?}: {text}");
        }
    }
}

#[test]
fn quiet_shows_only_what_is_not_as_expected() {
    let text = all(&[clean(), cannot_tell(), clean()], Detail::Quiet);
    assert!(!text.contains("incident-flock"), "{text}");
    assert!(text.contains("two-caches") && text.contains("3 scenarios: 2 as expected, 1 cannot tell (two-caches)"));
}

/// No report has control characters or lines that a CI runner would take for commands, and each fits the width
/// (a replay command, which is there to be copied, may be longer).
#[test]
fn reports_fit_and_are_harmless() {
    for width in [60, 80, 120] {
        for report in [incident(None), clean(), cannot_tell(), deadlock(), hostile(), long(1), long(3), long(9)] {
            let text = render(&report, HumanOptions { width, detail: Detail::Verbose, colour: false });
            for line in text.lines() {
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
                assert!(!line.trim_start().starts_with("::"), "{line:?}");
                let free =
                    line.contains("noclobber replay") || line.starts_with("coverage") || line.starts_with("torn-read");
                assert!(free || line.width() <= width, "{} > {width}: {line}", line.width());
            }
        }
    }
}

#[test]
fn colour_changes_no_text() {
    for report in [incident(None), clean(), cannot_tell(), deadlock(), long(4)] {
        let coloured = render(&report, HumanOptions { colour: true, ..HumanOptions::default() });
        assert!(coloured.contains("\u{1b}["));
        let mut bare = String::new();
        let mut rest = coloured.as_str();
        while let Some(at) = rest.find("\u{1b}[") {
            bare += &rest[..at];
            rest = &rest[at..];
            rest = &rest[rest.find('m').unwrap() + 1..];
        }
        bare += rest;
        let trimmed = |text: &str| text.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(&bare), trimmed(&plain(&report)));
    }
}

#[test]
fn each_kind_has_its_own_advice() {
    let mut texts: Vec<&str> = Kind::ALL.into_iter().map(advice).collect();
    assert!(texts.iter().all(|t| t.len() > 40 && t.ends_with('.')));
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), Kind::ALL.len());
}

#[test]
fn each_kind_has_its_own_page_in_the_book() {
    for kind in Kind::ALL {
        let page = page_of(kind);
        let (_, file) = page.split_at(page.find("docs/").expect("a page of the book"));
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        assert!(file.is_file(), "{kind}: {} is not there", file.display());
    }
}
