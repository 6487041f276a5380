//! An app of `sluice-case-apps` in a configuration.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use case_apps::App;

use crate::mail_app::quoted;

/// `[app.NAME]` for an app whose manifest is written into `folder` and whose state is this new folder. Without protection the
/// manifest labels nothing and limits nothing.
pub(crate) fn table(
    folder: &Path,
    (name, app): (&str, &App),
    protected: bool,
    program: &Path,
    state: &Path,
) -> Result<String> {
    let manifest = match protected {
        true => app.manifest(),
        false => app.unprotected_manifest(),
    };
    fs::write(folder.join(format!("{name}.toml")), manifest)?;
    fs::create_dir(state).with_context(|| format!("cannot make {}", state.display()))?;
    Ok(format!(
        r#"
[app.{name}]
manifest = "{name}.toml"
command = ["/app/sluice-case-apps", "{kind}"]
env = {{ STATE = "/state" }}
mount = [
  {{ source = {program}, target = "/app/sluice-case-apps", execute = true }},
  {{ source = {state}, target = "/state", write = true }},
]
"#,
        kind = app.name,
        program = quoted(program)?,
        state = quoted(state)?,
    ))
}
