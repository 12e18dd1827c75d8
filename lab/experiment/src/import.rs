//! Output of other programs as a result of the lab, so that it can be reported, compared and exported. Nothing is added:
//! what a program did not print is listed as not measured.

use sluice_audit::evidence::{Row, Sheet};
use sluice_audit::read::{Format, Hints, read};
use sluice_load::generator::probe::sha256;
use sluice_load::machine;
use sluice_load::result::{Asked, Block, Cell, CellState, Engine, Load, Mode, RunResult, SCHEMA};

use crate::adapter::{Tool, load_of, not_measured};

/// An output and what it is about.
#[derive(Clone, Debug)]
pub struct Source {
    /// The subject in the result.
    pub name: String,
    /// The output.
    pub text: String,
}

/// A result with a cell for each row. Rows of the same place, such as several outputs of one command in a file, are blocks
/// of one cell. The error names the source.
pub fn import(
    sources: &[Source],
    format: Option<Format>,
    hints: &Hints,
) -> Result<RunResult, String> {
    let mut cells: Vec<Cell> = Vec::new();
    for source in sources {
        let failed = |error: String| format!("{}: {error}", source.name);
        let sheet = read(&source.text, format, hints).map_err(failed)?;
        for row in &sheet.rows {
            let load = load(&sheet, row, source).map_err(failed)?;
            add(&mut cells, source, row, load);
        }
    }
    Ok(RunResult {
        schema: SCHEMA.into(),
        name: "import".into(),
        title: "Figures of other programs".into(),
        command: std::env::args().collect(),
        machine: machine::look(),
        cells,
        notes: vec![
            "These figures were imported. The machine is the one of the import; where and when they were measured is not known."
                .into(),
        ],
        ..RunResult::default()
    })
}

fn load(sheet: &Sheet, row: &Row, source: &Source) -> Result<Load, String> {
    let seconds = row.seconds.ok_or_else(|| {
        format!(
            "`{}` does not say how long it measured: --seconds",
            row.name
        )
    })?;
    let responses = row.responses.or(row.rate.map(|rate| rate * seconds));
    let row = Row {
        responses,
        ..row.clone()
    };
    let engine = Engine {
        name: sheet.tool.clone(),
        version: None,
        not_measured: match Tool::of_name(&sheet.tool) {
            Ok(tool) => not_measured(tool, &row),
            Err(_) => vec!["connections".into(), "generator".into(), "series".into()],
        },
        raw: Some(source.text.clone()),
    };
    let asked = Asked {
        url: row.name.clone(),
        connections: row.clients.unwrap_or(0.0) as usize,
        depth: 1,
        mode: match row.offered {
            Some(rate) => Mode::Open {
                rate,
                poisson: false,
            },
            None => Mode::Closed,
        },
        duration_s: seconds,
        verify: "what the program checks, usually the status".into(),
        ..Asked::default()
    };
    Ok(load_of(engine, asked, &row))
}

fn add(cells: &mut Vec<Cell>, source: &Source, row: &Row, load: Load) {
    let mut axes = row.dims.clone();
    axes.insert("subject".into(), source.name.clone());
    axes.entry("test".into())
        .or_insert_with(|| row.name.clone());
    let clients = || {
        row.clients
            .map_or(String::new(), |clients| format!("{clients:.0}"))
    };
    axes.entry("clients".into()).or_insert_with(clients);
    if let Some(rate) = row.offered {
        axes.insert("rate".into(), format!("{rate:.0}"));
    }
    let at = cells.iter().position(|cell| cell.axes == axes);
    let at = at.unwrap_or_else(|| {
        cells.push(Cell {
            id: sha256(format!("{axes:?}").as_bytes())[..12].into(),
            axes,
            state: CellState::Measured,
            ..Cell::default()
        });
        cells.len() - 1
    });
    let number = cells[at].blocks.len();
    cells[at].blocks.push(Block {
        number,
        position: number,
        load,
        ..Block::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 10s test @ http://127.0.0.1:8080/\n  2 threads and 50 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.19ms    1.48ms  12.29ms   85.32%\n    Req/Sec    21.00k     1.00k   22.00k    65.00%\n  420000 requests in 10.00s, 100.00MB read\n  Non-2xx or 3xx responses: 4200\nRequests/sec:  42000.00\nTransfer/sec:     10.00MB\n";

    fn source(name: &str, text: &str) -> Source {
        Source {
            name: name.into(),
            text: text.into(),
        }
    }

    #[test]
    fn outputs_of_a_tool_are_cells_with_what_it_measured() {
        let twice = format!("{WRK}{WRK}");
        let sources = [source("nginx", &twice), source("caddy", WRK)];
        let result = import(&sources, None, &Hints::default()).unwrap();
        let blocks: Vec<_> = result
            .cells
            .iter()
            .map(|cell| {
                (
                    cell.axis("subject"),
                    cell.axis("clients"),
                    cell.blocks.len(),
                )
            })
            .collect();
        assert_eq!(blocks, [("nginx", "50", 2), ("caddy", "50", 1)]);
        let load = &result.cells[0].blocks[0].load;
        assert_eq!(
            (load.ok, load.failed(), load.window_s),
            (415_800, 4_200, 10.0)
        );
        assert_eq!(load.engine.name, "wrk");
        let mixed = |field: &String| field.contains("failures are included");
        assert!(load.engine.not_measured.iter().any(mixed));
    }

    #[test]
    fn tables_need_their_window() {
        let table = "| test | requests/s | avg (ms) |\n| --- | --- | --- |\n| a | 1000 | 5 |\n";
        let import = |hints: &Hints| import(&[source("page", table)], None, hints);
        let error = import(&Hints::default()).unwrap_err();
        assert!(
            error.starts_with("page: `a` does not say how long"),
            "{error}"
        );
        let hints = Hints {
            seconds: Some(30.0),
            clients: Some(5.0),
            bytes: None,
        };
        let result = import(&hints).unwrap();
        let load = &result.cells[0].blocks[0].load;
        assert_eq!((load.ok, load.asked.connections), (30_000, 5));
    }
}
