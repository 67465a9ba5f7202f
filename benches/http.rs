//! Durable reserves over HTTP, beside a bare axum handler that parses the same JSON and answers the same bytes.
//! Both run in this process with the same runtime and the same load, in turns. Then: how long after a release the
//! next waiter hears of its grant, beside an uncontended reserve.
//!
//! `cargo bench --bench http`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::response::IntoResponse;
use axum::routing::post;
use git_dibs::desk::{Desk, SystemClock};
use git_dibs::engine::Policy;
use git_dibs::http::{App, Gate, Limits, Listener, Repository, Server, router};
use git_dibs::journal::SqliteJournal;
use git_dibs::token::{Keyring, KeyringConfig, Mint};
use git_dibs::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;

/// What the server answers to a reserve, byte for byte in length.
const ANSWER: &str = r#"{"reservationId":"res_01a1e27997d77793b25abd23b31d076f","filePath":"src/area_12/part_345/file_678901.rs","sessionId":"bench","mode":"exclusive","reason":null,"reservedAt":"2026-11-16T03:49:41.975Z","expiresAt":"2026-11-16T03:50:41.975Z","fence":678901,"version":0}"#;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (ours, token, other) = runtime.block_on(start_ours(dir.path()));
    let bare = runtime.block_on(start_bare());
    println!("{:<44} {:>12} {:>12} {:>8}", "", "ours/s", "bare/s", "ratio");
    // `-- 64` looks at one number of connections only, and `-- 64 ours` at nothing beside, for a profiler.
    let only = std::env::args().nth(1).and_then(|arg| arg.parse().ok());
    for connections in only.map_or(vec![1, 8, 64, 256], |only: usize| vec![only]) {
        if std::env::args().any(|arg| arg == "ours") {
            println!("{:?}", load(ours, &token, connections));
            continue;
        }
        let mut samples: Vec<(Load, Load)> =
            (0..ROUNDS).map(|_| (load(ours, &token, connections), load(bare, &token, connections))).collect();
        samples.sort_by(|a, b| (a.0.rate / a.1.rate).total_cmp(&(b.0.rate / b.1.rate)));
        let (a, b) = &samples[ROUNDS / 2];
        let what = format!("durable reserve, {connections} connections");
        println!("{what:<44} {:>12.0} {:>12.0} {:>7.2}x", a.rate, b.rate, a.rate / b.rate);
        let what = "the same: CPU of server and client each";
        println!("{what:<44} {:>12.2?} {:>12.2?} {:>7.2}x", a.cpu, b.cpu, a.cpu.as_secs_f64() / b.cpu.as_secs_f64());
    }
    wake_up(ours, &token, &other);
    std::process::exit(0);
}

/// 100 keys held by one session, a request of another waiting for each: from a release to the waiter's grant, beside
/// a reserve of a free key from request to answer.
fn wake_up(address: std::net::SocketAddr, holder: &str, waiter: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut samples: Vec<(Duration, Duration)> = runtime.block_on(async {
        let mut holding = TcpStream::connect(address).await.unwrap();
        holding.set_nodelay(true).unwrap();
        let mut buffer = vec![0; 4096];
        let mut waiting = Vec::new();
        for n in 0..100 {
            let reserve = format!(r#"{{"filePath":"wait/{n}","ttlSeconds":300}}"#);
            send(&mut holding, holder, "bench/files/reserve", &reserve).await;
            read_answer(&mut holding, &mut buffer).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let wait = format!(r#"{{"filePath":"wait/{n}","ttlSeconds":300,"waitSeconds":300}}"#);
            send(&mut stream, waiter, "waiter/files/reserve", &wait).await;
            waiting.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut samples = Vec::new();
        for (n, stream) in waiting.iter_mut().enumerate() {
            let begin = Instant::now();
            let release = format!(r#"{{"filePath":"wait/{n}"}}"#);
            send(&mut holding, holder, "bench/files/release", &release).await;
            read_answer(stream, &mut buffer).await;
            let woken = begin.elapsed();
            read_answer(&mut holding, &mut buffer).await;
            let begin = Instant::now();
            let reserve = format!(r#"{{"filePath":"free/{n}","ttlSeconds":300}}"#);
            send(&mut holding, holder, "bench/files/reserve", &reserve).await;
            read_answer(&mut holding, &mut buffer).await;
            samples.push((woken, begin.elapsed()));
        }
        samples
    });
    samples.sort_by(|a, b| (a.0.as_secs_f64() / a.1.as_secs_f64()).total_cmp(&(b.0.as_secs_f64() / b.1.as_secs_f64())));
    let (woken, plain) = samples[samples.len() / 2];
    println!(
        "{:<44} {woken:>12?} {plain:>12?} {:>7.2}x",
        "release to waiter's grant, beside a reserve",
        woken.as_secs_f64() / plain.as_secs_f64()
    );
}

async fn start_ours(dir: &std::path::Path) -> (std::net::SocketAddr, String, String) {
    let secret = vec![b's'; 32];
    let keyring = Keyring::new(KeyringConfig { secret: Some(secret), ..KeyringConfig::default() }).unwrap();
    let now = unix_seconds();
    let mint = |subject: &str| {
        let mint = Mint { subject: subject.into(), issued: now, expires: now + 3600, ..Mint::default() };
        keyring.mint(&mint).unwrap()
    };
    let (token, other) = (mint("bench"), mint("waiter"));
    let journal = SqliteJournal::open(&dir.join("journal.db")).unwrap();
    let policy = Policy { reservations_per_session: usize::MAX, ..Policy::default() };
    let failed = |error| panic!("{error}");
    let (desk, _) = Desk::open("bench", Box::new(journal), Box::new(SystemClock::new()), policy, failed).unwrap();
    let repository = Repository::new("bench".into(), desk);
    let app = App::new(vec![repository], Arc::new(keyring), unix_seconds);
    // One session asks for all, and as fast as it can.
    app.set_limits(Limits { requests_per_second: 0, ..Limits::default() });
    (serve(router(Arc::new(app), Gate::Loopback)).await, token, other)
}

async fn start_bare() -> std::net::SocketAddr {
    let answer = async |body: Bytes| {
        let ask: wire::Reserve = serde_json::from_slice(&body).unwrap();
        assert!(ask.file_path.is_some());
        ([("content-type", "application/json")], ANSWER).into_response()
    };
    serve(Router::new().route("/api/sessions/{id}/files/reserve", post(answer))).await
}

async fn serve(router: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let stop = watch::Sender::new(false);
        Server::new(router, vec![Listener::Tcp(listener)]).run(stop.subscribe(), || {}).await;
        drop(stop);
    });
    address
}

#[derive(Debug)]
struct Load {
    /// Requests answered per second.
    rate: f64,
    /// What this process computed for each, the client's part included. Less moved by other programs than the rate.
    cpu: Duration,
}

fn load(address: std::net::SocketAddr, token: &str, connections: usize) -> Load {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (begin, cpu) = (Instant::now(), cpu_time());
        let clients: Vec<_> = (0..connections)
            .map(|_| {
                let token = token.to_owned();
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let mut buffer = vec![0; 4096];
                    let mut done = 0u64;
                    while begin.elapsed() < ROUND {
                        let n = NEXT.fetch_add(1, Ordering::Relaxed);
                        let body = format!(
                            r#"{{"filePath":"src/area_{}/part_{}/file_{n}.rs","ttlSeconds":60}}"#,
                            n % 97,
                            n % 1009
                        );
                        send(&mut stream, &token, "bench/files/reserve", &body).await;
                        read_answer(&mut stream, &mut buffer).await;
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let mut total = 0;
        for client in clients {
            total += client.await.unwrap();
        }
        let cpu = (cpu_time() - cpu).div_f64(total as f64);
        Load { rate: total as f64 / begin.elapsed().as_secs_f64(), cpu }
    })
}

async fn send(stream: &mut TcpStream, token: &str, call: &str, body: &str) {
    let request = format!(
        "POST /api/sessions/{call} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await.unwrap();
        assert!(read > 0, "the server hung up");
        filled += read;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head]).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if filled >= head + 4 + length {
            return;
        }
    }
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}
