//! A crate whose tests use sockets.
#[cfg(plant_build_error)]
compile_error!("planted");

#[cfg(test)]
mod tests {
    include!("../../plant.rs");

    #[test]
    fn a() {
        assert!(!planted("a"), "a is planted");
    }
    #[test]
    fn b() {
        assert!(!planted("b"), "b is planted");
    }
    #[test]
    fn c() {
        assert!(!planted("c"), "c is planted");
    }
    #[test]
    fn d() {
        assert!(!planted("d"), "d is planted");
    }
    #[test]
    fn property() {
        assert!(!planted("property"), "Test failed: planted; minimal failing input: x = 0");
    }
    #[test]
    fn aborts() {
        if planted("aborts") {
            std::process::abort();
        }
    }
    #[test]
    fn exits() {
        if planted("exits") {
            std::process::exit(0);
        }
    }
    #[test]
    fn hangs() {
        if planted("hangs") {
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
    }
}
