//! Tests of the whole house: the architecture, and the node as its users drive it.

mod architecture;
