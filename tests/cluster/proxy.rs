//! A proxy in front of a real etcd that drops, delays, repeats, cuts and keeps what passes; and the journal behind it. Nodes
//! behind it are in `unclear`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use git_dibs::engine::{Event, Record, Seq, SessionId, Timestamp};
use git_dibs::etcd::messages::TxnRequest;
use git_dibs::etcd::{Etcd, EtcdAddress, EtcdOptions, delete, put};
use git_dibs::journal::{EtcdJournal, EtcdKeys, Journal, JournalError, Leadership, LoadItem};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::dice::Dice;
use crate::etcd;
use crate::world::has_etcd;

type Reply = (http::response::Parts, Bytes, HeaderMap);

/// What happens to one call on the way to etcd and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Passes,
    /// It never arrives.
    LosesRequest,
    /// It is carried out, and the answer never arrives.
    LosesAnswer,
    /// It arrives when no caller waits for it any more.
    ArrivesLate(Duration),
    /// It arrives twice.
    ArrivesTwice,
    /// The answer is late.
    AnswersLate(Duration),
    /// The answer is cut off.
    CutsAnswer,
    /// It is kept, and no answer comes as long as the caller waits.
    IsHeld,
}

/// Decides by the path and the message of each call.
pub type Fates = Box<dyn Fn(&str, &[u8]) -> Fate + Send + Sync>;

/// A proxy in front of members of etcd, with a port for each. It works as long as this exists. A watch, which is only a hint,
/// is always cut off.
pub struct Proxy {
    ports: Vec<u16>,
    _runtime: tokio::runtime::Runtime,
}

impl Proxy {
    pub fn start(members: &[etcd::Member], fates: Fates) -> Proxy {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fates = Arc::new(fates);
        let listen = |member: &etcd::Member| {
            let to = SocketAddr::from(([127, 0, 0, 1], member.client_port()));
            let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
            let port = listener.local_addr().unwrap().port();
            runtime.spawn(listen(listener, to, fates.clone()));
            port
        };
        Proxy { ports: members.iter().map(listen).collect(), _runtime: runtime }
    }

    /// With failures of all kinds, by chance.
    pub fn faulty(members: &[etcd::Member], seed: u64) -> Proxy {
        let dice = Mutex::new(Dice::new(seed));
        let fates = move |_: &str, _: &[u8]| {
            let mut dice = dice.lock().unwrap();
            match dice.below(12) {
                0 => Fate::LosesRequest,
                1 => Fate::LosesAnswer,
                2 => Fate::ArrivesLate(Duration::from_millis(dice.below(200))),
                3 => Fate::ArrivesTwice,
                4 => Fate::AnswersLate(Duration::from_millis(dice.below(50))),
                5 => Fate::CutsAnswer,
                _ => Fate::Passes,
            }
        };
        Proxy::start(members, Box::new(fates))
    }

    /// The address that `--cluster` takes.
    pub fn address(&self, prefix: &str) -> String {
        let endpoints: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("etcd://{}/{prefix}", endpoints.join(","))
    }
}

/// The stream of the call is reset.
#[derive(Debug, thiserror::Error)]
#[error("the proxy dropped it")]
struct Dropped;

async fn listen(listener: tokio::net::TcpListener, to: SocketAddr, fates: Arc<Fates>) {
    while let Ok((stream, _)) = listener.accept().await {
        let fates = fates.clone();
        tokio::spawn(async move {
            let Ok(up) = tokio::net::TcpStream::connect(to).await else { return };
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(up)).await;
            let Ok((up, connection)) = handshake else { return };
            tokio::spawn(connection);
            let service = hyper::service::service_fn(move |request| call(to, fates.clone(), up.clone(), request));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn call(
    to: SocketAddr,
    fates: Arc<Fates>,
    up: SendRequest<Full<Bytes>>,
    request: Request<Incoming>,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Dropped> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if path.ends_with("/Watch") {
        return Err(Dropped);
    }
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let fate = fates(&path, &body);
    let forward = move |mut up: SendRequest<Full<Bytes>>| {
        let (mut parts, body) = (parts.clone(), body.clone());
        parts.uri = format!("http://{to}{path}").parse().unwrap();
        async move {
            let reply = up.send_request(Request::from_parts(parts, Full::new(body))).await.map_err(|_| Dropped)?;
            let (parts, body) = reply.into_parts();
            let body = body.collect().await.map_err(|_| Dropped)?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok::<Reply, Dropped>((parts, body.to_bytes(), trailers))
        }
    };
    match fate {
        Fate::Passes => Ok(whole(forward(up).await?)),
        Fate::LosesRequest => Err(Dropped),
        Fate::LosesAnswer => {
            forward(up).await?;
            Err(Dropped)
        }
        Fate::ArrivesLate(later) => {
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                let _ = forward(up).await;
            });
            Err(Dropped)
        }
        Fate::ArrivesTwice => {
            let first = forward(up.clone()).await?;
            forward(up).await?;
            Ok(whole(first))
        }
        Fate::AnswersLate(later) => {
            let reply = forward(up).await?;
            tokio::time::sleep(later).await;
            Ok(whole(reply))
        }
        Fate::CutsAnswer => {
            let (parts, bytes, _) = forward(up).await?;
            let half = Full::new(bytes.slice(..bytes.len() / 2));
            Ok(Response::from_parts(parts, half.boxed()))
        }
        Fate::IsHeld => std::future::pending().await,
    }
}

fn whole((parts, bytes, trailers): Reply) -> Response<http_body_util::combinators::BoxBody<Bytes, Infallible>> {
    let body = Full::new(bytes).with_trailers(std::future::ready(Some(Ok::<_, Infallible>(trailers))));
    Response::from_parts(parts, body.boxed())
}

struct NoLease;

impl Leadership for NoLease {
    fn is_certain(&self) -> bool {
        false
    }

    fn is_possible(&self) -> bool {
        true
    }
}

fn records(from: u64, to: u64, text: &str) -> Vec<Record> {
    let event = |seq: u64| Event::Opened {
        session: SessionId::parse("ana").unwrap(),
        name: Some(format!("{text} {seq}").as_str().into()),
        feature: None,
        owner: None,
    };
    (from..=to).map(|seq| Record { seq: Seq(seq), at: Timestamp(seq as i64), event: event(seq) }).collect()
}

#[test]
fn what_was_appended_is_there_once_whatever_happens_on_the_way() {
    if !has_etcd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let members = etcd::start_cluster(dir.path(), 1);
    let proxy = Proxy::faulty(&members, 7);
    let client = |address: String| {
        let address: EtcdAddress = address.parse().unwrap();
        Arc::new(Etcd::new(&address, EtcdOptions::default()).unwrap())
    };
    let (faulty, direct) = (client(proxy.address("test")), client(etcd::address(&members, "test")));
    let keys = EtcdKeys::new("test/journal", "test/leader");
    let lead = || {
        direct.txn(TxnRequest { success: vec![delete("test/leader", b"")], ..TxnRequest::default() }).unwrap();
        let reply = direct.txn(TxnRequest { success: vec![put("test/leader", b"x")], ..TxnRequest::default() });
        reply.unwrap().header.unwrap().revision
    };
    let open = |epoch: i64| EtcdJournal::open(faulty.clone(), keys.clone(), epoch, Arc::new(NoLease)).unwrap();
    let (mut told, mut deposed): (Vec<Record>, Option<EtcdJournal>) = (Vec::new(), None);
    for term in 0..10 {
        let mut journal = open(lead());
        assert_eq!(journal.head().0, told.len() as u64);
        if let Some(mut deposed) = deposed.take() {
            let after = told.len() as u64;
            let refused = deposed.append(Seq(after), &records(after + 1, after + 1, "deposed"));
            assert!(matches!(refused, Err(JournalError::Deposed)), "{refused:?}");
            assert!(deposed.confirm().is_err());
        }
        for batch in 0..15 {
            let after = told.len() as u64;
            let new = records(after + 1, after + 1 + batch % 4, &format!("term {term}"));
            journal.append(Seq(after), &new).unwrap();
            journal.confirm().unwrap();
            told.extend(new);
        }
        let head = told.len() as u64;
        journal.reader().unwrap().save_snapshot(Seq(head), format!("state {head}").as_bytes(), Seq(1)).unwrap();
        deposed = Some(journal);
    }
    let mut journal = EtcdJournal::open(direct.clone(), keys.clone(), lead(), Arc::new(NoLease)).unwrap();
    assert_eq!(journal.reader().unwrap().read(Seq(0), usize::MAX).unwrap().records, told);
    let mut snapshot = None;
    journal
        .load(&mut |item| {
            if let LoadItem::Snapshot { at, .. } = item {
                snapshot = Some(at.0);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(snapshot, Some(told.len() as u64));
}
