//! The address that the user's browser opens, and the answer with which it comes back. No I/O but random numbers.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::trace::escape;
use names::{Origin, Place, WebUrl};
use remote::step::{LoginStep, Registration};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use url::form_urlencoded;

use super::client::Client;
use crate::secrets::Value;

/// Longest code: as long as a token may be.
const MAX_CODE: usize = 16 << 10;

/// An authorization request, which goes through the user's browser.
pub(crate) struct AuthorizationRequest {
    pub(crate) issuer: WebUrl,
    registration: Registration,
    pub(crate) client: Client,
    /// The endpoint for tokens.
    pub(crate) tokens: WebUrl,
    redirect: String,
    pub(crate) resource: String,
    /// Binds the answer to this request (RFC 6749 §10.12).
    pub(crate) state: String,
    /// Proves that this program asked for the code (PKCE, RFC 7636).
    verifier: String,
}

/// Whether a server could take a name of its own query for this one of ours: in capitals, encoded twice, or as `state[]`.
fn is_taken_for(name: &str, ours: &str) -> bool {
    let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    form_urlencoded::parse(name.as_bytes()).any(|(name, _)| {
        let word = name.trim().split(is_other).next();
        word.is_some_and(|word| word.eq_ignore_ascii_case(ours))
    })
}

/// 256 random bits in base64url.
fn random() -> Result<String> {
    let mut bytes = [0; 32];
    let read = getrandom(&mut bytes, GetRandomFlags::empty())?;
    match read == bytes.len() {
        true => Ok(URL_SAFE_NO_PAD.encode(bytes)),
        false => bail!("the system has too few random numbers"),
    }
}

impl AuthorizationRequest {
    /// A request to this authorization server, which sends the user back to `redirect`. It gives out the tokens itself, or
    /// by the one other host that the user has agreed to.
    pub(crate) fn new(
        issuer: &WebUrl,
        registration: Registration,
        client: Client,
        redirect: String,
        resource: String,
        agreed: Option<&Origin>,
    ) -> Result<Self> {
        let page = WebUrl::new(&registration.authorization).context("its page to log in at")?;
        let tokens = WebUrl::new(&registration.tokens).context("its endpoint for tokens")?;
        let elsewhere = elsewhere(issuer, &registration)?;
        // Metadata of one authorization server must not stand in for another's (RFC 8414 §3.3).
        if WebUrl::new(&registration.issuer).context("its name")? != *issuer {
            bail!("{issuer} claims to be another authorization server");
        }
        // The user sees the page in the browser, so another host of the same site is accepted. Codes and tokens go to the
        // origin itself or to the host that the user agreed to.
        if !page.is_same_site(issuer) || elsewhere.as_ref() != agreed {
            bail!("{issuer} names addresses that are not its own");
        }
        Ok(Self {
            issuer: issuer.clone(),
            registration,
            client,
            tokens,
            redirect,
            resource,
            state: random()?,
            verifier: random()?,
        })
    }

    pub(crate) fn page(&self, scopes: &[String]) -> Result<WebUrl> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier));
        let scopes = scopes.join(" ");
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", &self.client.name),
            ("redirect_uri", &self.redirect),
            ("state", &self.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &self.resource),
        ];
        if !scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        let page = WebUrl::new(&self.registration.authorization)?;
        // A server that takes the first of two equal names would follow the one that is not ours.
        let mut set = page.query_names();
        if set.any(|name| pairs.iter().any(|(ours, _)| is_taken_for(&name, ours))) {
            bail!(
                "the page to log in at of {} sets parameters of the request itself",
                self.issuer
            );
        }
        page.with_query(&pairs)
            .context("what it asks for is too long for an address")
    }

    /// The request for the tokens, from the query of the answer, whose state was checked.
    pub(crate) fn exchange(&self, came_back: &[(String, String)]) -> Result<LoginStep> {
        // No parameter may come twice (RFC 6749 §3.1): two readers could take different ones.
        let of = |name: &str| -> Result<Option<&str>> {
            let mut all = came_back.iter().filter(|(own, _)| own == name);
            let first = all.next().map(|(_, value)| value.as_str());
            match all.next() {
                None => Ok(first),
                Some(_) => bail!("the answer has '{name}' twice"),
            }
        };
        // A code of another authorization server must not go to this one (RFC 9207). Names are compared byte by byte.
        match of("iss")? {
            None if self.registration.says_who => bail!("the answer does not name its issuer"),
            Some(other) if other != self.registration.issuer => {
                bail!(
                    "the answer is from another authorization server than {}",
                    self.issuer
                )
            }
            None | Some(_) => {}
        }
        if let Some(error) = of("error")? {
            let error: String = error.chars().take(64).collect();
            bail!("{} refuses: {}", self.issuer, escape(&error));
        }
        let code = of("code")?.context("the answer has no code")?;
        let code = Value::new(code.to_owned())
            .ok()
            .filter(|code| code.reveal().len() <= MAX_CODE);
        let code = code.context("the answer has a code that cannot be sent")?;
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", code.reveal()),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
            ("resource", &self.resource),
        ];
        Ok(self.client.ask(&self.tokens, &pairs))
    }
}

/// The host that gives out the tokens of an authorization server, if it is another one (RFC 8414 §2). It can use the login,
/// so the user has to agree to it. A remote server may not name this machine.
pub(crate) fn elsewhere(issuer: &WebUrl, registration: &Registration) -> Result<Option<Origin>> {
    let tokens = WebUrl::new(&registration.tokens).context("its endpoint for tokens")?;
    if tokens.origin() == issuer.origin() {
        return Ok(None);
    }
    if tokens.place() == Place::ThisMachine && issuer.place() != Place::ThisMachine {
        bail!("{issuer} names a place on this machine for its tokens");
    }
    Ok(Some(tokens.origin()))
}

#[cfg(test)]
mod tests {
    use remote::step::AuthMethod;

    use super::*;

    fn registration() -> Registration {
        Registration {
            issuer: "https://login.example.org".to_owned(),
            authorization: "https://www.example.org/authorize?a=b".to_owned(),
            tokens: "https://login.example.org/token".to_owned(),
            client: "cli&ent".to_owned(),
            method: AuthMethod::None,
            secret: None,
            says_who: false,
        }
    }

    fn asked_by(registration: Registration) -> Result<AuthorizationRequest> {
        agreed_to(registration, None)
    }

    fn agreed_to(registration: Registration, agreed: Option<&str>) -> Result<AuthorizationRequest> {
        let issuer = WebUrl::new("https://login.example.org").unwrap();
        let redirect = "http://127.0.0.1:4000/callback".to_owned();
        let resource = "https://api.example.org/mcp".to_owned();
        let agreed = agreed.map(|host| Origin::new(host).unwrap());
        let client = Client::of(&registration, None)?;
        AuthorizationRequest::new(
            &issuer,
            registration,
            client,
            redirect,
            resource,
            agreed.as_ref(),
        )
    }

    fn pairs(text: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        text.iter().map(own).collect()
    }

    #[test]
    fn a_page_that_sets_parameters_of_the_request_is_refused() {
        let page = |query: &str| {
            let asked = asked_by(Registration {
                authorization: format!("https://www.example.org/authorize?{query}"),
                ..registration()
            });
            asked.unwrap().page(&["read".to_owned()])
        };
        for query in [
            "state=x",
            "a=b&Redirect_URI=https%3A%2F%2Fevil.example",
            "client%5Fid=x",
            "client%255fid=x",
            "%73tate=x",
            "state[]=x",
            "+state=x",
            "a=b;state=x",
            "response_type=token",
            "code_challenge_method=plain",
            "scope",
        ] {
            let error = page(query).map(drop).unwrap_err().to_string();
            assert!(error.contains("sets parameters"), "{query}: {error}");
        }
        page("a=b&statement=1&tenant=state").unwrap();
    }

    #[test]
    fn a_question_holds_a_challenge_and_the_form_what_answers_it() {
        let asked = asked_by(registration()).unwrap();
        let page = asked.page(&["a".to_owned(), "b".to_owned()]).unwrap();
        let page = page.as_str();
        assert!(page.starts_with(
            "https://www.example.org/authorize?a=b&response_type=code&client_id=cli%26ent&"
        ));
        for part in [
            "&redirect_uri=http%3A%2F%2F127.0.0.1%3A4000%2Fcallback&",
            "&code_challenge_method=S256&resource=https%3A%2F%2Fapi.example.org%2Fmcp&scope=a+b",
        ] {
            assert!(page.contains(part), "{page}");
        }
        assert!(!page.contains(&asked.verifier));
        let exchange = asked.exchange(&pairs(&[("code", "c"), ("state", "s")]));
        let LoginStep::Token { form, .. } = exchange.unwrap() else {
            panic!("another question");
        };
        let of = |name: &str| &form.iter().find(|(own, _)| own == name).unwrap().1;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
        assert!(page.contains(&format!("code_challenge={challenge}&")));
        assert_eq!(
            (of("code").as_str(), of("resource").as_str()),
            ("c", "https://api.example.org/mcp")
        );
        assert!(asked.verifier.len() == 43 && asked.verifier != asked.state);
    }

    #[test]
    fn an_answer_of_another_is_refused() {
        let refused = |registration: Registration, answer: &[(&str, &str)], why: &str| {
            let error = asked_by(registration)
                .unwrap()
                .exchange(&pairs(answer))
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
        };
        let ok = ("code", "c");
        asked_by(registration())
            .unwrap()
            .exchange(&pairs(&[ok, ("iss", "https://login.example.org")]))
            .unwrap();
        refused(
            registration(),
            &[ok, ("iss", "https://www.example.org")],
            "from another authorization server",
        );
        for other in [
            "x",
            "",
            "https://login.example.org/",
            "https://LOGIN.example.org",
            "https://login.example.org:443",
        ] {
            refused(registration(), &[ok, ("iss", other)], "from another");
            // Its error is not shown.
            refused(
                registration(),
                &[("error", "e"), ("iss", other)],
                "from another",
            );
        }
        let says_who = Registration {
            says_who: true,
            ..registration()
        };
        refused(says_who, &[ok], "does not name its issuer");
        refused(registration(), &[], "no code");
        refused(registration(), &[ok, ok], "twice");
        refused(registration(), &[("code", "a\nb")], "cannot be sent");
        refused(
            registration(),
            &[("error", "access_denied\u{1b}[2J"), ok],
            "refuses: access_denied\\u{1b}[2J",
        );
    }

    #[test]
    fn tokens_come_from_elsewhere_only_where_the_user_has_agreed_to_just_that() {
        let of = |tokens: &str| Registration {
            tokens: tokens.to_owned(),
            ..registration()
        };
        let issuer = WebUrl::new("https://login.example.org").unwrap();
        let host = |tokens: &str| elsewhere(&issuer, &of(tokens)).unwrap();
        assert_eq!(host("https://login.example.org/t"), None);
        let tokens = "https://tokens.example.com/t";
        let named = "https://tokens.example.com";
        assert_eq!(host(tokens).unwrap().as_str(), named);
        let asked = agreed_to(of(tokens), Some(named)).unwrap();
        assert_eq!(asked.tokens.as_str(), tokens);
        for (tokens, agreed) in [
            (tokens, None),
            (tokens, Some("https://example.com")),
            (tokens, Some("https://tokens.example.com:444")),
            (tokens, Some("https://login.example.org")),
            // Another host of the same site is another host.
            ("https://www.example.org/t", None),
            ("https://login.example.org:444/t", None),
            // The agreement was for another answer.
            ("https://login.example.org/t", Some(named)),
        ] {
            assert!(
                agreed_to(of(tokens), agreed).is_err(),
                "{tokens} {agreed:?}"
            );
        }
        // A page on another site is refused, also where the tokens may come from there.
        let both = Registration {
            authorization: "https://tokens.example.com/a".to_owned(),
            ..of(tokens)
        };
        assert!(agreed_to(both, Some(named)).is_err());
        for near in ["http://127.0.0.1:631/", "https://localhost/t"] {
            assert!(elsewhere(&issuer, &of(near)).is_err(), "{near}");
        }
        for wrong in ["http://tokens.example.com/t", "https://10.0.0.1/t", "x"] {
            assert!(elsewhere(&issuer, &of(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_of_other_sites_are_refused() {
        for (authorization, tokens) in [
            ("https://www.example.com/a", "https://login.example.org/t"),
            ("https://www.example.org/a", "https://www.example.org/t"),
            ("http://www.example.org/a", "https://login.example.org/t"),
            ("javascript:alert(1)", "https://login.example.org/t"),
            ("https://www.example.org/a", "http://127.0.0.1/t"),
        ] {
            let registration = Registration {
                authorization: authorization.to_owned(),
                tokens: tokens.to_owned(),
                ..registration()
            };
            assert!(asked_by(registration).is_err(), "{authorization} {tokens}");
        }
        let another = Registration {
            issuer: "https://www.example.org".to_owned(),
            ..registration()
        };
        assert!(asked_by(another).is_err());
    }
}
