//! The journal on a real etcd, with a proxy between them that drops, delays, repeats and cuts what passes.

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

/// A proxy of etcd. It works as long as its runtime runs.
struct Proxy {
    to: SocketAddr,
    dice: Mutex<Dice>,
}

/// The stream of the call is reset.
#[derive(Debug, thiserror::Error)]
#[error("the proxy dropped it")]
struct Dropped;

impl Proxy {
    fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().below(sides)
    }

    async fn listen(self: Arc<Self>, listener: tokio::net::TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let proxy = self.clone();
            tokio::spawn(async move {
                let Ok(up) = tokio::net::TcpStream::connect(proxy.to).await else { return };
                let (up, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(up)).await.unwrap();
                tokio::spawn(connection);
                let service = hyper::service::service_fn(move |request| proxy.clone().call(up.clone(), request));
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn call(
        self: Arc<Self>,
        up: SendRequest<Full<Bytes>>,
        request: Request<Incoming>,
    ) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Dropped> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
        let to = self.to;
        let forward = move |mut up: SendRequest<Full<Bytes>>| {
            let (mut parts, body) = (parts.clone(), body.clone());
            async move {
                let path = parts.uri.path().to_owned();
                parts.uri = format!("http://{to}{path}").parse().unwrap();
                let reply = up.send_request(Request::from_parts(parts, Full::new(body))).await.map_err(|_| Dropped)?;
                let (parts, body) = reply.into_parts();
                let body = body.collect().await.map_err(|_| Dropped)?;
                let trailers = body.trailers().cloned().unwrap_or_default();
                Ok::<Reply, Dropped>((parts, body.to_bytes(), trailers))
            }
        };
        match self.roll(12) {
            // It never arrives.
            0 => return Err(Dropped),
            // The answer never arrives.
            1 => {
                forward(up).await?;
                return Err(Dropped);
            }
            // It arrives when no caller waits for it any more.
            2 => {
                let later = Duration::from_millis(self.roll(200));
                tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    let _ = forward(up).await;
                });
                return Err(Dropped);
            }
            // It arrives twice.
            3 => {
                let first = forward(up.clone()).await?;
                forward(up).await?;
                return Ok(whole(first));
            }
            // The answer is late.
            4 => tokio::time::sleep(Duration::from_millis(self.roll(50))).await,
            // The answer is cut off.
            5 => {
                let (parts, bytes, _) = forward(up).await?;
                let half = Full::new(bytes.slice(..bytes.len() / 2));
                return Ok(Response::from_parts(parts, half.boxed()));
            }
            _ => {}
        }
        Ok(whole(forward(up).await?))
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], members[0].client_port()));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(Arc::new(Proxy { to, dice: Mutex::new(Dice::new(7)) }).listen(listener));

    let client = |port: u16| {
        let address: EtcdAddress = format!("etcd://127.0.0.1:{port}/test").parse().unwrap();
        Arc::new(Etcd::new(&address, EtcdOptions::default()).unwrap())
    };
    let (faulty, direct) = (client(port), client(members[0].client_port()));
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
