//! The page about the tables names all of them, with all of their columns.

use std::collections::BTreeMap;

use super::{AT, MIGRATIONS, memory, run};

/// Named once for all tables: keys, times, and what a row of a turn or an organization begins with.
const EVERYWHERE: [&str; 9] = [
    "key",
    "id",
    "organization",
    "turn",
    "round",
    "position",
    "blob_bytes",
    "created_us",
    "updated_us",
];

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");
    std::fs::read_to_string(path).unwrap()
}

/// The rows of the page's table, by the table that each is about.
fn rows(page: &str) -> BTreeMap<&str, &str> {
    let rows = page.lines().filter_map(|line| {
        let rest = line.strip_prefix("| `")?;
        rest.split_once("` |")
    });
    rows.collect()
}

#[test]
fn every_column_is_on_the_page_and_nothing_else() {
    let mut conn = memory();
    run(&mut conn, MIGRATIONS, AT).unwrap();
    let sql = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let columns: Vec<(String, String)> = columns.unwrap().map(Result::unwrap).collect();
    let page = page();
    let rows = rows(&page);
    for (table, column) in &columns {
        let row = rows.get(table.as_str());
        let row = row.unwrap_or_else(|| panic!("{table} is not on the page"));
        let named = row.contains(&format!("`{column}`"));
        assert!(
            named || EVERYWHERE.contains(&column.as_str()),
            "{table}.{column} is not on the page"
        );
    }
    for (table, row) in &rows {
        // The rows of what all tables have.
        if EVERYWHERE.contains(table) || table.contains('`') {
            continue;
        }
        let of_table = |column: &str| columns.contains(&((*table).to_owned(), column.to_owned()));
        assert!(columns.iter().any(|(known, _)| known == table), "{table}");
        // What ends in a unit is the name of a column.
        for word in row.split('`').skip(1).step_by(2) {
            let is_column = ["_us", "_hash", "_bytes", "_microusd", "_max"];
            if is_column.iter().any(|unit| word.ends_with(unit)) {
                assert!(of_table(word), "{table} has no {word}");
            }
        }
    }
}
