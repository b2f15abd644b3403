//! The rate of application messages, and refusals of the business level (rows A2, A4).

use fix_session::{MessageStore, Notice, Role};

use crate::desk::Desk;

#[test]
fn messages_above_the_rate_are_refused_and_cancels_pass() {
    let mut desk = Desk::logged_on_with(|config| config.throttle_per_s = 2);
    assert_eq!(desk.gets("35=D|34=2|11=a|") + &desk.gets("35=D|34=3|11=b|"), "");
    let refused = "35=j|34=2|45=4|58=Message rate exceeded|372=D|379=c|380=0|";
    assert_eq!(desk.gets("35=D|34=4|11=c|"), refused);
    assert_eq!(desk.gets("35=F|34=5|11=d|") + &desk.gets("35=q|34=6|11=e|"), "");
    assert_eq!(desk.gets("35=1|34=7|112=x|"), "35=0|34=3|112=x|");
    assert_eq!(desk.waits(999), "");
    assert!(desk.gets("35=D|34=8|11=f|").contains("Message rate exceeded"));
    desk.waits(1);
    assert_eq!(desk.gets("35=D|34=9|11=g|"), "");
    assert_eq!(desk.taken.messages, ["2 a", "3 b", "5 d", "6 e", "9 g"]);
    assert_eq!(desk.store.next_in(), 10);
    assert!(desk.notices.contains(&Notice::RateExceeded { seq: 8 }));
}

#[test]
fn reports_of_a_venue_pass_at_any_rate() {
    let mut desk = Desk::with(|config| {
        (config.role, config.throttle_per_s) = (Role::Initiator, 1);
    });
    desk.connect();
    desk.gets("35=A|34=1|98=0|108=30|");
    for (seq, report) in (2..).zip(["8", "8", "9", "j", "8"]) {
        assert_eq!(desk.gets(&format!("35={report}|34={seq}|11=a|")), "");
    }
    assert_eq!(desk.gets("35=B|34=7|11=a|"), "");
    assert!(desk.gets("35=B|34=8|11=b|").contains("Message rate exceeded"));
}

#[test]
fn a_refusal_is_a_message_that_is_sent_again() {
    let mut desk = Desk::logged_on_with(|config| config.throttle_per_s = 1);
    let time = desk.time(0);
    desk.gets("35=D|34=2|11=a|");
    desk.gets("35=D|34=3|11=b|");
    let again =
        format!("35=j|34=2|43=Y|122={time}|45=3|58=Message rate exceeded|372=D|379=b|380=0|");
    assert_eq!(desk.gets("35=2|34=4|7=2|16=2|"), again);
}

#[test]
fn a2_of_fixt_names_the_version_and_other_refusals_keep_the_dictionary() {
    let mut desk = Desk::with(|config| config.begin_string = "FIXT.1.1".to_owned());
    desk.connect();
    desk.gets("35=A|34=1|98=0|108=30|1137=9|");
    let message = desk.message("35=8|34=2|115=DESK|37=x|");
    let mut refusal = |reason, text| {
        desk.step(|session, index, turn, _| {
            let fix::Framing::Whole(frame) = fix::frame(&message, 65_536) else { panic!() };
            let message = index.read(frame).unwrap();
            session.refuse(&message, reason, text, turn);
        })
    };
    let not_taken = "35=j|34=2|128=DESK|45=2|58=Unsupported Message Type|372=8|380=3|1137=9|";
    assert_eq!(refusal(3, "Unsupported Message Type"), not_taken);
    let not_available = "35=j|34=3|128=DESK|45=2|58=Application not available|372=8|380=4|";
    assert_eq!(refusal(4, "Application not available"), not_available);
}
