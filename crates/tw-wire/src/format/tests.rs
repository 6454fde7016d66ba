use super::WireFormat;

#[test]
fn every_word_is_read_as_its_format() {
    for format in WireFormat::ALL {
        assert_eq!(WireFormat::parse(format.name()), Some(format));
        assert_eq!(
            WireFormat::of_reader_word(format.reader_word()),
            Some(format)
        );
    }
    assert_eq!(WireFormat::parse("chat"), None);
    assert_eq!(WireFormat::of_reader_word("own"), None);
}
