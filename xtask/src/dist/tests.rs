//! The files of a release, made of programs that stand in for ours, and what is written by hand in `dist`.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use super::release::{OLDEST_GLIBC, PROGRAMS, newest_glibc};
use super::*;
use crate::own_folder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// A command's output, which has to succeed.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.unwrap().status.success()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join("dist").join(name)).unwrap()
}

/// A release of `/bin/true` under the names of our programs.
fn release(folder: &Path, only: &[&str]) -> Vec<PathBuf> {
    let bins = folder.join("bins");
    fs::create_dir_all(&bins).unwrap();
    for name in PROGRAMS {
        fs::copy("/bin/true", bins.join(name)).unwrap();
    }
    let options = Options {
        only: only.iter().map(|part| (*part).to_owned()).collect(),
        bins: Some(bins),
        release: Some("9.8.7".to_owned()),
        out: folder.join("out"),
    };
    make(&options, &mut Phases::default()).unwrap()
}

#[test]
fn the_package_has_programs_units_and_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let made = release(folder.path(), &["deb"]);
    let control = said(Command::new("dpkg-deb").arg("--field").arg(&made[0]));
    assert!(control.contains("Version: 9.8.7\n"), "{control}");
    assert!(control.contains("Depends: libc6 (>= 2."), "{control}");
    let files = said(Command::new("dpkg-deb").arg("--contents").arg(&made[0]));
    for (mode, file) in [
        ("-rwxr-xr-x root/root", "./usr/lib/sluice/sluice-spoke\n"),
        (
            "lrwxrwxrwx root/root",
            "./usr/bin/sluice -> ../lib/sluice/sluice\n",
        ),
        (
            "-rw-r--r-- root/root",
            "./usr/lib/systemd/system/sluice.service\n",
        ),
        (
            "-rw-r--r-- root/root",
            "./usr/lib/systemd/user/sluice.service\n",
        ),
        ("-rw-r--r-- root/root", "./etc/sluice/sluice.toml\n"),
        ("-rw-r--r-- root/root", "./usr/share/sluice/seccomp.json\n"),
        (
            "-rw-r--r-- root/root",
            "./usr/share/doc/sluice/sbom.cdx.json\n",
        ),
    ] {
        let line = files
            .lines()
            .find(|line| format!("{line}\n").ends_with(file));
        let line = line.unwrap_or_else(|| panic!("{file} is not in\n{files}"));
        assert!(line.starts_with(mode), "{line}");
    }
    let scripts = folder.path().join("scripts");
    said(
        Command::new("dpkg-deb")
            .arg("--control")
            .args([&made[0], &scripts]),
    );
    for script in ["postinst", "prerm", "postrm"] {
        said(Command::new("sh").arg("-n").arg(scripts.join(script)));
    }
}

#[test]
fn the_image_has_no_shell_and_a_user_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let made = release(folder.path(), &["oci"]);
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    said(
        Command::new("tar")
            .arg("-xf")
            .arg(&made[0])
            .arg("-C")
            .arg(&layout),
    );
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let file = layout.join("blobs").join(digest.replace(':', "/"));
        // Each file is what its name says.
        let sum = said(Command::new("sha256sum").arg(&file));
        assert!(digest.ends_with(sum.split(' ').next().unwrap()));
        assert_eq!(descriptor["size"], fs::metadata(&file).unwrap().len());
        file
    };
    let json = |file: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    };
    let index = json(&layout.join("index.json"));
    let manifest = json(&blob(&index["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/sluice");
    assert_eq!(config["config"]["Cmd"][0], "serve");
    let layer = blob(&manifest["layers"][0]);
    let diff = said(Command::new("sh").args([
        "-c",
        "gzip -dc \"$0\" | sha256sum",
        &layer.to_string_lossy(),
    ]));
    let diff = format!("sha256:{}", diff.split(' ').next().unwrap());
    assert_eq!(config["rootfs"]["diff_ids"][0], diff);
    let files = said(Command::new("tar").arg("-tzvf").arg(&layer));
    assert!(!files.contains("/sh\n") && !files.contains("busybox"));
    for file in [
        "libc.so.6\n",
        "ca-certificates.crt\n",
        "usr/lib/sluice/sluice\n",
    ] {
        assert!(files.contains(file), "{file} is not in\n{files}");
    }
    let owned = files.lines().filter(|line| line.contains(" 65532/65532 "));
    let owned: Vec<&str> = owned.collect();
    assert!(
        owned.len() == 1 && owned[0].contains("./var/lib/sluice"),
        "{owned:?}"
    );
}

/// Podman's own restrictions, and those with the setting that `sluice doctor` names.
#[test]
fn the_image_runs_under_podman_with_its_setting() {
    let bins = own_folder().unwrap().parent().unwrap().to_owned();
    if !has("podman") || !crate::is_root() || !bins.join("sluice").exists() {
        eprintln!("NOT RUN: podman, root or the built `sluice` is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        only: Vec::new(),
        bins: Some(bins),
        release: None,
        out: folder.path().join("out"),
    };
    let release = Release::of(&options, &mut Phases::default()).unwrap();
    let tree = image::tree(&release).unwrap();
    let podman = |options: &str| {
        // In a mount namespace with the control groups of today alone, which podman's runtime asks for. There are no
        // networks and control groups in it, and no limits that this machine may not raise.
        let script = format!(
            "mount --make-rprivate /; umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup\n\
             exec podman --root {0}/storage --runroot {0}/run --cgroup-manager=cgroupfs run --rm --cgroups=disabled \
             --network=none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --read-only --cap-drop=ALL \
             --security-opt no-new-privileges --user 65532 {options} --rootfs {1} /usr/bin/sluice doctor --json",
            folder.path().display(),
            tree.display()
        );
        let mut command = Command::new("unshare");
        let output = command
            .args(["--mount", "sh", "-c", &script])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let findings = text.lines().map(|line| {
            let finding: Value = serde_json::from_str(line).unwrap();
            (finding["subject"].as_str().unwrap().to_owned(), finding)
        });
        let findings: BTreeMap<String, Value> = findings.collect();
        assert!(
            findings.contains_key("user-namespace"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        findings
    };
    let found = podman("");
    assert_eq!(found["container"]["ok"], false, "{found:?}");
    let detail = found["container"]["detail"].as_str().unwrap();
    assert!(detail.contains("--security-opt unmask=ALL"), "{detail}");
    let profile = root().join("dist/container/seccomp.json");
    let found = podman(&format!(
        "--security-opt seccomp={} --security-opt unmask=ALL",
        profile.display()
    ));
    for layer in [
        "user-namespace",
        "uts-namespace",
        "process-limit",
        "seccomp",
    ] {
        assert_eq!(found[layer]["ok"], true, "{found:?}");
    }
    // It has a `/proc` of its own, in which the number of processes is bounded.
    let bound = found["process-limit"]["detail"].as_str().unwrap();
    assert!(bound.starts_with("pid_max"), "{bound}");
}

#[test]
fn the_bill_of_materials_has_licences_and_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let made = release(folder.path(), &["sbom"]);
    let bom: Value = serde_json::from_str(&fs::read_to_string(&made[0]).unwrap()).unwrap();
    assert_eq!(
        (&bom["bomFormat"], &bom["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    assert!(!bom.to_string().contains(&*root().to_string_lossy()));
    let components = bom["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|it| it["name"] == name);
    let serde = find("serde").unwrap();
    assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(serde["hashes"][0]["content"].as_str().unwrap().len(), 64);
    // Our own crates are in it; what only tests use is not.
    assert!(find("sandbox").is_some() && find("proptest").is_none());
    let unlicensed: Vec<_> = (components.iter().filter(|it| it["licenses"].is_null()))
        .map(|it| &it["name"])
        .collect();
    assert!(unlicensed.is_empty(), "{unlicensed:?}");
}

#[test]
fn install_sh_installs_what_the_checksums_name_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let made = release(folder.path(), &["tar"]);
    let out = folder.path().join("out");
    let prefix = folder.path().join("prefix");
    let install = || {
        let mut install = Command::new(out.join("install.sh"));
        install.arg(&out).arg(&prefix);
        install
    };
    said(&mut install());
    assert!(prefix.join("bin/sluice").exists());
    let unit = fs::read_to_string(prefix.join("lib/systemd/user/sluice.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart={}/bin/sluice serve", prefix.display())));
    fs::remove_dir_all(&prefix).unwrap();
    let archive = fs::OpenOptions::new().append(true).open(&made[0]).unwrap();
    archive
        .set_len(archive.metadata().unwrap().size() - 1)
        .unwrap();
    let refused = install().output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && words.contains("checksum"),
        "{words}"
    );
    assert!(!prefix.exists());
}

#[test]
fn the_same_programs_give_the_same_archives() {
    let sums = || {
        let folder = tempfile::tempdir().unwrap();
        release(folder.path(), &["tar", "deb", "oci"]);
        fs::read_to_string(folder.path().join("out/SHA256SUMS")).unwrap()
    };
    assert_eq!(sums(), sums());
}

#[test]
fn units_leave_to_spokes_what_they_need() {
    for name in ["system", "user"] {
        let unit = read(&format!("systemd/{name}.service"));
        let lines = unit.lines().filter(|line| !line.starts_with('#'));
        let set: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
        for refused in [
            "RestrictNamespaces",
            "PrivateUsers",
            "ProtectHostname",
            "RestrictSUIDSGID",
            "SystemCallFilter",
            "ProtectProc",
            "ProcSubset",
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "ProtectControlGroups",
            "MemoryDenyWriteExecute",
        ] {
            assert!(!set.contains_key(refused), "{name}: {refused}");
        }
        assert_eq!(set["Type"], "notify");
        assert_eq!(set["ExecReload"], "/bin/kill -HUP $MAINPID");
        assert_eq!(set["NoNewPrivileges"], "yes");
        if !has("systemd-analyze") {
            eprintln!("NOT RUN: systemd-analyze is not here");
            continue;
        }
        // A true program in the place of ours, and no manual page.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sluice.service");
        let unit = unit.replace("/usr/bin/sluice", "/bin/true");
        let unit = unit
            .lines()
            .filter(|line| !line.starts_with("Documentation"));
        fs::write(&file, unit.collect::<Vec<_>>().join("\n")).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", "--recursive-errors=no"]);
        let verified = verify.arg(&file).output().unwrap();
        let words = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && words.is_empty(), "{words}");
    }
}

#[test]
fn the_compose_file_gives_the_sandbox_what_it_needs() {
    let compose = yaml(&read("container/compose.yaml"));
    let sluice = &compose["services"]["sluice"];
    assert_eq!(sluice["read_only"], true);
    let options = sluice["security_opt"].as_array().unwrap();
    for option in [
        "no-new-privileges:true",
        "apparmor=unconfined",
        "systempaths=unconfined",
    ] {
        assert!(options.contains(&option.into()), "{option}");
    }
    // No name of a registry.
    for service in ["sluice", "postgres"] {
        let image = compose["services"][service]["image"].as_str().unwrap();
        assert!(image.starts_with("${") && !image.contains('/'), "{image}");
    }
    let profile: Value = serde_json::from_str(&read("container/seccomp.json")).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    let refused = profile["syscalls"][0]["names"].as_array().unwrap();
    for call in [
        "unshare",
        "clone",
        "clone3",
        "mount",
        "umount2",
        "pivot_root",
        "move_mount",
        "open_tree",
        "mount_setattr",
        "fsopen",
        "sethostname",
        "seccomp",
        "landlock_create_ruleset",
    ] {
        assert!(!refused.contains(&call.into()), "{call}");
    }
    for call in [
        "bpf",
        "keyctl",
        "perf_event_open",
        "kexec_load",
        "io_uring_setup",
    ] {
        assert!(refused.contains(&call.into()), "{call}");
    }
}

/// What helm makes of the chart, with the hash of the chart in its first line. Written anew with `UPDATE_CHART=1` where helm
/// is installed; elsewhere the test sees only that the chart has not changed since.
const RENDERED: &str = "xtask/src/dist/chart.yaml";

#[test]
fn the_chart_renders_to_what_replicas_need() {
    let chart = root().join("dist/helm");
    let list = "find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum";
    let hash = said(Command::new("sh").args(["-c", list]).current_dir(&chart));
    let head = format!("# {}\n", hash.split(' ').next().unwrap());
    let file = root().join(RENDERED);
    if has("helm") {
        let values = "secret.values.SLUICE_SECRET=s,secret.values.SLUICE_DATABASE=postgres://db";
        let helm = |arguments: &[&str]| {
            let mut helm = Command::new("helm");
            helm.args(arguments).arg(&chart);
            helm
        };
        said(helm(&["lint", "--strict", "--set", values]).arg("--quiet"));
        let template = ["template", "r", "--namespace", "team", "--set", values];
        let rendered = said(helm(&template).args(["--set", "sandbox.enabled=true"]));
        if env::var_os("UPDATE_CHART").is_some() {
            fs::write(&file, format!("{head}{rendered}")).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap();
        assert_eq!(kept, format!("{head}{rendered}"), "run with UPDATE_CHART=1");
        // The schema refuses a wrong value, and the chart one without a secret.
        for wrong in [
            &["--set", "replicas=0"],
            &["--set", "image.tga=x"],
            &["--set", "replicas=2"],
        ] {
            let refused = helm(&["template", "r"]).args(*wrong).output().unwrap();
            assert!(!refused.status.success(), "{wrong:?}");
        }
    } else {
        eprintln!("NOT RUN: helm is not here; what it has made before is checked");
    }
    let kept = fs::read_to_string(&file).unwrap();
    assert!(
        kept.starts_with(&head),
        "the chart has changed: run this test with UPDATE_CHART=1 where helm is installed"
    );
    let parts: Vec<Value> = kept.split("\n---\n").skip(1).map(yaml).collect();
    let part = |kind: &str| parts.iter().find(|it| it["kind"] == kind).unwrap();
    let deployment = &part("Deployment")["spec"];
    let pod = &deployment["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(deployment["replicas"], 2);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    // With `sandbox.enabled`.
    assert_eq!(pod["hostUsers"], false);
    assert_eq!(container["securityContext"]["procMount"], "Unmasked");
    assert_eq!(
        container["securityContext"]["seccompProfile"]["type"],
        "Localhost"
    );
    // Each way of selecting pods selects these.
    let labels = &deployment["template"]["metadata"]["labels"];
    for selector in [
        &deployment["selector"]["matchLabels"],
        &part("Service")["spec"]["selector"],
        &part("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &part("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    let config = part("ConfigMap")["data"]["sluice.toml"].as_str().unwrap();
    let config: toml::Table = config.parse().unwrap();
    assert_eq!(config["state"]["url_env"].as_str(), Some("SLUICE_DATABASE"));
    assert_eq!(config["service"]["listen"].as_str(), Some("0.0.0.0:8080"));
}

#[test]
fn programs_for_a_newer_debian_are_refused() {
    // The loader's own word for what it needs is compared as numbers.
    assert!((2, 9) < OLDEST_GLIBC && (2, 38) > OLDEST_GLIBC);
    let asked = newest_glibc(Path::new("/bin/true")).unwrap();
    assert!(asked >= (2, 2), "{asked:?}");
}
