module weir/prebid

go 1.24.0

require github.com/prebid/prebid-server/v3 v3.30.0
