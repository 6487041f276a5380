//! The JSON Schema that `sluice policy schema` prints.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use serde_json::Value;

fn read(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

#[test]
fn every_example_is_of_the_schema() {
    let schema = config::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        // A table of readers and the tests of a policy are files of their own.
        let name = path.to_string_lossy();
        let is_other = name.ends_with("people.toml") || name.ends_with(".test.toml");
        if is_other || path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let found: Vec<String> = (validator.iter_errors(&read(&text)))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        count += 1;
    }
    assert!(count > 2, "{count}");
    for wrong in [
        "colour = 1",
        "[app.a]\ncolour = 1",
        "[app.a.tools.t]\neffect = \"maybe\"",
        "[proxy]\napproval_timeout_s = -1",
        "[[provider]]\nname = 1",
    ] {
        assert!(!validator.is_valid(&read(wrong)), "{wrong}");
    }
}
