use std::future::{pending, ready};

use super::OwnedTasks;

#[tokio::test]
async fn a_task_that_panics_says_whose_it_was() {
    let mut tasks = OwnedTasks::default();
    tasks.spawn(1, async { panic!("on purpose") });
    assert_eq!(tasks.ended().await, 1);
    tasks.spawn(2, ready(()));
    tasks.spawn(3, pending());
    tasks.spawn(2, async { panic!("on purpose") });
    assert_eq!((tasks.ended().await, tasks.ended().await), (2, 2));
    assert_eq!(tasks.ended_already(), None);
    assert_eq!(tasks.owners.into_values().collect::<Vec<_>>(), [3]);
}
