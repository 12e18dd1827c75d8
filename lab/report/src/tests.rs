use std::collections::BTreeMap;

use super::compare::{Quantity, compare, reasons};
use super::gate::{self, Judgement, Threshold};
use super::view::View;
use super::{csv, example, explain, html, markdown, panels, summary};
use sluice_audit::statistics::verdict::Verdict;
use sluice_load::result::{Mark, MarkKind, Mode, RunResult};

/// Checks that tags are closed in order, except those that HTML leaves open. Returns the number of tags.
fn check_nesting(text: &str) -> usize {
    let void = ["meta", "br", "!doctype", "tr", "td", "th", "thead", "tbody"];
    let mut open: Vec<&str> = Vec::new();
    let mut seen = 0;
    // Scripts and styles may contain `<`.
    let script = text.find("<script>").map_or("", |at| {
        &text[at..text.find("</script>").map_or(text.len(), |end| end + 9)]
    });
    let text = text.replace(script, "");
    let leaked: &str = Box::leak(text.into_boxed_str());
    for part in leaked.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("every tag ends");
        let name = tag
            .split([' ', '/', '\n'])
            .find(|name| !name.is_empty())
            .unwrap_or("");
        seen += 1;
        if tag.starts_with('/') && void.contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closing {tag}");
        } else if !tag.ends_with('/') && !void.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    seen
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let result = example::result();
    let page = html::page(&result, None, false);
    assert!(check_nesting(&page) > 2000);
    let text = page
        .replace("http://www.w3.org/2000/svg", "")
        .replace("http://127.0.0.1:8080/", "");
    for mark in ["http://", "https://", "@import", "url(", "src="] {
        assert!(!text.contains(mark), "the page fetches something: {mark}");
    }
    assert!(!page.contains("NaN") && !page.contains("<beta>") && page.contains("&lt;beta&gt;"));
    for heading in [
        "Read this first",
        "In short",
        "Claims",
        "Latency",
        "CPU and memory over time",
        "Latency by percentile",
        "Responses over time",
        "Latency over time",
        "Cell by cell",
        "How it was measured",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(page.contains("Not measured: clients 10, subject absent, test fixed"));
    if let Some(folder) = std::env::var_os("LAB_EXAMPLE") {
        let folder = std::path::Path::new(&folder);
        std::fs::write(folder.join("report.html"), &page).unwrap();
        std::fs::write(
            folder.join("result.json"),
            serde_json::to_string(&result).unwrap(),
        )
        .unwrap();
    }
}

/// The whole matrix of study 000: eight servers, four tests, five levels.
fn hotdogs() -> RunResult {
    let example = example::result();
    let some: Vec<_> = example.cells.iter().take(4).cloned().collect();
    let mut result = example;
    result.cells.clear();
    let places =
        (0..4).flat_map(|test| [10, 200, 500, 1_000, 10_000].map(|clients| (test, clients)));
    for (test, clients) in places {
        for subject in 0..8 {
            let mut cell = some[subject % 4].clone();
            // Intervals over blocks are slow and not tested here.
            cell.blocks.truncate(1);
            cell.id = format!("{test:02}{clients:08}{subject:02}");
            for (axis, value) in [
                ("subject", format!("server-{subject}")),
                ("test", format!("html-{test}")),
                ("clients", clients.to_string()),
            ] {
                cell.axes.insert(axis.into(), value);
            }
            result.cells.push(cell);
        }
    }
    result
}

/// The size limit removed the charts that the study itself had drawn.
#[test]
fn the_page_of_study_000_has_all_of_its_charts() {
    let page = html::page(&hotdogs(), Some("000"), false);
    assert!(page.len() < 400_000, "{} bytes", page.len());
    let places = 4 * 5;
    let titled = |title: &str| page.matches(&format!("{title}</text>")).count();
    assert_eq!(titled("latency of successful responses"), places);
    assert_eq!(titled("CPU usage (100 % is one core)"), places);
    assert_eq!(titled("resident memory (MiB)"), places);
    let place = |heading: &str| page.find(&format!("<h2>{heading}</h2>")).unwrap();
    let order = [
        "Read this first",
        "In short",
        "Latency",
        "CPU and memory over time",
        "Claims",
    ];
    let places: Vec<usize> = order.iter().map(|heading| place(heading)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// It was half a megabyte before series were thinned and coordinates made relative.
#[test]
fn pages_leave_nothing_out_as_long_as_coarser_drawings_fit() {
    let result = example::result();
    let page = html::page(&result, None, false);
    assert!(page.len() < 400_000, "{} bytes", page.len());
    assert_eq!(page.matches("class=\"chart heat\"").count(), 24);
    let full = html::page(&result, None, true);
    assert!(!full.contains("omitted to keep this page small"));
    assert_eq!(full.matches("class=\"chart heat\"").count(), 24);
    // With many more cells even the coarsest drawings do not fit. The page says so.
    let mut large = hotdogs();
    let cells = std::mem::take(&mut large.cells);
    for copy in 0..2 {
        let more = cells.iter().cloned().map(|mut cell| {
            cell.axes.insert("copy".into(), copy.to_string());
            cell
        });
        large.cells.extend(more);
    }
    let page = html::page(&large, None, false);
    let drawn: usize = page
        .split("<svg")
        .skip(1)
        .map(|rest| rest.find("</svg>").unwrap())
        .sum();
    assert!(drawn < crate::limits::PAGE_BYTES_AIM, "{drawn}");
    assert!(page.contains("omitted to keep this page small"));
}

/// Levels of an open loop are rates, whether or not the rate is an axis.
#[test]
fn headings_of_an_open_loop_are_rates() {
    let mut result = example::result();
    result.cells.truncate(8);
    for block in result.cells[4..]
        .iter_mut()
        .flat_map(|cell| &mut cell.blocks)
    {
        block.load.asked.mode = Mode::Open {
            rate: 5_000.0,
            poisson: false,
        };
    }
    let view = View::new(&result);
    let names: Vec<String> = (0..view.levels.len())
        .map(|level| view.level_name(level))
        .collect();
    assert_eq!(names, ["10 clients", "5,000 requests/s"]);
    let page = html::page(&result, None, false);
    assert!(page.contains("5,000 requests/s") && !page.contains("200 clients"));
}

#[test]
fn disturbed_blocks_are_reported_first() {
    let mut result = example::result();
    let blocks: usize = result.cells.iter().map(|cell| cell.blocks.len()).sum();
    let disturbed = Mark {
        kind: MarkKind::Disturbed,
        text: "other processes used 1.90 CPUs".to_owned(),
    };
    for cell in result.cells.iter_mut().take(2) {
        cell.blocks[0].marks.push(disturbed.clone());
    }
    let said = format!(
        "Other processes ran during 2 of {blocks} blocks (such as: other processes used 1.90 CPUs)"
    );
    let page = html::page(&result, None, false);
    let (before, _) = page.split_once("<h2>In short</h2>").unwrap();
    assert!(before.contains(&said), "{before}");
    assert!(markdown::write(&result, None).contains(&said));
}

#[test]
fn every_link_has_its_place() {
    let page = html::page(&example::result(), None, false);
    for part in page.split("href=\"#").skip(1) {
        let id = part.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn a_single_target_and_an_empty_result_have_pages_too() {
    let mut one = example::result();
    one.cells.truncate(1);
    one.cells[0].blocks.truncate(1);
    one.cells[0].axes = BTreeMap::new();
    one.experiment = None;
    for result in [one, RunResult::default()] {
        let page = html::page(&result, Some("000"), false);
        check_nesting(&page);
        assert!(!page.contains("NaN"));
        markdown::write(&result, Some("002"));
        csv::write(&result);
    }
}

#[test]
fn charts_hold_all_cells_and_open_as_files() {
    let result = example::result();
    let view = View::new(&result);
    assert_eq!(
        (view.subjects.len(), view.tests.len(), view.levels.len()),
        (4, 2, 3)
    );
    let latency = panels::latency_bars(&view);
    assert_eq!(latency.len(), 6);
    assert_eq!(panels::percentiles(&view, panels::Detail::FULL).len(), 6);
    // Four for each test, and failures of each, as one subject has some.
    assert_eq!(panels::curves(&view).len(), 10);
    assert_eq!(panels::heat_maps(&view, panels::Detail::FULL).len(), 24);
    // The failure chart is drawn for the one level that has failures.
    let failures = panels::overview(&view)
        .iter()
        .filter(|panel| panel.drawing.title().starts_with("failures"))
        .count();
    assert_eq!(failures, 1);
    for panel in latency {
        let drawn = panel.drawing.draw(true);
        assert!(drawn.starts_with("<svg xmlns=") && drawn.contains("<style>"));
        check_nesting(&drawn);
    }
}

#[test]
fn each_chart_has_the_layout_of_the_machines() {
    let mut result = example::result();
    assert!(!html::page(&result, None, false).contains("<figcaption>"));
    result.layout = Some("servers on a & b; load on c".into());
    let page = html::page(&result, None, false);
    check_nesting(&page);
    let caption = "<figcaption>servers on a &amp; b; load on c</figcaption></figure>";
    let count = page.matches("<figure ").count();
    assert!(
        count > 6 && page.matches(caption).count() == count,
        "{count}"
    );
    let words = result.layout.as_deref().unwrap();
    let view = View::new(&result);
    let maps = panels::heat_maps(&view, panels::Detail::FULL);
    for panel in panels::latency_bars(&view).iter().chain(&maps) {
        let (plain, file) = (panel.drawing.draw(true), panel.drawing.file(words));
        check_nesting(&file);
        let line = ">servers on a &amp; b; load on c</text></svg>";
        assert!(
            file.ends_with(line) && !plain.contains("load on c"),
            "{file}"
        );
    }
}

#[test]
fn tables_have_the_shape_of_their_study() {
    let result = example::result();
    let hotdogs = markdown::write(&result, Some("000"));
    assert!(
        hotdogs.contains(
            "| test | min | median | average | p90 | p95 | max | requests | errors | ± | flags |"
        ),
        "{hotdogs}"
    );
    assert!(hotdogs.contains("## 1,000 clients"));
    assert!(hotdogs.contains("| heavy-proxy |") && hotdogs.contains("| ERR |"));
    let python = markdown::write(&result, Some("002"));
    assert!(
        python
            .contains("| test | Requests/sec | Avg Latency (ms) | P99 Latency (ms) | ± | flags |")
    );
    assert!(python.contains("swift-first") && python.contains("| **holds** |"));
}

#[test]
fn csv_has_a_line_for_each_block() {
    let text = csv::write(&example::result());
    // 24 cells of 5 blocks, one cell without, and the header.
    assert_eq!(text.lines().count(), 24 * 5 + 1 + 1);
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(
        text.lines().all(|line| line.split(',').count() == columns),
        "no field here has a comma"
    );
    assert!(text.contains("not installed: no program `absent`"));
}

#[test]
fn a_summary_has_the_figures_of_cells_and_blocks() {
    let result = example::result();
    let summary = summary::summary(&result);
    assert_eq!(summary["schema"], summary::SCHEMA);
    assert_eq!(summary["seed"], result.seed);
    let columns = summary["columns"].as_array().unwrap();
    let median = columns.iter().position(|name| name == "median").unwrap();
    let cells = summary["cells"].as_array().unwrap();
    assert_eq!(cells.len(), result.cells.len());
    for (cell, short) in result.cells.iter().zip(cells) {
        assert_eq!(short["id"], cell.id);
        let blocks = short["blocks"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(blocks.len(), cell.blocks.len());
        let rows = blocks.iter().map(|block| &block["figures"]);
        for row in rows.chain(short.get("figures")) {
            assert_eq!(row.as_array().unwrap().len(), columns.len());
            assert!(row[median].as_f64().unwrap() > 0.0);
        }
    }
    let whole = serde_json::to_string(&result).unwrap();
    assert!(!summary.to_string().contains("HISTFAAA") && whole.contains("HISTFAAA"));
}

#[test]
fn subjects_are_compared_in_pairs_and_words() {
    let result = example::result();
    let verdicts = |one: &str, two: &str, quantity: Quantity| -> Vec<Verdict> {
        let comparison = compare(&result, &result, Some((one, two)));
        assert_eq!(comparison.pairs.len(), 6);
        comparison
            .pairs
            .into_iter()
            .map(|pair| {
                pair.compared
                    .into_iter()
                    .find(|c| c.quantity == quantity)
                    .unwrap()
                    .verdict
            })
            .collect()
    };
    assert!(
        verdicts("steady", "swift", Quantity::Rate)
            .iter()
            .all(|v| *v == Verdict::Faster)
    );
    assert!(
        verdicts("swift", "steady", Quantity::Cpu)
            .iter()
            .all(|v| *v == Verdict::Slower)
    );
    let again = verdicts("steady", "steady (again)", Quantity::Rate);
    assert!(
        again
            .iter()
            .all(|v| matches!(v, Verdict::NoDifference | Verdict::NotShown)),
        "{again:?}"
    );
    let failing = verdicts("swift", "heavy", Quantity::Rate);
    assert_eq!(
        failing[2],
        Verdict::NotComparable {
            reason: "the second fails in 1.96 %".into()
        }
    );
    let text = compare(&result, &result, Some(("steady", "swift"))).text();
    assert!(
        text.starts_with("noise floor ") && text.contains("  rps      +33."),
        "{text}"
    );
}

#[test]
fn other_machines_and_plans_are_named() {
    let result = example::result();
    let mut other = result.clone();
    other.machine.kernel = "6.2".into();
    other.experiment.as_mut().unwrap().sha256 = "00".into();
    let reasons = compare(&result, &other, None).reasons;
    assert_eq!(
        reasons,
        [
            "kernel: `6.1.0` and `6.2`",
            "experiment file: `abababababab` and `00`"
        ]
    );
}

#[test]
fn the_machine_of_the_upstreams_is_described_and_compared() {
    let result = example::result();
    let mut apart = result.clone();
    let machine = sluice_load::result::Machine {
        cpus: 8,
        ..result.machine.clone()
    };
    apart.upstream_machine = Some(machine);
    for block in apart.cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
        let resources = block.resources.as_mut().unwrap();
        resources.backend = Some(sluice_load::result::Tree {
            cpu_user_s: 7.9 * block.load.window_s,
            ..Default::default()
        });
    }
    let words = "8 x A Processor <2>, 24 GiB memory, Debian 12, kernel 6.1.0";
    let reasons = compare(&result, &apart, None).reasons;
    let expected = format!("machine of the upstreams: `that of the servers` and `{words}`");
    assert_eq!(reasons, [expected]);
    let page = markdown::write(&apart, None);
    let line = format!("Machine of the upstreams: {words}.");
    assert!(page.contains(&line), "{page}");
    assert!(html::page(&apart, None, false).contains("<dt>Machine of the upstreams</dt>"));
    let explained = explain::explain(&apart, &apart.cells[0]);
    let said = "the CPUs of the upstreams' machine were saturated: 7.90 of 8 in use";
    assert!(explained.contains(said), "{explained}");
}

fn gated(base: &str, new: &str, thresholds: &[&str]) -> Judgement {
    let result = example::result();
    let thresholds: Vec<Threshold> = thresholds
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let partner = |cell: &sluice_load::result::Cell| {
        let mut wanted = cell.axes.clone();
        (cell.axis("subject") == base).then(|| wanted.insert("subject".into(), new.into()))?;
        result.cells.iter().find(|cell| cell.axes == wanted)
    };
    gate::verdict(&gate::check(&result, &thresholds, None, partner))
}

#[test]
fn the_gate_closes_on_what_is_shown_only() {
    assert_eq!(
        gated("steady", "steady (again)", &["rps:-10%", "cpu:+10%"]),
        Judgement::Pass
    );
    assert_eq!(gated("steady", "swift", &["rps:-3%"]), Judgement::Pass);
    // Six cells that are all 33 % worse. Five blocks cannot show that for one of six alone; combined they can.
    assert_eq!(
        gated("swift", "steady", &["rps:-3%"]),
        Judgement::Regression
    );
    assert_eq!(
        gated("swift", "steady", &["rps:-40%"]),
        Judgement::Pass,
        "that much is allowed"
    );
    assert_eq!(gated("swift", "heavy", &["rps:-3%"]), Judgement::Regression);
    // Without a regression, the cell that fails at 1,000 clients still prevents a pass.
    assert!(matches!(
        gated("swift", "heavy", &["rps:-90%"]),
        Judgement::Unusable(_)
    ));
    assert!(matches!(
        gated("nobody", "swift", &["rps:-3%"]),
        Judgement::Unusable(_)
    ));
}

/// Checks two results whose cells have these ratios, new against base, in each block.
fn gate_of(
    cells: &[&[f64]],
    floor: Option<f64>,
    disturbed: usize,
) -> (Vec<gate::Checked>, Judgement) {
    let block = |number: usize, rate: f64| {
        let mark = sluice_load::result::Mark {
            kind: sluice_load::result::MarkKind::Disturbed,
            text: "other processes used 0.50 CPUs".into(),
        };
        sluice_load::result::Block {
            number,
            load: sluice_load::result::Load {
                window_s: 1.0,
                ended_ok: rate as u64,
                ..Default::default()
            },
            marks: (number < disturbed).then_some(mark).into_iter().collect(),
            ..Default::default()
        }
    };
    let cell = |at: usize, ratios: &[f64]| sluice_load::result::Cell {
        axes: [("test".to_string(), at.to_string())].into(),
        state: sluice_load::result::CellState::Measured,
        blocks: ratios
            .iter()
            .enumerate()
            .map(|(n, ratio)| block(n, 1e6 * ratio))
            .collect(),
        ..Default::default()
    };
    let result = |new: bool| sluice_load::result::RunResult {
        cells: cells
            .iter()
            .enumerate()
            .map(|(at, ratios)| {
                let base = vec![1.0; ratios.len()];
                cell(at, if new { ratios } else { &base })
            })
            .collect(),
        ..Default::default()
    };
    let (base, new) = (result(false), result(true));
    let partner =
        |cell: &sluice_load::result::Cell| new.cells.iter().find(|one| one.axes == cell.axes);
    let checked = gate::check(&base, &["rps:-3%".parse().unwrap()], floor, partner);
    let verdict = gate::verdict(&checked);
    (checked, verdict)
}

#[test]
fn a_gate_without_power_says_what_it_needs() {
    let same = [0.999, 1.001, 1.0, 1.002, 0.998];
    let half = [0.5, 0.51, 0.49, 0.5, 0.5];
    let needs = |verdict: Judgement, words: &str| match verdict {
        Judgement::Unusable(reason) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{other:?}"),
    };
    // Five blocks of one cell can show it; for one of three cells they cannot, so the gate does not pass.
    assert_eq!(gate_of(&[&half], None, 0).1, Judgement::Regression);
    needs(gate_of(&[&half, &same, &same], None, 0).1, "run 7 or more");
    assert_eq!(gate_of(&[&same, &same, &same], None, 0).1, Judgement::Pass);
    // As many as it asked for are enough.
    let seven = [0.5, 0.51, 0.49, 0.5, 0.5, 0.5, 0.5];
    let quiet = [1.0, 0.999, 1.001, 1.0, 1.002, 0.998, 1.0];
    assert_eq!(
        gate_of(&[&seven, &quiet, &quiet], None, 0).1,
        Judgement::Regression
    );
    // Noise far above the threshold hides a change of its size.
    needs(gate_of(&[&[0.9, 1.1, 1.0, 0.95, 1.05]], None, 0).1, "run ");
    needs(
        gate_of(&[&same], Some(1.08), 0).1,
        "differs from itself by up to 8 %",
    );
    // Disturbed blocks do not count as evidence.
    needs(gate_of(&[&half], None, 1).1, "4 undisturbed blocks");
    needs(
        gate_of(&[&half], None, 5).1,
        "0 of 5 blocks of the base are undisturbed",
    );
    assert_eq!(gate_of(&[&half], None, 0).0[0].ratio, Some(0.5));
}

#[test]
fn results_of_different_agents_are_different_experiments() {
    use sluice_load::result::LoadMachine;
    let (here, mut there) = (example::result(), example::result());
    assert_eq!(reasons(&here, &there), [""; 0]);
    for block in there.cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
        block.load.machines = vec![LoadMachine {
            name: "ssh:one".into(),
            ..LoadMachine::default()
        }];
    }
    assert_eq!(reasons(&here, &there), ["agents: `` and `ssh:one`"]);
}

#[test]
fn a_page_sums_up_what_was_served() {
    let result = example::result();
    let blocks = || result.cells.iter().flat_map(|cell| &cell.blocks);
    let ok: u64 = blocks().map(|block| block.counts().0).sum();
    let failed: u64 = blocks().map(|block| block.counts().1).sum();
    let count = |number: f64| sluice_audit::finding::count(number);
    let said = format!(
        "In all: {} successful responses and {} failures in {} blocks.",
        count(ok as f64),
        count(failed as f64),
        count(blocks().count() as f64)
    );
    assert!(ok > 0 && failed > 0);
    assert!(html::page(&result, None, false).contains(&said), "{said}");
}

#[test]
fn thresholds_say_what_worse_means() {
    let error_of = |text: &str| text.parse::<Threshold>().unwrap_err();
    assert_eq!("p99:+5%".parse::<Threshold>().unwrap().share, 0.05);
    assert_eq!(
        "rps:-3%".parse::<Threshold>().unwrap().quantity,
        Quantity::Rate
    );
    assert!(error_of("rps:+3%").contains("write a minus"));
    assert!(error_of("p99:-5%").contains("write a plus"));
    assert!(error_of("speed:+5%").contains("quantities are rps, median, p99, cpu, rss"));
    assert!(error_of("p99:5").contains("is not a threshold"));
}

#[test]
fn cells_are_explained() {
    let mut result = example::result();
    let heavy = result
        .cells
        .iter()
        .find(|cell| cell.axis("subject") == "heavy" && cell.axis("clients") == "1000")
        .unwrap();
    let id = heavy.id.clone();
    let text = explain::explain(&result, explain::find(&result, &id[..8]).unwrap());
    for words in [
        "the server's CPUs were saturated: 0.94 of 1 in use",
        "reset before the response, such as: connection reset",
        "1,000 clients in a closed loop",
        "2.0 % of the requests failed",
    ] {
        assert!(text.contains(words), "`{words}` in\n{text}");
    }
    let axes = explain::find(&result, "subject=swift, test=proxy, clients=10").unwrap();
    assert_eq!(axes.axis("subject"), "swift");
    assert!(
        explain::find(&result, "subject=swift")
            .unwrap_err()
            .starts_with("6 cells are called")
    );
    assert!(
        explain::find(&result, "zzz")
            .unwrap_err()
            .starts_with("no cells are called")
    );
    let block = &mut result.cells[0].blocks[0];
    block.load.generator.as_mut().unwrap().busiest = 0.97;
    block.marks.push(sluice_load::result::Mark {
        kind: MarkKind::GeneratorLimited,
        text: "97 % busy".into(),
    });
    assert!(explain::explain(&result, &result.cells[0]).contains("block 0: 97 % busy"));
    let cell = &mut result.cells[0];
    for block in &mut cell.blocks {
        let bytes = |per_second: f64| Some((per_second * block.load.window_s) as u64);
        let resources = block.resources.as_mut().unwrap();
        resources.subject.disk_write_bytes = bytes(5.0 * 1_048_576.0);
        resources.system.network_bytes = bytes(1_000.0);
    }
    let text = explain::explain(&result, &result.cells[0]);
    assert!(
        text.contains("the server wrote 5 MiB a second to disks"),
        "{text}"
    );
    assert!(!text.contains("network cards"), "{text}");
}
