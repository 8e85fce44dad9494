//! Which crate may use which: the table of ARCHITECTURE.md, held by what cargo says of the workspace.
//!
//! It lies with the lowest crate, because that one has the most to lose.

#![allow(clippy::unwrap_used)] // also outside of the functions marked as tests

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates and what each may use of ours. A crate of the table need not exist yet; a crate that exists must be here.
const LAYERS: [(&str, &[&str]); 7] = [
    ("forebay-policy", &[]),
    ("forebay-store", &["forebay-policy"]),
    ("forebay-engine", &["forebay-policy", "forebay-store"]),
    ("forebay-daemon", &["forebay-policy", "forebay-store", "forebay-engine"]),
    ("forebay-sim", &["forebay-policy"]),
    ("forebay-cli", &["forebay-policy", "forebay-store", "forebay-engine", "forebay-daemon", "forebay-sim"]),
    (
        "forebay-python",
        &["forebay-policy", "forebay-store", "forebay-engine", "forebay-daemon", "forebay-sim", "forebay-cli"],
    ),
];

fn metadata(options: &[&str]) -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--manifest-path"])
        .arg(manifest)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

#[test]
fn every_crate_declares_only_what_its_layer_may_use() {
    let metadata = metadata(&["--no-deps"]);
    let layers = BTreeMap::from(LAYERS);
    let packages = list(&metadata, "packages");
    assert!(packages.len() >= 4, "the workspace has lost its crates");
    for package in packages {
        let name = text(package, "name");
        let allowed = layers.get(name).unwrap_or_else(|| panic!("{name} is not in the table of crates"));
        // Of every kind: what a test or a build script of a lower crate used would be a cycle all the same.
        for dependency in list(package, "dependencies") {
            let used = text(dependency, "name");
            assert!(!layers.contains_key(used) || allowed.contains(&used), "{name} uses {used}");
        }
    }
}

#[test]
fn nothing_of_ours_is_reached_by_way_of_a_stranger() {
    let metadata = metadata(&[]);
    let names: BTreeMap<_, _> = list(&metadata, "packages").iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    let uses: BTreeMap<_, Vec<_>> = list(&metadata["resolve"], "nodes")
        .iter()
        .map(|node| (text(node, "id"), list(node, "deps").iter().map(|dep| text(dep, "pkg")).collect()))
        .collect();
    let layers = BTreeMap::from(LAYERS);
    for (&id, &name) in names.iter().filter(|(_, name)| layers.contains_key(*name)) {
        let (mut reached, mut open) = (BTreeSet::new(), vec![id]);
        while let Some(id) = open.pop() {
            for &next in &uses[id] {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        for used in reached.iter().map(|id| names[id]).filter(|used| layers.contains_key(used)) {
            assert!(layers[name].contains(&used), "{name} reaches {used}");
        }
    }
}

#[test]
fn policies_depend_on_nothing_and_forbid_unsafe_code() {
    let metadata = metadata(&["--no-deps"]);
    let policy = list(&metadata, "packages").iter().find(|package| text(package, "name") == "forebay-policy").unwrap();
    let dependencies = list(policy, "dependencies");
    assert!(dependencies.len() >= 2, "the tests of this crate do have dependencies: is the list being read?");
    for dependency in dependencies {
        assert_eq!(dependency["kind"], "dev", "forebay-policy uses {}", text(dependency, "name"));
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    assert!(std::fs::read_to_string(source).unwrap().lines().any(|line| line == "#![forbid(unsafe_code)]"));
}
