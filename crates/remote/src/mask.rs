//! Masking the secrets that a server sends back.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

/// Shorter ones are words that may be anywhere, such as `Bearer`.
const MIN_SECRET: usize = 8;
/// Most tokens of a login that are remembered. They are renewed again and again, and the oldest have expired.
const MOST: usize = 64;
/// Replaces a secret that a server sends back.
const MASK: &str = "[secret]";

/// The secrets that a server was sent. Copies share them.
///
/// Each is masked where it comes back: a server that quotes a token in an error would put it into the trace.
/// It is no protection against a server that means to pass a secret on, which can encode it in another way.
#[derive(Clone, Default)]
pub(crate) struct Mask(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Of headers, which are sent as long as the program runs.
    headers: Vec<String>,
    /// Of a login, newest last.
    tokens: VecDeque<Vec<String>>,
}

impl Mask {
    /// Knows the secret in a header's value from now on: in `Bearer TOKEN` it is the second word, in `Basic CREDENTIALS`
    /// the password as well.
    pub(crate) fn add(&self, value: &str) {
        let mut words: Vec<String> = value.split(' ').map(str::to_owned).collect();
        if let Some((scheme, credentials)) = value.split_once(' ')
            && scheme.eq_ignore_ascii_case("basic")
            && let Ok(pair) = STANDARD.decode(credentials)
            && let Ok(pair) = String::from_utf8(pair)
            && let Some((_, password)) = pair.split_once(':')
        {
            words.push(password.to_owned());
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let forms = words.iter().flat_map(|word| forms(word));
        known.headers.extend(forms);
    }

    pub(crate) fn add_token(&self, token: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.tokens.len() >= MOST {
            known.tokens.pop_front();
        }
        known.tokens.push_back(forms(token));
    }

    /// The text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = known.headers.iter().chain(known.tokens.iter().flatten());
        let mut masked = text.to_owned();
        for secret in secrets {
            if masked.contains(secret.as_str()) {
                masked = masked.replace(secret.as_str(), MASK);
            }
        }
        masked
    }

    /// The JSON without secrets in its texts and names. It is as deep as what is read as JSON, which is bounded.
    pub(crate) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let masked = |(name, value): (String, Value)| (self.text(&name), self.value(value));
                members.into_iter().map(masked).collect()
            }
            other => other,
        }
    }
}

/// A secret as it is sent, in an address, and in JSON in a text, whose writers escape the `/` and `+` that tokens have.
fn forms(secret: &str) -> Vec<String> {
    if secret.len() < MIN_SECRET {
        return Vec::new();
    }
    let escaped = |by: &dyn Fn(char) -> String| {
        let letters = secret.chars().map(|letter| match letter {
            '/' | '+' | '=' | '"' | '\\' => by(letter),
            other => other.to_string(),
        });
        letters.collect::<String>()
    };
    let lower = |letter| format!("\\u{:04x}", u32::from(letter));
    let upper = |letter| format!("\\u{:04X}", u32::from(letter));
    vec![
        secret.to_owned(),
        secret.replace('/', "\\/"),
        escaped(&lower),
        escaped(&upper),
        escaped(&|letter| format!("%{:02x}", u32::from(letter))),
        byte_serialize(secret.as_bytes()).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_its_usual_forms() {
        let mask = Mask::default();
        mask.add("Bearer ab/cd+ef==");
        // `user:open sesame`
        mask.add("Basic dXNlcjpvcGVuIHNlc2FtZQ==");
        mask.clone().add_token("token-of-mine");
        let check = |text: &str, expected: &str| assert_eq!(mask.text(text), expected, "{text}");
        check("the bearer of nothing", "the bearer of nothing");
        check("token-of-mine, token-of-mine!", "[secret], [secret]!");
        check("'open sesame'", "'[secret]'");
        for written in [
            "ab/cd+ef==",
            // In JSON in a text, by writers in PHP, .NET and Go.
            r"ab\/cd+ef==",
            r"ab\u002Fcd\u002Bef\u003D\u003D",
            r"ab\u002fcd\u002bef\u003d\u003d",
            "ab%2Fcd%2Bef%3D%3D",
            "ab%2fcd%2bef%3d%3d",
        ] {
            check(
                &format!(r#"{{"error":"{written}"}}"#),
                r#"{"error":"[secret]"}"#,
            );
        }
        let message = serde_json::json!({"a": ["x token-of-mine"], "token-of-mine": 1});
        let expected = serde_json::json!({"a": ["x [secret]"], "[secret]": 1});
        assert_eq!(mask.value(message), expected);
    }

    #[test]
    fn tokens_come_and_go_and_a_header_stays() {
        let mask = Mask::default();
        mask.add("key-in-a-header");
        for number in 0..=MOST {
            mask.add_token(&format!("token-{number:02}-of-many"));
        }
        let newest = format!("key-in-a-header token-{MOST:02}-of-many token-00-of-many");
        assert_eq!(mask.text(&newest), "[secret] [secret] token-00-of-many");
    }
}
