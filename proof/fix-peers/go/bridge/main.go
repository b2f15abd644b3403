// A gate made of quickfixgo: it accepts a client's session and has one with a venue, and its application passes what comes from either to
// the other. `peers fix` measures orders through it.
//
// usage: bridge PORT VENUE_PORT FOLDER Y|N: where it listens, the venue's port, where the stores go, and whether they flush each message
// (the library's default is Y). It says `ready` when the venue is logged on, and goes on until it is killed.
package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/store/file"
)

const defaults = `[DEFAULT]
BeginString=FIX.4.4
SenderCompID=GATE
HeartBtInt=3600
ReconnectInterval=1
FileStorePath=%[1]s
FileStoreSync=%[2]s
[SESSION]
`

func main() {
	if len(os.Args) != 5 {
		fail("usage: bridge PORT VENUE_PORT FOLDER Y|N")
	}
	port, venuePort, folder, flushed := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	common := fmt.Sprintf(defaults, folder, flushed)
	application := &passing{to: map[string]quickfix.SessionID{}}
	north := settings(common + "TargetCompID=CLIENT1\nSocketAcceptHost=127.0.0.1\nSocketAcceptPort=" + port + "\n")
	south := settings(common + "TargetCompID=VENUE\nSocketConnectHost=127.0.0.1\nSocketConnectPort=" + venuePort + "\n")
	acceptor, err := quickfix.NewAcceptor(application, file.NewStoreFactory(north), north, quickfix.NewNullLogFactory())
	if err != nil {
		fail(err.Error())
	}
	initiator, err := quickfix.NewInitiator(application, file.NewStoreFactory(south), south, quickfix.NewNullLogFactory())
	if err != nil {
		fail(err.Error())
	}
	if err := acceptor.Start(); err != nil {
		fail(err.Error())
	}
	if err := initiator.Start(); err != nil {
		fail(err.Error())
	}
	select {}
}

func settings(text string) *quickfix.Settings {
	read, err := quickfix.ParseSettings(strings.NewReader(text))
	if err != nil {
		fail(err.Error())
	}
	return read
}

func fail(text string) {
	fmt.Println(text)
	os.Exit(2)
}

// passing gives each session's messages to the other one.
type passing struct {
	mutex sync.RWMutex
	// by TargetCompID of the session that a message came from
	to map[string]quickfix.SessionID
}

func (app *passing) OnCreate(id quickfix.SessionID) {
	app.mutex.Lock()
	defer app.mutex.Unlock()
	other := "VENUE"
	if id.TargetCompID == "VENUE" {
		other = "CLIENT1"
	}
	app.to[other] = id
}

func (app *passing) OnLogon(id quickfix.SessionID) {
	if id.TargetCompID == "VENUE" {
		fmt.Println("ready")
	}
}

func (app *passing) OnLogout(quickfix.SessionID)                       {}
func (app *passing) ToAdmin(*quickfix.Message, quickfix.SessionID)     {}
func (app *passing) ToApp(*quickfix.Message, quickfix.SessionID) error { return nil }
func (app *passing) FromAdmin(*quickfix.Message, quickfix.SessionID) quickfix.MessageRejectError {
	return nil
}

// FromApp sends the message itself: the library gives it the other session's header, and keeps its bytes before this returns.
func (app *passing) FromApp(message *quickfix.Message, id quickfix.SessionID) quickfix.MessageRejectError {
	app.mutex.RLock()
	to := app.to[id.TargetCompID]
	app.mutex.RUnlock()
	if err := quickfix.SendToTarget(message, to); err != nil {
		fail(err.Error())
	}
	return nil
}
