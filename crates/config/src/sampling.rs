//! `[app.NAME] sampling`: the completions that an app may ask for.

use crate::app::Sampling;
use crate::config::Provider;
use crate::settings::known_provider;
use crate::toml_reader::Table;

/// Tokens of one completion: an answer of the agent itself has no more.
const MAX_TOKENS: std::ops::RangeInclusive<u64> = 1..=4_096;

/// What a summary or a classification needs.
const DEFAULT_TOKENS: u32 = 512;

/// Completions in a session. Each may take a minute of this machine.
const PER_SESSION: std::ops::RangeInclusive<u64> = 1..=1_000;

/// A few for each of a handful of calls.
const DEFAULT_PER_SESSION: u32 = 20;

/// `sampling = { provider = "…", max_tokens = …, per_session = … }`; none if it is not there.
pub(crate) fn sampling(app: &Table<'_>, providers: &[Provider]) -> Option<Sampling> {
    let table = app.table("sampling")?;
    let provider = known_provider(&table, "provider", providers);
    let whole = |value: Option<u64>, default| {
        value.map_or(default, |value| u32::try_from(value).unwrap_or(default))
    };
    let max_tokens = whole(table.integer("max_tokens", MAX_TOKENS), DEFAULT_TOKENS);
    let per_session = table.integer("per_session", PER_SESSION);
    let per_session = whole(per_session, DEFAULT_PER_SESSION);
    table.needs(
        "provider",
        "provider = \"NAME\", one with clearance = \"any\"",
    );
    table.finish();
    let provider = provider?;
    // An unknown one was reported.
    let known = providers
        .iter()
        .find(|known| known.name == provider.value)?;
    if !known.clearance.is_top() {
        let message = format!(
            "the provider '{}' may not see everything, and an app's prompt may hold everything that the app was given",
            known.name
        );
        let help =
            "name the embedded model, or write clearance = \"any\" at this provider if you mean it";
        table.context.error(&provider.span, message, help);
    }
    Some(Sampling {
        provider: provider.value,
        max_tokens,
        per_session,
    })
}
