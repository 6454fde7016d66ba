//! A source that has changed since it was imported: it is imported again, and goes back as it is then.

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::postgres::PostgresSchema;

use crate::export::export;
use crate::foreign_databases::{ForeignDatabase, ForeignEngine};
use crate::import_files::{import, problems};
use crate::process::{create_key, key_of, stderr};

/// What goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoesBack {
    /// What the source was first.
    AsItWas,
    /// What it is now.
    AsItIs,
}

struct ChangedSource {
    name: &'static str,
    shape: &'static str,
    engine: ForeignEngine,
    first: &'static str,
    then: &'static str,
    goes_back: GoesBack,
}

const CHANGED: &[ChangedSource] = &[
    ChangedSource {
        name: "rows with keys that were of no turn are of one",
        shape: "openai",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE users (id TEXT PRIMARY KEY, name TEXT);
            CREATE TABLE conversations (id TEXT PRIMARY KEY, user_id TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT);
            INSERT INTO users VALUES ('ann', 'Ann');
            INSERT INTO conversations VALUES ('a', 'ann'), ('b', 'bob'), ('d', 'bob');
            INSERT INTO messages VALUES (1, 'a', 'user', 'hi'), (2, NULL, 'user', 'of nobody yet'), (3, NULL, 'user', 'of nobody');",
        then: "
            INSERT INTO messages VALUES (4, 'b', 'user', 'hi');
            UPDATE messages SET conversation_id = 'c' WHERE id = 2;",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "rows without keys that were of no turn are of one, and others are equal to them",
        shape: "openai",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE conversations (id TEXT, user_id TEXT);
            CREATE TABLE messages (id TEXT, conversation_id TEXT, role TEXT, content TEXT);
            INSERT INTO conversations VALUES ('b', 'bob'), ('b', 'bob'), ('b', 'bob'), ('d', 'bob'), (NULL, NULL), (NULL, NULL);",
        then: "INSERT INTO messages VALUES ('4', 'b', 'user', 'hi')",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "the turn of a call has come",
        shape: "pocketbase",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE turns (id TEXT PRIMARY KEY, conversation TEXT, prompt TEXT, created TEXT);
            CREATE TABLE tool_calls (id TEXT PRIMARY KEY, turn TEXT, tool_name TEXT, tool_call_id TEXT, arguments TEXT, result TEXT, status TEXT);
            INSERT INTO tool_calls VALUES ('k1', 't1', 'list', 'c1', '{}', '1', 'completed'), ('k2', 't2', 'list', 'c2', '{}', '1', 'completed');",
        then: "INSERT INTO turns VALUES ('t1', 'a', 'hi', '2025-01-01')",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "the turn of calls that nothing names has come",
        shape: "pocketbase",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE turns (id TEXT PRIMARY KEY, conversation TEXT, prompt TEXT, created TEXT);
            CREATE TABLE tool_calls (turn TEXT, tool_name TEXT, tool_call_id TEXT, arguments TEXT, result TEXT, status TEXT);
            INSERT INTO tool_calls VALUES ('t1', 'list', 'c1', '{}', '1', 'completed'), ('t1', 'list', 'c1', '{}', '1', 'completed'),
                ('t2', 'list', 'c2', '{}', '1', 'completed');",
        then: "INSERT INTO turns VALUES ('t1', 'a', 'hi', '2025-01-01')",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "rows of a server that were of no turn are of one",
        shape: "blocks",
        engine: ForeignEngine::Postgres,
        first: "
            CREATE TABLE conversations (id INT PRIMARY KEY, user_id TEXT);
            CREATE TABLE messages (id UUID PRIMARY KEY, conversation_id INT, role TEXT, content JSONB);
            INSERT INTO conversations VALUES (1, 'ann'), (2, 'bob'), (3, 'bob');
            INSERT INTO messages VALUES ('22222222-0000-4000-8000-000000000001', 1, 'user', '\"hi\"'),
                ('22222222-0000-4000-8000-000000000002', NULL, 'user', '\"of nobody yet\"');",
        then: "
            INSERT INTO messages VALUES ('22222222-0000-4000-8000-000000000003', 2, 'user', '\"hi\"');
            UPDATE messages SET conversation_id = 4 WHERE conversation_id IS NULL;",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "the keys of a server's tables are of two columns, or there are none",
        shape: "langchain",
        engine: ForeignEngine::Postgres,
        first: "
            CREATE TABLE conversations (id TEXT UNIQUE, user_id TEXT);
            CREATE TABLE messages (id TEXT, part INT, conversation_id TEXT, role TEXT, content TEXT, PRIMARY KEY (part, id));
            INSERT INTO conversations VALUES ('a', 'ann'), ('b', 'bob'), (NULL, 'bob'), (NULL, 'bob');
            INSERT INTO messages VALUES ('1', 1, NULL, 'user', 'of nobody yet'), ('1', 2, NULL, 'user', 'of nobody');",
        then: "
            INSERT INTO messages VALUES ('2', 1, 'b', 'user', 'hi');
            UPDATE messages SET conversation_id = 'c' WHERE part = 1 AND id = '1';",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "all that was said in a conversation is gone there, and the conversation is not",
        shape: "openai",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE conversations (id TEXT PRIMARY KEY, user_id TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT);
            INSERT INTO conversations VALUES ('a', 'ann'), ('b', 'bob');
            INSERT INTO messages VALUES (1, 'a', 'user', 'hi'), (2, 'b', 'user', 'hi');",
        then: "DELETE FROM messages WHERE conversation_id = 'a'",
        goes_back: GoesBack::AsItWas,
    },
    ChangedSource {
        name: "the same on a server",
        shape: "blocks",
        engine: ForeignEngine::Postgres,
        first: "
            CREATE TABLE conversations (id INT PRIMARY KEY, user_id TEXT);
            CREATE TABLE messages (id INT PRIMARY KEY, conversation_id INT, role TEXT, content JSONB);
            INSERT INTO conversations VALUES (1, 'ann'), (2, 'bob');
            INSERT INTO messages VALUES (1, 1, 'user', '\"hi\"'), (2, 2, 'user', '\"hi\"');",
        then: "DELETE FROM messages WHERE conversation_id = 1",
        goes_back: GoesBack::AsItWas,
    },
    ChangedSource {
        name: "tables have more columns, and there are more tables",
        shape: "openai",
        engine: ForeignEngine::Sqlite,
        first: "
            CREATE TABLE users (id TEXT PRIMARY KEY, name TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT);
            INSERT INTO users VALUES ('ann', 'Ann');
            INSERT INTO messages VALUES (1, 'a', 'user', 'hi');",
        then: "
            CREATE TABLE agents (id TEXT PRIMARY KEY);
            ALTER TABLE users ADD COLUMN age INTEGER;
            ALTER TABLE messages ADD COLUMN note TEXT;
            INSERT INTO agents VALUES ('x');
            INSERT INTO users VALUES ('bob', 'Bob', 42);
            INSERT INTO messages VALUES (2, 'b', 'user', 'hi', 'noted');",
        goes_back: GoesBack::AsItIs,
    },
    ChangedSource {
        name: "a table of a server has more columns",
        shape: "blocks",
        engine: ForeignEngine::Postgres,
        first: "
            CREATE TABLE conversations (id INT PRIMARY KEY);
            CREATE TABLE messages (id INT PRIMARY KEY, conversation_id INT, role TEXT, content JSONB);
            INSERT INTO conversations VALUES (1), (2);
            INSERT INTO messages VALUES (1, 1, 'user', '\"hi\"');",
        then: "
            ALTER TABLE conversations ADD COLUMN title TEXT;
            ALTER TABLE messages ADD COLUMN note TEXT;
            INSERT INTO conversations VALUES (3, 'new');
            INSERT INTO messages VALUES (2, 3, 'user', '\"hi\"', 'noted');",
        goes_back: GoesBack::AsItIs,
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_since_goes_back_once() {
    for case in CHANGED {
        let Some(source) = ForeignDatabase::empty(case.engine).await else {
            continue;
        };
        source.run(case.first).await;
        let (first, second) = (TempDir::new().unwrap(), PostgresSchema::create().await);
        let data = first.path().join("data");
        let stores = match &second {
            None => vec![Vec::new()],
            Some(second) => vec![Vec::new(), vec!["--store", &*second.url]],
        };
        let keys: Vec<String> = stores
            .iter()
            .map(|flags| key_of(&create_key(&data, flags)))
            .collect();
        let import_all = || {
            for (flags, key) in stores.iter().zip(&keys) {
                let flags = [&flags[..], &["--key", key]].concat();
                let done = import(case.shape, &data, &source, &flags);
                assert!(done.status.success(), "{}: {}", case.name, stderr(&done));
            }
        };
        import_all();
        let was = source.dump().await;
        source.run(case.then).await;
        import_all();
        import_all();
        let expected = match case.goes_back {
            GoesBack::AsItWas => was,
            GoesBack::AsItIs => source.dump().await,
        };
        for flags in &stores {
            let target = ForeignDatabase::empty(case.engine).await.unwrap();
            let done = export(case.shape, &data, &target, flags);
            assert!(done.status.success(), "{}: {}", case.name, stderr(&done));
            assert_eq!(target.dump().await, expected, "{}", case.name);
        }
    }
}

/// Rows of one place in their tables, and two of one key.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_two_files_are_told_apart() {
    let tables = "
        CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT);
        CREATE TABLE users (id TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE settings (name TEXT, value TEXT);";
    let mut files = Vec::new();
    for rows in [
        "INSERT INTO users VALUES ('ann', 'Ann'), ('cyd', 'Cyd'); INSERT INTO settings VALUES ('k', '1'), ('s', '1');",
        "INSERT INTO users VALUES ('ann', 'Annie'), ('bob', 'Bob'), ('cyd', 'Cyd'); INSERT INTO settings VALUES ('l', '2'), ('s', '1');",
    ] {
        let file = ForeignDatabase::empty(ForeignEngine::Sqlite).await.unwrap();
        file.run(tables).await;
        file.run(rows).await;
        files.push(file);
    }
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let schema = PostgresSchema::create().await;
    let url = schema.as_ref().map(|schema| &*schema.url);
    for flags in [Some(Vec::new()), url.map(|url| vec!["--store", url])] {
        let Some(flags) = flags else { continue };
        let key = key_of(&create_key(&data, &flags));
        let with_key = [&flags[..], &["--key", &key]].concat();
        let done = import("openai", &data, &files[0], &with_key);
        assert_eq!(problems(&done), Vec::<String>::new());
        let done = import("openai", &data, &files[1], &with_key);
        assert!(done.status.success(), "{}", stderr(&done));
        let told: Value = serde_json::from_slice(&done.stdout).unwrap();
        let expected = json!({"conversation": "", "row": "ann", "problem": "changed_since",
            "done": "what was imported before stays as it is", "content": r#"{"id":"ann","name":"Annie"}"#});
        assert_eq!(told, expected);
        let target = ForeignDatabase::empty(ForeignEngine::Sqlite).await.unwrap();
        let done = export("openai", &data, &target, &flags);
        assert!(done.status.success(), "{}", stderr(&done));
        let rows = target.dump().await;
        let rows = rows.iter().filter(|row| row.contains(" | "));
        let rows: Vec<String> = rows.map(|row| row.replace('"', "")).collect();
        assert_eq!(
            rows,
            [
                "settings: k | 1",
                "settings: l | 2",
                "settings: s | 1",
                "users: ann | Ann",
                "users: bob | Bob",
                "users: cyd | Cyd",
            ]
        );
    }
}
