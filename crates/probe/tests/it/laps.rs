//! What is counted, without a look at how long it took.

use probe::{Laps, LapsFigures, Probe, Stage};

#[derive(Clone, Copy)]
pub(crate) enum Work {
    Read,
    Think,
}

impl Stage for Work {
    const ALL: &'static [Work] = &[Work::Read, Work::Think];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Work::Read => "read",
            Work::Think => "think",
        }
    }
}

fn laps_of(figures: &LapsFigures) -> Vec<u64> {
    figures.stages.iter().map(|stage| stage.laps).collect()
}

#[test]
fn every_boundary_of_a_sampled_turn_is_counted() {
    let (mut laps, reader) = Laps::<Work>::new(1);
    for turn in 0..100 {
        laps.begin();
        assert!(laps.is_on());
        for _ in 0..turn {
            laps.lap(Work::Read, 2);
            laps.lap(Work::Think, 0);
            laps.skip();
        }
    }
    drop(laps);
    let figures = reader.read();
    assert_eq!((figures.turns, figures.sampled), (100, 100));
    assert_eq!(laps_of(&figures), [4_950, 4_950]);
    let [read, think] = &figures.stages[..] else { panic!("two stages") };
    assert_eq!((read.items, think.items), (9_900, 0));
    // A lap in which this thread lost its core is in no quantile.
    assert!((9_900 - 2 * figures.lost_laps..=9_900).contains(&read.an_item.count()));
    assert_eq!(think.an_item.count(), 0, "no item, no share of the time");
    assert!(figures.own_ticks > 0);
}

#[test]
fn the_turn_that_runs_is_not_yet_shown() {
    let (mut laps, reader) = Laps::<Work>::new(1);
    laps.begin();
    laps.lap(Work::Read, 1);
    assert_eq!((reader.read().turns, reader.read().sampled), (1, 0));
    laps.begin();
    assert_eq!((reader.read().turns, reader.read().sampled), (2, 1));
    assert_eq!(laps_of(&reader.read()), [1, 0]);
}

#[test]
fn a_marked_stage_tells_how_long_after_the_beginning_it_ended() {
    let (mut laps, reader) = Laps::<Work>::new(1);
    let mark = laps.mark(Work::Think);
    for _ in 0..10 {
        laps.begin();
        // More boundaries than are kept: the beginning is that of the turn all the same.
        for _ in 0..50 {
            laps.lap(Work::Read, 1);
            laps.lap(Work::Think, 1);
        }
    }
    drop(laps);
    let (ends, figures) = (mark.read(), reader.read());
    assert_eq!((ends.count(), figures.stages[1].laps), (500, 500));
    let all_turns = figures.stages.iter().map(|stage| stage.ticks).sum::<u64>();
    // The ends of a turn lie behind each other: the last one behind all that the stages of a turn took on average.
    assert!(ends.max() >= all_turns / 10, "{} {all_turns}", ends.max());
}

#[test]
fn none_are_sampled_when_it_is_off() {
    let (mut laps, reader) = Laps::<Work>::new(0);
    for _ in 0..1_000 {
        laps.begin();
        assert!(!laps.is_on());
        laps.lap(Work::Read, 1);
        laps.skip();
    }
    assert_eq!((reader.read().turns, reader.read().sampled), (1_000, 0));
    assert_eq!(laps_of(&reader.read()), [0, 0]);
    assert_eq!(reader.read().turns_a_sample(), 0.0);
}

/// Every other turn has ten times the items. A sampler in step with that would see only one kind of turn.
#[test]
fn a_sample_speaks_for_work_that_alternates() {
    let (turns, mut all) = (64_000_u32, 0_u64);
    let (mut laps, reader) = Laps::<Work>::new(16);
    for turn in 0..turns {
        let items = if turn % 2 == 0 { 100 } else { 10 };
        all += u64::from(items);
        laps.begin();
        laps.lap(Work::Think, items);
    }
    drop(laps);
    let figures = reader.read();
    #[allow(clippy::cast_precision_loss)]
    let share = figures.stages[1].items as f64 * figures.turns_a_sample() / all as f64;
    assert!((share - 1.0).abs() < 0.05, "{share}");
}

#[test]
fn figures_between_two_readings_are_their_difference() {
    let (mut laps, reader) = Laps::<Work>::new(1);
    let mut turn = |items| {
        laps.begin();
        laps.lap(Work::Read, items);
        laps.begin();
    };
    turn(5);
    let earlier = reader.read();
    assert_eq!(laps_of(&earlier.since(&earlier)), [0, 0]);
    turn(7);
    let since = reader.read().since(&earlier);
    assert_eq!((since.turns, since.sampled, laps_of(&since)), (2, 2, vec![1, 0]));
    let told = since.stages[0].an_item.count() + 7 * since.lost_laps;
    assert_eq!((since.stages[0].items, told), (7, 7));
    let mut both = earlier;
    both.merge(&since);
    assert_eq!(both.stages[0].an_item.count(), reader.read().stages[0].an_item.count());
    assert_eq!((both.turns, laps_of(&both)), (reader.read().turns, vec![2, 0]));
}

#[test]
fn probes_of_two_threads_are_read_as_one() {
    let probes: Vec<_> = [300, 500].map(|spans| (spans, Probe::new("step", 1))).into();
    let readers: Vec<_> = probes.iter().map(|(_, (_, reader))| reader.clone()).collect();
    std::thread::scope(|scope| {
        for (spans, (mut probe, _)) in probes {
            scope.spawn(move || (0..spans).for_each(|_| drop(probe.span_of(3))));
        }
    });
    let mut both = readers[0].read();
    both.merge(&readers[1].read());
    assert_eq!((both.name, both.spans, both.stage.laps), ("step", 800, 800));
    assert_eq!((both.stage.items, both.stage.an_item.count()), (2_400, 2_400));
    let (one, other) = (readers[0].read().stage, readers[1].read().stage);
    assert_eq!(both.stage.ticks, one.ticks + other.ticks);
    assert_eq!(both.stage.an_item.max(), one.an_item.max().max(other.an_item.max()));
}

#[test]
fn one_span_in_n_is_sampled() {
    let (mut probe, reader) = Probe::new("step", 8);
    let sum: u64 = (0..80_000).map(|number| probe.batch(1, || number)).sum();
    assert_eq!(sum, 80_000 * 79_999 / 2, "sampled or not, the work is done");
    let figures = reader.read();
    assert_eq!(figures.spans, 80_000);
    assert!(figures.stage.laps.abs_diff(10_000) < 500, "{}", figures.stage.laps);
}

/// While a thread records, every figure that another one reads only grows, and in the end all are right.
#[test]
fn a_reader_beside_the_writer_sees_nothing_torn() {
    let turns = 40_000;
    let (mut laps, reader) = Laps::<Work>::new(1);
    let writer = std::thread::spawn(move || {
        for _ in 0..turns {
            laps.begin();
            laps.lap(Work::Read, 3);
            laps.lap(Work::Think, 1);
        }
    });
    let figures = |read: &LapsFigures| {
        let stage = &read.stages[0];
        let recorded = [stage.ticks, stage.laps, stage.items, stage.an_item.count()];
        [read.turns, read.sampled, read.own_ticks].into_iter().chain(recorded).collect::<Vec<_>>()
    };
    let mut last = reader.read();
    while !writer.is_finished() {
        let read = reader.read();
        let grows = figures(&read).iter().zip(figures(&last)).all(|(now, then)| *now >= then);
        assert!(grows, "{last:?} then {read:?}");
        assert!(read.stages[0].laps <= turns && read.stages[0].items <= 3 * turns);
        last = read;
    }
    writer.join().expect("the writer ends well");
    let read = reader.read();
    assert_eq!((read.turns, read.sampled, laps_of(&read)), (turns, turns, vec![turns, turns]));
    assert_eq!(read.stages[0].items, 3 * turns);
    // Laps in which the writer lost its core are in no quantile.
    let told = 3 * (turns - read.lost_laps)..=3 * turns;
    assert!(told.contains(&read.stages[0].an_item.count()));
}
