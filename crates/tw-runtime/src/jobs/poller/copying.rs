//! The files of a job that has ended: copied into our storage before its call ends with links to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::OwnedSemaphorePermit;
use tw_core::call::CallEnd;
use tw_core::call_file::{CallFile, FileContent, FileFault};
use tw_core::callback::CallbackMeaning;
use tw_core::definition::ToolDefinition;
use tw_core::id::FileId;
use tw_core::job::{FILE_TRIES_MAX, JobEnding};
use tw_egress::file_downloads::download;
use tw_store::read::ReadError;
use tw_store::system::jobs::JobToAsk;

use crate::runtime::RuntimeInner;

/// Jobs whose files are copied at once, each of which may hold as many bytes as a definition allows.
pub(crate) const COPIES_AT_ONCE: usize = 4;
/// Longest time to wait for room; the job is asked about again then.
const ROOM_WITHIN: Duration = Duration::from_secs(20);

/// The end of a job with copies of its files; `None` where another try may get files that this one did not.
pub(super) async fn copy(
    inner: &RuntimeInner,
    definition: &ToolDefinition,
    job: &JobToAsk,
    (end, body): (CallEnd, &str),
) -> Result<Option<CopiedEnd>, ReadError> {
    let urls = match end.reason {
        None => definition.files_named(body),
        Some(_) => Vec::new(),
    };
    if urls.is_empty() {
        let ending = ended(inner, job, end.clone(), Vec::new());
        return Ok(Some(CopiedEnd {
            ending,
            plain: end,
            room: None,
        }));
    }
    let organization = job.organization_slug.as_str();
    let client = &inner.config.tool_client;
    let room = Arc::clone(&inner.file_copies).acquire_owned();
    let Ok(Ok(room)) = tokio::time::timeout(ROOM_WITHIN, room).await else {
        return Ok(None);
    };
    let downloads = urls
        .iter()
        .map(|url| download(client, definition, organization, url));
    let contents = join_all(downloads).await;
    let may_pass = |content: &FileContent| match content {
        FileContent::Missing(fault) => fault.may_pass(),
        FileContent::Kept { .. } => false,
    };
    let is_late = job
        .deadline
        .is_some_and(|deadline| deadline <= inner.env.now());
    if !is_late && job.faults < FILE_TRIES_MAX && contents.iter().any(may_pass) {
        return Ok(None);
    }
    let links = inner.file_links().await?;
    let until = inner.env.now().after(inner.config.files.link);
    let mut linked = Vec::new();
    let mut files = Vec::new();
    for ((url, content), n) in urls.into_iter().zip(contents).zip(0..) {
        let id = FileId(inner.env.ordered_id());
        // Without its host a link is of less use than the provider's.
        if links.are_absolute() && matches!(content, FileContent::Kept { .. }) {
            linked.push((url, links.until(id, until)));
        }
        files.push(CallFile { id, n, content });
    }
    let body = definition.with_links(body, &linked);
    let meaning = match &job.answer {
        Some(_) => definition.callback_reading(&body).meaning,
        None => definition.poll_meaning(&body),
    };
    // Links are texts as the URLs were; should they not be read as an end any more, the end stays as it was.
    let with_links = match meaning {
        CallbackMeaning::Ended(linked) => linked,
        _ => end.clone(),
    };
    let ending = ended(inner, job, with_links, files);
    Ok(Some(CopiedEnd {
        ending,
        plain: end,
        room: Some(room),
    }))
}

/// The end of a job, and the same without links to copies.
pub(super) struct CopiedEnd {
    pub(super) ending: JobEnding,
    pub(super) plain: CallEnd,
    /// Held until the files are written.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

fn ended(inner: &RuntimeInner, job: &JobToAsk, end: CallEnd, files: Vec<CallFile>) -> JobEnding {
    JobEnding::Ended {
        organization: job.organization,
        call: job.id,
        end,
        files,
        files_bytes_max: inner.config.files.organization_bytes_max,
    }
}

/// The same end for an organization that has no room for the files.
pub(super) fn without_room(ending: JobEnding, plain: CallEnd) -> JobEnding {
    match ending {
        JobEnding::Ended {
            organization,
            call,
            end: _,
            files,
            files_bytes_max,
        } => JobEnding::Ended {
            organization,
            call,
            end: plain,
            files: files
                .into_iter()
                .map(|file| CallFile {
                    content: FileContent::Missing(FileFault::NoRoom),
                    ..file
                })
                .collect(),
            files_bytes_max,
        },
        other @ (JobEnding::Again { .. } | JobEnding::Over) => other,
    }
}
