//! What is compiled into the programs, as CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::output;

/// The package with the programs.
const PRODUCT: &str = "sluice";

/// The version of the workspace.
pub(super) fn version(root: &Path) -> Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let package = manifest
        .get("workspace")
        .and_then(|it| it.get("package")?.get("version"));
    let version = package.and_then(toml::Value::as_str);
    Ok(version.context("Cargo.toml has no version")?.to_owned())
}

/// The document: each crate that is linked or that builds one, with its licence and the hash of its archive.
pub(super) fn document(root: &Path, version: &str) -> Result<String> {
    let manifest = root.join("Cargo.toml");
    let arguments = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--manifest-path",
    ];
    let host = output("rustc", &["--print", "host-tuple"])?;
    let path = manifest.to_string_lossy();
    let arguments = arguments
        .into_iter()
        .chain([&*path, "--filter-platform", &host]);
    let metadata = output("cargo", &arguments.collect::<Vec<_>>())?;
    // References name our crates without the folder of this machine.
    let metadata = metadata.replace(&*root.to_string_lossy(), "");
    let metadata: Value = serde_json::from_str(&metadata)?;
    let hashes = hashes(&fs::read_to_string(root.join("Cargo.lock"))?)?;
    let packages = by_id(metadata.pointer("/packages"));
    let nodes = by_id(metadata.pointer("/resolve/nodes"));
    let product = packages
        .values()
        .find(|package| text(package, "name") == PRODUCT)
        .context("no package has the programs")?;
    let used = reachable(&nodes, text(product, "id"));
    let components = used.iter().filter_map(|id| packages.get(id));
    let components = components.filter(|package| text(package, "name") != PRODUCT);
    let components: Vec<Value> = components
        .map(|package| component(package, &hashes))
        .collect();
    let reference = |id: &&str| json!({"ref": id, "dependsOn": needs(&nodes, id)});
    let document = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": text(product, "id"), "name": PRODUCT, "version": version,
            "licenses": [{"expression": text(product, "license")}],
        }},
        "components": components,
        "dependencies": used.iter().map(reference).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(package: &Value, hashes: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    // An old form of a choice is no SPDX expression.
    let licence = text(package, "license").replace('/', " OR ");
    let licences = (!licence.is_empty()).then(|| json!([{"expression": licence}]));
    let hash = hashes.get(&(name.to_owned(), version.to_owned()));
    let hash = hash.map(|hash| json!([{"alg": "SHA-256", "content": hash}]));
    let mut component = json!({
        "type": "library", "bom-ref": text(package, "id"), "name": name, "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
    });
    for (field, value) in [("licenses", licences), ("hashes", hash)] {
        if let (Some(component), Some(value)) = (component.as_object_mut(), value) {
            component.insert(field.to_owned(), value);
        }
    }
    component
}

/// The hashes of `Cargo.lock` by name and version. Our own crates have none.
fn hashes(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let hash = |package: &toml::Value| {
        let field = |name: &str| package.get(name)?.as_str().map(str::to_owned);
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    Ok(packages.into_iter().flatten().filter_map(hash).collect())
}

fn by_id(list: Option<&Value>) -> BTreeMap<&str, &Value> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|entry| (text(entry, "id"), entry)).collect()
}

/// What a package needs to be built or to run, but not for its tests.
fn needs<'a>(nodes: &BTreeMap<&str, &'a Value>, id: &str) -> Vec<&'a str> {
    let deps = nodes.get(id).and_then(|node| node.get("deps")?.as_array());
    let counts = |dep: &&Value| {
        let kinds = dep.get("dep_kinds").and_then(Value::as_array);
        kinds
            .into_iter()
            .flatten()
            .any(|kind| text(kind, "kind") != "dev")
    };
    let deps = deps.into_iter().flatten().filter(counts);
    deps.map(|dep| text(dep, "pkg")).collect()
}

fn reachable<'a>(nodes: &BTreeMap<&str, &'a Value>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(id) = next.pop() {
        if seen.insert(id) {
            next.extend(needs(nodes, id));
        }
    }
    seen
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let value = value.get(name).and_then(Value::as_str);
    value.unwrap_or_default()
}
