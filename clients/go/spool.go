package weir

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// spoolMax is how large the file may become; what comes then is refused.
	spoolMax = 64 << 20
	// spoolLineMax is longer than any line of ours.
	spoolLineMax = 256
	// spoolRewrite is when a file of which everything is done is emptied.
	spoolRewrite = 1 << 20
)

// spool is the file of what is not answered yet. clients/conform/README.md describes the format, which all clients share.
type spool struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
	// What is written down and not done.
	open map[*job]struct{}
}

// openSpool opens the file and begins to send what was not answered.
func (c *Client) openSpool() error {
	file, err := os.OpenFile(c.options.spool, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("weir: spool: %w", err)
	}
	err = lock(file)
	if err == nil {
		// The other client may have written the file anew before it let this one go.
		err = isAt(file, c.options.spool)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("weir: spool %s: another client has it open: %w", c.options.spool, err)
	}
	left, skipped, err := readSpool(file)
	if err == nil {
		c.spool = &spool{path: c.options.spool, file: file, open: map[*job]struct{}{}}
		err = c.spool.create(left)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("weir: spool %s: %w", c.options.spool, err)
	}
	if skipped > 0 {
		c.log.Warn("weir: lines of the spool could not be read and are left out", "file", c.options.spool, "lines", skipped)
	}
	for _, j := range left {
		j.spooled = true
		c.spool.open[j] = struct{}{}
		if err := c.start(j, false); err != nil {
			c.log.Warn("weir: a spooled settlement waits for the next start", "error", err)
		}
	}
	return nil
}

// isAt tells whether the open file is still the one at the path.
func isAt(file *os.File, path string) error {
	found, err := file.Stat()
	if err != nil {
		return err
	}
	expected, err := os.Stat(path)
	if err == nil && !os.SameFile(found, expected) {
		err = errors.New("the file was replaced meanwhile")
	}
	return err
}

// readSpool is what is not done, in order, and how many lines could not be read.
func readSpool(from io.Reader) (left []*job, skipped int, err error) {
	reader := bufio.NewReaderSize(from, spoolLineMax)
	open := map[string]int{}
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = reader.ReadSlice('\n')
			}
			line = nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		if err != nil {
			if len(line) > 0 {
				skipped++
			}
			break
		}
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "done" {
			if at, found := open[fields[2]+" "+fields[1]]; found {
				left[at] = nil
			}
			continue
		}
		j, good := parseSpooled(fields)
		if !good {
			skipped++
			continue
		}
		open[fields[0]+" "+fields[1]] = len(left)
		left = append(left, j)
	}
	kept := left[:0]
	for _, j := range left {
		if j != nil {
			kept = append(kept, j)
		}
	}
	return kept, skipped, nil
}

func parseSpooled(fields []string) (*job, bool) {
	if len(fields) != 4 {
		return nil, false
	}
	j := &job{}
	for action, name := range actionNames {
		if action != actionExtend && name != "" && name == fields[0] {
			j.action = uint8(action)
		}
	}
	token, err := hex.DecodeString(fields[1])
	copy(j.token[:], token)
	amount, amountErr := strconv.ParseInt(fields[2], 10, 64)
	requestID, idErr := strconv.ParseUint(fields[3], 10, 64)
	j.amount, j.requestID = amount, requestID
	return j, j.action != 0 && len(token) == tokenLen && amount >= 0 && errors.Join(err, amountErr, idErr) == nil
}

func spoolLine(j *job) string {
	return fmt.Sprintf("%s %x %d %d\n", actionNames[j.action], j.token, j.amount, j.requestID)
}

// create begins a file with what is left, in place of the one at the path, so that a crash leaves one or the other.
func (s *spool) create(left []*job) error {
	var text strings.Builder
	for _, j := range left {
		text.WriteString(spoolLine(j))
	}
	file, err := os.OpenFile(s.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	if err = errors.Join(err, lock(file), os.Rename(s.path+".new", s.path)); err != nil {
		file.Close()
		return err
	}
	s.file.Close()
	s.file, s.size = file, int64(text.Len())
	return nil
}

// add writes a job down before it is sent for the first time.
func (s *spool) add(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size > spoolMax {
		return fmt.Errorf("weir: the spool has %d bytes, at most %d expected: settlements are not answered", s.size, spoolMax)
	}
	if err := s.write(spoolLine(j)); err != nil {
		return fmt.Errorf("weir: spool: %w", err)
	}
	s.open[j] = struct{}{}
	return nil
}

// done writes down that a job is over; a file of which most is done is written anew now and then.
func (s *spool) done(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, j)
	// What is not written down as done is sent again after a crash, and booked once.
	err := s.write(fmt.Sprintf("done %x %s\n", j.token, actionNames[j.action]))
	if err == nil && s.size > spoolRewrite && s.size > int64(4*spoolLineMax*len(s.open)) {
		err = s.create(slices.Collect(maps.Keys(s.open)))
	}
	if err != nil && !j.client.isShut() {
		j.client.log.Warn("weir: the spool cannot be written", "error", err)
	}
}

func (s *spool) write(line string) error {
	n, err := s.file.WriteAt([]byte(line), s.size)
	if err != nil && n > 0 {
		// Half a line would spoil the next one.
		err = errors.Join(err, s.file.Truncate(s.size))
	}
	if err == nil {
		s.size += int64(n)
	}
	return err
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.Close()
}
