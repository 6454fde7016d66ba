use super::{ProcessSample, ProcessWatch};

fn watch(samples: impl IntoIterator<Item = (u64, usize)>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = ProcessWatch::new(folder.path());
    // An earlier process does not count.
    watch.note(ProcessSample {
        resident_kib: 1,
        open_files: 1,
    });
    watch.begin_steady();
    for (resident_kib, open_files) in samples {
        watch.note(ProcessSample {
            resident_kib,
            open_files,
        });
    }
    watch.judge()
}

#[test]
fn what_grows_is_told() {
    const MIB: u64 = 1024;
    let flat = (0..40).map(|at| (50 * MIB + at % 3, 20 + (at % 5) as usize));
    assert_eq!(watch(flat), [""; 0]);
    let warming_up = (0..40).map(|at| (50 * MIB * at.min(10) / 10, 20));
    assert_eq!(watch(warming_up), [""; 0]);
    let leaking = (0..40).map(|at| (50 * MIB + at * MIB, 20));
    assert_eq!(watch(leaking).len(), 1);
    let leaking_files = (0..40).map(|at| (50 * MIB, 20 + 2 * at as usize));
    assert_eq!(watch(leaking_files).len(), 1);
    assert_eq!(watch([(1, 1), (1, 1), (1, 1)]).len(), 1, "too few");
}
