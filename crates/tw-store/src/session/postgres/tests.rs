use super::numbered;

#[test]
fn places_are_written_as_the_server_reads_them() {
    for (text, expected) in [
        ("SELECT ?1, ?22 WHERE a = ?1", "SELECT $1, $22 WHERE a = $1"),
        ("SELECT 'why?'", "SELECT 'why?'"),
        ("", ""),
    ] {
        assert_eq!(numbered(text), expected);
    }
}
