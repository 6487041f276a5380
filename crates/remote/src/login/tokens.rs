//! Tokens for a code, or for the right to new ones (RFC 6749 §4.1.3 and §6).

use names::WebUrl;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::ask::post;
use crate::errand::{Granted, Report};
use crate::http::Http;
use crate::trouble::Trouble;

const FORM: &str = "application/x-www-form-urlencoded";
/// Longest token: one that carries claims has a few thousand bytes.
const MAX_TOKEN: usize = 16 << 10;

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

/// A number of seconds, which some servers write as text or with a fraction of zeros. A token without one is used until it
/// is refused, so that what says nothing else is as good as none.
fn seconds<'de, D: Deserializer<'de>>(said: D) -> Result<Option<u64>, D::Error> {
    let text = match Value::deserialize(said)? {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
        _ => return Ok(None),
    };
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|digit| digit == b'0') => whole,
        _ => &*text,
    };
    Ok(whole.parse().ok())
}

/// Sends a form to the endpoint, which is of the origin that this process is for.
pub(super) async fn ask(
    http: &Http,
    endpoint: &str,
    form: &[(String, String)],
    basic: Option<&str>,
) -> Result<Report, Trouble> {
    // One of another origin is refused before the form is sent, by `Http::raw`.
    let endpoint = WebUrl::new(endpoint)?;
    let form = Serializer::new(String::new()).extend_pairs(form).finish();
    let mut headers = HeaderMap::new();
    if let Some(credentials) = basic {
        let value = HeaderValue::try_from(format!("Basic {credentials}"));
        let mut value = value.map_err(|_| Trouble::Form("the secret cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let answer: Answer = match post(http, &endpoint, (FORM, form.into_bytes()), headers).await? {
        Ok(answer) => answer,
        Err(code) => return Ok(Report::Refused(code)),
    };
    // Other kinds take a proof with each request, which this client cannot give.
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(Trouble::Form("its token is of another kind than bearer"));
    }
    let tokens = [Some(&answer.access_token), answer.refresh_token.as_ref()];
    if !tokens.into_iter().flatten().all(|token| is_token(token)) {
        return Err(Trouble::Form("its token cannot be sent"));
    }
    Ok(Report::Granted(Granted {
        access: answer.access_token,
        refresh: answer.refresh_token,
        seconds: answer.expires_in,
    }))
}

/// Whether this can stand in a header behind `Bearer`.
fn is_token(text: &str) -> bool {
    (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_however_its_time_is_written() {
        let check = |written: &str, expected: Option<u64>| {
            let text = format!(r#"{{"access_token":"t","token_type":"Bearer"{written}}}"#);
            let answer: Answer = serde_json::from_str(&text).unwrap();
            assert_eq!(answer.expires_in, expected, "{written}");
        };
        check("", None);
        for (written, expected) in [
            ("3600", Some(3600)),
            ("3600.0", Some(3600)),
            ("\"3600\"", Some(3600)),
            ("\"3600.00\"", Some(3600)),
            ("0", Some(0)),
            ("null", None),
            ("3600.5", None),
            ("-1", None),
            ("1e300", None),
            ("\"\"", None),
            ("\"an hour\"", None),
            ("\".0\"", None),
            ("[3600]", None),
            ("true", None),
        ] {
            check(&format!(r#","expires_in":{written}"#), expected);
        }
    }
}
