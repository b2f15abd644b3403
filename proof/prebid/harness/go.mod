module weir/prebid/harness

go 1.24
