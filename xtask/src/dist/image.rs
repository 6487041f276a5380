//! The image, as an archive of an OCI layout: one layer with the programs, their libraries and certificates, and no shell.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::release::{Release, architecture, gzip, put, run_quietly, write};
use crate::output;

/// The user of the image, which no machine has.
const USER: &str = "65532";
/// Certificates of authorities, as Debian has them.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Files that programs look for.
const FILES: [(&str, &str); 3] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/:/sbin/nologin\nsluice:x:65532:65532:Sluice:/var/lib/sluice:/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nsluice:x:65532:\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    ),
];
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Makes the archive.
pub(super) fn oci(release: &Release) -> Result<PathBuf> {
    let architecture = architecture()?;
    let layout = release.out.join("work/oci");
    let blobs = Blobs(layout.join("blobs/sha256"));
    fs::create_dir_all(&blobs.0)?;
    let layer = release.out.join("work/layer.tar");
    archive(release, &tree(release)?, &layer)?;
    let diff = sha256(&layer)?;
    let layer = blobs.keep(&gzip(&layer)?, LAYER)?;
    let created = format!("@{}", release.epoch);
    let created = output("date", &["-u", "-d", &created, "+%Y-%m-%dT%H:%M:%SZ"])?;
    let config = json!({
        "created": created, "architecture": architecture, "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"8080/tcp": {}},
            "Env": ["PATH=/usr/bin", "HOME=/var/lib/sluice", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Entrypoint": ["/usr/bin/sluice"],
            "Cmd": ["serve", "--config", "/etc/sluice/sluice.toml"],
            "Volumes": {"/var/lib/sluice": {}},
            "WorkingDir": "/var/lib/sluice",
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.version": release.version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let config = blobs.write(&config, CONFIG)?;
    let manifest =
        json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let mut manifest = blobs.write(&manifest, MANIFEST)?;
    if let Some(manifest) = manifest.as_object_mut() {
        let name = format!("sluice:{}", release.version);
        let named = json!({"org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": name});
        manifest.insert("annotations".to_owned(), named);
        manifest.insert(
            "platform".to_owned(),
            json!({"architecture": architecture, "os": "linux"}),
        );
    }
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    write(&layout.join("index.json"), &index.to_string())?;
    write(
        &layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let name = format!("sluice-{}-{}.oci.tar", release.version, env::consts::ARCH);
    let file = release.out.join(name);
    let mut tar = release.tar(&file, &layout);
    run_quietly(tar.args(["oci-layout", "index.json", "blobs"]))?;
    Ok(file)
}

/// The files of the image.
pub(super) fn tree(release: &Release) -> Result<PathBuf> {
    let root = release.out.join("work/image");
    for part in ["usr/lib/sluice", "usr/bin", "usr/share/sluice"] {
        let from = release
            .usr
            .join(part.strip_prefix("usr/").unwrap_or_default());
        fs::create_dir_all(root.join(part))?;
        run_quietly(Command::new("cp").arg("-aT").arg(from).arg(root.join(part)))?;
    }
    let programs = fs::read_dir(root.join("usr/lib/sluice"))?;
    for program in programs {
        for library in libraries(&program?.path())? {
            put(
                Path::new(&library),
                &root.join(library.trim_start_matches('/')),
                0o755,
            )?;
        }
    }
    put(
        &Path::new("/").join(CERTIFICATES),
        &root.join(CERTIFICATES),
        0o644,
    )
    .context("install ca-certificates")?;
    for (name, text) in FILES {
        write(&root.join(name), text)?;
    }
    let config = release.root.join("dist/container/image.toml");
    put(&config, &root.join("etc/sluice/sluice.toml"), 0o644)?;
    for folder in ["dev", "proc", "run", "sys", "tmp", "var/lib/sluice"] {
        fs::create_dir_all(root.join(folder))?;
    }
    Ok(root)
}

/// The libraries of a program, and the loader, by their paths.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let text = output("ldd", &[&program.to_string_lossy()])?;
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(str::to_owned).collect())
}

/// Two folders are not root's alone.
fn archive(release: &Release, root: &Path, file: &Path) -> Result<()> {
    let mut tar = release.tar(file, root);
    tar.args(["--exclude=./tmp", "--exclude=./var/lib/sluice"]);
    run_quietly(tar.arg("."))?;
    for (folder, owner, mode) in [("./tmp", "0", "1777"), ("./var/lib/sluice", USER, "0700")] {
        let mut tar = release.tar_of(owner, file, root);
        tar.args(["--append", "--no-recursion"]);
        run_quietly(tar.arg(format!("--mode={mode}")).arg(folder))?;
    }
    Ok(())
}

/// Files that are named by their hash.
struct Blobs(PathBuf);

impl Blobs {
    /// Moves a file here, and returns its descriptor.
    fn keep(&self, file: &Path, kind: &str) -> Result<Value> {
        let (digest, size) = (sha256(file)?, fs::metadata(file)?.len());
        fs::rename(file, self.0.join(&digest))?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size}))
    }

    fn write(&self, value: &Value, kind: &str) -> Result<Value> {
        let file = self.0.join("new");
        write(&file, &value.to_string())?;
        self.keep(&file, kind)
    }
}

fn sha256(file: &Path) -> Result<String> {
    let text = output("sha256sum", &[&file.to_string_lossy()])?;
    let sum = text.split_whitespace().next();
    Ok(sum.context("sha256sum said nothing")?.to_owned())
}
