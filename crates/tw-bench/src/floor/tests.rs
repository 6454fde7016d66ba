use super::schema::{BLOB_KEYS, INTEGER_KEYS, create};
use super::turns::Turns;

#[test]
fn both_variants_write_the_same_turns() {
    const BATCH: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    for (name, variant) in [("integer.db", &INTEGER_KEYS), ("blob.db", &BLOB_KEYS)] {
        let conn = create(&folder.path().join(name), variant).unwrap();
        let mut turns = Turns::new(variant);
        turns.run_batch(&conn, BATCH).unwrap();
        turns.run_batch(&conn, BATCH).unwrap();
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(
            count("SELECT count(*) FROM turn WHERE status = 'completed'"),
            6,
            "{name}"
        );
        assert_eq!(count("SELECT count(*) FROM message"), 18, "{name}");
        assert_eq!(
            count("SELECT count(*) FROM tool_call WHERE status = 'completed'"),
            6,
            "{name}"
        );
        assert_eq!(
            count("SELECT count(*) FROM attempt WHERE outcome = 'ok'"),
            12,
            "{name}"
        );
        assert_eq!(
            count("SELECT count(*) FROM conversation WHERE head_turn IS NOT NULL"),
            6,
            "{name}"
        );
    }
}
