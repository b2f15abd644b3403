//! Runs on all cores.

use std::sync::Mutex;

/// What `work` gives for every item, in their order. Counts do not depend on what runs beside them.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let todo = Mutex::new(items.iter().enumerate());
    let next = || todo.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect();
        let threads: Vec<_> = (0..cores.min(items.len())).map(|_| scope.spawn(worker)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.flat_map(|done: Result<Vec<_>, _>| done.expect("the work does not panic")).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), doubled);
        assert!(super::map(&items[..0], |item| *item).is_empty());
    }
}
