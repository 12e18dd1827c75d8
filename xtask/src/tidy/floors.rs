//! Rules for packages: their location, names and dependencies.

use super::{Breach, Source};

/// The floors from the bottom up, each with its packages from left to right.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "ground",
        &[
            "diag", "message", "model", "wire", "route", "policy", "template",
        ],
    ),
    ("config", &["caddyfile", "nginx"]),
    (
        "engine",
        &[
            "net", "upstream", "dns", "store", "certs", "cache", "python", "quic",
        ],
    ),
    (
        "server",
        &[
            "observe", "pipeline", "tls", "handlers", "proxy", "nginx", "serve", "admin",
        ],
    ),
    ("lab", &["load", "audit", "experiment", "report"]),
    ("bin", &["sluice", "sluice-lab"]),
];

/// A package's place: floor and position on it, both from 0.
type Place = (usize, usize);

/// All breaches of packages.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
    {
        let Some(place) = place_of_folder(source.folder()) else {
            if source.folder().split('/').count() == 2 {
                let message =
                    "a package that CONTRIBUTING.md does not list; it needs a decision record";
                breaches.push(Breach::new(&source.path, 0, "floors", message));
            }
            continue;
        };
        breaches.extend(check_manifest(source, place));
        if FLOORS[place.0].0 == "ground" {
            breaches.extend(check_ground(source.folder(), sources));
        }
    }
    breaches
}

fn check_manifest(source: &Source, place: Place) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut section = "";
    for (number, line) in source.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if section == "[package]" && key == "name" {
            let name = line.split('"').nth(1).unwrap_or_default();
            let expected = package_name(place);
            if name != expected {
                let message = format!("package `{name}` in this folder is called `{expected}`");
                breaches.push(Breach::new(&source.path, number, "floors", message));
            }
        }
        if !section.contains("dependencies") {
            continue;
        }
        if let Some(other) = place_of_package(key)
            && !may_depend(place, other)
        {
            let message = format!(
                "{}/ may not depend on `{key}`: only on lower floors, and on its own to its left",
                source.folder()
            );
            breaches.push(Breach::new(&source.path, number, "floors", message));
        }
    }
    breaches
}

fn check_ground(folder: &str, sources: &[Source]) -> Option<Breach> {
    let path = format!("{folder}/src/lib.rs");
    let library = sources.iter().find(|source| source.path == path)?;
    let pure = library.text.lines().any(|line| line.trim() == "#![no_std]");
    let message = "a package of the ground floor is `#![no_std]`";
    (!pure).then(|| Breach::new(&path, 1, "floors", message))
}

fn may_depend(from: Place, on: Place) -> bool {
    let (below, left) = (on.0 < from.0, on.0 == from.0 && on.1 < from.1);
    match FLOORS[from.0] {
        // The lab starts servers as separate programs: it links nothing of them but `ground`, and they nothing of it
        // (docs/decisions/0010-lab.md).
        ("lab", _) => left || on.0 == 0,
        ("bin", packages) if packages[from.1] == "sluice-lab" => is_lab(on) || on.0 == 0,
        _ => (below || left) && !is_lab(on),
    }
}

fn is_lab(place: Place) -> bool {
    FLOORS[place.0].0 == "lab"
}

fn place_of_folder(folder: &str) -> Option<Place> {
    let (floor, package) = folder.split_once('/')?;
    let level = FLOORS.iter().position(|(name, _)| *name == floor)?;
    let at = FLOORS[level].1.iter().position(|name| *name == package)?;
    Some((level, at))
}

fn place_of_package(name: &str) -> Option<Place> {
    FLOORS
        .iter()
        .enumerate()
        .find_map(|(level, (_, packages))| {
            let at = (0..packages.len()).find(|at| package_name((level, *at)) == name)?;
            Some((level, at))
        })
}

fn package_name(place: Place) -> String {
    match (FLOORS[place.0].0, FLOORS[place.0].1[place.1]) {
        ("bin", program) => program.into(),
        // `config/nginx` has the short name.
        ("server", "nginx") => "sluice-server-nginx".into(),
        (_, package) => format!("sluice-{package}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, manifest: &str) -> Vec<String> {
        let sources = [Source::new(path, manifest)];
        check(&sources)
            .into_iter()
            .map(|breach| breach.message)
            .collect()
    }

    #[test]
    fn dependencies_go_down_and_left() {
        let manifest = |name: &str, on: &str| {
            format!("[package]\nname = \"{name}\"\n[dependencies]\n{on}.workspace = true\n")
        };
        for (folder, name, on, allowed) in [
            ("ground/wire", "sluice-wire", "sluice-message", true),
            ("ground/message", "sluice-message", "sluice-wire", false),
            ("ground/policy", "sluice-policy", "sluice-net", false),
            ("engine/net", "sluice-net", "sluice-policy", true),
            ("engine/net", "sluice-net", "sluice-certs", false),
            ("engine/net", "sluice-net", "sluice-upstream", false),
            ("engine/upstream", "sluice-upstream", "sluice-net", true),
            ("server/serve", "sluice-serve", "sluice-admin", false),
            ("bin/sluice", "sluice", "sluice-serve", true),
            ("bin/sluice", "sluice", "sluice-load", false),
            ("server/serve", "sluice-serve", "sluice-load", false),
            ("lab/load", "sluice-load", "sluice-message", true),
            ("lab/load", "sluice-load", "sluice-net", false),
            ("lab/load", "sluice-load", "sluice-audit", false),
            ("lab/report", "sluice-report", "sluice-audit", true),
            ("bin/sluice-lab", "sluice-lab", "sluice-serve", false),
            ("bin/sluice-lab", "sluice-lab", "sluice-report", true),
            ("bin/sluice-lab", "sluice-lab", "sluice-message", true),
            ("engine/net", "sluice-net", "sluice-net-of-others", true),
        ] {
            let found = messages(&format!("{folder}/Cargo.toml"), &manifest(name, on));
            assert_eq!(found.is_empty(), allowed, "{folder} on {on}: {found:?}");
        }
    }

    #[test]
    fn packages_are_called_after_their_folder() {
        let manifest = "[package]\nname = \"wire\"\n";
        assert_eq!(messages("ground/wire/Cargo.toml", manifest).len(), 1);
        assert_eq!(
            messages("ground/extra/Cargo.toml", "").len(),
            1,
            "it is not listed"
        );
        assert!(messages("Cargo.toml", "[workspace]").is_empty());
        assert!(messages("xtask/Cargo.toml", "[package]\nname = \"xtask\"").is_empty());
    }

    #[test]
    fn ground_packages_are_no_std() {
        let manifest = Source::new(
            "ground/wire/Cargo.toml",
            "[package]\nname = \"sluice-wire\"",
        );
        let library = |text: &str| Source::new("ground/wire/src/lib.rs", text);
        assert_eq!(check(&[manifest.clone(), library("//! A.\n")]).len(), 1);
        assert!(check(&[manifest, library("//! A.\n#![no_std]\n")]).is_empty());
    }
}
