module weir.dev/client

go 1.24.0
