//! Parts of a content, in requests and results.

use std::borrow::Cow;

use tw_core::json::Json;
use tw_core::request::{PartBlock, PartKind};
use tw_core::request_settings::{Media, MediaSource};

use crate::crossing::has_files_of_openai;
use crate::native_words;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// A part as a block.
pub fn part_block(json: Json) -> PartBlock {
    let fields = ObjectFields::parse(json.as_str()).ok();
    let get = |name: &str| fields.as_ref().and_then(|fields| fields.get(name));
    let kind = match get("type").and_then(raw::string).as_deref() {
        Some("input_image" | "computer_screenshot") => PartKind::Image,
        Some("input_file") => PartKind::File,
        Some("input_audio") => PartKind::Audio,
        Some(_) | None => PartKind::Other,
    };
    let url = match kind {
        PartKind::Image => get("image_url"),
        PartKind::File => get("file_url").or_else(|| get("file_data")),
        PartKind::Audio | PartKind::Other => None,
    };
    let url = url.and_then(|url| json.part(url.get()).as_literal());
    PartBlock {
        kind,
        url,
        format: super::FORMAT,
        json,
    }
}

/// The part as any format can say it; `None` for one that only this format has.
pub fn media(part: &PartBlock) -> Option<Media> {
    let fields = ObjectFields::parse(part.json.as_str()).ok()?;
    let text = |name: &str| raw::filled_string(fields.get(name)).map(Cow::into_owned);
    match part.kind {
        PartKind::Image => Some(Media {
            kind: PartKind::Image,
            source: match (text("image_url"), text("file_id")) {
                (Some(url), _) => MediaSource::of_url(&url),
                (None, Some(id)) => MediaSource::FileId(id),
                (None, None) => return None,
            },
            name: None,
            detail: text("detail"),
        }),
        PartKind::File => {
            let name = text("filename");
            let source = match (text("file_data"), text("file_url"), text("file_id")) {
                (Some(data), _, _) => file_source(data, name.as_deref()),
                (None, Some(url), _) => MediaSource::of_url(&url),
                (None, None, Some(id)) => MediaSource::FileId(id),
                (None, None, None) => return None,
            };
            Some(Media {
                kind: PartKind::File,
                source,
                name,
                detail: None,
            })
        }
        PartKind::Audio => {
            let audio = ObjectFields::parse(fields.get("input_audio")?.get()).ok()?;
            let text = |name: &str| raw::filled_string(audio.get(name)).map(Cow::into_owned);
            Some(Media {
                kind: PartKind::Audio,
                source: MediaSource::Data {
                    media_type: format!("audio/{}", text("format")?),
                    base64: text("data")?,
                },
                name: None,
                detail: None,
            })
        }
        PartKind::Other => None,
    }
}

/// The source of `file_data`: a `data:` URL or, as some clients send it, the data alone.
fn file_source(data: String, name: Option<&str>) -> MediaSource {
    if data.contains(':') {
        return MediaSource::of_url(&data);
    }
    let is_pdf = name.is_none_or(|name| name.to_ascii_lowercase().ends_with(".pdf"));
    let media_type = if is_pdf {
        "application/pdf"
    } else {
        "application/octet-stream"
    };
    MediaSource::Data {
        media_type: media_type.to_owned(),
        base64: data,
    }
}

/// Writes a part, whatever its format, as this one has it; says so if it cannot.
pub fn write_part(out: &mut Vec<u8>, part: &PartBlock) -> bool {
    if part.format == super::FORMAT {
        write::separate(out);
        write::raw(out, &part.json);
        return true;
    }
    let Some(media) = native_words::media(part) else {
        return false;
    };
    // Both of OpenAI's formats know its files by one id; to others' ids it has no file.
    if matches!(media.source, MediaSource::FileId(_)) && !has_files_of_openai(part.format) {
        return false;
    }
    write_media(out, &media).is_some()
}

/// Whether a file of another format is written as its text alone.
pub fn is_text_of_file(part: &PartBlock) -> bool {
    let is_text = |media: Media| matches!(media.source, MediaSource::Text(_));
    part.format != super::FORMAT && native_words::media(part).is_some_and(is_text)
}

fn write_media(out: &mut Vec<u8>, media: &Media) -> Option<()> {
    let mut fields: Vec<(&str, Cow<'_, str>)> = Vec::new();
    match (media.kind, &media.source) {
        (PartKind::Image, MediaSource::FileId(id)) => {
            fields.push(("type", "input_image".into()));
            fields.push(("file_id", id.into()));
        }
        (PartKind::Image, source) => {
            fields.push(("type", "input_image".into()));
            fields.push(("image_url", source.to_url()?.into()));
        }
        (PartKind::File, source) => {
            fields.push(("type", "input_file".into()));
            match source {
                MediaSource::FileId(id) => fields.push(("file_id", id.into())),
                MediaSource::Url(url) => fields.push(("file_url", url.into())),
                MediaSource::Data { .. } => {
                    let name = media.name.as_deref().unwrap_or("file");
                    fields.push(("filename", name.into()));
                    fields.push(("file_data", source.to_url()?.into()));
                }
                // A file of text is text here.
                MediaSource::Text(text) => {
                    fields[0] = ("type", "input_text".into());
                    fields.push(("text", text.into()));
                }
            }
        }
        (PartKind::Audio, MediaSource::Data { media_type, base64 }) => {
            let format = media_type.strip_prefix("audio/")?;
            write::separate(out);
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":{");
            write::key(out, "data");
            write::string(out, base64);
            write::key(out, "format");
            write::string(out, format);
            out.extend_from_slice(b"}}");
            return Some(());
        }
        (PartKind::Audio | PartKind::Other, _) => return None,
    }
    if media.kind == PartKind::Image {
        let detail = media.detail.as_deref().unwrap_or("auto");
        fields.push(("detail", detail.into()));
    }
    write::separate(out);
    out.push(b'{');
    for (name, text) in &fields {
        write::key(out, name);
        write::string(out, text);
    }
    out.push(b'}');
    Some(())
}
