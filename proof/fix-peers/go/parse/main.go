// Parses the messages of a file with quickfixgo, all of them once for each line of its standard input, and prints how many nanoseconds
// that took. `peers fix` runs it.
//
// usage: parse FILE ROUNDS: ROUNDS passes come before it says `ready`
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/quickfixgo/quickfix"
)

func main() {
	if len(os.Args) != 3 {
		fail("usage: parse FILE ROUNDS")
	}
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err.Error())
	}
	rounds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err.Error())
	}
	messages := bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
	for ; rounds > 0; rounds-- {
		parse(messages)
	}
	fmt.Println("ready")
	told := bufio.NewScanner(os.Stdin)
	for told.Scan() {
		fmt.Println(parse(messages).Nanoseconds())
	}
}

func parse(messages [][]byte) time.Duration {
	// What it parses from lies ready: making a buffer of the bytes is not its work.
	buffers := make([]*bytes.Buffer, len(messages))
	for at, message := range messages {
		buffers[at] = bytes.NewBuffer(message)
	}
	began := time.Now()
	for _, buffer := range buffers {
		if err := quickfix.ParseMessage(quickfix.NewMessage(), buffer); err != nil {
			fail(err.Error())
		}
	}
	return time.Since(began)
}

func fail(text string) {
	fmt.Println(text)
	os.Exit(2)
}
