//! The secret file: made once, closed to others, never guessable.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{TempDir, tempdir};

use super::SECRET;
use crate::token::secret_file;

fn dir() -> TempDir {
    tempdir().expect("a directory")
}

#[test]
fn a_secret_file_is_made_once_and_closed_to_others() {
    let dir = dir();
    let path = dir.path().join("secret");
    let secret = secret_file(&path).expect("a new secret");
    assert_eq!(secret.len(), 64);
    assert!(secret.iter().all(u8::is_ascii_hexdigit));
    assert_eq!(fs::read(&path).expect("the file"), [&*secret, b"\n"].concat());
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o7777, 0o600);
    assert_eq!(secret_file(&path), Ok(secret.clone()));
    assert_ne!(secret_file(&dir.path().join("other")), Ok(secret));
    let names: Vec<_> = fs::read_dir(&dir).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "no draft is left behind: {names:?}");
}

#[test]
fn servers_that_start_at_once_share_one_secret() {
    for _ in 0..20 {
        let dir = dir();
        let path = dir.path().join("secret");
        let start = std::sync::Barrier::new(8);
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let servers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        secret_file(&path).expect("a secret")
                    })
                })
                .collect();
            servers.into_iter().map(|server| server.join().expect("no panic")).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 1);
    }
}

#[test]
fn secret_files_that_are_no_secret_are_refused() {
    let dir = dir();
    let path = dir.path().join("secret");
    let said = |path: &Path| {
        let error = secret_file(path).expect_err("no secret").to_string();
        error.replace(dir.path().to_str().expect("text"), "DIR")
    };
    let put = |contents: &[u8], mode: u32| {
        fs::write(&path, contents).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    };

    for (mode, shown) in [(0o640, "0640"), (0o604, "0604"), (0o620, "0620"), (0o777, "0777")] {
        put(SECRET.as_bytes(), mode);
        let expected = format!(
            "the secret file DIR/secret can be read by other users (mode {shown}); run: chmod 600 \"DIR/secret\""
        );
        assert_eq!(said(&path), expected);
    }
    put(SECRET.as_bytes(), 0o400);
    assert_eq!(secret_file(&path), Ok(SECRET.into()));

    put(b"hunter2\n", 0o600);
    let short = said(&path);
    assert_eq!(
        short,
        "the secret file DIR/secret is not usable: the secret has 7 bytes and needs at least 32; make one with: openssl rand -hex 32"
    );
    put(b"", 0o600);
    assert!(said(&path).contains("the secret has 0 bytes"));
    put(&[b'\n'; 100], 0o600);
    assert!(said(&path).contains("the secret has 0 bytes"));
    put(&[b'x'; 4097], 0o600);
    assert_eq!(said(&path), "the secret file DIR/secret is larger than 4096 bytes; name another one");

    assert_eq!(said(dir.path()), "the secret file DIR is not a file; name another one");
    let nowhere = said(&dir.path().join("no/secret"));
    assert!(nowhere.starts_with("cannot make the secret file DIR/no/secret: No such file"), "{nowhere}");
    std::os::unix::fs::symlink("gone", dir.path().join("dangling")).expect("a link");
    let dangling = said(&dir.path().join("dangling"));
    assert!(dangling.starts_with("cannot read the secret file DIR/dangling: No such file"), "{dangling}");
}
