//! What one connection may be sent, and when: the rules of `docs/api.md`, section 4, without socket or clock.

use std::time::{Duration, Instant};

use wire::EncodeError;

use super::encode::{self, Head, ROWS_MAX};
use super::request::{Fault, Request};
use crate::board::{Following, Shown};

/// One connection. What waits to be sent is never stored: it is encoded from the newest view when it may go.
#[derive(Debug)]
pub(super) struct Session {
    following: Following,
    snapshot_every: Duration,
    /// It takes `Patch` instead of `Delta`.
    patches: bool,
    /// Of the last message sent.
    sequence: u64,
    /// The last message is not acknowledged yet.
    is_waiting: bool,
    progress: Progress,
    snapshot_began: Option<Instant>,
    /// The newest view that was sent.
    version: u64,
    /// Rows wait that did not fit into the last message.
    more: bool,
    watched: Vec<u32>,
    /// The step that the sparks were sent in.
    sparks_step: Option<u64>,
}

/// What the page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing, or a table of other budgets.
    Nothing,
    /// Rows of this table up to `next`.
    Parts { table: u64, next: usize },
    /// The whole table.
    Whole { table: u64 },
}

impl Session {
    pub(super) fn new(following: Following, snapshot_every: Duration, patches: bool) -> Session {
        Session {
            following,
            snapshot_every,
            patches,
            sequence: 0,
            is_waiting: false,
            progress: Progress::Nothing,
            snapshot_began: None,
            version: 0,
            more: false,
            watched: Vec::new(),
            sparks_step: None,
        }
    }

    /// Takes what the page says.
    pub(super) fn receive(&mut self, request: Request) -> Result<(), Fault> {
        match request {
            Request::Acknowledge(sequence) => self.acknowledge(sequence),
            Request::Resync(sequence) => {
                self.acknowledge(sequence)?;
                self.progress = Progress::Nothing;
                Ok(())
            }
            Request::Watch(rows) => {
                self.more |= self.following.watch(&rows);
                self.watched = rows;
                self.sparks_step = None;
                Ok(())
            }
        }
    }

    fn acknowledge(&mut self, found: u64) -> Result<(), Fault> {
        if found > self.sequence {
            return Err(Fault::Sequence { found, last: self.sequence });
        }
        self.is_waiting &= found != self.sequence;
        Ok(())
    }

    /// Does it matter to this connection when a view is published?
    pub(super) fn wants_views(&self) -> bool {
        !self.is_waiting
    }

    /// When to ask for a message again, although nothing has happened.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let waits_to_begin = !self.is_waiting && self.progress == Progress::Nothing;
        self.snapshot_began
            .filter(|_| waits_to_begin)
            .and_then(|began| began.checked_add(self.snapshot_every))
    }

    /// The next message, if one may be sent.
    ///
    /// # Errors
    /// A view does not fit into a message: an error of the node itself.
    pub(super) fn next(&mut self, now: Instant) -> Result<Option<Vec<u8>>, EncodeError> {
        if self.is_waiting {
            return Ok(None);
        }
        let message = match self.progress {
            Progress::Nothing => self.begin(now),
            Progress::Parts { table, next } => self.part(table, next, now),
            Progress::Whole { table } => self.change(table, now),
        }?;
        if message.is_some() {
            self.sequence += 1;
            self.is_waiting = true;
        }
        Ok(message)
    }

    /// The first part, unless the last snapshot began a moment ago.
    fn begin(&mut self, now: Instant) -> Result<Option<Vec<u8>>, EncodeError> {
        self.progress = Progress::Nothing;
        if self.wake_at().is_some_and(|at| now < at) {
            return Ok(None);
        }
        let shown = self.following.begin();
        if shown.version == 0 {
            return Ok(None);
        }
        self.snapshot_began = Some(now);
        // What is published until the last part is sent follows as changes.
        self.version = shown.version;
        self.part(shown.table, 0, now)
    }

    fn part(
        &mut self,
        table: u64,
        first: usize,
        now: Instant,
    ) -> Result<Option<Vec<u8>>, EncodeError> {
        let shown = self.following.clear(first, first.saturating_add(ROWS_MAX));
        if shown.table != table {
            return self.begin(now);
        }
        let rows = shown.view.rows();
        let count = rows.saturating_sub(first).min(ROWS_MAX);
        let next = first.saturating_add(count);
        let message = encode::part(self.head(&shown), first, count)?;
        self.progress =
            if next < rows { Progress::Parts { table, next } } else { Progress::Whole { table } };
        self.sparks_step = None;
        Ok(Some(message))
    }

    fn change(&mut self, table: u64, now: Instant) -> Result<Option<Vec<u8>>, EncodeError> {
        let newest = self.following.board().shown();
        if newest.table != table {
            return self.begin(now);
        }
        if newest.version == self.version && !self.more {
            return self.sparks(table, &newest);
        }
        let taken = self.following.take(ROWS_MAX);
        if taken.shown.table != table {
            return self.begin(now);
        }
        (self.version, self.more) = (taken.shown.version, taken.more);
        if self.patches {
            return encode::patch(self.head(&taken.shown), &taken).map(Some);
        }
        let Shown { view, batch, .. } = &taken.shown;
        let entries = batch.entries(|rows| encode::entries(view, rows));
        let part = taken.of_batch;
        let rows = batch.rows.get(part.clone()).unwrap_or_default();
        let shared = (rows, entries.get(part).unwrap_or_default());
        encode::delta(self.head(&taken.shown), shared, &taken.rows).map(Some)
    }

    /// The sparks of the watched rows, once for each list of them and each step.
    fn sparks(&mut self, table: u64, shown: &Shown) -> Result<Option<Vec<u8>>, EncodeError> {
        if self.watched.is_empty() || self.sparks_step == Some(shown.step) {
            return Ok(None);
        }
        let Some(sparks) = self.following.board().sparks(table, &self.watched) else {
            return Ok(None);
        };
        self.sparks_step = Some(shown.step);
        if sparks.is_empty() {
            return Ok(None);
        }
        encode::sparks(self.head(shown), &sparks).map(Some)
    }

    fn head<'a>(&self, shown: &'a Shown) -> Head<'a> {
        Head { sequence: self.sequence + 1, view: &shown.view }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use money::Amount;
    use proptest::prelude::*;
    use wire::live::{Message, snapshot};

    use super::*;
    use crate::board::tests::{budgets, view};
    use crate::board::{STEP_MS, View, words};
    use crate::model::WindowUse;
    use crate::{Board, Counted, State};

    const EVERY: Duration = Duration::from_secs(2);

    /// A page that keeps the rules: what it would show.
    #[derive(Debug, Default)]
    struct Page {
        sequence: u64,
        as_of_ms: u64,
        /// Ids and what each has spent.
        rows: Vec<(u64, i64)>,
        building: Vec<(u64, i64)>,
        /// By row what patches change, if it takes them.
        words: Vec<[u32; 64]>,
        rows_received: usize,
        sparks: Vec<(u32, usize)>,
    }

    impl Page {
        fn apply(&mut self, bytes: &[u8]) {
            match Message::decode(bytes).unwrap() {
                Message::Snapshot(part) => {
                    self.follows(part.sequence(), part.as_of_ms());
                    if part.first_row() == 0 {
                        self.building.clear();
                        self.words.clear();
                    }
                    self.words.extend(words_of(&part, bytes));
                    assert_eq!(self.building.len(), part.first_row() as usize);
                    let rows = part.budgets().iter().zip(part.states());
                    self.building.extend(rows.map(|(budget, state)| (budget.id(), state.spent())));
                    if self.building.len() == part.rows_total() as usize {
                        self.rows = std::mem::take(&mut self.building);
                    }
                }
                Message::Delta(delta) => {
                    self.follows(delta.sequence(), delta.as_of_ms());
                    assert!(self.building.is_empty(), "a delta within a snapshot");
                    self.rows_received += delta.states().len();
                    for state in delta.states() {
                        self.rows[state.row() as usize].1 = state.spent();
                    }
                }
                Message::Patch(patch) => {
                    self.follows(patch.sequence(), patch.as_of_ms());
                    assert!(self.building.is_empty(), "a patch within a snapshot");
                    self.rows_received += patch.changes().len();
                    let mut words = patch.words().as_chunks().0.iter();
                    for change in patch.changes() {
                        let row = &mut self.words[change.row() as usize];
                        for at in (0..64).filter(|at| change.mask() >> at & 1 == 1) {
                            row[at] = u32::from_le_bytes(*words.next().unwrap());
                        }
                        self.rows[change.row() as usize].1 = wide(row, 6);
                    }
                    assert_eq!(words.len(), 0);
                }
                Message::Sparks(sparks) => {
                    self.follows(sparks.sequence(), sparks.as_of_ms());
                    let filled =
                        |spark: &wire::live::sparks::Spark| (spark.row(), spark.filled() as usize);
                    self.sparks = sparks.sparks().iter().map(filled).collect();
                }
                other => panic!("{} is none of the node's", other.name()),
            }
        }

        fn follows(&mut self, sequence: u64, as_of_ms: u64) {
            assert_eq!(sequence, self.sequence + 1);
            (self.sequence, self.as_of_ms) = (sequence, as_of_ms);
        }
    }

    fn wide(words: &[u32; 64], at: usize) -> i64 {
        (u64::from(words[at]) | u64::from(words[at + 1]) << 32).cast_signed()
    }

    /// The words of the rows of a part of a snapshot, read from its bytes.
    fn words_of(part: &snapshot::Snapshot<'_>, bytes: &[u8]) -> Vec<[u32; 64]> {
        let count = part.states().len();
        let at = 8 + size_of::<snapshot::Block>() + 4 + count * size_of::<snapshot::Budget>() + 4;
        let entries = bytes[at..].chunks(size_of::<snapshot::State>()).take(count);
        let mut rows: Vec<[u32; 64]> = entries
            .map(|entry| {
                let mut words = entry.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
                std::array::from_fn(|_| words.next().unwrap_or_default())
            })
            .collect();
        for window in part.windows() {
            let row = &mut rows[(window.row() - part.first_row()) as usize];
            let period = usize::from(window.period().unwrap().as_raw());
            row[42] |= (1 | u32::from(window.refill().unwrap().as_raw()) << 8) << period;
            for (at, amount) in [(44, window.limit()), (46, window.used())] {
                let bytes = amount.to_le_bytes();
                for (word, half) in bytes.as_chunks().0.iter().enumerate() {
                    row[at + 4 * period + word] = u32::from_le_bytes(*half);
                }
            }
        }
        rows
    }

    fn session(board: &Arc<Board>) -> Session {
        Session::new(board.follow(), EVERY, false)
    }

    /// Sends, applies and acknowledges all that may be sent.
    fn drain(session: &mut Session, page: &mut Page, now: Instant) -> usize {
        let mut count = 0;
        while let Some(message) = session.next(now).unwrap() {
            page.apply(&message);
            session.receive(Request::Acknowledge(page.sequence)).unwrap();
            count += 1;
        }
        count
    }

    #[test]
    fn a_snapshot_in_parts_then_what_changes() {
        let (board, now) = (Arc::new(Board::default()), Instant::now());
        let (mut session, mut page) = (session(&board), Page::default());
        assert_eq!(session.next(now).unwrap(), None, "nothing is published yet");
        let ids: Vec<u64> = (0..10_000).collect();
        let list = budgets(&ids);
        let mut spent = vec![1_i64; ids.len()];
        board.publish(view(1, &list, &spent));
        assert_eq!(drain(&mut session, &mut page, now), 3);
        assert_eq!(page.rows.len(), ids.len());
        assert_eq!(drain(&mut session, &mut page, now), 0);
        board.publish(view(2, &list, &spent));
        assert_eq!(
            (drain(&mut session, &mut page, now), page.rows_received, page.as_of_ms),
            (1, 0, 2)
        );
        spent.fill(2);
        board.publish(view(3, &list, &spent));
        // So many rows a view, until all are told.
        for (as_of_ms, told) in [(4, 3_000), (5, 6_000), (6, 9_000), (7, 10_000), (8, 10_000)] {
            assert_eq!((drain(&mut session, &mut page, now), page.rows_received), (1, told));
            board.publish(view(as_of_ms, &list, &spent));
        }
        assert!(page.rows.iter().all(|&(_, spent)| spent == 2));
    }

    #[test]
    fn a_node_without_budgets_sends_one_part() {
        let board = Arc::new(Board::default());
        board.publish(view(1, &budgets(&[]), &[]));
        let mut page = Page::default();
        assert_eq!(drain(&mut session(&board), &mut page, Instant::now()), 1);
        assert_eq!((page.rows.len(), page.as_of_ms), (0, 1));
    }

    #[test]
    fn nothing_is_sent_before_the_last_is_acknowledged() {
        let (board, now) = (Arc::new(Board::default()), Instant::now());
        let list = budgets(&[1, 2]);
        board.publish(view(1, &list, &[0, 0]));
        let mut session = session(&board);
        assert!(session.next(now).unwrap().is_some());
        for as_of_ms in 2_u8..100 {
            board.publish(view(as_of_ms.into(), &list, &[as_of_ms.into(), 0]));
            assert_eq!(session.next(now).unwrap(), None);
            session.receive(Request::Acknowledge(0)).unwrap();
        }
        assert!(!session.wants_views());
        session.receive(Request::Acknowledge(1)).unwrap();
        let message = session.next(now).unwrap().unwrap();
        let Message::Delta(delta) = Message::decode(&message).unwrap() else {
            panic!("another message")
        };
        let states: Vec<(u32, i64)> =
            delta.states().iter().map(|state| (state.row(), state.spent())).collect();
        assert_eq!((delta.sequence(), delta.as_of_ms(), states), (2, 99, vec![(0, 99)]));
        let early = session.receive(Request::Acknowledge(3));
        assert_eq!(early, Err(Fault::Sequence { found: 3, last: 2 }));
    }

    #[test]
    fn snapshots_begin_at_most_every_two_seconds() {
        let (board, now) = (Arc::new(Board::default()), Instant::now());
        let (mut session, mut page) = (session(&board), Page::default());
        board.publish(view(1, &budgets(&[1, 2]), &[0, 0]));
        assert_eq!(drain(&mut session, &mut page, now), 1);
        board.publish(view(2, &budgets(&[1, 2, 3]), &[0, 0, 7]));
        assert_eq!(drain(&mut session, &mut page, now + EVERY / 2), 0);
        assert_eq!(session.wake_at(), Some(now + EVERY));
        board.publish(view(3, &budgets(&[2, 3]), &[0, 8]));
        assert_eq!(drain(&mut session, &mut page, now + EVERY), 1);
        assert_eq!(page.rows, [(2, 0), (3, 8)]);
        session.receive(Request::Resync(page.sequence)).unwrap();
        assert_eq!(drain(&mut session, &mut page, now + EVERY), 0);
        assert_eq!(drain(&mut session, &mut page, now + 2 * EVERY), 1);
        assert_eq!(session.wake_at(), None);
    }

    #[test]
    fn sparks_follow_a_watch_and_each_step() {
        let (board, now) = (Arc::new(Board::default()), Instant::now());
        let list = budgets(&[1, 2]);
        let (mut session, mut page) = (session(&board), Page::default());
        for step in 1_u8..=3 {
            board.publish(view(u64::from(step) * STEP_MS, &list, &[step.into(), 0]));
        }
        drain(&mut session, &mut page, now);
        session.receive(Request::Watch(vec![1, 5])).unwrap();
        assert_eq!(drain(&mut session, &mut page, now), 1);
        assert_eq!(page.sparks, [(1, 1)]);
        assert_eq!(drain(&mut session, &mut page, now), 0);
        board.publish(view(4 * STEP_MS, &list, &[9, 0]));
        assert_eq!(drain(&mut session, &mut page, now), 2);
        assert_eq!(page.sparks, [(1, 2)]);
        session.receive(Request::Watch(vec![5])).unwrap();
        assert_eq!(drain(&mut session, &mut page, now), 0);
    }

    #[test]
    fn what_is_shared_is_what_each_would_have_got() {
        let board = Arc::new(Board::new(5));
        let list = budgets(&(0..20).collect::<Vec<_>>());
        let (mut one, mut other) = (session(&board), session(&board));
        let (mut page, mut other_page) = (Page::default(), Page::default());
        let now = Instant::now();
        board.publish(view(1, &list, &[0; 20]));
        drain(&mut one, &mut page, now);
        drain(&mut other, &mut other_page, now);
        // Whoever watches has a longer message, with the same beginning.
        other.receive(Request::Watch(vec![19])).unwrap();
        assert_eq!(drain(&mut other, &mut other_page, now), 1, "sparks");
        for as_of_ms in 2..9 {
            board.publish(view(as_of_ms, &list, &[as_of_ms.cast_signed(); 20]));
            let shown = board.shown();
            let head = |page: &Page| Head { sequence: page.sequence + 1, view: &shown.view };
            let message = one.next(now).unwrap().unwrap();
            assert_eq!(
                message,
                encode::delta(head(&page), Default::default(), &shown.batch.rows).unwrap()
            );
            page.apply(&message);
            one.receive(Request::Acknowledge(page.sequence)).unwrap();

            let mut rows = shown.batch.rows.clone();
            if !rows.contains(&19) {
                rows.push(19);
            }
            let message = other.next(now).unwrap().unwrap();
            assert_eq!(
                message,
                encode::delta(head(&other_page), Default::default(), &rows).unwrap()
            );
            other_page.apply(&message);
            other.receive(Request::Acknowledge(other_page.sequence)).unwrap();
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Some rows spend.
        Publish(Vec<(prop::sample::Index, i64)>),
        /// Budgets come and go.
        Configure(Vec<u64>),
        /// The page applies the message that is under way and acknowledges it...
        Acknowledge,
        /// ...or asks for a snapshot.
        Resync,
        /// It shows other rows.
        Watch(Vec<u32>),
        Wait,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let spends = proptest::collection::vec((any::<prop::sample::Index>(), 0..1_000_i64), 0..8);
        let ids = proptest::collection::btree_set(0..300_u64, 0..200);
        let step = prop_oneof![
            6 => spends.prop_map(Step::Publish),
            1 => ids.prop_map(|ids| Step::Configure(ids.into_iter().collect())),
            6 => Just(Step::Acknowledge),
            1 => Just(Step::Resync),
            1 => proptest::collection::vec(0..200_u32, 0..9).prop_map(Step::Watch),
            1 => Just(Step::Wait),
        ];
        proptest::collection::vec(step, 0..60)
    }

    /// A message, and what the watched rows had spent when it was made.
    type UnderWay = (Vec<u8>, Vec<(u32, i64)>, Arc<View>);

    /// A board, a connection and its page, and the message between them.
    struct Play {
        board: Arc<Board>,
        session: Session,
        page: Page,
        ids: Vec<u64>,
        spent: Vec<i64>,
        as_of_ms: u64,
        now: Instant,
        watched: Vec<u32>,
        under_way: Option<UnderWay>,
    }

    impl Play {
        fn new(live_rows: usize, patches: bool) -> Play {
            let board = Arc::new(Board::new(live_rows));
            Play {
                session: Session::new(board.follow(), EVERY, patches),
                board,
                page: Page::default(),
                ids: vec![1, 2, 3],
                spent: vec![0; 3],
                as_of_ms: 0,
                now: Instant::now(),
                watched: Vec::new(),
                under_way: None,
            }
        }

        fn publish(&mut self) {
            self.as_of_ms += 1;
            let mut view = view(self.as_of_ms, &budgets(&self.ids), &self.spent);
            let states = view.states.iter().map(|state| self.state(state.spent));
            view.states = states.collect();
            self.board.publish(view);
        }

        /// Figures that come and go, are negative, cross a word, or are more than a page keeps; and a plan that goes on by itself.
        fn state(&self, spent: Amount) -> State {
            let amount = spent.get();
            let some = |part: i64| amount % part != 0;
            let mut state = State {
                spent,
                held: Amount::new(amount % 3 - 1),
                limit: Amount::new((1 << 60) + amount),
                daily: some(2).then_some(spent),
                window_planned: Some(Amount::new((1 << 42) - 9 + self.as_of_ms.cast_signed())),
                asks: u32::from(some(5)),
                counted: some(7).then_some(Counted {
                    impressions: amount.unsigned_abs(),
                    clicks: some(11).then_some(1),
                    spend: Amount::new(amount << 24),
                }),
                ..State::default()
            };
            let used = WindowUse { bucket: some(4), limit: spent, used: state.held };
            state.windows[3] = some(3).then_some(used);
            state
        }

        fn take(&mut self, step: Step) {
            match step {
                Step::Publish(spends) => {
                    for (row, amount) in if self.ids.is_empty() { Vec::new() } else { spends } {
                        self.spent[row.index(self.ids.len())] += amount;
                    }
                    self.publish();
                }
                Step::Configure(ids) => {
                    self.spent = vec![self.as_of_ms.cast_signed(); ids.len()];
                    self.ids = ids;
                    self.publish();
                }
                Step::Acknowledge => self.answer(Request::Acknowledge),
                Step::Resync => {
                    self.apply();
                    self.page.building.clear();
                    self.answer(Request::Resync);
                }
                Step::Watch(rows) => {
                    self.watched.clone_from(&rows);
                    self.session.receive(Request::Watch(rows)).unwrap();
                }
                Step::Wait => self.now += EVERY,
            }
            self.send();
        }

        fn send(&mut self) {
            if self.under_way.is_some() {
                return;
            }
            let Some(message) = self.session.next(self.now).unwrap() else { return };
            let spent = |&row: &u32| Some((row, *self.spent.get(row as usize)?));
            let watched = self.watched.iter().filter_map(spent).collect();
            self.under_way = Some((message, watched, self.board.view()));
        }

        fn answer(&mut self, request: fn(u64) -> Request) {
            self.apply();
            self.session.receive(request(self.page.sequence)).unwrap();
        }

        /// Whatever a page watches is as new as the changes that it gets.
        fn apply(&mut self) {
            let Some((message, watched, view)) = self.under_way.take() else { return };
            self.page.apply(&message);
            let message = Message::decode(&message).unwrap();
            if let Message::Patch(patch) = &message {
                let mut rows: Vec<u32> = patch.changes().iter().map(|one| one.row()).collect();
                for row in rows.iter().map(|&row| row as usize) {
                    let words = words::words(&view.states[row]);
                    assert_eq!(self.page.words[row][1..], words[1..], "row {row}");
                }
                rows.sort_unstable();
                assert!(rows.is_sorted_by(|a, b| a < b), "no row twice: {rows:?}");
            }
            if matches!(message, Message::Delta(_) | Message::Patch(_)) {
                for (row, spent) in watched {
                    assert_eq!(self.page.rows[row as usize].1, spent, "row {row}");
                }
            }
        }

        /// Acknowledges all that comes.
        fn settle(&mut self) {
            self.send();
            while self.under_way.is_some() {
                self.answer(Request::Acknowledge);
                self.send();
            }
        }
    }

    proptest! {
        /// Whatever is published, watched and acknowledged when: once as many views were quiet as it takes to go around,
        /// the page shows what the board does. Each row of a patch is whole with what the page had.
        #[test]
        fn the_page_ends_up_with_the_boards_table(steps in steps(), live_rows in 1_usize..40, patches: bool) {
            let mut play = Play::new(live_rows, patches);
            for step in steps {
                play.take(step);
            }
            play.settle();
            play.now += EVERY;
            play.settle();
            for _ in 0..=play.ids.len().div_ceil(live_rows) {
                play.publish();
                play.settle();
                play.now += EVERY;
                play.settle();
            }
            for (page, state) in play.page.words.iter_mut().zip(&*play.board.view().states) {
                let words = words::words(state);
                // What is planned by now is told when it moved by enough.
                page[20..22].copy_from_slice(&words[20..22]);
                prop_assert!(!patches || page[1..] == words[1..]);
            }
            let expected: Vec<(u64, i64)> = play.ids.iter().copied().zip(play.spent).collect();
            prop_assert_eq!(play.page.rows, expected);
            prop_assert_eq!(play.page.as_of_ms, play.as_of_ms);
        }
    }
}
