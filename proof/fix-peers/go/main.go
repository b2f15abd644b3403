// Client or venue of FIX sessions with an unmodified quickfixgo. A driver writes commands to its standard input and reads what the
// library and its application saw from its standard output; proof/fix-peers/README.md has both.
//
// usage: quickfixgo-peer client|venue SETTINGS LIFE
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/datadictionary"
	"github.com/quickfixgo/quickfix/store/file"
)

func main() {
	if len(os.Args) != 4 {
		fail("usage: quickfixgo-peer client|venue SETTINGS LIFE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, "quickfixgo-peer: "+text)
	os.Exit(2)
}

// engine is an initiator or an acceptor.
type engine interface {
	Start() error
	Stop()
}

func run(role, settingsFile, life string) error {
	opened, err := os.Open(settingsFile)
	if err != nil {
		return err
	}
	settings, err := quickfix.ParseSettings(opened)
	if err != nil {
		return fmt.Errorf("%s: %w", settingsFile, err)
	}
	app := &application{answers: role == "venue", life: life, sessions: map[string]quickfix.SessionID{}}
	stores, logs := storeFactory{file.NewStoreFactory(settings)}, logFactory{}
	var made engine
	if role == "venue" {
		made, err = quickfix.NewAcceptor(app, stores, settings, logs)
	} else {
		made, err = quickfix.NewInitiator(app, stores, settings, logs)
	}
	if err != nil {
		return err
	}
	dictionaries, err := readDictionaries(settings)
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	tell("ready", "-", nil)
	obey(app, dictionaries)
	made.Stop()
	tell("stopped", "-", nil)
	return nil
}

// obey carries out the commands: `send SESSION BASE64`, until `stop` or the end of the input.
func obey(app *application, dictionaries map[string]dictionary) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 1 && words[0] == "stop" {
			return
		}
		if len(words) != 3 || words[0] != "send" {
			fail("no such command: " + lines.Text())
		}
		session, known := app.session(words[1])
		if !known {
			fail("no such session: " + words[1])
		}
		raw, err := base64.StdEncoding.DecodeString(words[2])
		if err != nil {
			fail(err.Error())
		}
		message := quickfix.NewMessage()
		spoken := dictionaries[session.BeginString]
		buffer := bytes.NewBuffer(raw)
		if err := quickfix.ParseMessageWithDataDictionary(message, buffer, spoken.transport, spoken.app); err != nil {
			fail(fmt.Sprintf("%v in %q", err, raw))
		}
		if err := quickfix.SendToTarget(message, session); err != nil {
			tell("failed", session.BeginString, []byte(err.Error()))
		}
		tell("done", session.BeginString, nil)
	}
}

type dictionary struct {
	transport, app *datadictionary.DataDictionary
}

// readDictionaries returns the dictionaries that the settings name, by BeginString.
func readDictionaries(settings *quickfix.Settings) (map[string]dictionary, error) {
	all := map[string]dictionary{}
	for id, of := range settings.SessionSettings() {
		appKey := "DataDictionary"
		var found dictionary
		if of.HasSetting("TransportDataDictionary") {
			path, _ := of.Setting("TransportDataDictionary")
			read, err := datadictionary.Parse(path)
			if err != nil {
				return nil, err
			}
			found.transport, appKey = read, "AppDataDictionary"
		}
		path, err := of.Setting(appKey)
		if err != nil {
			return nil, err
		}
		if found.app, err = datadictionary.Parse(path); err != nil {
			return nil, err
		}
		if found.transport == nil {
			found.transport = found.app
		}
		all[id.BeginString] = found
	}
	return all, nil
}

var output sync.Mutex

// tell writes one line: an event, the BeginString of its session, bytes. It is with the system before this returns, so that it outlives
// a kill.
func tell(event, session string, bytes []byte) {
	line := event + " " + session + " " + base64.StdEncoding.EncodeToString(bytes) + "\n"
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.WriteString(line); err != nil {
		os.Exit(2)
	}
}
