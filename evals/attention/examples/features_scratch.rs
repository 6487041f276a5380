use std::collections::BTreeSet;
use std::path::PathBuf;
fn main() -> anyhow::Result<()> {
    let home = PathBuf::from(std::env::var("HOME")?);
    let cache = home.join(".cache/sluice");
    let wanted = agentdojo::runs::Wanted {
        models: agentdojo::replay::MODELS.map(str::to_owned).to_vec(),
        attacks: vec!["none".into(), agentdojo::replay::MAIN_ATTACK.into()],
    };
    let all = agentdojo::runs::read(&cache.join("agentdojo-0.1.29.tar.gz"), &wanted, &mut |_| {})?;
    let begun = std::time::Instant::now();
    let steps = attention::data::steps(&all)?;
    let steps: Vec<_> = steps.into_iter().filter(|s| s.kind() == attention::data::Kind::Call).collect();
    let pairs: usize = steps.iter().map(|s| s.regions()).sum();
    eprintln!("{} call steps, {pairs} pairs, {:?}", steps.len(), begun.elapsed());
    let first: BTreeSet<String> = std::fs::read_to_string("evals/attention/data/hand/sample.jsonl")?
        .lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["step"].as_str().unwrap_or_default().to_owned()).collect();
    eprintln!("{} first", first.len());
    let extractor = attention::extract::Extractor::open(&cache.join("models/smollm2-135m-instruct-q4_1.gguf"))?;
    let begun = std::time::Instant::now();
    let done = attention::extract::extract(&extractor, &steps, &|_| BTreeSet::new(), &first, &PathBuf::from("/tmp/ex/examples"), &mut |at, of| {
        if at % 20 == 0 { eprintln!("{at} of {of} {:?}", begun.elapsed()); }
        true
    })?;
    eprintln!("{done:?} {:?}", begun.elapsed());
    Ok(())
}
