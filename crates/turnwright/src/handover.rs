//! The handover, in which one server takes over from another without a refused connection.
//!
//! The listening socket outlives the process: it comes on standard input from whoever holds it (a
//! socket unit of systemd), or the running server gives it away through a door in its data folder,
//! and that of its metrics with it. Connections that arrive between the two servers wait in the
//! socket's backlog.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use tokio::net::UnixListener;

const DOOR: &str = "handover.sock";
/// Longest path that the address of a socket holds everywhere, in bytes: 104 with a NUL on macOS, 108 on Linux.
const ADDRESS_BYTES_MAX: usize = 103;
/// Time in which each side of the door does its part.
const STEP_MAX: Duration = Duration::from_secs(5);
/// Most sockets that go through the door: the one for all, and that of metrics.
const SOCKETS_MAX: usize = 2;
/// Bytes that the two sides say to one another; the sockets go with the first.
const TAKE: u8 = b't';
const TAKEN: u8 = b'k';

/// The listening socket on standard input, if there is one.
pub fn on_stdin() -> Option<TcpListener> {
    let stdin = std::io::stdin();
    if !sockopt::socket_acceptconn(&stdin).unwrap_or(false) {
        return None;
    }
    let socket = stdin.as_fd().try_clone_to_owned().ok()?;
    let listener = TcpListener::from(socket);
    // One of another family has no such address.
    listener.local_addr().is_ok().then_some(listener)
}

/// The sockets that a running server would give away. It serves on, whatever becomes of us, until they are taken.
pub struct OfferedSockets {
    pub listener: TcpListener,
    /// Listener of its metrics, if it has one.
    pub metrics: Option<TcpListener>,
    pub acceptance: HandoverAcceptance,
}

/// The answer that the sockets are taken, still to be given.
pub struct HandoverAcceptance(UnixStream);

impl OfferedSockets {
    /// Asks the server that runs on the folder; `None` when none runs.
    ///
    /// `wanted` is where this server is to listen. Blocks for a few seconds at most.
    pub fn ask(data: &Path, wanted: SocketAddr) -> anyhow::Result<Option<Self>> {
        let door = data.join(DOOR);
        let opened = DoorAddress::of(data).and_then(|address| UnixStream::connect(address.path));
        let stream = match opened {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("opening {}", door.display())),
        };
        let taking = || format!("taking the socket over at {}", door.display());
        stream
            .set_read_timeout(Some(STEP_MAX))
            .with_context(taking)?;
        let mut sockets = receive(&stream).with_context(taking)?.into_iter();
        let Some(listener) = sockets.next() else {
            bail!("{}: no socket came", door.display());
        };
        let address = listener.local_addr().with_context(taking)?;
        if !is_wanted(address, wanted) {
            bail!(
                "the running server listens on {address}, this one is to listen on {wanted}: stop it instead of taking over"
            );
        }
        Ok(Some(Self {
            listener,
            metrics: sockets.next(),
            acceptance: HandoverAcceptance(stream),
        }))
    }
}

impl HandoverAcceptance {
    /// Tells the running server that its sockets are taken. It drains and ends from here on, so
    /// this comes last of all that can come before that.
    pub fn say(mut self) -> anyhow::Result<()> {
        self.0.write_all(&[TAKEN]).context("taking the socket over")
    }
}

/// Whether a socket has the address that is wanted; port 0 is any.
pub fn is_wanted(address: SocketAddr, wanted: SocketAddr) -> bool {
    address == wanted || (wanted.port() == 0 && address.ip() == wanted.ip())
}

fn receive(stream: &UnixStream) -> std::io::Result<Vec<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            let listening = fds.filter(|fd| sockopt::socket_acceptconn(fd).unwrap_or(false));
            sockets.extend(listening.map(TcpListener::from));
        }
    }
    Ok(sockets)
}

/// The path under which a folder's door is opened: its own, or where that is too long for an
/// address, one by way of the open folder.
struct DoorAddress {
    path: PathBuf,
    /// Folder that the path goes through while it is open.
    _through: Option<File>,
}

impl DoorAddress {
    fn of(data: &Path) -> std::io::Result<Self> {
        let path = data.join(DOOR);
        if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(Self {
                path,
                _through: None,
            });
        }
        let folder = File::open(data)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(Self {
            path: path.join(DOOR),
            _through: Some(folder),
        })
    }
}

/// The socket through which a running server gives its listening sockets away. Only the folder's
/// lock gives the right to open it.
pub struct HandoverSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl HandoverSocket {
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(DOOR);
        let opening = || format!("opening {}", path.display());
        match std::fs::remove_file(&path) {
            // An earlier process that was killed left it.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(opening),
        }
        let address = DoorAddress::of(data).with_context(opening)?;
        let listener = UnixListener::bind(&address.path).with_context(opening)?;
        Ok(Self { listener, path })
    }

    /// Waits until another process of the same user has the sockets, the one for all first.
    pub async fn given_away(&self, sockets: &[OwnedFd]) {
        loop {
            match self.give(sockets).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(error = %error, "the socket was not taken over"),
            }
        }
    }

    async fn give(&self, sockets: &[OwnedFd]) -> std::io::Result<()> {
        let (stream, _) = self.listener.accept().await?;
        let own = rustix::process::geteuid().as_raw();
        if stream.peer_cred()?.uid() != own {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let stream = stream.into_std()?;
        let sockets = sockets.iter().map(OwnedFd::try_clone);
        let sockets = sockets.collect::<std::io::Result<Vec<_>>>()?;
        tokio::task::spawn_blocking(move || send(&stream, &sockets)).await?
    }
}

impl Drop for HandoverSocket {
    fn drop(&mut self) {
        // A file that stays is removed by the next server.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends the sockets, and waits for the word that they are taken: until then they are ours to serve.
fn send(mut stream: &UnixStream, sockets: &[OwnedFd]) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STEP_MAX))?;
    stream.set_write_timeout(Some(STEP_MAX))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    sendmsg(
        stream,
        &[IoSlice::new(&[TAKE])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    let mut said = [0];
    stream.read_exact(&mut said)?;
    if said == [TAKEN] {
        Ok(())
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}
