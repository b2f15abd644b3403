//! Answers to questions, as frames.

use door_transport::Out;
use weir_till::{Answer, BookLine, Totals};
use wire::{books, totals};

pub(crate) fn write_answer(out: &mut Out<'_>, answer: &Answer) {
    match answer {
        Answer::Books { frame, now_ms, more, lines } => {
            let entries: Vec<books::Budget> = lines.iter().map(entry).collect();
            let block = books::Block::new(*frame, *now_ms, u8::from(*more));
            crate::write(out, books::encoded_len(entries.len()), |buf| {
                Ok(books::encode(buf, &block)?.budgets(&entries)?.finish())
            });
        }
        Answer::Totals { frame, now_ms, totals } => write_totals(out, *frame, *now_ms, totals),
        // No frame asks for one budget.
        Answer::Budget(_) => {}
    }
}

fn entry(line: &BookLine) -> books::Budget {
    books::Budget::new(
        line.id,
        line.limit.get(),
        line.free.get(),
        line.purses.get(),
        line.held.get(),
        line.settled.get(),
        line.over_settled.get(),
        // Its clients know no further lines, and add up those that they know.
        line.late.get() + line.inferred.get() + line.unknown_order.get(),
        line.unit.to_code(),
    )
}

fn write_totals(out: &mut Out<'_>, frame: u64, now_ms: u64, t: &Totals) {
    let block = totals::Block::new(
        frame,
        now_ms,
        t.worker_cpu_ns,
        t.decisions,
        t.granted,
        t.resolves,
        t.repeats,
    );
    let verdicts = t.verdicts.iter().map(|(verdict, count)| totals::Item::new(*count, *verdict));
    let verdicts: Vec<totals::Item> = verdicts.collect();
    crate::write(out, totals::encoded_len(verdicts.len()), |buf| {
        Ok(totals::encode(buf, &block)?.verdicts(&verdicts)?.finish())
    });
}
