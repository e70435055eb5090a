//! The page, in a real browser: what it shows, that slider and keys work, and that nothing in it can do harm.

mod browser;
mod common;

use std::path::Path;

use browser::browse;
use common::{clean, film, hostile, incident};
use noclobber::{
    evidence::incident::{Certainty, Incident, Lost, Moment, MomentKind},
    oracle::{Film, Frame, Reel},
    report::{Html, Report, Reporter, incident_html},
    scenario::Expect,
};

/// The page of these reports.
fn page(reports: &[Report]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let mut html = Html::new(&file);
    for report in reports {
        html.report(report).unwrap();
    }
    html.finish().unwrap();
    std::fs::read_to_string(file).unwrap()
}

/// Adds a script of the test's own that ends by putting its findings into the document. The policy is taken out for
/// it; that the page works with it is what the other tests show.
fn ask(page: &str, script: &str, arguments: &[&str]) -> serde_json::Value {
    let (before, rest) = page.split_once("<meta http-equiv").expect("a policy");
    let (_, after) = rest.split_once("'none'\">").expect("the policy's end");
    let asking = format!(
        "<script>{{ const key = (key) => document.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }}));\
         const text = (at) => [...document.querySelectorAll(at)].map((node) => node.textContent);\
         const found = {{}};\n{script}\n\
         const out = document.createElement('pre'); out.id = 'found';\
         out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found)))); document.body.append(out); }}</script></body>"
    );
    let page = format!("{before}{after}").replace("</body>", &asking);
    let browsed = browse(&page, arguments);
    assert_eq!(browsed.complaints, [""; 0]);
    let found = browsed.document.split_once("<pre id=\"found\">").expect("the script came to its end").1;
    let found = found.split_once("</pre>").unwrap().0;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, found).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn the_page_as_written_runs_its_one_script_and_nothing_complains() {
    let page = page(&[incident(Some(Expect::Clean)), clean()]);
    let browsed = browse(&page, &[]);
    assert_eq!(browsed.complaints, [""; 0]);
    for shown in [
        "2 scenarios, 1 not as expected",
        "incident-naive",
        "t2 is in no later version",
        "all 14 classes",
        "docs/src/catalogue/lost-update.md",
    ] {
        assert!(browsed.document.contains(shown), "{shown}");
    }
    assert!(browsed.document.contains("<tr class=\"pivot now\" data-n=\"8\">"), "the deciding step is shown first");
    // What asks the network would have to name a place.
    assert!(
        !page.contains("http:") && !page.contains("https:")
            || page.matches("http").count()
                == page.matches("http://www.w3.org/2000/svg").count() + page.matches("http-equiv").count()
    );
}

#[test]
fn a_changed_script_does_not_run() {
    let page = page(&[clean()]).replace("'use strict';", "'use strict'; document.title = 'changed';");
    let browsed = browse(&page, &[]);
    assert!(browsed.document.contains("<title>noclobber report</title>"));
    assert!(!browsed.complaints.is_empty(), "the policy refuses it and says so");
}

#[test]
fn slider_keys_and_buttons_move_through_the_steps() {
    let found = ask(
        &page(&[incident(None)]),
        "const state = () => [text('output')[0], text('.lanes tr.now')[0] || '', text('pre.content')[0] || '', text('ul.locks li').join()];
         found.start = state(); found.lost = text('del').join(''); found.against = text('.side p')[0];
         key('p'); found.pivot = state();
         key('Home'); found.home = state();
         key('ArrowRight'); found.right = state();
         key('End'); found.end = state();
         key('ArrowLeft'); found.left = state();
         key('a'); key('ArrowRight'); found.all = text('.lanes tbody tr').length;
         const slider = document.querySelector('input[type=range]');
         slider.value = 6; slider.dispatchEvent(new Event('input')); found.slid = state();
         found.ins = text('ins'); found.del = text('del');
         key('ArrowRight'); found.emptied = state();
         document.querySelectorAll('.lanes tbody tr')[7].click(); found.clicked = state();
         found.shown = document.querySelectorAll('svg path').length;",
        &[],
    );
    let first = r#"{"version":1,"tasks":[{"id":"t1","state":"queued"}]}"#;
    assert_eq!(found["start"][0], "step 8 of 9");
    assert!(found["start"][2].as_str().unwrap().starts_with(r#"{"version":2,"tasks":[{"id":"t1","state":"done"}"#));
    assert_eq!(found["lost"], r#",{"id":"t2","state":"queued"}"#, "what B's version does not have of A's");
    assert!(found["against"].as_str().unwrap().ends_with("against A's of step 6"), "{found}");
    assert_eq!(found["start"][3], "B holds b.lock since step 7");
    assert_eq!(found["pivot"][0], "step 4 of 9");
    assert_eq!(found["home"], serde_json::json!(["at the start", "", first, ""]));
    assert_eq!(found["right"][0], "step 2 of 9", "the first step is one that no order can affect");
    assert_eq!(found["end"][0], "step 9 of 9");
    assert_eq!(found["left"][0], "step 8 of 9");
    assert_eq!(found["all"], 9);
    assert_eq!(found["slid"][0], "step 6 of 9");
    assert!(found["slid"][2].as_str().unwrap().contains("t2"), "{found}");
    assert!(found["emptied"][2].as_str().unwrap().ends_with("(empty)"), "what went is struck out: {found}");
    assert!(found["clicked"][1].as_str().unwrap().contains("writes v2"), "{found}");
    assert!(found["shown"].as_u64().unwrap() >= 2);
}

#[test]
fn a_difference_is_marked_word_by_word() {
    let mut report = incident(None);
    report.anomalies[0].film = Some(Box::new(Film {
        reels: vec![Reel {
            path: "queue.json".into(),
            first: Some(b"[\"one\",\"two\"]".as_slice().into()),
            frames: vec![Frame {
                step: 7,
                by: 1,
                bytes: Some(b"[\"one\",\"three\"]".as_slice().into()),
                absent: false,
            }],
        }],
        ..film()
    }));
    let found = ask(&page(&[report]), "found.ins = text('ins'); found.del = text('del');", &[]);
    assert_eq!(found, serde_json::json!({"ins": ["three"], "del": ["two"]}));
}

#[test]
fn dark_and_light() {
    let script = "found.dark = matchMedia('(prefers-color-scheme: dark)').matches; found.back = getComputedStyle(document.body).backgroundColor;";
    let page = page(&[clean()]);
    let light = ask(&page, script, &["--blink-settings=preferredColorScheme=1"]);
    let dark = ask(&page, script, &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(light, serde_json::json!({"dark": false, "back": "rgb(255, 255, 255)"}));
    assert_eq!(dark, serde_json::json!({"dark": true, "back": "rgb(15, 19, 24)"}));
}

#[test]
fn nothing_is_wider_than_a_phone() {
    let script = "found.wide = [...document.querySelectorAll('body *')].filter((node) => !node.closest('.scroll') && \
                  node.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((node) => node.outerHTML.slice(0, 200));";
    let found = ask(&page(&[incident(None), hostile(), clean()]), script, &["--window-size=400,800"]);
    assert_eq!(found["wide"], serde_json::json!([]));
}

#[test]
fn a_hundred_scenarios_are_read_one_by_one() {
    let reports: Vec<Report> = (0..100)
        .map(|i| {
            let report = if i % 20 == 7 { incident(Some(Expect::Clean)) } else { clean() };
            Report { scenario: format!("guard-{i}"), ..report }
        })
        .collect();
    let found = ask(
        &page(&reports),
        "const links = [...document.querySelectorAll('#index a')];
         const visible = (at) => [...document.querySelectorAll(at)].filter((node) => node.getClientRects().length > 0);
         found.sum = text('#sum')[0];
         found.first = links.slice(0, 6).map((node) => node.textContent);
         found.open = document.querySelectorAll('details[open]').length; found.players = document.querySelectorAll('.player').length;
         found.body = document.getElementById('s3').querySelectorAll('dl').length;
         links.find((node) => node.textContent.includes('guard-3')).click();
         found.clicked = document.getElementById('s3').querySelectorAll('dl').length;
         const filter = document.querySelector('input[type=search]');
         const narrow = (value) => { filter.value = value; filter.dispatchEvent(new Event('input')); };
         filter.dispatchEvent(new KeyboardEvent('keydown', { key: 'p', bubbles: true }));
         found.typed = text('output')[0];
         narrow('LOST'); found.lost = visible('#index li').length; found.lostsections = visible('section').length;
         narrow('guard-1'); found.named = visible('#index li').length;
         document.querySelector('input[type=checkbox]').click(); found.only = visible('#index li').map((node) => node.textContent);
         narrow(''); found.bad = visible('section').length;",
        &["--window-size=400,800"],
    );
    assert_eq!(found["sum"], "100 scenarios, 5 not as expected");
    let first: Vec<&str> = found["first"].as_array().unwrap().iter().filter_map(|text| text.as_str()).collect();
    assert!(first[4].contains("guard-87") && first[4].contains("not as expected"), "{first:?}");
    assert!(first[5].contains("guard-0") && !first[5].contains("not as expected"), "{first:?}");
    assert_eq!((&found["open"], &found["players"]), (&5.into(), &5.into()), "only what has to be looked at is open");
    assert_eq!((&found["body"], &found["clicked"]), (&0.into(), &1.into()), "the rest is made when it is asked for");
    assert_eq!(found["typed"], "step 8 of 9", "a letter typed into the filter is no command");
    assert_eq!((&found["lost"], &found["lostsections"]), (&5.into(), &5.into()));
    assert_eq!(found["named"], 11);
    assert_eq!(found["only"].as_array().unwrap().len(), 0, "guard-1 and guard-10 to 19 are as expected");
    assert_eq!(found["bad"], 5);
}

#[test]
fn hostile_contents_are_text() {
    let evil = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><!--\u{1b}[31m\u{202e}";
    let mut report = hostile();
    let mut attacked = incident(None);
    attacked.scenario = evil.into();
    attacked.about = evil.into();
    attacked.coverage = evil.into();
    attacked.workers = vec![evil.into(), "B".into()];
    let anomaly = &mut attacked.anomalies[0];
    anomaly.summary = evil.into();
    anomaly.lost = vec![evil.into()];
    anomaly.evidence = vec![evil.into()];
    anomaly.steps[4].path = evil.into();
    let mut bytes = evil.as_bytes().to_vec();
    bytes.extend(b"\xff\xfe");
    let large = vec![b'x'; 10 << 20];
    anomaly.film = Some(Box::new(Film {
        reels: vec![Reel {
            path: evil.into(),
            first: Some(bytes.as_slice().into()),
            frames: vec![Frame { step: 5, by: 0, bytes: Some(large.as_slice().into()), absent: false }],
        }],
        ..film()
    }));
    report.file = Some(Path::new(evil).into());
    let page = page(&[report, attacked]);
    assert!(page.len() < 1 << 20, "ten megabytes are not on the page: {}", page.len());
    let browsed = browse(&page, &[]);
    assert_eq!(browsed.complaints, [""; 0]);
    assert!(browsed.document.contains("<title>noclobber report</title>"));
    let found = ask(
        &page,
        "found.title = document.title; found.images = document.images.length; found.scripts = document.scripts.length;
         found.large = text('pre.content').join().includes('bytes left out'); document.querySelectorAll('.player')[1].dispatchEvent(new PointerEvent('pointerdown', { bubbles: true })); key('Home');
         found.notes = text('.side p').join();",
        &[],
    );
    assert_eq!(found["title"], "noclobber report");
    assert_eq!((&found["images"], &found["scripts"]), (&0.into(), &3.into()));
    assert_eq!(found["large"], true);
    assert!(found["notes"].as_str().unwrap().contains("not all of it is UTF-8"), "{found}");
}

/// The page of an incident has no script; the browser shows what evidence holds as text and complains of nothing.
#[test]
fn an_incident_is_shown_as_text() {
    let evil =
        "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">\u{1b}[2J\u{202e}&amp;";
    let moment = |pid: u64, stale: bool| Moment {
        at: Some("2026-01-31T12:00:02Z".to_owned()),
        kind: MomentKind::Copy,
        snapshot: Some(evil.to_owned()),
        version: Some(u64::MAX),
        pid: Some(pid),
        based_on: vec![evil.to_owned()],
        added: vec![evil.to_owned()],
        removed: Vec::new(),
        changed: Vec::new(),
        overwritten: vec![evil.to_owned()],
        stale,
        note: Some(evil.to_owned()),
    };
    let incident = Incident {
        lost: vec![Lost {
            id: evil.to_owned(),
            certainty: Certainty::Certain,
            why: evil.to_owned(),
            settled_by: evil.to_owned(),
            last_seen: Some(evil.to_owned()),
            gone_in: None,
            bytes: Some([1, 2]),
            fragment: Some(evil.to_owned()),
            written_by: Some(1),
            overwritten_by: Some(2),
            stale_base: None,
            stale_version: None,
        }],
        timeline: vec![moment(1, false), moment(2, true)],
        warnings: vec![evil.to_owned()],
        copies: 2,
        ..Incident::default()
    };
    let page = incident_html(&incident);
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    let browsed = browse(&page, &[]);
    assert_eq!(browsed.complaints, [""; 0]);
    let document = browsed.document;
    assert!(document.contains("<title>noclobber incident</title>"), "{document}");
    assert!(!document.contains("<script") && !document.contains("<img"), "{document}");
    assert!(document.contains("&lt;script&gt;") && document.contains("<th>process 2</th>"), "{document}");
}
