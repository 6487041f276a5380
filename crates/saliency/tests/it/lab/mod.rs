//! Tests with the feature model that `sluice model pull smollm2-135m` fetches. They run where `SLUICE_REQUIRE_MODELS` is
//! `1`, and then fail without it.

mod gguf;
mod golden;
mod tokenizer;

use std::path::PathBuf;

/// The model's file; `None` where tests with models are not asked for.
fn model() -> Option<PathBuf> {
    if std::env::var_os("SLUICE_REQUIRE_MODELS").is_none_or(|value| value != "1") {
        eprintln!("SKIPPED: set SLUICE_REQUIRE_MODELS=1 to run tests with models");
        return None;
    }
    let model = model_files::find(model_files::SMOLLM2_135M).unwrap();
    Some(model_files::Cache::of_user().unwrap().open(model).unwrap())
}
