//! What the way through the hub costs beside a direct connection, by the same program, in one run.

use std::io::{Read, Write};

use crate::stage::{NAME, Reach, Stage, host, needs};

/// Connects so many times and takes the median time to the first byte, then takes so many bytes and says how fast.
const CLIENT: &str = "\
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
at = socket.gethostbyname(host); buffer = bytearray(1 << 20)
def first():
    begun = time.perf_counter(); s = socket.create_connection((at, port)); s.sendall(b'1\\n'); s.recv(1)
    return time.perf_counter() - begun
times = sorted(first() for _ in range(200))
def whole():
    s = socket.create_connection((at, port)); s.sendall(b'%d\\n' % BYTES); begun = time.perf_counter(); got = 0
    while got < BYTES: got += s.recv_into(buffer)
    return BYTES / (time.perf_counter() - begun)
BYTES = 100 * 1000 * 1000
print(times[100] * 1e6, sorted(whole() for _ in range(7))[3] / 1e6)
";

fn figures(said: &str) -> (f64, f64) {
    let mut words = said.split_whitespace().map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; run by name with --release"]
async fn a_hundred_megabytes_and_the_first_byte() {
    needs("/usr/bin/python3");
    let address = host(|stream| {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let count: usize = String::from_utf8_lossy(&line).trim().parse().unwrap();
        let piece = vec![7; 1 << 20];
        let mut left = count;
        while left > 0 {
            let now = left.min(piece.len());
            stream.write_all(&piece[..now])?;
            left -= now;
        }
        Ok(())
    });
    let mut stage = Stage::new(Reach {
        ports: vec![7777],
        ..Reach::default()
    })
    .await;
    stage.names.say(NAME, &[address]);
    stage.file("client.py", CLIENT);
    let direct = std::process::Command::new("/usr/bin/python3")
        .arg(stage.folder.path().join("client.py"))
        .args(["127.0.0.1", &address.port().to_string()])
        .output()
        .unwrap();
    let direct = figures(&String::from_utf8_lossy(&direct.stdout));
    let through = stage
        .run("python3 /data/client.py api.example.org 7777")
        .await;
    let through = figures(&through);
    writeln!(
        std::io::stdout(),
        "first byte: direct {:.0} us, through the hub {:.0} us; 100 MB: direct {:.0} MB/s, through the hub {:.0} MB/s, {:.2} of it",
        direct.0,
        through.0,
        direct.1,
        through.1,
        through.1 / direct.1
    )
    .unwrap();
    assert!(
        through.0 < direct.0 + 1000.0,
        "the first byte takes more than a millisecond longer"
    );
}
