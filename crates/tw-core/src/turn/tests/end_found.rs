//! Calls that somebody else ended: final is final, and the record's end counts.

use super::recovery::found_after;
use super::{check, check_recovered, mixed, ours};
use crate::call::{CallEnd, CallStatus};

#[test]
fn before_its_start() {
    check(
        ours(),
        "> call 0 send_mail {} ; done ; slot 1.0
           write close 1#1 ok
           write message 1 call c0 send_mail {}
           write call 1.0 send_mail pending
           show start m 1000
           show call 1.0 send_mail
           do slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > refused record 1.0 completed by somebody
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 send_mail {}
           result c0 \"by somebody\"
         > end 1.0#1 ok late",
    );
}

#[test]
fn before_another_attempt() {
    check(
        ours(),
        "> call 0 get_time {} ; call 1 get_time {} ; done ; slot 1.0 ; slot 1.1 ; end 1.0#1 reset why
           write close 1#1 ok
           write message 1 call c0 get_time {} call c1 get_time {}
           write call 1.0 get_time pending
           write call 1.1 get_time pending
           show start m 1000
           show call 1.0 get_time
           show call 1.1 get_time
           do slot 1.0
           do slot 1.1
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
           write close 1.0#1 reset
           do timer call 1.0#2 in 200ms
         > timer
           write open 1.0#2
           do dispatch 1.0#2
         > refused record 1.0 completed by somebody
           show ended 1.0 completed
           do release 1.0
         > end 1.1#1 ok mine
           write close 1.1#1 ok
           write ended 1.1 completed \"mine\"
           write open 2#1
           show ended 1.1 completed
           do release 1.1
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 get_time {} call c1 get_time {}
           result c0 \"by somebody\"
           result c1 \"mine\"",
    );
}

#[test]
fn before_its_end() {
    check(
        ours(),
        "> call 0 send_mail {} ; done ; slot 1.0
           write close 1#1 ok
           write message 1 call c0 send_mail {}
           write call 1.0 send_mail pending
           show start m 1000
           show call 1.0 send_mail
           do slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > end 1.0#1 ok mine
           write close 1.0#1 ok
           write ended 1.0 completed \"mine\"
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > refused record 1.0 completed by somebody
           write close 1.0#1 ok
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 send_mail {}
           result c0 \"by somebody\"",
    );
}

#[test]
fn before_the_stop() {
    check(
        ours(),
        "> call 0 get_time {} ; call 1 send_mail {} ; done ; slot 1.0
           write close 1#1 ok
           write message 1 call c0 get_time {} call c1 send_mail {}
           write call 1.0 get_time pending
           write call 1.1 send_mail pending
           show start m 1000
           show call 1.0 get_time
           show call 1.1 send_mail
           do slot 1.0
           do slot 1.1
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > cancel
           write stopping requested
           write close 1.0#1 cancelled
           write ended 1.0 failed cancelled \"The request was stopped.\"
           write ended 1.1 failed cancelled \"The request was stopped.\"
           write turn cancelled requested calls 2
           show ended 1.0 failed cancelled
           show ended 1.1 failed cancelled
           show end cancelled requested (cancelled: the request was stopped)
           do abort 1.0
           do release 1.0
           do release 1.1
         > refused record 1.1 completed by somebody
           write stopping requested
           write close 1.0#1 cancelled
           write ended 1.0 failed cancelled \"The request was stopped.\"
           write turn cancelled requested calls 2
           show ended 1.0 failed cancelled
           show ended 1.1 completed
           show end cancelled requested (cancelled: the request was stopped); ran send_mail completed
           do abort 1.0
           do release 1.0
           do release 1.1",
    );
}

#[test]
fn before_the_end_of_the_turn() {
    check(
        ours(),
        "> usage 5 5 ; call 0 get_time {} ; call 1 send_mail {} ; done ; slot 1.1
           write close 1#1 ok usage 5+5
           write message 1 call c0 get_time {} call c1 send_mail {}
           write call 1.0 get_time pending
           write call 1.1 send_mail pending
           show start m 1000
           show call 1.0 get_time
           show call 1.1 send_mail
           do slot 1.0
           do slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > deadline
           write ended 1.0 failed deadline \"The request's time was up.\"
           write close 1.1#1 cancelled
           write ended 1.1 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write turn incomplete deadline calls 2 usage 5+5
           show ended 1.0 failed deadline
           show ended 1.1 failed outcome_unknown
           show usage 5+5
           show end incomplete deadline (deadline: the request took longer than it may); ran send_mail failed
           do release 1.0
           do abort 1.1
           do release 1.1
         > refused record 1.1 completed by somebody
           write ended 1.0 failed deadline \"The request's time was up.\"
           write close 1.1#1 cancelled
           write turn incomplete deadline calls 2 usage 5+5
           show ended 1.0 failed deadline
           show ended 1.1 completed
           show usage 5+5
           show end incomplete deadline (deadline: the request took longer than it may); ran send_mail completed
           do release 1.0
           do abort 1.1
           do release 1.1
         > refused record 1.0 tool_error by another
           write close 1.1#1 cancelled
           write turn incomplete deadline calls 2 usage 5+5
           show ended 1.0 failed tool_error
           show ended 1.1 completed
           show usage 5+5
           show end incomplete deadline (deadline: the request took longer than it may); ran send_mail completed
           do release 1.0
           do abort 1.1
           do release 1.1",
    );
}

#[test]
fn before_a_call_is_handed_over() {
    check(
        mixed(),
        "> call 0 pick {} ; call 1 get_time {} ; done ; slot 1.1
           write close 1#1 ok
           write message 1 call c0 pick {} call c1 get_time {}
           write client call 1.0 pick c0 {}
           write call 1.1 get_time pending
           show start m 1000
           show call 1.1 get_time
           do slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > end 1.1#1 ok noon
           write close 1.1#1 ok
           write ended 1.1 completed \"noon\"
           write hand over 1.0 pick c0 {}
           write turn completed calls 2
           show ended 1.1 completed
           show client call 0 pick@1 {}
           show finish tool_calls
           show end completed
           do release 1.1
         > refused record 1.0 completed by somebody
           write close 1.1#1 ok
           write ended 1.1 completed \"noon\"
           write turn completed calls 2
           show ended 1.1 completed
           show client call 0 pick@1 {}
           show finish tool_calls
           show end completed
           do release 1.1",
    );
}

/// As when somebody tells the driver, which then has refused nothing.
#[test]
fn while_it_runs() {
    check(
        ours(),
        "> call 0 send_mail {} ; call 1 pay {} ; done ; slot 1.0 ; slot 1.1 ; end 1.1#1 timeout
           write close 1#1 ok
           write message 1 call c0 send_mail {} call c1 pay {}
           write call 1.0 send_mail pending
           write call 1.1 pay pending
           show start m 1000
           show call 1.0 send_mail
           show call 1.1 pay
           do slot 1.0
           do slot 1.1
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
           write close 1.1#1 timeout
           do look up 1.1#1
         > record 1.0 completed by somebody
           write close 1.0#1 cancelled
           show ended 1.0 completed
           do abort 1.0
           do release 1.0
         > record 1.1 tool_error by another
           write open 2#1
           show ended 1.1 failed tool_error
           do abort 1.1
           do release 1.1
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 send_mail {} call c1 pay {}
           result c0 \"by somebody\"
           result c1 \"by another\"",
    );
}

/// Its end came into the record and nowhere else: the attempt is open, and nothing was shown.
#[test]
fn while_nobody_drives_the_turn() {
    let lines = "call 0 send_mail {} ; call 1 send_mail {} ; done ; slot 1.0 ; slot 1.1";
    let mut found = found_after(ours(), lines);
    found.calls[0].status = CallStatus::Completed;
    found.calls[0].end = Some(CallEnd {
        reason: None,
        result: None,
        shown: "by somebody".to_owned(),
        is_error: false,
        cached: false,
    });
    check_recovered(
        ours(),
        &found,
        "> recover
           write close 1.1#1 interrupted
           write ended 1.1 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write close 1.0#1 interrupted
           write open 2#1
           show ended 1.1 failed outcome_unknown
           show ended 1.0 completed
           do release 1.1
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 send_mail {} call c1 send_mail {}
           result c0 \"by somebody\"
           result c1 \"It is not known whether this call took effect. It must not s…\"
         > deadline
           write close 2#1 cancelled
           write turn incomplete deadline calls 2
           show end incomplete deadline (deadline: the request took longer than it may); ran send_mail completed; ran send_mail failed
           do abort ask",
    );
}
