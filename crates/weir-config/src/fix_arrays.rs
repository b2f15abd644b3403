//! The arrays of the FIX door: `[[fix.session]]` and `[[fix.venue]]`.

use fix_session::{Checks, Durability};

use crate::arrays::{Entry, entry};

entry! {
    /// A client's session at the FIX door.
    pub FixSession = fix.session by name or target_comp_id {
        name: String = String::new(), " What the session is called in tools; empty: its `target_comp_id`. No two sessions have one name, and none is called `all`.";
        begin_string: String = "FIX.4.4".into(), " Version: \"FIX.4.2\", \"FIX.4.4\" or \"FIXT.1.1\".";
        default_appl_ver_id: String = "9".into(), " With \"FIXT.1.1\": \"9\" or \"FIX.5.0SP2\".";
        sender_comp_id: String = String::new(), " Our CompID: SenderCompID (49) of what we send. Required.";
        target_comp_id: String = String::new(), " The client's CompID: TargetCompID (56) of what we send. Required.";
        heart_bt_int_s: u32 = 30, [0..=86_400], " Kept for the client's side; the gate takes the HeartBtInt (108) of the client's Logon.";
        reset_on_logon: bool = false, " Both sequence numbers begin at 1 with each logon.";
        next_expected: bool = false, " NextExpectedMsgSeqNum (789) is sent and acted upon; FIX.4.2 has none.";
        resend_chunk: u64 = 0, " How many messages one ResendRequest asks for; 0 = all that are missing.";
        schedule: String = String::new(), " When the session is open: \"mon-fri 08:00-17:00 Europe/London\", or \"daily 17:00 America/New_York\" for one that only begins anew then; empty: always.";
        throttle_per_s: u32 = 0, " Application messages taken in any second, but for cancels (F, q), which are always taken; those above it are answered j 380=0; 0 = no limit.";
        durability: Durability = Durability::Sealed, " When an answer may leave: \"written\", its message is in the file (a crash of the process loses nothing), or \"sealed\", it is on the disk.";
        max_latency_s: u32 = 120, " How far SendingTime (52) may be from our clock, seconds; 0 = any distance.";
        validation: Checks = Checks::Full, " What is checked of a message: \"off\", \"structure\" or \"full\" (the dictionary of the version).";
        body_bytes_max: usize = 65_536, [64..=16_777_216], " A message with a larger BodyLength (9) closes the connection.";
        outbound_bytes_max: usize = 1_048_576, [4_096..=1_073_741_824], " A client that leaves more than this unread is disconnected; its messages are in the store and come by a gap.";
        limits: String = String::new(), " What orders are held against: \"budgets\", those that bind them, or \"none\". It has to be said.";
        route: String = String::new(), " What stands behind the session: \"echo\" sends application messages back; else the name of a `fix.venue`. Required.";
        firm: String = String::new(), " The firm whose orders come over the session, by which budgets can bind them; empty: none.";
        unpriced: Vec<String> = Vec::new(), " With `limits = \"budgets\"`: types of messages (35) that make the venue owe something at no price that is known here, and that pass all the same: such as \"E\", \"s\", \"t\", \"AB\", \"AC\", \"i\", \"S\", \"AJ\", \"J\", \"AE\", \"n\", any with \"U\" first, and any that the gate does not know.";
        sell_without_reference: String = "limit".into(), " With `limits = \"budgets\"`: what becomes of a sale whose symbol has no reference price, and which could be executed at any price above its limit: \"limit\", it is held at its limit price, or \"refuse\".";
        order_value_max: String = String::new(), " With `limits = \"budgets\"`: the most that one order may cost, OrderQty (38) times Price (44) in the order's own currency, as a decimal number such as \"250000\"; empty: no cap.";
        order_quantity_max: String = String::new(), " With `limits = \"budgets\"`: the largest OrderQty (38) of one order, as a decimal number; empty: no cap.";
        restricted: Vec<String> = Vec::new(), " With `limits = \"budgets\"`: values of Symbol (55) and SecurityID (48) that the session may not trade; open orders in them can still be cancelled.";
        cancel_on_disconnect_s: u32 = 0, [0..=86_400], " How long the client may be disconnected, seconds; afterwards its open orders are cancelled; 0 = for ever.";
        cl_ord_id_prefix: String = String::new(), " Put before ClOrdIDs (11, 41) towards the venue and taken off on the way back, so that clients of one venue may use the same; empty: nothing.";
        source_addresses: Vec<String> = Vec::new(), " From where the client may come: addresses and ranges such as \"192.0.2.0/24\"; none: from anywhere.";
        certificate_name: String = String::new(), " A name that the client's certificate must have; empty: any certificate of `fix.tls_clients`.";
        password_file: String = String::new(), " Who may log on: lines of `username argon2id-text`, for Username (553) and Password (554) of the Logon, which FIX.4.2 may have here, too; empty: passwords are not judged.";
    }
}

entry! {
    /// A venue of the FIX door: a session whose connection we open.
    pub FixVenue = fix.venue by name or target_comp_id {
        name: String = String::new(), " What the venue is called in routes and tools; empty: its `target_comp_id`. No two sessions or venues have one name, and no venue is called `echo`.";
        begin_string: String = "FIX.4.4".into(), " Version: \"FIX.4.2\", \"FIX.4.4\" or \"FIXT.1.1\"; that of the clients whose orders it gets.";
        default_appl_ver_id: String = "9".into(), " With \"FIXT.1.1\": \"9\" or \"FIX.5.0SP2\".";
        sender_comp_id: String = String::new(), " Our CompID: SenderCompID (49) of what we send. Required.";
        target_comp_id: String = String::new(), " The venue's CompID: TargetCompID (56) of what we send. Required.";
        connect: Vec<String> = Vec::new(), " Its addresses, such as [\"192.0.2.7:7790\"], in numbers; tried in turn, also after a Logon that failed. Required.";
        username: String = String::new(), " Username (553) of our Logon; empty: none.";
        password_file: String = String::new(), " File with the Password (554) of our Logon and nothing else, readable by its owner alone; empty: none.";
        heart_bt_int_s: u32 = 30, [1..=86_400], " HeartBtInt (108) of our Logon, seconds.";
        reset_on_logon: bool = false, " Both sequence numbers begin at 1 with each logon.";
        next_expected: bool = false, " NextExpectedMsgSeqNum (789) is sent and acted upon; FIX.4.2 has none.";
        resend_chunk: u64 = 0, " How many messages one ResendRequest asks for; 0 = all that are missing.";
        schedule: String = String::new(), " When the session is open, as of `fix.session`.";
        throttle_per_s: u32 = 0, " Application messages taken in any second, but for reports and refusals (8, 9, j), which are always taken; 0 = no limit.";
        durability: Durability = Durability::Sealed, " When what we send may leave: \"written\" or \"sealed\", as of `fix.session`.";
        max_latency_s: u32 = 120, " How far SendingTime (52) may be from our clock, seconds; 0 = any distance.";
        validation: Checks = Checks::Off, " What is checked of a message: \"off\", \"structure\" or \"full\".";
        body_bytes_max: usize = 65_536, [64..=16_777_216], " A message with a larger BodyLength (9) closes the connection.";
        outbound_bytes_max: usize = 1_048_576, [4_096..=1_073_741_824], " A venue that leaves more than this unread is disconnected; its messages are in the store and come by a gap.";
        unaddressed: String = "all".into(), " The session that gets what names nobody's order or request; \"all\": with one client it goes there, with several it is kept, counted and told.";
        max_order_age_ms: u64 = 0, [0..=86_400_000], " An order that the venue asks for again when it is older than this, milliseconds, is not sent, and its client is told; 0 = whatever its age.";
        tls: bool = false, " The connection speaks TLS; `tls_ca` is required then. With `false` the other keys of TLS are refused.";
        tls_ca: String = String::new(), " PEM: who signs the venue's certificate.";
        tls_name: String = String::new(), " The name that the venue's certificate must have; empty: its address.";
        tls_cert: String = String::new(), " Our certificate for a venue that asks for one, PEM.";
        tls_key: String = String::new(), " Key of that certificate, PEM.";
    }
}

impl FixSession {
    /// Returns the name by which tools name it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.known_as()
    }
}

impl FixVenue {
    /// Returns the name by which routes and tools name it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.known_as()
    }

    /// Reports whether another entry says the same of how the venue is reached.
    #[must_use]
    pub fn is_reached_as(&self, other: &FixVenue) -> bool {
        let reached = |one: &FixVenue| {
            let files = [&one.tls_ca, &one.tls_name, &one.tls_cert, &one.tls_key].map(Clone::clone);
            (one.connect.clone(), one.tls, files)
        };
        reached(self) == reached(other)
    }
}
