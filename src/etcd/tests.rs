//! The client against a real etcd, and addresses.

#[path = "../../tests/support/etcd.rs"]
#[expect(dead_code, reason = "unit tests need a part of it")]
mod process;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::messages::RangeRequest;
use super::messages::TxnRequest;
use super::*;

/// The address of an etcd that all unit tests share, with a prefix of its own for each caller; none where there is no etcd.
pub(crate) fn shared_etcd() -> Option<EtcdAddress> {
    static SHARED: OnceLock<Option<u16>> = OnceLock::new();
    static PREFIXES: AtomicU64 = AtomicU64::new(0);
    let port = SHARED.get_or_init(|| {
        if !process::is_installed() {
            eprintln!("skipped: tests with etcd, because there is none; install etcd-server");
            return None;
        }
        let (sender, receiver) = mpsc::channel();
        // The process ends with the thread that started it, and this thread ends with the tests.
        std::thread::spawn(move || {
            let parent = std::path::Path::new("/dev/shm");
            let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
            remove_old_directories(&parent);
            let dir = parent.join(format!("dibs-unit-etcd-{}", std::process::id()));
            let members = process::start_cluster(&dir, 1);
            sender.send(members[0].client_port()).unwrap();
            loop {
                std::thread::park();
            }
        });
        Some(receiver.recv().unwrap())
    });
    let prefix = format!("test{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
    port.map(|port| EtcdAddress { endpoints: vec![format!("127.0.0.1:{port}")], is_tls: false, prefix })
}

/// What test processes left behind that are over.
fn remove_old_directories(parent: &std::path::Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let is_over = |pid: &str| !std::path::Path::new("/proc").join(pid).exists();
        if name.strip_prefix("dibs-unit-etcd-").is_some_and(is_over) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn client() -> Option<(Etcd, String)> {
    let address = shared_etcd()?;
    let prefix = format!("{}/", address.prefix);
    Some((Etcd::new(&address, EtcdOptions::default()).unwrap(), prefix))
}

#[test]
fn addresses_are_read() {
    let parse = |text: &str| text.parse::<EtcdAddress>();
    let found = parse("etcd://a:1,b,[::1]:3/dibs").unwrap();
    assert_eq!(found.endpoints, ["a:1", "b:2379", "[::1]:3"]);
    assert_eq!((found.is_tls, &*found.prefix), (false, "dibs"));
    assert_eq!(found.to_string(), "etcd://a:1,b:2379,[::1]:3/dibs");
    assert!(parse("etcds://a/team/dibs/").unwrap().is_tls);
    for bad in
        ["", "a:1/x", "http://a/x", "etcd://a", "etcd://a/", "etcd://,/x", "etcd://a:x/x", "etcd://u@a/x", "etcd://a/ü"]
    {
        let error = parse(bad).unwrap_err();
        assert!(error.contains("is not the address of an etcd: "), "{error}");
    }
}

#[test]
fn the_end_of_a_prefix_is_the_next_key_after_it() {
    assert_eq!(after_prefix(b"a/"), b"a0");
    assert_eq!(after_prefix(b"a\xff"), b"b");
    assert_eq!(after_prefix(b"\xff"), [0]);
}

#[test]
fn a_transaction_compares_and_changes_as_one() {
    let Some((etcd, prefix)) = client() else { return };
    let (key, other) = (format!("{prefix}key"), format!("{prefix}other"));
    let create =
        TxnRequest { compare: vec![is_absent(&key)], success: vec![put(&key, b"1")], failure: vec![get(&key)] };
    let first = etcd.txn(create.clone()).unwrap();
    let revision = first.header.unwrap().revision;
    assert!(first.succeeded && !etcd.txn(create).unwrap().succeeded);
    let change = |compare| TxnRequest { compare: vec![compare], success: vec![put(&other, b"2")], failure: vec![] };
    for refused in [value_is(&key, b"2"), create_is(&key, revision + 1), mod_is(&key, revision - 1), is_absent(&key)] {
        assert!(!etcd.txn(change(refused)).unwrap().succeeded);
    }
    for accepted in [value_is(&key, b"1"), create_is(&key, revision), mod_is(&key, revision)] {
        assert!(etcd.txn(change(accepted)).unwrap().succeeded);
    }
    let all =
        RangeRequest { key: prefix.clone().into(), range_end: after_prefix(prefix.as_bytes()), ..Default::default() };
    let found = etcd.range(all.clone()).unwrap();
    assert_eq!(found.kvs.iter().map(|found| &*found.value).collect::<Vec<_>>(), [b"1", b"2"]);
    let before = etcd.range(RangeRequest { revision, ..all }).unwrap();
    assert_eq!(before.kvs.len(), 1, "a revision shows what was there then");
}

#[test]
fn the_keys_of_a_lease_go_with_it() {
    let Some((etcd, prefix)) = client() else { return };
    let key = format!("{prefix}leased");
    let (lease, ttl) = etcd.grant_lease(Duration::from_secs(60)).unwrap();
    assert_eq!(ttl, Duration::from_secs(60));
    etcd.txn(TxnRequest { success: vec![put_leased(&key, b"x", lease)], ..Default::default() }).unwrap();
    etcd.keep_lease(lease).unwrap();
    etcd.revoke_lease(lease).unwrap();
    assert_eq!(etcd.keep_lease(lease), Err(EtcdError::LeaseGone));
    assert!(etcd.range(RangeRequest { key: key.into(), ..Default::default() }).unwrap().kvs.is_empty());
}

#[test]
fn a_watch_reports_changes_below_its_prefix() {
    let Some((etcd, prefix)) = client() else { return };
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let watching = etcd.watch(&prefix, move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let wait_for_more = |before: usize| {
        for _ in 0..1000 {
            if seen.load(Ordering::SeqCst) > before {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no change was reported");
    };
    wait_for_more(0);
    let before = seen.load(Ordering::SeqCst);
    etcd.txn(TxnRequest { success: vec![put(&format!("{prefix}a"), b"")], ..Default::default() }).unwrap();
    wait_for_more(before);
    drop(watching);
}

#[test]
fn an_endpoint_that_does_not_answer_is_left_for_the_next() {
    let Some(mut address) = shared_etcd() else { return };
    let [dead] = process::free_ports(1)[..] else { unreachable!() };
    address.endpoints.insert(0, format!("127.0.0.1:{dead}"));
    let etcd = Etcd::new(&address, EtcdOptions::default()).unwrap();
    let request = RangeRequest { key: b"x".to_vec(), ..Default::default() };
    let error = etcd.range(request.clone()).unwrap_err();
    assert!(error.is_unclear(), "{error}");
    etcd.range(request).expect("the second endpoint answers");
    let members = etcd.members();
    assert!(members[0].status.is_err() && members[1].status.as_ref().unwrap().version.starts_with("3."));
}
