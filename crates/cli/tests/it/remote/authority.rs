//! An authorization server, an MCP server that takes its tokens, and a user with a browser.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

use crate::remote::server::{Reply, Request, Server, json as whole, json_with, status};
use crate::remote::stage::{SECRET, Stage, mcp};

/// The secret of every client that has one.
pub(crate) const CLIENT_SECRET: &str = "kept-by-a-client";

/// What was given out, and is good.
#[derive(Default)]
pub(crate) struct Book {
    given: usize,
    pub(crate) clients: BTreeMap<String, String>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) access: BTreeSet<String>,
    pub(crate) refresh: BTreeSet<String>,
    used: BTreeSet<String>,
    /// For how long tokens are said to be good.
    pub(crate) seconds: Option<u64>,
    /// How clients authenticate, and with which secret; without, by nothing.
    pub(crate) method: Option<&'static str>,
}

/// Both servers, over TLS, and a third where the authorization server has its tokens given out by another host.
pub(crate) struct Servers {
    pub(crate) authority: Server,
    pub(crate) mcp: Server,
    pub(crate) tokens: Option<Server>,
    pub(crate) book: Arc<Mutex<Book>>,
    certificates: String,
}

/// What a server says instead of the truth.
pub(crate) type Lie = fn(&Request) -> Option<Reply>;

/// No lie.
pub(crate) fn truth(_: &Request) -> Option<Reply> {
    None
}

impl Servers {
    pub(crate) fn honest() -> Self {
        Self::with(truth, truth)
    }

    /// The authorization server says the one first, and the MCP server the other.
    pub(crate) fn with(of_authority: Lie, of_mcp: Lie) -> Self {
        Self::start(of_authority, of_mcp, None)
    }

    /// Tokens are given out by another host, which says this first.
    pub(crate) fn apart(of_tokens: Lie) -> Self {
        Self::start(truth, truth, Some(of_tokens))
    }

    fn start(of_authority: Lie, of_mcp: Lie, of_tokens: Option<Lie>) -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let tokens = of_tokens.map(|lie| {
            let own = Arc::clone(&book);
            Server::start_tls(&["localhost"], move |request| {
                lie(request).unwrap_or_else(|| token(request, &mut own.lock().unwrap()))
            })
        });
        let (tokens, third) = tokens.unzip();
        let place = tokens
            .as_ref()
            .map(|server| format!("https://localhost:{}/token", server.port));
        let own = Arc::clone(&book);
        let (authority, first) = Server::start_tls(&["localhost"], move |request| {
            let answer = || answer(request, &mut own.lock().unwrap(), place.as_deref());
            of_authority(request).unwrap_or_else(answer)
        });
        let own = Arc::clone(&book);
        let issuer = format!("https://localhost:{}", authority.port);
        let (mcp, second) = Server::start_tls(&["localhost"], move |request| {
            of_mcp(request).unwrap_or_else(|| guarded(request, &issuer, &own))
        });
        Self {
            authority,
            mcp,
            tokens,
            book,
            certificates: first + &second + &third.unwrap_or_default(),
        }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("https://localhost:{}/", self.authority.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/mcp", self.mcp.port)
    }

    /// The configuration of an app that is the MCP server.
    pub(crate) fn configure(&self, stage: &Stage, more: &str) -> String {
        stage.write("ca.pem", &self.certificates);
        let text = format!(
            "[app.far]\nurl = \"{}\"\nca_file = \"ca.pem\"\n{more}",
            self.url()
        );
        stage.write("sluice.toml", &text)
    }

    /// Logs in as a user would. What was said last.
    pub(crate) fn log_in(&self, stage: &Stage, config: &str) -> Value {
        let mut login = self.begin(stage, config, &[]);
        let open = opened(&mut login);
        browse(&self.agree(&open));
        let (done, said, why) = Stage::ended(login);
        assert!(done, "{said}{why}");
        serde_json::from_str(said.trim()).unwrap()
    }

    /// A login that waits for its user.
    pub(crate) fn begin(&self, stage: &Stage, config: &str, more: &[&str]) -> Child {
        let issuer = self.issuer();
        let login = ["app", "login", "far", "--json", "--issuer", &issuer];
        stage.start(&[&login[..], &["--config", config], more].concat())
    }

    /// What the page does with a user who says yes: the address that it sends the browser to.
    pub(crate) fn agree(&self, page: &str) -> String {
        let page = Url::parse(page).unwrap();
        assert_eq!(page.path(), "/authorize");
        let asked: BTreeMap<String, String> = page.query_pairs().into_owned().collect();
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["resource"], self.url());
        let mut book = self.book.lock().unwrap();
        assert_eq!(book.clients[&asked["client_id"]], asked["redirect_uri"]);
        book.given += 1;
        let code = format!("{SECRET}-code-{}", book.given);
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        back.query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &asked["state"])
            .append_pair("iss", self.issuer().trim_end_matches('/'));
        book.codes.insert(code, asked);
        back.to_string()
    }

    /// Knows a client of this name, which comes back to where this page says.
    pub(crate) fn register_by_hand(&self, name: &str, page: &str) {
        let page = Url::parse(page).unwrap();
        let redirect = page.query_pairs().find(|(name, _)| name == "redirect_uri");
        let redirect = redirect.unwrap().1.into_owned();
        assert!(redirect.ends_with("/callback"), "{redirect}");
        let mut book = self.book.lock().unwrap();
        book.clients.insert(name.to_owned(), redirect);
    }

    /// Takes back every token that the MCP server would take.
    pub(crate) fn expire(&self) {
        self.book.lock().unwrap().access.clear();
    }

    /// How often tokens were asked for.
    pub(crate) fn asked_for_tokens(&self) -> usize {
        let servers = std::iter::once(&self.authority).chain(&self.tokens);
        let requests = servers.flat_map(Server::requests);
        requests.filter(|it| it.path == "/token").count()
    }

    /// Where tokens are given out, if not by the authorization server.
    pub(crate) fn tokens_at(&self) -> String {
        format!("https://localhost:{}", self.tokens.as_ref().unwrap().port)
    }
}

/// The address that a login asks to be opened.
pub(crate) fn opened(login: &mut Child) -> String {
    let mut line = Vec::new();
    let stdout = login.stdout.as_mut().unwrap();
    // Byte by byte: what comes after it is read by others.
    let mut byte = [0];
    while !line.ends_with(b"\n") && stdout.read(&mut byte).unwrap() == 1 {
        line.extend(byte);
    }
    let said: Value = serde_json::from_slice(&line).unwrap_or_else(|_| {
        let mut why = String::new();
        let mut stderr = login.stderr.take().unwrap();
        stderr.read_to_string(&mut why).unwrap();
        panic!("nothing is to be opened: {why}")
    });
    said["open"].as_str().unwrap().to_owned()
}

/// What a browser does with an address on this machine: the status of the answer.
pub(crate) fn browse(address: &str) -> u16 {
    let address = Url::parse(address).unwrap();
    let host = format!("127.0.0.1:{}", address.port().unwrap());
    let mut stream = TcpStream::connect(&host).unwrap();
    let target = format!("{}?{}", address.path(), address.query().unwrap());
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).unwrap();
    first.split(' ').nth(1).unwrap().parse().unwrap()
}

/// What the authorization server answers. Its tokens may be in another place.
fn answer(request: &Request, book: &mut Book, tokens: Option<&str>) -> Reply {
    let own = format!("https://{}", request.header("host"));
    match (&*request.method, &*request.path) {
        ("GET", "/.well-known/oauth-authorization-server") => {
            let mut metadata = metadata(&own);
            if let Some(method) = book.method {
                metadata["token_endpoint_auth_methods_supported"] = json!([method]);
            }
            if let Some(place) = tokens {
                metadata["token_endpoint"] = place.into();
            }
            whole(metadata.to_string())
        }
        ("POST", "/register") => {
            let client: Value = serde_json::from_str(&request.body).unwrap();
            assert_eq!(
                client["token_endpoint_auth_method"],
                book.method.unwrap_or("none")
            );
            book.given += 1;
            let name = format!("client-{}", book.given);
            let redirect = client["redirect_uris"][0].as_str().unwrap().to_owned();
            book.clients.insert(name.clone(), redirect);
            let mut registered = json!({ "client_id": name });
            if let Some(method) = book.method {
                registered["token_endpoint_auth_method"] = method.into();
                registered["client_secret"] = CLIENT_SECRET.into();
            }
            json_with(201, &[], registered.to_string())
        }
        ("POST", "/token") if tokens.is_none() => token(request, book),
        _ => status(404),
    }
}

/// What is answered where tokens are given out.
fn token(request: &Request, book: &mut Book) -> Reply {
    let form = form_urlencoded::parse(request.body.as_bytes()).into_owned();
    let mut form: BTreeMap<String, String> = form.collect();
    if !authenticates(request, &mut form, book.method) {
        return json_with(401, &[], r#"{"error":"invalid_client"}"#.to_owned());
    }
    match tokens(&form, book) {
        Some(tokens) => whole(tokens.to_string()),
        None => json_with(400, &[], r#"{"error":"invalid_grant"}"#.to_owned()),
    }
}

pub(crate) fn metadata(own: &str) -> Value {
    json!({
        "issuer": own,
        "authorization_endpoint": format!("{own}/authorize"),
        "token_endpoint": format!("{own}/token"),
        "registration_endpoint": format!("{own}/register"),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Whether a client shows its secret in the one way that there is. Its name is then in the form.
fn authenticates(
    request: &Request,
    form: &mut BTreeMap<String, String>,
    method: Option<&str>,
) -> bool {
    let header = request.header("authorization").strip_prefix("Basic ");
    let in_form = form.remove("client_secret");
    match method {
        Some("client_secret_basic") => {
            let credentials = header.and_then(|text| STANDARD.decode(text).ok());
            let credentials = String::from_utf8(credentials.unwrap_or_default()).unwrap();
            let Some((name, secret)) = credentials.split_once(':') else {
                return false;
            };
            let before = form.insert("client_id".to_owned(), name.to_owned());
            before.is_none() && in_form.is_none() && secret == CLIENT_SECRET
        }
        Some(_) => header.is_none() && in_form.as_deref() == Some(CLIENT_SECRET),
        None => header.is_none() && in_form.is_none(),
    }
}

/// Tokens for what proves to be who asked. Each code and each refresh token is good once, and one that comes twice ends all.
fn tokens(form: &BTreeMap<String, String>, book: &mut Book) -> Option<Value> {
    let resource = form.get("resource")?;
    match form.get("grant_type")?.as_str() {
        "authorization_code" => {
            let asked = book.codes.remove(form.get("code")?)?;
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form.get("code_verifier")?));
            let same = asked["code_challenge"] == challenge
                && asked["client_id"] == *form.get("client_id")?
                && asked["redirect_uri"] == *form.get("redirect_uri")?
                && asked["resource"] == *resource;
            same.then_some(())?;
        }
        "refresh_token" => {
            let token = form.get("refresh_token")?;
            if !book.refresh.remove(token) {
                if book.used.contains(token) {
                    book.refresh.clear();
                    book.access.clear();
                }
                return None;
            }
            book.used.insert(token.clone());
        }
        _ => return None,
    }
    book.given += 1;
    let access = format!("{SECRET}-access-{}", book.given);
    let refresh = format!("{SECRET}-refresh-{}", book.given);
    book.access.insert(access.clone());
    book.refresh.insert(refresh.clone());
    let mut tokens =
        json!({ "access_token": access, "token_type": "Bearer", "refresh_token": refresh });
    if let Some(seconds) = book.seconds {
        tokens["expires_in"] = seconds.into();
    }
    Some(tokens)
}

/// An MCP server that takes these tokens.
fn guarded(request: &Request, issuer: &str, book: &Mutex<Book>) -> Reply {
    let own = format!("https://{}", request.header("host"));
    let metadata = format!("{own}/.well-known/oauth-protected-resource/mcp");
    let token = request.header("authorization").strip_prefix("Bearer ");
    let is_good = token.is_some_and(|token| book.lock().unwrap().access.contains(token));
    match () {
        () if own.clone() + &request.path == metadata => whole(
            json!({ "resource": format!("{own}/mcp"), "authorization_servers": [issuer], "scopes_supported": ["read"] })
                .to_string(),
        ),
        () if !is_good => json_with(
            401,
            &[("WWW-Authenticate", &format!("Bearer resource_metadata=\"{metadata}\""))],
            String::new(),
        ),
        () if request.asks("tools/call") => whole(request.result(&format!(
            r#"{{"content":[{{"type":"text","text":"found by {}"}}]}}"#,
            request.header("authorization")
        ))),
        () => mcp(request),
    }
}
