module weir/bench

go 1.24.0

require weir.dev/client v0.0.0

replace weir.dev/client => ../../../clients/go
