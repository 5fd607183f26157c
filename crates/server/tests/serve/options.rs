//! What is wrong is said before anything is opened.

use std::ffi::OsStr;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use crate::harness::{Onramp, TestFolder, command, run};

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn wrong_options_end_the_start_with_code_2() {
    let folder = TestFolder::new();
    std::fs::write(folder.path().join("onramp.toml"), "\npermits = \"16\"\n").unwrap();
    for (arguments, expected) in [
        (&["serve", "--permist", "5"][..], "onramp: --permist: unknown option; did you mean --permits?\n"),
        (
            &["serve", "--wait-timeout", "10"],
            "onramp: --wait-timeout: \"10\" has no unit; did you mean 10s?\n",
        ),
        (
            &["serve", "--config", "onramp.toml"],
            "onramp: onramp.toml:2: permits: found text where a whole number is wanted; did you mean 16 without the quotes?\n",
        ),
        (&["server"], "onramp: unknown command \"server\"; did you mean serve?\n"),
        (&["help", "docter"], "onramp: unknown command \"docter\"; did you mean doctor?\n"),
        (
            &["docs"],
            "onramp: there are onramp docs options, docs configuration, docs man [COMMAND] and docs completions bash|zsh|fish\n",
        ),
    ] {
        let output = run(&folder, arguments);
        assert_eq!(stderr(&output), expected);
        assert_eq!(output.status.code(), Some(2));
    }
    assert!(!folder.data_dir().exists());
}

#[test]
fn a_variable_that_is_no_text_ends_the_start_with_code_2() {
    let folder = TestFolder::new();
    let password = OsStr::from_bytes(b"p\xe4ss");
    let output = command(&folder).arg("serve").env("ONRAMP_HTTP_PASSWORD", password).output().unwrap();
    assert_eq!(
        stderr(&output),
        "onramp: ONRAMP_HTTP_PASSWORD: its value is not UTF-8 text; write it in UTF-8\n"
    );
    assert_eq!(output.status.code(), Some(2));
    let output =
        command(&folder).args(["serve", "--check"]).env("ONRAMP_Permits\u{fffd}", "1").output().unwrap();
    assert!(stderr(&output).contains("did you mean ONRAMP_PERMITS?"), "{}", stderr(&output));
}

/// A program that waited for somebody, or read on, would not end.
#[test]
fn a_file_of_options_without_an_end_or_a_writer_is_refused() {
    let folder = TestFolder::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o600),
        0,
    )
    .unwrap();
    for (file, why) in [
        ("fifo", "fifo cannot be read: it is a FIFO, and nobody writes to it"),
        ("/dev/zero", "/dev/zero cannot be read: it is longer than 4 MiB"),
    ] {
        let output = run(&folder, &["serve", "--config", file]);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
    }
    // What a shell makes of `<(...)`.
    let mut child = command(&folder)
        .args(["serve", "--check", "--config", "/dev/stdin"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"permits = \"16\"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stderr(&output).contains("/dev/stdin:1: permits: "), "{}", stderr(&output));
}

#[test]
fn a_check_says_all_that_is_wrong_and_serves_nobody() {
    let folder = TestFolder::new();
    let check = |text: &str| {
        std::fs::write(folder.path().join("onramp.toml"), text).unwrap();
        let output = run(&folder, &["serve", "--check", "--config", "onramp.toml"]);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), stdout, stderr(&output))
    };
    let (code, well, faults) =
        check("# all is well\nbackend = \"mysql://onramp:hush@127.0.0.1:1/\"\nlisten = \"192.0.2.1:3306\"\n");
    assert_eq!((code, &*faults), (Some(0), ""), "neither the address to listen on nor the server is tried");
    assert!(well.starts_with("well: ") && well.ends_with(" 127.0.0.1:1\n"), "{well}");
    let (code, well, faults) = check("permits = \"16\"\n\nlissten = \"127.0.0.1:1\"\nworkers = 0 0\n");
    assert_eq!((code, &*well), (Some(1), ""));
    let lines: Vec<_> = faults.lines().collect();
    let expected = [
        "onramp: onramp.toml:1: permits: found text where a whole number is wanted; did you mean 16 without the quotes?",
        "onramp: onramp.toml:3: unknown option \"lissten\"; did you mean listen?",
        "onramp: onramp.toml:4: ",
    ];
    assert_eq!(lines.len(), expected.len(), "{faults}");
    assert!(lines.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{faults}");
    // What the options point to.
    let (code, _, faults) = check(
        "backend = [\"mysql://app:hush@no-such-host.invalid/\", \"mysql://app:hush@127.0.0.1/\", \"mysql://app:hush@nor-this.invalid/\"]\n\
         tls_certificate = \"/nowhere.pem\"\ntls_key = \"/nowhere.key\"\nbackend_public_key = \"/nowhere.pub\"\n",
    );
    assert_eq!(code, Some(1));
    for part in
        ["no-such-host.invalid", "nor-this.invalid", "tls_certificate (/nowhere.pem)", "backend_public_key"]
    {
        assert!(faults.contains(part), "{part}: {faults}");
    }
    assert!(!faults.contains("hush") && !folder.data_dir().exists());
    let far =
        ["--backend", "mysql://app@127.0.0.1/", "--http-listen", "0.0.0.0:9126", "--http-password", " "];
    let output = run(&folder, &[&["serve", "--check"], &far[..]].concat());
    assert!(
        stderr(&output).starts_with("onramp: warning: http_password has fewer than 8 "),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(0));
    let output = run(&folder, &["serve", "--check", "--config", "missing.toml"]);
    assert!(stderr(&output).contains("missing.toml cannot be read: "), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_check_says_all_that_is_wrong_with_the_files_of_tls() {
    let folder = TestFolder::new();
    let path = |name: &str| folder.path().join(name);
    let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut parameters = CertificateParams::new([String::from("db.example")]).unwrap();
    (parameters.not_before, parameters.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    std::fs::write(path("expired.pem"), parameters.self_signed(&own).unwrap().pem()).unwrap();
    std::fs::write(path("garbage.pem"), "no PEM").unwrap();
    for (name, key, mode) in [("own.key", &own, 0o644), ("other.key", &other, 0o640)] {
        std::fs::write(path(name), key.serialize_pem()).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let told = |check: bool, options: &str| {
        let text =
            format!("backend = \"mysql://onramp:hush@127.0.0.1:1/\"\nlisten = \"127.0.0.1:0\"\n{options}");
        std::fs::write(path("onramp.toml"), text).unwrap();
        let words = ["serve", "--config", "onramp.toml", "--check"];
        let output = run(&folder, &words[..if check { 4 } else { 3 }]);
        (output.status.code(), stderr(&output))
    };
    let wrong = "tls_certificate = \"expired.pem\"\ntls_key = \"other.key\"\ntls_client_ca = \"garbage.pem\"\n\
        backend_tls = \"verify-ca\"\nbackend_tls_ca = \"missing-ca.pem\"\nbackend_tls_certificate = \"missing.pem\"\n\
        backend_tls_key = \"missing.key\"\nbackend_public_key = \"garbage.pem\"\n";
    let faults = [
        "tls_key (other.key) is not the key of the certificate in tls_certificate (expired.pem)",
        "tls_client_ca (garbage.pem) holds no certificate (PEM)",
        "backend_tls_ca (missing-ca.pem) cannot be read: ",
        "backend_tls_certificate (missing.pem) cannot be read: ",
        "backend_tls_key (missing.key) cannot be read: ",
        "backend_public_key (garbage.pem) holds no RSA public key ",
    ];
    let (code, said) = told(true, wrong);
    assert_eq!((code, said.lines().count()), (Some(1), faults.len() + 1), "{said}");
    for (line, fault) in said.lines().zip(faults) {
        assert!(line.starts_with(&format!("onramp: {fault}")), "{fault}: {said}");
    }
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("onramp: warning: tls_certificate (expired.pem) holds a certificate that expired ")
    );
    // At the start they are one line, but for what is not of TLS alone, and comes before.
    let (code, said) = told(false, &wrong.replace("backend_public_key = \"garbage.pem\"\n", ""));
    assert_eq!(code, Some(1));
    let line = said.lines().find(|line| line.contains("tls_key")).unwrap();
    assert!(faults[..5].iter().all(|fault| line.contains(fault)), "{said}");
    // What can be served with is no fault.
    let (code, said) = told(true, "tls_certificate = \"expired.pem\"\ntls_key = \"own.key\"\n");
    assert_eq!((code, said.lines().count()), (Some(0), 2), "{said}");
    let doubts = ["that expired ", "tls_key (own.key) may be read by everybody on this machine"];
    for part in doubts {
        assert!(said.contains(part), "{said}");
    }
    // Nor is it one at the start, which is where it is read.
    let mut onramp = Onramp::start(&folder, &["--config", "onramp.toml"]);
    for part in doubts {
        assert!(onramp.wait_for(part).contains(" WARN "));
    }
    onramp.wait_for("ready: ");
    onramp.end();
}

#[test]
fn help_and_version_go_to_the_output_stream() {
    let folder = TestFolder::new();
    for (arguments, expected) in [
        (&["--version"][..], concat!("onramp ", env!("CARGO_PKG_VERSION"), "\n")),
        (&["help"], "Usage: onramp <COMMAND>"),
        (&["serve", "--help"], "Usage: onramp serve [--check] [OPTIONS]"),
        (&["docs", "options"], "# Options of `onramp serve`"),
    ] {
        let output = run(&folder, arguments);
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(expected), "{arguments:?}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn each_command_that_the_help_lists_has_a_help_of_its_own() {
    let folder = TestFolder::new();
    let stdout = |arguments: &[&str]| {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let help = stdout(&["help"]);
    let list = help.split_once("\nCommands:\n").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap().0;
    for line in list.lines() {
        let name = line.split_ascii_whitespace().next().unwrap();
        assert!(stdout(&["help", name]).contains("onramp"), "{name}");
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let folder = TestFolder::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let taken = address.to_string();
    for (option, flag, arguments) in [
        ("listen", "--listen", &["--listen", &taken][..]),
        ("admin_listen", "--admin-listen", &["--listen", "127.0.0.1:0", "--admin-listen", &taken]),
    ] {
        let output = run(&folder, &[&["serve", "--max-connections", "100"], arguments].concat());
        let expected = format!(
            "{option}: cannot listen on {address}: somebody listens there already, most likely a MySQL or MariaDB server \
             or another onramp; `ss -ltnp 'sport = :{}'` shows who. Choose another address with {flag}",
            address.port()
        );
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(1));
        assert!(!folder.data_dir().exists());
    }
}

#[test]
fn a_host_that_cannot_be_found_is_named() {
    let folder = TestFolder::new();
    let output = command(&folder)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("ONRAMP_BACKEND", "mysql://app:hush@no-such-host.invalid/")
        .output()
        .unwrap();
    assert!(
        stderr(&output).contains("the host \"no-such-host.invalid\" cannot be found"),
        "{}",
        stderr(&output)
    );
    assert!(!stderr(&output).contains("hush"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn without_a_server_the_package_to_install_is_named() {
    let folder = TestFolder::new();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output =
        run(&folder, &["serve", "--listen", "127.0.0.1:0", "--server-directory", empty.to_str().unwrap()]);
    let said = stderr(&output);
    assert!(said.contains("no --backend is given and no server is installed"), "{said}");
    assert!(said.contains("`apt install mariadb-server`"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.data_dir().exists());
}
