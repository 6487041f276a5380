//! `cargo xtask fresh --only install`: the Debian package on a machine without Rust, from its installation to its purge.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};

use crate::dist::{self, Options};
use crate::phases::Phases;

/// The version from which the package is upgraded: the same programs with a lower number.
const BEFORE: &str = "0.0.1";
/// What the scripted model says.
const ANSWER: &str = "hello from the scripted model";

/// Runs inside, as root, with the two packages in `/root` and the address of the model as its arguments: `OLD NEW URL`.
pub(super) const SCRIPT: &str = r#"
fail() { echo "fresh: $1" >&2; exit 1; }
# Without curl: a request is written to the socket.
ask() {
    bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; printf "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s" "$1" "${#2}" "$2" >&3; cat <&3' sh "$1" "${2:-}"
}
# What the unit starts, by its own lines.
serve() {
    unit=/usr/lib/systemd/system/sluice.service
    words=$(sed -n 's/^ExecStart=//p' "$unit")
    user=$(sed -n 's/^User=//p' "$unit")
    cd /var/lib/sluice
    setpriv --reuid="$user" --regid="$user" --init-groups env -i PATH="$PATH" HOME=/var/lib/sluice $words 2>/tmp/log &
    service=$!
    cd /root
    for _ in $(seq 100); do
        if ask "GET /readyz" 2>/dev/null | head -n 1 | grep -q " 200 "; then return; fi
        sleep 0.1
    done
    cat /tmp/log >&2
    fail "the service is not ready after ten seconds"
}
stop() {
    kill -TERM "$service"
    code=0
    wait "$service" || code=$?
    [ "$code" = 0 ] || { cat /tmp/log >&2; fail "the service ended with $code after SIGTERM"; }
}

export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
start=$(date +%s)
apt-get install -qq -y "$1" >/dev/null
sluice --version
man=/usr/share/man/man1/sluice.1.gz
test -f "$man" || grep -q "^path-exclude.*/man" -r /etc/dpkg || fail "there is no $man"

# The first answer, for root.
mkdir -p /root/.config/sluice
printf '[[provider]]\nname = "own"\nkind = "openai"\nmodel = "m"\nbase_url = "%s"\nclearance = "any"\n' "$3" \
    >/root/.config/sluice/sluice.toml
sluice run "Say hello" </dev/null | grep -q "ANSWER" || fail "sluice run gave no answer"
echo "fresh: from the package to the first answer: $(($(date +%s) - start)) s"

# The service, as the unit starts it.
sed -i "s,^api_key_env.*,base_url = \"$3\"," /etc/sluice/sluice.toml
serve
request='{"model":"m","messages":[{"role":"user","content":"Say hello"}]}'
ask "POST /v1/chat/completions" "$request" | grep -q "ANSWER" || fail "the service gave no answer"
stop
state=$(find /var/lib/sluice -type f | wc -l)
[ "$state" -gt 0 ] || fail "the service has kept no state"
[ -z "$(find /var/lib/sluice -type f -perm /077)" ] || fail "others may read the state"

# The upgrade keeps what the user wrote, and the state.
apt-get install -qq -y "$2" >/dev/null
sluice -V | grep -q "^sluice " || fail "there is no sluice after the upgrade"
dpkg-query -W -f '${Version}\n' sluice | grep -qv "^BEFORE$" || fail "the package was not upgraded"
grep -q "$3" /etc/sluice/sluice.toml || fail "the upgrade has replaced the configuration"
serve
ask "POST /v1/chat/completions" "$request" | grep -q "ANSWER" || fail "no answer after the upgrade"
stop

# Removed: the configuration and the state stay.
apt-get remove -qq -y sluice >/dev/null
[ ! -e /usr/bin/sluice ] && [ ! -e /usr/lib/sluice ] || fail "the program is still there"
test -f /etc/sluice/sluice.toml || fail "the removal took the configuration"
test -d /var/lib/sluice || fail "the removal took the state"
apt-get purge -qq -y sluice >/dev/null
left=$(find / -xdev -iname '*sluice*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/var/cache/apt/*')
[ -z "$left" ] || fail "the purge has left $left"
! getent passwd sluice >/dev/null || fail "the purge has left the user"
echo "fresh: installed, upgraded, removed and purged"
"#;

/// Makes both packages of these programs; of none, they are built.
pub(super) fn packages(
    bins: Option<&Path>,
    folder: &Path,
    phases: &mut Phases,
) -> Result<[PathBuf; 2]> {
    let mut package = |release: Option<&str>, name: &str| -> Result<PathBuf> {
        let options = Options {
            only: vec!["deb".to_owned()],
            bins: bins.map(Path::to_owned),
            release: release.map(str::to_owned),
            out: folder.join(name),
        };
        let made = dist::make(&options, phases)?;
        made.into_iter().next().context("no package was made")
    };
    Ok([package(Some(BEFORE), "before")?, package(None, "now")?])
}

/// The script with its words.
pub(super) fn script() -> String {
    SCRIPT.replace("ANSWER", ANSWER).replace("BEFORE", BEFORE)
}

/// Starts a model on this machine's loopback, which the new one shares, and returns its address.
pub(super) fn model() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asks notices when it fails.
            thread::spawn(move || answer(&stream));
        }
    });
    Ok(format!("http://{address}/v1"))
}

/// Answers one request: with the list of models, or with [`ANSWER`].
fn answer(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let body = match first.contains("/models") {
        true => r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#.to_owned(),
        false => format!(
            r#"{{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"finish_reason":"stop","message":{{"role":"assistant","content":"{ANSWER}"}}}}],"usage":{{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}}}"#
        ),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
