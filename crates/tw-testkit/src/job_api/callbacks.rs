//! Callbacks of the stand-in's jobs.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::json;

use super::{JobApiState, JobState};
use crate::client::{ReadAnswer, SendError, TestClient};

/// A callback, ready to be sent; nothing but its headers vouches for it, and those not for its body.
#[derive(Clone, Debug)]
pub struct JobCallback {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl JobCallback {
    /// Sends it to its URL, of which the host must be an IP address with a port.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self) -> Result<ReadAnswer, SendError> {
        let place = self.url.strip_prefix("http://").unwrap_or_default();
        let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        let address: SocketAddr = host.parse().map_err(std::io::Error::other)?;
        let client = TestClient { address, key: None };
        self.send_by(&client, path).await
    }

    /// Sends it to another place.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send_by(&self, client: &TestClient, path: &str) -> Result<ReadAnswer, SendError> {
        let headers = self.headers.iter();
        let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (&**name, &**value)).collect();
        client.send("POST", path, &headers, self.body.clone()).await
    }
}

pub(super) fn of(state: &JobApiState, job: &str, second: u64) -> Option<JobCallback> {
    let job = state.jobs.get(job)?;
    let url = job.request["callBackUrl"].as_str()?.to_owned();
    let mut data = state.data_of(job);
    let (code, message, credits) = match job.state {
        JobState::Fail => (501, "Playground task failed.", 0),
        JobState::Waiting | JobState::Queuing | JobState::Generating | JobState::Success => {
            (200, "Playground task completed successfully.", 100)
        }
    };
    data["consumeCredits"] = json!(credits);
    data["remainedCredits"] = json!(2_510_330);
    let mut headers = Vec::new();
    if let Some(key) = &state.options.hmac_key {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        let signed = format!("{}.{second}", job.id);
        let signature = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
        headers.push(("x-webhook-timestamp".to_owned(), second.to_string()));
        headers.push(("x-webhook-signature".to_owned(), signature));
    }
    Some(JobCallback {
        url,
        headers,
        body: json!({ "code": code, "msg": message, "data": data }).to_string(),
    })
}
