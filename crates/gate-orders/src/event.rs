//! Events of an order: what its client, its venue and the ledger said.

use fix::Decimal;

/// The id of an execution, a bust or a correction: made by the door from the venue's session, its trading day and ExecID (17), so that an
/// ExecID that is used again on another day is another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecId(pub u128);

/// How much of an order may be executed at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A quantity at a price.
    Quantity {
        /// OrderQty (38): with what is executed already.
        quantity: Decimal,
        /// The price to reserve at. 0 only where no leg counts money.
        price: Decimal,
    },
    /// An amount of money (CashOrderQty, 152), as a cap. Only where no leg counts quantity.
    Cash(Decimal),
}

/// The order as its client sent it (D) or replaced it (G).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Rises from version to version of an order. The door knows it by the version's ClOrdID.
    pub number: u64,
    /// What the version may cost.
    pub size: Size,
}

/// CumQty (14) and AvgPx (6) of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// CumQty.
    pub quantity: Decimal,
    /// AvgPx. Absent or 0: what is missing is counted at the worst price of the order's versions.
    pub price: Option<Decimal>,
}

/// A fill: LastQty (32) at LastPx (31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its own id.
    pub id: ExecId,
    /// What was executed.
    pub quantity: Decimal,
    /// For how much each.
    pub price: Decimal,
    /// The sums of the same report.
    pub check: Option<Check>,
}

/// A correction or a bust of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amendment {
    /// Its own id.
    pub id: ExecId,
    /// ExecRefID (19): the execution, or an earlier correction of it.
    pub names: ExecId,
    /// Orders corrections that name the same id: the venue's time (60), or the number of the message.
    pub at: u64,
    /// The new quantity and price of the whole execution; `None` for a bust.
    pub new: Option<(Decimal, Decimal)>,
    /// LeavesQty (151). Above 0 it makes a closed order live again.
    pub leaves: Option<Decimal>,
    /// The sums of the same report, which already know of the amendment.
    pub check: Option<Check>,
}

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ledger granted a replace (G), and it goes to the venue.
    Sent(Version),
    /// The venue replaced the order (150=5), with the values of its report, else with those that were sent.
    Accepted {
        /// Number of the version.
        number: u64,
        /// The values of the report.
        size: Option<Size>,
    },
    /// The venue refused the replace (9), or its message (3, j).
    Refused {
        /// Number of the version.
        number: u64,
    },
    /// The venue changed the order by itself (150=D, L): what it is now, with what is executed.
    Restated(Size),
    /// A fill (150=F).
    Executed(Execution),
    /// A correction (150=G) or a bust (150=H).
    Amended(Amendment),
    /// The sums of any other report.
    Checked(Check),
    /// The order is filled (39=2). While a replace is pending, what that adds stays held.
    Filled,
    /// The order is cancelled, expired, rejected, or done for the day and not to live on.
    Closed,
}
