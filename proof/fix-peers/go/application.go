package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/quickfixgo/quickfix"
)

// application tells what arrives; a venue also answers orders. It acts as an honest one: what it was given twice with PossDupFlag it
// answers once more, with another ExecID.
type application struct {
	answers bool
	// life tells the ExecIDs of one process from those of the next.
	life string

	mutex      sync.Mutex
	sessions   map[string]quickfix.SessionID
	executions int
}

func (app *application) session(beginString string) (quickfix.SessionID, bool) {
	app.mutex.Lock()
	defer app.mutex.Unlock()
	found, known := app.sessions[beginString]
	return found, known
}

func (app *application) OnCreate(id quickfix.SessionID) {
	app.mutex.Lock()
	defer app.mutex.Unlock()
	app.sessions[id.BeginString] = id
}

func (app *application) OnLogon(id quickfix.SessionID)  { tell("logon", id.BeginString, nil) }
func (app *application) OnLogout(id quickfix.SessionID) { tell("logout", id.BeginString, nil) }

func (app *application) ToAdmin(*quickfix.Message, quickfix.SessionID)     {}
func (app *application) ToApp(*quickfix.Message, quickfix.SessionID) error { return nil }

func (app *application) FromAdmin(*quickfix.Message, quickfix.SessionID) quickfix.MessageRejectError {
	return nil
}

// FromApp tells of a message before the library counts it: after a kill it may come again, and is not lost.
func (app *application) FromApp(message *quickfix.Message, id quickfix.SessionID) quickfix.MessageRejectError {
	tell("got", id.BeginString, []byte(message.String()))
	if !app.answers {
		return nil
	}
	switch kind, _ := message.Header.GetString(35); kind {
	case "D":
		app.report(message, id, "0", "0")
		// One that is good till it is cancelled (59=1) rests.
		if timeInForce, _ := message.Body.GetString(59); timeInForce != "1" {
			app.report(message, id, "2", "2")
		}
	case "F":
		app.report(message, id, "4", "4")
	case "G":
		app.report(message, id, "5", "5")
	}
	return nil
}

// report sends an ExecutionReport on an order; execType 2 is a fill, which later versions call F.
func (app *application) report(order *quickfix.Message, id quickfix.SessionID, execType, status string) {
	app.mutex.Lock()
	app.executions++
	number := app.executions
	app.mutex.Unlock()
	get := func(tag quickfix.Tag) string { text, _ := order.Body.GetString(tag); return text }
	report := quickfix.NewMessage()
	report.Header.SetString(35, "8")
	set := func(tag quickfix.Tag, value string) {
		if value != "" {
			report.Body.SetString(tag, value)
		}
	}
	shares, price := get(38), get(44)
	if execType == "2" {
		set(31, price)
		set(32, shares)
		set(14, shares)
		set(6, price)
		set(151, "0")
	} else {
		set(14, "0")
		set(6, "0.000")
		set(151, shares)
	}
	if id.BeginString == quickfix.BeginStringFIX42 {
		set(20, "0")
	} else if execType == "2" {
		execType = "F"
	} else if execType == "5" {
		status = "0"
	}
	for _, tag := range []quickfix.Tag{11, 41, 55, 54, 38, 40, 44} {
		set(tag, get(tag))
	}
	set(37, "V-"+get(11))
	set(17, fmt.Sprintf("E%s-%d", app.life, number))
	set(150, execType)
	set(39, status)
	set(58, "as  it is, 100% = all")
	set(9702, "the venue's own")
	if err := quickfix.SendToTarget(report, id); err != nil {
		tell("failed", id.BeginString, []byte(err.Error()))
	}
}

// storeFactory makes the library's own file stores, and tells of each message that such a store has taken.
type storeFactory struct{ quickfix.MessageStoreFactory }

func (factory storeFactory) Create(id quickfix.SessionID) (quickfix.MessageStore, error) {
	made, err := factory.MessageStoreFactory.Create(id)
	return store{made, id.BeginString}, err
}

type store struct {
	quickfix.MessageStore
	session string
}

func (store store) SaveMessageAndIncrNextSenderMsgSeqNum(number int, message []byte) error {
	err := store.MessageStore.SaveMessageAndIncrNextSenderMsgSeqNum(number, message)
	if err == nil {
		tell("kept", store.session, message)
	}
	return err
}

// logFactory makes logs that tell of what the library says, and of all that goes in and out.
type logFactory struct{}

func (logFactory) Create() (quickfix.Log, error) { return log{"-"}, nil }

func (logFactory) CreateSessionLog(id quickfix.SessionID) (quickfix.Log, error) {
	return log{id.BeginString}, nil
}

type log struct{ session string }

func (log log) OnIncoming(message []byte) { tell("in", log.session, message) }
func (log log) OnOutgoing(message []byte) { tell("out", log.session, message) }
func (log log) OnEvent(text string)       { tell("says", log.session, []byte(text)) }
func (log log) OnEventf(format string, values ...interface{}) {
	log.OnEvent(strings.TrimSpace(fmt.Sprintf(format, values...)))
}
