//! A wrong path told from a model that is not there.

use super::says_no_such_path;

#[test]
fn a_wrong_path_is_told_from_a_model_that_is_not_there() {
    const JSON: &str = "application/json";
    for (status, content_type, body, expected) in [
        (404, "", "", true),
        (404, JSON, "{}", true),
        (404, "text/plain", "404 page not found\n", true),
        (404, JSON, r#"{"detail":"Not Found"}"#, true),
        (
            404,
            JSON,
            r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
            true,
        ),
        (
            404,
            JSON,
            r#"{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}"#,
            true,
        ),
        (
            200,
            JSON,
            r#"{"error":"Unexpected endpoint or method. (POST /chat/completions)"}"#,
            false,
        ),
        (
            404,
            JSON,
            r#"{"error":"Unexpected endpoint or method. (POST /chat/completions)"}"#,
            true,
        ),
        (404, "text/html", "<!doctype html><title>Oh</title>", true),
        (404, "text/plain", "<html>", true),
        (404, "text/html", "Cannot POST /chat/completions", true),
        (405, JSON, r#"{"detail":"Method Not Allowed"}"#, true),
        // It knows chat completions, and not this model.
        (
            404,
            JSON,
            r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#,
            false,
        ),
        (
            404,
            JSON,
            r#"{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}}"#,
            false,
        ),
        (
            404,
            JSON,
            r#"{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","code":404}"#,
            false,
        ),
        (404, "text/plain", "no such model", false),
        (400, "", "", false),
        (500, "", "", false),
    ] {
        let content_type = Some(content_type).filter(|kind| !kind.is_empty());
        let said = says_no_such_path(status, content_type, body.as_bytes());
        assert_eq!(said, expected, "{status} {body}");
    }
}
