//! The node processes: this program, started again for each. A node lives no longer than the parent: it ends when its
//! stdin does, and is killed when its handle is dropped.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::protocol::{Order, Word, line, read};

/// How long a process may take to end once its stdin is closed.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many lines of a dead node's log are shown.
const LOG_LINES: usize = 12;

/// What comes from a node.
pub(crate) enum Heard {
    /// A word of it.
    Word(Box<Word>),
    /// Nothing more will come: its stdout ended, or said nonsense.
    Gone(String),
}

/// All node processes, by their place.
pub(crate) struct Fleet {
    /// Where the logs go.
    directory: PathBuf,
    processes: Vec<Process>,
    heard: mpsc::UnboundedReceiver<(usize, Heard)>,
    ear: mpsc::UnboundedSender<(usize, Heard)>,
}

struct Process {
    child: Child,
    orders: Option<mpsc::UnboundedSender<Order>>,
}

impl Fleet {
    /// No process yet; their logs will lie in `directory`.
    pub(crate) fn new(directory: PathBuf) -> Self {
        let (ear, heard) = mpsc::unbounded_channel();
        Self { directory, processes: Vec::new(), heard, ear }
    }

    /// Starts one more process and gives its place.
    ///
    /// # Errors
    /// The program or the log file cannot be opened.
    pub(crate) fn spawn(&mut self) -> io::Result<usize> {
        let node = self.processes.len();
        let mut child = Command::new(std::env::current_exe()?)
            .arg("node")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.log(node))?)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process without pipes"));
        };
        let (orders, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_orders(stdin, queue));
        tokio::spawn(read_words(node, stdout, self.ear.clone()));
        self.processes.push(Process { child, orders: Some(orders) });
        Ok(node)
    }

    /// Gives an order; one to a node that is gone is dropped, and its end will be heard. Orders arrive in order; who gives
    /// them bounds how many are under way.
    pub(crate) fn order(&self, node: usize, order: Order) {
        if let Some(orders) = &self.processes[node].orders {
            // Fails only when the writer ended, which happens when the process did.
            let _ = orders.send(order);
        }
    }

    /// The next thing heard, within `limit`.
    pub(crate) async fn hear(&mut self, limit: Duration) -> Option<(usize, Heard)> {
        timeout(limit, self.heard.recv()).await.ok().flatten()
    }

    /// The next thing heard, if it is here.
    pub(crate) fn heard(&mut self) -> Option<(usize, Heard)> {
        self.heard.try_recv().ok()
    }

    /// Sends SIGKILL, without asking.
    ///
    /// # Errors
    /// The process is gone already, or the system refuses.
    pub(crate) fn kill(&mut self, node: usize) -> io::Result<()> {
        self.processes[node].child.start_kill()
    }

    /// Waits for the end of a process whose stdout ended, for a few seconds, and kills it after that. How it ended.
    pub(crate) async fn reap(&mut self, node: usize) -> String {
        let process = &mut self.processes[node];
        process.orders = None;
        match timeout(FAREWELL, process.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => match process.child.kill().await {
                Ok(()) => "it did not end and was killed".to_owned(),
                Err(error) => format!("it did not end and could not be killed: {error}"),
            },
        }
    }

    /// Ends every process: closes all stdins, then waits for each and kills what stays.
    pub(crate) async fn end(mut self) {
        for process in &mut self.processes {
            process.orders = None;
        }
        for node in 0..self.processes.len() {
            self.reap(node).await;
        }
    }

    /// The last lines of a node's log.
    pub(crate) fn last_words(&self, node: usize) -> Vec<String> {
        let text = fs::read(self.log(node)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| (*line).to_owned()).collect()
    }

    fn log(&self, node: usize) -> PathBuf {
        self.directory.join(format!("node-{}.log", node + 1))
    }
}

/// Writes orders until there are no more or the process takes none; then its stdin closes. What has queued up goes out in
/// one piece.
async fn write_orders(mut stdin: ChildStdin, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let mut bytes = line(&order);
        while let Ok(order) = orders.try_recv() {
            bytes.extend_from_slice(&line(&order));
        }
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_words(node: usize, stdout: ChildStdout, ear: mpsc::UnboundedSender<(usize, Heard)>) {
    let (mut input, mut buffer) = (BufReader::with_capacity(64 * 1024, stdout), Vec::new());
    let end = loop {
        match read::<Word>(&mut input, &mut buffer).await {
            Ok(Some(word)) => {
                if ear.send((node, Heard::Word(Box::new(word)))).is_err() {
                    return;
                }
            }
            Ok(None) => break "it closed its stdout".to_owned(),
            Err(error) => break format!("it wrote something unreadable: {error}"),
        }
    };
    // Fails only when the parent no longer listens.
    let _ = ear.send((node, Heard::Gone(end)));
}
