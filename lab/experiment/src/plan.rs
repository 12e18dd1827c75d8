//! The cells of an experiment on this machine, and the order of their blocks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::adapter::Tool;
use super::cell_filter::Only;
use super::file::{File, Order, Rate, Talk, Test};
use sluice_load::generator::probe::sha256;
use sluice_load::process::{Names, fill};
use sluice_load::random::Random;

/// One combination of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPlan {
    /// Identifies the cell, and changes with its definition.
    pub id: String,
    /// Its value on every axis.
    pub axes: BTreeMap<String, String>,
    /// The server under test.
    pub subject: String,
    /// The test.
    pub test: String,
    /// The configuration; empty if there is only one.
    pub config: String,
    /// Concurrent connections.
    pub clients: usize,
    /// The number of workers of the server, if that is an axis.
    pub workers: Option<usize>,
    /// The load generator, if it is not the lab's own. The machine of the servers need not know it.
    #[serde(skip)]
    pub engine: Option<Tool>,
    /// Why it is not measured.
    pub skipped: Option<String>,
}

/// A block of a cell, in the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the cell.
    pub cell: usize,
    /// The repetition.
    pub block: usize,
}

/// All cells, in the order of the file. `clients_max` is the machine's limit for proxies, which need two open files per
/// client; a server that responds itself can have twice as many.
pub fn cells(file: &File, only: &Only, clients_max: usize) -> Vec<CellPlan> {
    let tests: Vec<&String> = match file.matrix.test.is_empty() {
        true => file.test.keys().collect(),
        false => file.matrix.test.iter().collect(),
    };
    let none = [String::new()];
    let all = file.matrix.workers.iter().copied().map(Some);
    let workers: Vec<Option<usize>> = match file.matrix.workers.is_empty() {
        true => vec![None],
        false => all.collect(),
    };
    let configs: &[String] = match file.matrix.config.is_empty() {
        true => &none,
        false => &file.matrix.config,
    };
    let engines: &[String] = match file.matrix.engine.is_empty() {
        true => &none,
        false => &file.matrix.engine,
    };
    // They were validated when the file was parsed.
    let named = file.matrix.cells.iter();
    let named: Vec<Only> = named.filter_map(|one| Only::parse(one).ok()).collect();
    let mut cells = Vec::new();
    for test in tests {
        let most = match file.test[test].needs.is_empty() {
            true => clients_max.saturating_mul(2),
            false => clients_max,
        };
        let clients = file.test[test].clients.as_ref();
        for clients in clients.unwrap_or(&file.matrix.clients) {
            for config in configs {
                let takes_part = |subject: &&String| takes_part(file, subject, test, config);
                for subject in file.subject.keys().filter(takes_part) {
                    let both = |engine| workers.iter().map(move |workers| (engine, *workers));
                    for (engine, workers) in engines.iter().flat_map(both) {
                        let place = [subject, test, config, engine];
                        let cell = cell(file, place, (*clients, most), workers);
                        if only.takes(&cell.axes)
                            && among(&named, &cell.axes)
                            && among(&file.wanted, &cell.axes)
                            && !is_left_out(file, &cell.axes)
                        {
                            cells.push(cell);
                        }
                    }
                }
            }
        }
    }
    cells
}

fn cell(
    file: &File,
    [subject, test, config, engine]: [&String; 4],
    (clients, most): (usize, usize),
    workers: Option<usize>,
) -> CellPlan {
    let mut axes = BTreeMap::from([
        ("subject".to_string(), subject.clone()),
        ("test".to_string(), test.clone()),
        ("clients".to_string(), clients.to_string()),
    ]);
    if !config.is_empty() {
        axes.insert("config".to_string(), config.clone());
    }
    if !engine.is_empty() {
        axes.insert("engine".to_string(), engine.clone());
    }
    if let Some(workers) = workers {
        axes.insert("workers".to_string(), workers.to_string());
    }
    if let Some(share) = file.test[test].rate(&file.load).and_then(Rate::share) {
        axes.insert("rate".to_string(), share);
    }
    // The ID covers everything that defines the cell, so a changed file is measured anew.
    let mut definition = format!(
        "{axes:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        file.load,
        file.test.get(test),
        file.subject.get(subject),
        file.backend,
        file.check,
        file.corpus
    );
    // Blocks of different machines are never mixed. Without agents the ID is what it was before there were any.
    if !file.place.agents.is_empty() || file.place.address.is_some() {
        definition += &format!(" {:?} {:?}", file.place.agents, file.place.address);
    }
    if let Some(servers) = &file.place.servers {
        definition += &format!(" {servers:?}");
    }
    if let Some(upstreams) = &file.place.upstreams {
        let address = &file.place.upstream_address;
        definition += &format!(" upstreams {upstreams:?} {address:?}");
    }
    let tool = Tool::of_name(engine).ok();
    let skipped = (clients > most).then(|| {
        format!("{clients} clients need more open files than one process may have here (enough for {most})")
    });
    let skipped = skipped.or_else(|| not_by_agents(file, &file.test[test], clients, tool));
    let skipped = skipped.or_else(|| not_elsewhere(file, [subject, test, config]));
    CellPlan {
        id: sha256(definition.as_bytes())[..12].to_string(),
        axes,
        subject: subject.clone(),
        test: test.clone(),
        config: config.clone(),
        clients,
        workers,
        // Names were validated when the file was parsed.
        engine: tool,
        skipped,
    }
}

/// The cell whose limit is to be known for the rate of this one, if that rate is a share of a limit. It is the same cell with the
/// lab's own generator, of the subject that the rate names. The error says why there is none.
pub fn limiting(file: &File, cell: &CellPlan) -> Option<Result<CellPlan, String>> {
    let rate = file.test.get(&cell.test)?.rate(&file.load)?;
    let Rate::OfLimit { subject, .. } = rate else {
        return None;
    };
    let subject = subject.as_ref().unwrap_or(&cell.subject);
    Some(match takes_part(file, subject, &cell.test, &cell.config) {
        true => {
            let place = [subject, &cell.test, &cell.config, &String::new()];
            Ok(self::cell(
                file,
                place,
                (cell.clients, usize::MAX),
                cell.workers,
            ))
        }
        false => Err(format!(
            "its rate is a share of the limit of `{subject}`, which does not take part in this test and configuration"
        )),
    })
}

/// Why the agents of the experiment, if it has any, cannot generate the load of a cell.
fn not_by_agents(file: &File, test: &Test, clients: usize, tool: Option<Tool>) -> Option<String> {
    let agents = file.place.agents.len();
    if agents == 0 {
        return None;
    }
    if tool.is_some() {
        return Some("agents run only the lab's own load generator".into());
    }
    if test.talk != Talk::Requests {
        return Some("agents do not support WebSocket or events".into());
    }
    if test.idle.unwrap_or(file.load.idle) + file.load.slow_readers > 0 {
        return Some("agents do not support idle connections or slow readers".into());
    }
    if file.load.warmup.requests().is_some() {
        return Some("agents warm up for a time, not for a number of requests".into());
    }
    (clients < agents)
        .then(|| format!("{clients} clients cannot be divided between {agents} agents"))
}

/// Why the upstreams of a cell cannot run on a machine of their own, if the experiment has one.
fn not_elsewhere(file: &File, [subject, test, config]: [&String; 3]) -> Option<String> {
    file.place.upstreams.as_ref()?;
    let part = &file.test[test];
    let names = Names::from([
        ("subject".into(), plain(subject)),
        ("test".into(), test.clone()),
        ("config".into(), config.clone()),
        ("kind".into(), part.kind.as_ref().unwrap_or(test).clone()),
    ]);
    let needs = part.needs.iter().filter_map(|name| fill(name, &names).ok());
    let needs: Vec<String> = needs.collect();
    let mut sockets = file.backend.iter().filter(|backend| backend.unix);
    let socket = sockets.find(|backend| needs.contains(&backend.name))?;
    Some(socket_elsewhere(&socket.name))
}

/// The refusal of an upstream that servers on another machine do not reach.
pub(crate) fn socket_elsewhere(name: &str) -> String {
    format!(
        "upstream `{name}` listens on a unix socket, which servers on another machine do not reach: give it a port (remove \
         `unix`), or run these cells without --upstreams"
    )
}

/// The name of a subject in names of files and upstreams: without the ` (again)` of one that is measured twice, which has
/// the same configuration, and without anything that command lines and configurations would have to quote.
pub(crate) fn plain(subject: &str) -> String {
    let name = subject.strip_suffix(" (again)").unwrap_or(subject);
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    name.chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect()
}

/// Whether a server takes part in this test with this configuration.
fn takes_part(file: &File, subject: &str, test: &String, config: &String) -> bool {
    let subject = &file.subject[subject];
    let among = |list: &Vec<String>, one: &String| list.is_empty() || list.contains(one);
    among(&subject.tests, test) && among(&subject.configs, config)
}

/// Whether one of the conditions takes a cell; without any, all are taken.
fn among(conditions: &[Only], axes: &BTreeMap<String, String>) -> bool {
    conditions.is_empty() || conditions.iter().any(|one| one.takes(axes))
}

fn is_left_out(file: &File, axes: &BTreeMap<String, String>) -> bool {
    file.matrix.skip.iter().any(|skip| {
        let mut given = skip.iter();
        !skip.is_empty() && given.all(|(axis, value)| axes.get(axis) == Some(value))
    })
}

/// The order of all blocks. Cells that differ only in the server are neighbours, so that they form pairs in time.
pub fn order(cells: &[CellPlan], blocks: usize, order: Order, seed: u64) -> Vec<Step> {
    let mut chance = Random::new(seed);
    let mut groups: Vec<(BTreeMap<String, String>, Vec<usize>)> = Vec::new();
    for (at, cell) in cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.skipped.is_none())
    {
        let mut rest = cell.axes.clone();
        rest.remove("subject");
        match groups.iter_mut().find(|(axes, _)| *axes == rest) {
            Some((_, members)) => members.push(at),
            None => groups.push((rest, vec![at])),
        }
    }
    let mut steps = Vec::new();
    for block in 0..blocks {
        let mut round: Vec<Vec<usize>> = groups.iter().map(|(_, cells)| cells.clone()).collect();
        match order {
            Order::Fixed => {}
            Order::Abba if block % 2 == 0 => {}
            Order::Abba => {
                round.reverse();
                round.iter_mut().for_each(|cells| cells.reverse());
            }
            Order::Random => {
                chance.shuffle(&mut round);
                round.iter_mut().for_each(|cells| chance.shuffle(cells));
            }
        }
        steps.extend(round.into_iter().flatten().map(|cell| Step { cell, block }));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::agent::AgentSpec;
    use super::super::{builtin::builtin, file};
    use super::*;

    fn file() -> File {
        file::parse("000", builtin("000").unwrap()).unwrap()
    }

    #[test]
    fn the_matrix_excludes_the_listed_cells() {
        let all = cells(&file(), &Only::default(), 9_900);
        // 4 subjects x 5 tests x 5 levels x 2 configurations, without the second of three subjects.
        assert_eq!(all.len(), 5 * 5 * (4 * 2 - 3));
        let skipped = all.iter().filter(|cell| cell.skipped.is_some());
        // A proxy needs two files per client.
        let proxied = |cell: &CellPlan| cell.clients == 10_000 && cell.test.starts_with("proxy");
        assert!(skipped.clone().all(proxied) && skipped.count() == 10);
        let mut ids: Vec<&String> = all.iter().map(|cell| &cell.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }

    #[test]
    fn conditions_choose_cells() {
        let only = Only::parse("subject=sl*,nginx; clients<=200; test=proxy").unwrap();
        let chosen = cells(&file(), &only, 9_900);
        assert_eq!(chosen.len(), 2 * 3);
        assert!(
            chosen
                .iter()
                .all(|cell| cell.test == "proxy" && cell.clients <= 200)
        );
        assert!(Only::parse("nginx").is_err() && Only::parse("clients<=many").is_err());
    }

    #[test]
    fn other_load_generators_are_an_axis() {
        let mut file = file();
        let alone = cells(&file, &Only::default(), 9_900);
        file.matrix.engine = vec!["native".into(), "wrk".into()];
        let both = cells(&file, &Only::default(), 9_900);
        assert_eq!(both.len(), 2 * alone.len());
        let of = |engine| {
            both.iter()
                .filter(move |cell| cell.engine == engine)
                .count()
        };
        assert_eq!((of(None), of(Some(Tool::Wrk))), (alone.len(), alone.len()));
        assert!(both[1].axes["engine"] == "wrk" && !alone[0].axes.contains_key("engine"));
    }

    #[test]
    fn upstreams_elsewhere_define_a_cell_and_need_a_port() {
        let mut file = file::parse("001", builtin("001").unwrap()).unwrap();
        let here = cells(&file, &Only::default(), 9_900);
        file.place.upstreams = Some(AgentSpec::Local);
        let there = cells(&file, &Only::default(), 9_900);
        let same = here.iter().zip(&there);
        assert!(same.clone().all(|(here, there)| here.id != there.id));
        let refused = same.filter(|(here, there)| here.skipped != there.skipped);
        let refused: Vec<&CellPlan> = refused.map(|(_, there)| there).collect();
        let sockets = there.iter().filter(|cell| cell.test == "fcgi-unix");
        assert_eq!(refused.len(), sockets.count());
        for cell in refused {
            let reason = cell.skipped.as_deref().unwrap();
            assert_eq!(cell.test, "fcgi-unix");
            assert!(
                reason.contains("upstream `fcgi-unix` listens on a unix socket"),
                "{reason}"
            );
        }
        // Names that contain the subject are those of its own upstreams.
        let mut file = file::parse("002", builtin("002").unwrap()).unwrap();
        file.place.upstreams = Some(AgentSpec::Local);
        let all = cells(&file, &Only::default(), 9_900);
        let skipped = all.iter().filter(|cell| cell.skipped.is_some());
        assert!(skipped.clone().count() > 0);
        assert!(
            skipped
                .clone()
                .all(|cell| cell.test == "esgi" && cell.config == "proxied")
        );
    }

    #[test]
    fn the_number_of_workers_is_an_axis() {
        let mut file = file();
        let alone = cells(&file, &Only::default(), 9_900);
        file.matrix.workers = vec![1, 2, 4];
        let all = cells(&file, &Only::default(), 9_900);
        assert_eq!(all.len(), 3 * alone.len());
        let four = cells(&file, &Only::parse("workers=4").unwrap(), 9_900);
        assert_eq!(four.len(), alone.len());
        assert!(four.iter().all(|cell| cell.workers == Some(4)));
        assert!(alone[0].workers.is_none() && !alone[0].axes.contains_key("workers"));
        assert_ne!(all[0].id, all[1].id);
    }

    #[test]
    fn a_mistyped_axis_is_reported() {
        let cell = CellPlan {
            id: String::new(),
            axes: [("subject".to_string(), "a".to_string())].into(),
            subject: "a".into(),
            test: "t".into(),
            config: String::new(),
            clients: 1,
            workers: None,
            engine: None,
            skipped: None,
        };
        let unknown = |text: &str| Only::parse(text).unwrap().unknown_axis(&[&cell.axes]);
        assert_eq!(unknown("subject=a"), None);
        let text = "this experiment has no axis `subjct`; it has subject";
        assert_eq!(unknown("subject=a; subjct=b").as_deref(), Some(text));
    }

    #[test]
    fn every_block_has_every_cell_once_and_subjects_side_by_side() {
        let all = cells(&file(), &Only::default(), 9_900);
        let measured = all.iter().filter(|cell| cell.skipped.is_none()).count();
        for way in [Order::Random, Order::Abba, Order::Fixed] {
            let steps = order(&all, 3, way, 7);
            assert_eq!(steps.len(), measured * 3);
            for block in steps.chunks(measured) {
                assert!(block.iter().all(|step| step.block == block[0].block));
                let mut seen: Vec<usize> = block.iter().map(|step| step.cell).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), measured);
            }
            let key = |step: &Step| {
                (
                    all[step.cell].test.clone(),
                    all[step.cell].clients,
                    all[step.cell].config.clone(),
                )
            };
            let changes = steps
                .windows(2)
                .filter(|pair| key(&pair[0]) != key(&pair[1]))
                .count();
            // 3 tests x 5 levels and two proxied ones at 4, x 2 configurations, three times; where ABBA reverses, neighbours
            // are equal.
            let turns = if way == Order::Abba { 2 } else { 0 };
            assert_eq!(changes, (3 * 5 + 2 * 4) * 2 * 3 - 1 - turns, "{way:?}");
        }
        assert_eq!(
            order(&all, 2, Order::Random, 7),
            order(&all, 2, Order::Random, 7)
        );
        assert_ne!(
            order(&all, 2, Order::Random, 7),
            order(&all, 2, Order::Random, 8)
        );
    }
}
