//! The file that an answer is written into, and the one whose apps it is about.

use std::fs;

use serde_json::json;

use super::{RUN, Stage};
use crate::terminal::at_terminal;

/// The provider of the user's own file.
const OWN: &str = "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"own-model\"\nbase_url = \"MODEL\"\n";

impl Stage {
    /// The app `notes` of another file, `./sluice.toml`, which names no model.
    fn in_project(own: &str) -> Self {
        let stage = Self::new(own);
        let server = stage.home.path("home/server");
        let server = server.display();
        let project = format!(
            "[lattice]\nconfidentiality = \"apps\"\n[app.notes]\ncommand = [\"{server}\"]\n\
             [app.notes.tools.read_note]\neffect = \"read\"\nlimit = \"any\"\nparameters = []\n"
        );
        fs::write(stage.home.path("home/sluice.toml"), project).unwrap();
        stage
    }
}

#[test]
fn always_clears_no_app_of_another_file() {
    let lattice = "[lattice]\nconfidentiality = \"apps\"\n";
    let stage = Stage::in_project(&format!("{lattice}{OWN}clearance = [\"secret:diary\"]\n\n"));
    let before = stage.config();
    let (code, shown) = stage.typed(&RUN, &[], &["trust", "always", "yes"]);
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    assert!(shown.contains("Type one of these words."), "{shown}");
    assert_eq!(stage.config(), before);
    // Both files are named, and what to write in which.
    let (_, question) = shown.split_once("To answer").unwrap();
    for file in ["config/sluice/sluice.toml", "home/sluice.toml"] {
        let file = stage.home.path(file);
        assert!(question.contains(&*file.to_string_lossy()), "{shown}");
    }
    assert!(question.contains("yes or no [no]"), "{shown}");
    let (code, _, said) = stage.run(&RUN, &[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("clearance = [\"secret:notes\"]"), "{said}");
}

#[test]
fn always_names_the_file_that_it_changes() {
    let stage = Stage::new(&format!("{OWN}\n"));
    let (_, shown) = stage.typed(&RUN, &[], &["no"]);
    let (_, question) = shown.split_once("To answer").unwrap();
    let (question, _) = question.split_once("yes, always or no").unwrap();
    let file = stage.home.path("config/sluice/sluice.toml");
    assert!(question.contains(&*file.to_string_lossy()), "{shown}");
}

#[test]
fn always_keeps_what_was_written_meanwhile() {
    let lattice = "[lattice]\nconfidentiality = \"apps\"\n";
    let stage = Stage::new(&format!("{lattice}{OWN}\n"));
    let command = stage.command(&RUN, &[]);
    let (code, shown) = at_terminal(&command, &["always"], |shown| {
        let line = "model = \"own-model\"\n";
        let config = stage.config();
        if shown.contains("yes, always or no") && !config.contains("clearance") {
            let cleared = format!("{line}clearance = [\"secret:diary\"]\n");
            stage.home.configure(&config.replace(line, &cleared));
        }
    });
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    let written = "clearance = [\"secret:diary\", \"secret:notes\"]";
    assert!(stage.config().contains(written), "{}", stage.config());
}

#[test]
fn apps_of_another_file_cannot_be_cleared_by_name() {
    let stage = Stage::new("");
    let servers = json!({"mcpServers": {"notes": {"command": stage.home.path("home/server")}}});
    fs::write(stage.home.path("home/mcp.json"), servers.to_string()).unwrap();
    let before = stage.config();
    let run = ["run", "--config", "mcp.json", "--app", "notes", "Hello"];
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (_, shown) = stage.typed(&run, &set, &["notes", "no"]);
    assert!(shown.contains("? yes or no [no]: "), "{shown}");
    assert_eq!(stage.config(), before);
    let file = stage.home.path("config/sluice/sluice.toml");
    assert!(shown.contains(&*file.to_string_lossy()), "{shown}");
}

#[test]
fn the_trust_page_names_the_model_that_answers() {
    let stage = Stage::in_project(OWN);
    let (_, shown) = stage.typed(&["trust"], &[], &["no"]);
    let line = "the model of your own configuration";
    assert!(shown.contains(line) && !shown.contains("qwen"), "{shown}");
}

/// Text that looks like a provider is none.
#[test]
fn an_answer_is_written_into_its_provider_alone() {
    let decoy = "[app.decoy]\ncommand = [\"/bin/true\"]\ndescription = \"\"\"\n[[provider]]\nname = 'own'\n\"\"\"\n";
    let inline = OWN.replace("[[provider]]\n", "").replace('\n', ", ");
    let other = "# Another.\n[[provider]]\nkind = \"openai\"\nmodel = \"m\"\nname = \"other\"\n";
    let by_app = "[lattice]\nconfidentiality = \"apps\"\n";
    let own = &["secret"][..];
    for (config, expected) in [
        (format!("{decoy}{OWN}\n"), own),
        (format!("provider = [{{ {inline} images = false }}]\n"), own),
        (format!("{OWN}\n{other}\n"), own),
        (
            format!(
                "{by_app}{OWN}clearance = [ # of the user's own\n  'secret:diary',\n] # all\n\n"
            ),
            &["secret:diary", "secret:notes"],
        ),
    ] {
        let stage = Stage::new(&config);
        let before: toml::Table = stage.config().parse().unwrap();
        let (code, shown) = stage.typed(&RUN, &[], &["always"]);
        assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
        let mut after = before.clone();
        if before["provider"][0].get("images").is_none() {
            let own = after["provider"][0].as_table_mut().unwrap();
            own.insert("clearance".to_owned(), expected.to_vec().into());
            stage.answers(&[]);
        } else {
            // There is no line of its own to write.
            let line = "of name = \"own\": clearance = [\"secret\"]";
            assert!(
                shown.contains("not written") && shown.contains(line),
                "{shown}"
            );
        }
        assert_eq!(stage.config().parse::<toml::Table>().unwrap(), after);
    }
}
