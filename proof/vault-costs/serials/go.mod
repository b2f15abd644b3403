module weir/serials

go 1.24
