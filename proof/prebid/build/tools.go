//go:build tools

// Package tools pins Prebid Server, which run builds from this module's go.mod and go.sum.
package tools

import _ "github.com/prebid/prebid-server/v3"
