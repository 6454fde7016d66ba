//! One server takes over from another without a refused connection.
//!
//! The listening socket outlives the process: it comes on standard input from whoever holds it (a
//! socket unit of systemd), or the running server gives it away through a door in its data folder.
//! Connections that arrive between the two servers wait in the socket's backlog.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
/// For each side of the door to do its part.
const STEP_MAX: Duration = Duration::from_secs(5);
/// What the two sides say to one another; the socket goes with the first.
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

/// Asks the server that runs on the folder for its listening socket; `None` when none runs.
///
/// `wanted` is where this server is to listen. Blocks for a few seconds at most.
pub fn ask(data: &Path, wanted: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
    let door = data.join(DOOR);
    let stream = match UnixStream::connect(&door) {
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
    let Some(socket) = receive(&stream).with_context(taking)? else {
        bail!("{}: no socket came", door.display());
    };
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().with_context(taking)?;
    let same = address == wanted || (wanted.port() == 0 && address.ip() == wanted.ip());
    if !same {
        bail!(
            "the running server listens on {address}, this one is to listen on {wanted}: stop it instead of taking over"
        );
    }
    (&stream).write_all(&[TAKEN]).with_context(taking)?;
    Ok(Some(listener))
}

fn receive(stream: &UnixStream) -> std::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut socket = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            socket = fds.last();
        }
    }
    Ok(socket.filter(|socket| sockopt::socket_acceptconn(socket).unwrap_or(false)))
}

/// Where a running server gives its listening socket away. Only the folder's lock gives the right
/// to open it.
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(DOOR);
        let opening = || format!("opening {}", path.display());
        match std::fs::remove_file(&path) {
            // An earlier process that was killed left it.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(opening),
        }
        let listener = UnixListener::bind(&path).with_context(opening)?;
        Ok(Self { listener, path })
    }

    /// Waits until another process of the same user has the socket.
    pub async fn given_away(&self, socket: &OwnedFd) {
        loop {
            match self.give(socket).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(error = %error, "the socket was not taken over"),
            }
        }
    }

    async fn give(&self, socket: &OwnedFd) -> std::io::Result<()> {
        let (stream, _) = self.listener.accept().await?;
        let own = rustix::process::geteuid().as_raw();
        if stream.peer_cred()?.uid() != own {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let stream = stream.into_std()?;
        let socket = socket.try_clone()?;
        tokio::task::spawn_blocking(move || send(&stream, socket.as_fd())).await?
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // A file that stays is removed by the next server.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends the socket, and waits for the word that it arrived: until then it is ours to serve.
fn send(mut stream: &UnixStream, socket: BorrowedFd<'_>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STEP_MAX))?;
    stream.set_write_timeout(Some(STEP_MAX))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
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
