//! Leaders that do not know of each other, on a real etcd.

use crate::engine::Seq;
use crate::etcd::after_prefix;
use crate::etcd::messages::RangeRequest;
use crate::journal::suite::{InEtcd, load, records};
use crate::journal::{Journal, JournalError};

#[test]
fn a_deposed_leader_cannot_append_even_if_the_head_is_as_it_expects() {
    let Some(storage) = InEtcd::new() else { return };
    let mut deposed = storage.open_as(storage.lead());
    deposed.append(Seq(0), &records(1, 2)).unwrap();
    let mut leader = storage.open_as(storage.lead());
    assert!(matches!(deposed.append(Seq(2), &records(3, 3)), Err(JournalError::Deposed)));
    leader.append(Seq(2), &records(3, 4)).unwrap();
    assert!(matches!(deposed.append(Seq(2), &records(3, 3)), Err(JournalError::Superseded { .. })));
    assert_eq!(load(&mut leader).unwrap().records, records(1, 4));
}

#[test]
fn a_deposed_leader_stores_no_snapshot_and_drops_nothing() {
    let Some(storage) = InEtcd::new() else { return };
    let mut deposed = storage.open_as(storage.lead());
    deposed.append(Seq(0), &records(1, 9)).unwrap();
    let mut leader = storage.open_as(storage.lead());
    let saved = deposed.reader().unwrap().save_snapshot(Seq(9), b"old", Seq(10));
    assert!(matches!(saved, Err(JournalError::Deposed)));
    let loaded = load(&mut leader).unwrap();
    assert_eq!((loaded.snapshot, loaded.records), (None, records(1, 9)));
}

#[test]
fn what_a_killed_leader_left_of_a_snapshot_is_removed() {
    let Some(storage) = InEtcd::new() else { return };
    let mut killed = storage.open_as(storage.lead());
    killed.append(Seq(0), &records(1, 2)).unwrap();
    let orphan = storage.keys.chunk("never-valid", 0);
    killed.place.change("test", vec![crate::etcd::put(&orphan, b"half")]).unwrap();
    let mut leader = storage.open_as(storage.lead());
    leader.reader().unwrap().save_snapshot(Seq(1), b"one", Seq(1)).unwrap();
    let all = storage.keys.all_chunks();
    let request =
        RangeRequest { key: all.clone().into(), range_end: after_prefix(all.as_bytes()), ..RangeRequest::default() };
    let chunks = storage.etcd.range(request).unwrap().kvs;
    assert_eq!(chunks.len(), 1, "only that of the valid one");
    assert_eq!(load(&mut leader).unwrap().snapshot, Some((Seq(1), b"one".to_vec())));
}

#[test]
fn only_about_so_many_bytes_of_the_newest_records_are_kept() {
    let Some(storage) = InEtcd::new() else { return };
    let mut journal = storage.open_as(storage.lead());
    for seq in 1..=50 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    let size = journal.head.bytes / 50;
    let first = reader.first_within(size * 10).unwrap();
    assert!((39..=43).contains(&first.0), "{first}");
    assert_eq!(reader.first_within(0).unwrap(), Seq(51));
    assert_eq!(reader.first_within(u64::MAX).unwrap(), Seq(1));
}
