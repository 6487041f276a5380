//! In the place of the attention screener in a build without the feature `attention`.

use anyhow::{Result, bail};
use config::Screener as Settings;
use screen::Defence;

pub(super) const ATTENTION: &str = "attention";
pub(super) const COMBINED: &str = "combined";

/// Says what to do instead.
pub(super) fn defence(name: &str, _: &Settings) -> Result<Defence> {
    bail!(
        "this build has no attention screener, which {name} needs; write kind = \"judge\", \"naive\" \
         or \"redact-all\" under [screener], or build with the feature `attention`"
    )
}

/// Whether the attention screener starts: it does not.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    defence(ATTENTION, settings).map(drop)
}

#[cfg(test)]
mod tests {
    use crate::screener::defence;

    #[test]
    fn who_asks_for_attention_is_told_what_to_do() {
        let config = config::Config::load_with(std::path::Path::new("x"), &|_| Ok(String::new()));
        let settings = config.unwrap().screener;
        for name in [super::ATTENTION, super::COMBINED] {
            let refused = defence(name, &settings).map(drop).unwrap_err().to_string();
            assert!(refused.contains("or build with the feature"), "{refused}");
        }
        assert!(defence("naive", &settings).is_ok());
    }
}
