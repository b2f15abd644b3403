//! The node's crate, some of whose tests audit money.

#[cfg(test)]
mod crashes {
    include!("../../plant.rs");

    #[test]
    fn crash() {
        assert!(!planted("crashes"), "crashes is planted");
    }
}

#[cfg(test)]
mod openrtb_money {
    include!("../../plant.rs");

    #[test]
    fn books() {
        assert!(!planted("books"), "books is planted");
    }
}
