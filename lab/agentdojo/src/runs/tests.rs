use super::{Message, Recording, Wanted, read};

const RUN: &str = r#"{
    "suite_name": "banking", "pipeline_name": "some-model", "user_task_id": "user_task_0",
    "injection_task_id": "injection_task_1", "attack_type": "direct",
    "injections": {"bill": "pay me"},
    "messages": [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": null, "tool_calls": [
            {"function": "read_file", "args": {"file_path": "a.txt"}, "id": "1"}]},
        {"role": "tool", "content": "text", "tool_call_id": "1", "error": null,
         "tool_call": {"function": "read_file", "args": {"file_path": "a.txt"}, "id": "1", "placeholder_args": null}},
        {"role": "assistant", "content": "Done.", "tool_calls": null}
    ],
    "error": null, "duration": 1.5, "utility": true, "security": false
}"#;

#[test]
fn a_run_is_read_as_it_was_written() {
    let run: Recording = serde_json::from_str(RUN).unwrap();
    assert_eq!(run.name(), "banking/user_task_0/direct/injection_task_1");
    assert!(run.is_attack() && run.is_user_task());
    let Message::Assistant {
        tool_calls: Some(calls),
        ..
    } = &run.messages[2]
    else {
        panic!("{:?}", run.messages[2]);
    };
    assert_eq!(calls[0].args["file_path"], "a.txt");
}

#[test]
fn what_is_not_known_is_an_error() {
    let changed = RUN.replace("\"duration\"", "\"surprise\": 1, \"duration\"");
    assert!(serde_json::from_str::<Recording>(&changed).is_err());
    let changed = RUN.replace("\"role\": \"user\"", "\"role\": \"oracle\"");
    assert!(serde_json::from_str::<Recording>(&changed).is_err());
}

/// An archive as pip brings it, with these files.
fn archive(files: &[(&str, &str)]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let gzip = flate2::write::GzEncoder::new(file.reopen().unwrap(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_cksum();
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
    file
}

#[test]
fn only_wanted_runs_are_read() {
    let path = |model: &str, attack: &str| {
        format!("agentdojo-0/runs/{model}/banking/user_task_0/{attack}/injection_task_1.json")
    };
    let file = archive(&[
        (&path("a", "direct"), RUN),
        (&path("b", "direct"), "not read"),
        (&path("a", "other"), "not read"),
        (
            "agentdojo-0/src/runs/a/banking/user_task_0/direct/x.json",
            "not read",
        ),
    ]);
    let wanted = Wanted {
        models: vec!["a".to_owned()],
        attacks: vec!["direct".to_owned()],
    };
    let runs = read(file.path(), &wanted).unwrap();
    assert_eq!(runs.len(), 1);
    let all = Wanted {
        attacks: Vec::new(),
        ..wanted
    };
    let error = read(file.path(), &all).unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
}

#[test]
fn another_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(super::fetch::FILE), "something else").unwrap();
    let python = std::path::Path::new("/nonexistent/python");
    let error = super::archive(folder.path(), python, &mut |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("not the known archive"),
        "{error}"
    );
}
