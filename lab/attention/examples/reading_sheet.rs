//! Writes what the readers of the hand-labelled sample are given: `part-1.md` to `part-4.md`. They were runs of a
//! language model (`data/hand/README.md`).
//!
//! `cargo run -p attention --example reading_sheet -- ARCHIVE FOLDER [--draw]`; with `--draw` it
//! draws the sample anew and writes `lab/attention/data/hand/sample.jsonl` first. The archive is
//! AgentDojo's source distribution with the recorded runs.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use agentdojo::replay::{MAIN_ATTACK, MODELS};
use agentdojo::runs::{self, Wanted};
use anyhow::{Context, bail};
use attention::data::{self, PARTS, Sampled, Step};

const USE: &str = "use: reading_sheet ARCHIVE FOLDER [--draw]";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (archive, folder, anew) = match arguments.as_slice() {
        [archive, folder] => (archive, folder, false),
        [archive, folder, draw] if draw == "--draw" => (archive, folder, true),
        _ => bail!(USE),
    };
    let wanted = Wanted {
        models: MODELS.map(str::to_owned).to_vec(),
        attacks: vec!["none".to_owned(), MAIN_ATTACK.to_owned()],
    };
    let steps = data::steps(&runs::read(Path::new(archive), &wanted, &mut |_| {})?)?;
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/hand/sample.jsonl");
    if anew {
        let lines: Result<Vec<String>, _> = data::draw(&steps)
            .iter()
            .map(serde_json::to_string)
            .collect();
        fs::write(&file, lines?.join("\n") + "\n")?;
    }
    let text =
        fs::read_to_string(&file).with_context(|| format!("{}; add --draw", file.display()))?;
    let sample: Result<Vec<Sampled>, _> = text.lines().map(serde_json::from_str).collect();
    let sample = sample?;
    let by_id: HashMap<&str, &Step> = steps.iter().map(|step| (step.id.as_str(), step)).collect();
    fs::create_dir_all(folder)?;
    for part in 1..=PARTS {
        let mut written = String::new();
        for sampled in sample.iter().filter(|it| it.part(sample.len()) == part) {
            let step = by_id.get(sampled.step.as_str());
            let step = step.with_context(|| format!("the archive has no step {}", sampled.step))?;
            written += &data::sheet(step, sampled);
            written += "\n---\n\n";
        }
        fs::write(Path::new(folder).join(format!("part-{part}.md")), written)?;
    }
    Ok(())
}
