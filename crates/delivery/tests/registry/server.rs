//! A Redis server for one test, which is killed when the test ends, however it ends.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use redis::{Client, Connection, IntoConnectionInfo, cmd};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Below the ephemeral port range, so that a killed server gets its port again.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

pub struct Server {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
    /// The option that sets its port.
    port_option: &'static str,
    process: Option<Child>,
}

impl Server {
    pub fn start() -> Server {
        let mut server = Server::absent(&[]);
        while !server.try_revive() {
            server.port = free_port();
        }
        server
    }

    /// A server that is not started yet, on a free port.
    pub fn absent(options: &[&str]) -> Server {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        Server { dir, port: free_port(), options, port_option: "--port", process: None }
    }

    /// Makes it speak only TLS on its port.
    pub fn with_tls(mut self) -> Server {
        self.options.extend(["--port", "0"].map(str::to_owned));
        self.port_option = "--tls-port";
        self
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it on the same port. It has the data that was saved, or none.
    pub fn revive(&mut self) {
        assert!(self.try_revive(), "redis-server ended: is port {} taken?", self.port);
    }

    fn try_revive(&mut self) -> bool {
        self.revive_unseen();
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Some(process) = &mut self.process {
            if process.try_wait().unwrap().is_some() {
                self.process = None;
            } else if self.answers() {
                return true;
            }
            assert!(Instant::now() < deadline, "waited for redis-server");
            std::thread::yield_now();
        }
        false
    }

    /// Starts it without waiting for an answer, because it may require a password.
    pub fn revive_unseen(&mut self) {
        self.process = Some(self.spawn());
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", self.port_option]);
        command.arg(self.port.to_string()).arg("--unixsocket").arg(self.socket()).args(&self.options);
        let process = command.current_dir(self.dir()).stdout(Stdio::null()).spawn();
        match process {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                panic!("redis-server is missing: tools/setup test installs it")
            }
            process => process.unwrap(),
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir().join("socket")
    }

    fn answers(&self) -> bool {
        self.try_connect().is_ok_and(|mut connection| cmd("PING").exec(&mut connection).is_ok())
    }

    fn try_connect(&self) -> redis::RedisResult<Connection> {
        let url = format!("redis+unix://{}", self.socket().display());
        Client::open(url.into_connection_info()?)?.get_connection()
    }

    /// A connection that does not depend on its TCP port.
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Makes it accept connections without answering.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % u32::from(PORTS.end - PORTS.start)) as u16;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(7).wrapping_add(first);
        let port = PORTS.start + step % (PORTS.end - PORTS.start);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
