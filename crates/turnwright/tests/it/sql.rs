//! `turnwright sql`: the record as an application's own tables, on a file and on a PostgreSQL server.

mod columns;
mod inserts;
mod langchain;
mod others;
mod plans;
mod roles;
mod sensitive;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Map, Value};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::postgres::PostgresSchema;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

/// A server with one key, and the place of its record.
struct SqlWorld {
    _server: ServerProcess,
    client: TestClient,
    key: String,
    data: PathBuf,
    /// Where the record is on a PostgreSQL server.
    schema: Option<PostgresSchema>,
    _folder: TempDir,
    upstream: Listener,
}

impl SqlWorld {
    async fn start(replies: Vec<ListenerReply>, schema: Option<PostgresSchema>) -> Self {
        Self::start_with(replies, schema, "").await
    }

    /// The same, with a config file.
    async fn start_with(
        replies: Vec<ListenerReply>,
        schema: Option<PostgresSchema>,
        config: &str,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let upstream = Listener::in_turn(replies).await.unwrap();
        let url = schema.as_ref().map(|schema| schema.url.clone());
        let flags: Vec<&str> = match &url {
            Some(url) => vec!["--store", url],
            None => Vec::new(),
        };
        let wanted = [
            "--tools",
            "all",
            "--scope",
            "chat,turns:read,turns:read_all,tools:read,tools:write",
        ];
        let key = key_of(&create_key(&data, &[&flags[..], &wanted].concat()));
        let mut command = serve(&data, &upstream);
        command.args(&flags);
        let config_file = folder.path().join("turnwright.toml");
        std::fs::write(&config_file, config).unwrap();
        command.arg("--config").arg(config_file);
        let server = ServerProcess::start(command, &data);
        let client = TestClient {
            key: Some(key.clone()),
            ..server.client.clone()
        };
        Self {
            _server: server,
            client,
            key,
            data,
            schema,
            _folder: folder,
            upstream,
        }
    }

    /// A second server on the same PostgreSQL server.
    fn another_server(&self) -> ServerProcess {
        let data = self.data.with_file_name("second");
        let mut command = serve(&data, &self.upstream);
        let url = &self.schema.as_ref().unwrap().url;
        command.args(["--store", url]);
        ServerProcess::start(command, &data)
    }

    /// `turnwright sql` on the record.
    fn sql(&self, words: &[&str]) -> Output {
        sql(&self.data, self.schema.as_ref(), words)
    }

    /// A connection that sees the views of a shape.
    async fn views(&self, shape: &str, words: &[&str]) -> Views {
        match &self.schema {
            None => {
                let made = self.sql(&[&[shape], words].concat());
                let script = key_of(&made);
                let conn = rusqlite::Connection::open(self.data.join("turnwright.db")).unwrap();
                // Twice, as a pool does that does not know what a connection has.
                conn.execute_batch(&script).unwrap();
                conn.execute_batch(&script).unwrap();
                Views::File(conn)
            }
            Some(schema) => {
                let name = schema.views_schema();
                let words = [&[shape, "--schema", &name], words].concat();
                for _ in 0..2 {
                    let made = self.sql(&words);
                    assert!(made.status.success(), "{}", stderr(&made));
                }
                let client = schema.outside().await;
                let path = format!("SET search_path = {name}");
                client.batch_execute(&path).await.unwrap();
                Views::Server(client)
            }
        }
    }
}

fn sql(data: &Path, schema: Option<&PostgresSchema>, words: &[&str]) -> Output {
    let mut command = turnwright();
    command.arg("sql").args(words).arg("--data").arg(data);
    if let Some(schema) = schema {
        command.args(["--store", &schema.url]);
    }
    command.output().unwrap()
}

/// Runs a case on a file and on a PostgreSQL server.
async fn on_each_engine(replies: impl Fn() -> Vec<ListenerReply>, case: impl AsyncFn(SqlWorld)) {
    case(SqlWorld::start(replies(), None).await).await;
    if let Some(schema) = PostgresSchema::create().await {
        case(SqlWorld::start(replies(), Some(schema)).await).await;
    }
}

enum Views {
    File(rusqlite::Connection),
    Server(tokio_postgres::Client),
}

/// Columns that are JSON, which SQLite has as text.
const JSON_COLUMNS: [&str; 9] = [
    "tool_calls",
    "metadata",
    "content_json",
    "arguments",
    "result",
    "function_schema",
    "static_config",
    "config_metadata",
    "data",
];

impl Views {
    /// The rows of a query, each as an object of its columns.
    async fn rows(&self, query: &str) -> Vec<Value> {
        let query = query.trim().trim_end_matches(';');
        match self {
            Self::File(conn) => {
                let mut statement = conn.prepare(query).unwrap();
                let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
                let mut rows = statement.query([]).unwrap();
                let mut read = Vec::new();
                while let Some(row) = rows.next().unwrap() {
                    let columns = names.iter().enumerate();
                    let columns = columns.map(|(place, name)| {
                        (
                            name.clone(),
                            value(name, row.get_unwrap::<_, rusqlite::types::Value>(place)),
                        )
                    });
                    read.push(Value::Object(columns.collect::<Map<_, _>>()));
                }
                read
            }
            Self::Server(client) => {
                let query = format!("SELECT row_to_json(q)::text FROM ({query}) q");
                let rows = client.query(&query, &[]).await.unwrap();
                let read = rows.iter().map(|row| row.get::<_, String>(0));
                read.map(|text| serde_json::from_str(&text).unwrap())
                    .collect()
            }
        }
    }

    /// Runs statements; the error says what the database says.
    async fn run(&self, statements: &str) -> Result<(), String> {
        match self {
            Self::File(conn) => conn
                .execute_batch(statements)
                .map_err(|error| error.to_string()),
            Self::Server(client) => {
                client
                    .batch_execute(statements)
                    .await
                    .map_err(|error| match error.as_db_error() {
                        Some(error) => {
                            format!("{} {}", error.message(), error.hint().unwrap_or_default())
                        }
                        None => error.to_string(),
                    })
            }
        }
    }
}

fn value(column: &str, value: rusqlite::types::Value) -> Value {
    use rusqlite::types::Value as Sqlite;
    match value {
        Sqlite::Null => Value::Null,
        Sqlite::Integer(number) => number.into(),
        Sqlite::Real(number) => number.into(),
        Sqlite::Text(text) if JSON_COLUMNS.contains(&column) => {
            serde_json::from_str(&text).unwrap()
        }
        Sqlite::Text(text) => text.into(),
        Sqlite::Blob(_) => panic!("{column} is a blob"),
    }
}

/// An object without some of its fields.
fn without(row: &Value, names: &[&str]) -> Value {
    let mut row = row.clone();
    for name in names {
        row.as_object_mut().unwrap().remove(*name);
    }
    row
}

/// Panics at the first difference, and shows not all of long rows.
fn assert_rows(got: &[Value], expected: &[Value], what: &str) {
    for (got, expected) in got.iter().zip(expected) {
        for (name, expected) in expected.as_object().unwrap() {
            let got = &got[name];
            assert!(
                got == expected,
                "{what} {name}\n{:.2000}\n{:.2000}",
                got.to_string(),
                expected.to_string()
            );
        }
    }
    assert_eq!(got.len(), expected.len(), "{what}");
}
