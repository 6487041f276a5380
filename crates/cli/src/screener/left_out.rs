//! In place of the attention screener in a build without the feature `attention`.

use anyhow::{Result, bail};
use config::Screener as Settings;
use screen::Defence;

/// An error that says what to do.
pub(super) fn defence(_: &Settings) -> Result<Defence> {
    bail!(
        "this build has no attention screener; write kind = \"judge\", \"naive\" or \"redact-all\" under [screener], \
         or build with the feature `attention`"
    )
}

/// Whether the attention screener starts: it does not.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    defence(settings).map(drop)
}

#[cfg(test)]
mod tests {
    use config::ScreenerKind;

    use crate::screener::defence;

    #[test]
    fn without_the_attention_screener_the_error_says_what_to_do() {
        let config = config::Config::load_with(std::path::Path::new("x"), &|_| Ok(String::new()));
        let mut settings = config.unwrap().screener;
        for kind in [ScreenerKind::Attention, ScreenerKind::Combined] {
            settings.kind = kind;
            let refused = defence(&settings).map(drop).unwrap_err().to_string();
            assert!(refused.contains("or build with the feature"), "{refused}");
        }
        settings.kind = ScreenerKind::Naive;
        assert!(defence(&settings).is_ok());
    }
}
