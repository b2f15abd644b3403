//! Plays a harness that finds no test when it runs again.
include!("../../plant.rs");

fn main() {
    if planted("vanishing") {
        println!("\nrunning 1 test\ntest gone ... FAILED\n\nfailures:\n\n---- gone stdout ----\nplanted\n\nfailures:\n    gone\n");
        println!("test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        std::process::exit(101);
    }
    println!("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n");
}
