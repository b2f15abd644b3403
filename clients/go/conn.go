package weir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// window is how many frames of a connection are in flight at most.
	window = 32
	// resolvesMax is how many of them are confirms, settles and releases: asks take the others, and neither keeps the other waiting.
	resolvesMax = 8
	// queueMax is how many frames of settlements wait for their turn; those beyond try another time. Asks wait, however many, until
	// their deadlines.
	queueMax = 64
	// directMax is how many bytes may be unanswered while callers write by themselves: a socket's buffer, which is sized at
	// connect, takes them without blocking. Above it a goroutine of the connection writes.
	directMax = 64 << 10
	// socketBuffer is asked for at connect.
	socketBuffer = 256 << 10
	// frameMaxMost bounds what a node may make this library allocate.
	frameMaxMost = 16 << 20
	// settleLinger is how long settlements wait for each other at most, however long asks do.
	settleLinger = time.Millisecond
	slotBits     = 6
	slotMask     = 1<<slotBits - 1
)

// conn is one connection that has been welcomed.
type conn struct {
	node    *node
	net     net.Conn
	reader  *bufio.Reader
	welcome welcome
	// When it was welcomed.
	openedAt time.Time
	// Entries of a frame.
	batchMax int

	// Frames in flight, and those that wait for room, for the choice of a connection.
	load atomic.Int32

	mu         sync.Mutex
	lost       bool
	out, spare []byte
	writing    bool
	unanswered int
	slots      [window]*flight
	free       []uint8
	generation uint64
	ofAsks     lane
	ofResolves lane
	// Frames that are being gathered, and whether their timers run.
	asks, resolves           *flight
	askTimer, resolveTimer   *time.Timer
	askLinger, resolveLinger bool
	lastRead                 time.Time
	wake                     chan struct{}
	closed                   chan struct{}
}

func newConn(n *node, nc net.Conn, w welcome, reader *bufio.Reader) *conn {
	c := &conn{node: n, net: nc, welcome: w, batchMax: int(w.batchMax), openedAt: time.Now(), lastRead: time.Now(),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
		ofAsks: lane{most: window - resolvesMax, sweepAt: queueMax}, ofResolves: lane{most: resolvesMax, sweepAt: queueMax}}
	if most := n.client.options.batchMax; most > 0 && most < c.batchMax {
		c.batchMax = most
	}
	if fits := (int(w.frameMax) - asksAt) / resolveLen; fits < c.batchMax {
		c.batchMax = fits
	}
	c.batchMax = max(c.batchMax, 1)
	for slot := range window {
		c.free = append(c.free, uint8(window-1-slot))
	}
	c.askTimer = time.AfterFunc(time.Hour, c.askTime)
	c.resolveTimer = time.AfterFunc(time.Hour, c.resolveTime)
	c.askTimer.Stop()
	c.resolveTimer.Stop()
	c.reader = reader
	return c
}

// start begins to take answers, once the connection is known to its node.
func (c *conn) start() {
	go c.read(c.reader)
	go c.write()
}

// ask sends a caller's asks as a frame of their own; false if the connection is lost, and then nothing was sent.
func (c *conn) ask(cl *call, flags uint8, asks []Ask, ids uint64) bool {
	f := c.newAsks(flags)
	for i := range asks {
		ask := &asks[i]
		amount := ask.Amount.base
		if ask.Amount.err != nil {
			amount = 0 // the node says bad_amount, and refuses the rest of its pod
		}
		f.buf = appendAsk(f.buf, ask.id(ids, i), ask.Budget, amount, ask.User, ask.Amount.unit, ask.Pod)
	}
	f.count = len(asks)
	f.parts = append(f.parts, part{cl, len(asks)})
	c.mu.Lock()
	if c.lost {
		c.mu.Unlock()
		return false
	}
	c.sendAndUnlock(f)
	return true
}

func (c *conn) newAsks(flags uint8) *flight {
	f := flights.Get().(*flight)
	f.entriesAt = asksAt
	f.buf = beginDecide(f.buf[:0], flags, c.welcome.version)
	return f
}

// gatherAsk adds one ask to the frame that is being gathered.
func (c *conn) gatherAsk(cl *call, flags uint8, ask *Ask) bool {
	c.mu.Lock()
	if c.lost {
		c.mu.Unlock()
		return false
	}
	f := c.asks
	if f == nil {
		f = c.newAsks(flags)
		c.asks = f
	}
	f.buf = appendAsk(f.buf, ask.RequestID, ask.Budget, ask.Amount.base, ask.User, ask.Amount.unit, 0)
	f.parts = append(f.parts, part{cl, 1})
	f.count++
	if linger := c.node.client.options.linger; f.count < c.batchMax && linger > 0 {
		if !c.askLinger {
			c.askLinger = true
			c.askTimer.Reset(linger)
		}
		c.mu.Unlock()
		return true
	}
	c.asks = nil
	c.sendAndUnlock(f)
	return true
}

func (c *conn) askTime() {
	c.mu.Lock()
	c.askLinger = false
	f := c.asks
	c.asks = nil
	if f == nil {
		c.mu.Unlock()
		return
	}
	c.sendAndUnlock(f)
}

// sendExtend sends a later end in a frame of its own; the lock is held, and not any more afterwards.
func (c *conn) sendExtend(j *job) {
	if c.welcome.version < extendVersion {
		c.mu.Unlock()
		j.answered(c.node, Outcome{Verdict: Unsupported})
		return
	}
	f := flights.Get().(*flight)
	f.entriesAt, f.extends, f.count = resolvesAt, true, 1
	f.buf = appendExtend(f.buf[:0], &j.token, uint32(j.amount), c.welcome.version)
	f.jobs = append(f.jobs, j)
	c.sendAndUnlock(f)
}

// gatherJob adds a confirm, settle or release to the frame that is being gathered; false if the connection is lost.
func (c *conn) gatherJob(j *job) bool {
	c.mu.Lock()
	if c.lost {
		c.mu.Unlock()
		return false
	}
	if j.action == actionExtend {
		c.sendExtend(j)
		return true
	}
	f := c.resolves
	if f == nil {
		f = flights.Get().(*flight)
		f.entriesAt = resolvesAt
		f.buf = beginResolve(f.buf[:0], c.welcome.version)
		c.resolves = f
	}
	f.buf = appendResolve(f.buf, &j.token, j.amount, j.action, j.requestID)
	f.jobs = append(f.jobs, j)
	f.count++
	if linger := min(c.node.client.options.linger, settleLinger); f.count < c.batchMax && linger > 0 {
		if !c.resolveLinger {
			c.resolveLinger = true
			c.resolveTimer.Reset(linger)
		}
		c.mu.Unlock()
		return true
	}
	c.resolves = nil
	c.sendAndUnlock(f)
	return true
}

func (c *conn) resolveTime() {
	c.mu.Lock()
	c.resolveLinger = false
	f := c.resolves
	c.resolves = nil
	if f == nil {
		c.mu.Unlock()
		return
	}
	c.sendAndUnlock(f)
}

// sendAndUnlock gives a frame a place in the window, or lets it wait for one. Settlements beyond their queue try another time.
func (c *conn) sendAndUnlock(f *flight) {
	l := c.laneOf(f)
	switch {
	case c.lost:
		c.mu.Unlock()
		c.fail([]*flight{f}, Unreachable)
	case l.inFlight < l.most && len(l.queue) == 0:
		c.load.Add(1)
		c.place(f, l)
		c.flushAndUnlock()
	case len(f.jobs) > 0 && len(l.queue) >= queueMax:
		c.mu.Unlock()
		c.fail([]*flight{f}, Busy)
	default:
		c.load.Add(1)
		c.load.Add(-l.wait(f))
		c.mu.Unlock()
	}
}

func (c *conn) laneOf(f *flight) *lane {
	if f.entriesAt == resolvesAt {
		return &c.ofResolves
	}
	return &c.ofAsks
}

// place puts a frame into the window and its bytes into the output; the lock is held.
func (c *conn) place(f *flight, l *lane) {
	isAwaited := f.isAwaited()
	if isAwaited && f.entriesAt == asksAt {
		// Its last ask may be abandoned at this very moment: a frame of none is no frame.
		f.dropAbandoned()
		isAwaited = f.count > 0
	}
	if !isAwaited {
		f.recycle()
		c.load.Add(-1)
		return
	}
	l.inFlight++
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.slots[slot] = f
	c.generation++
	f.number = c.generation<<slotBits | uint64(slot)
	f.sentAt = time.Now()
	if f.lookup != nil {
		little.PutUint64(f.buf[headerLen:], f.number)
	} else {
		finish(f.buf, f.number, f.entriesAt, f.count)
	}
	c.unanswered += len(f.buf)
	c.out = append(c.out, f.buf...)
}

// flushAndUnlock writes the output, unless somebody writes already.
func (c *conn) flushAndUnlock() {
	if c.writing || len(c.out) == 0 || c.lost {
		c.mu.Unlock()
		return
	}
	c.writing = true
	if c.unanswered > directMax {
		c.mu.Unlock()
		c.wake <- struct{}{}
		return
	}
	if c.load.Load() > 1 {
		// Others are at work: what they are about to send shares the system call.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.writeOnce()
	if more := len(c.out) > 0; more && !c.lost {
		c.mu.Unlock()
		c.wake <- struct{}{}
		return
	}
	c.writing = false
	c.mu.Unlock()
}

// writeOnce writes what is there; the lock is held before and after, not meanwhile.
func (c *conn) writeOnce() {
	bytes := c.out
	c.out = c.spare[:0]
	c.mu.Unlock()
	_, err := c.net.Write(bytes)
	if err != nil {
		c.lose(err)
	}
	c.mu.Lock()
	c.spare = bytes
}

// write is the goroutine that writes what callers must not wait for.
func (c *conn) write() {
	for {
		select {
		case <-c.closed:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		for len(c.out) > 0 && !c.lost {
			c.writeOnce()
		}
		c.writing = false
		c.mu.Unlock()
	}
}

// read is the goroutine that takes answers.
func (c *conn) read(reader *bufio.Reader) {
	most := min(max(int(c.welcome.frameMax), 1<<16), frameMaxMost)
	var whole []byte
	for {
		frame, err := nextFrame(reader, most, &whole)
		if err == nil {
			err = c.take(frame)
		}
		if err != nil {
			c.lose(err)
			return
		}
	}
}

// nextFrame is the next whole frame, valid until the next call.
func nextFrame(reader *bufio.Reader, most int, whole *[]byte) ([]byte, error) {
	head, err := reader.Peek(6)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	length, err := frameLen(head, most)
	if err != nil {
		return nil, err
	}
	if length <= reader.Size() {
		frame, err := reader.Peek(length)
		if err != nil {
			return nil, err
		}
		_, err = reader.Discard(length)
		return frame, err
	}
	if cap(*whole) < length {
		*whole = make([]byte, length)
	}
	frame := (*whole)[:length]
	_, err = io.ReadFull(reader, frame)
	return frame, err
}

// take hands one answer to those who wait for it. An error is a node that cannot be understood: the connection is of no more use.
func (c *conn) take(frame []byte) error {
	m, err := parseMessage(frame)
	if err != nil {
		return err
	}
	if _, known := rootLens[m.template]; !known || m.template == idWelcome {
		// A newer node may say what this library does not know.
		return nil
	}
	var answers entries
	switch m.template {
	case idDecided:
		answers, err = m.group(decisionLen)
	case idResolved:
		answers, err = m.group(resolvedLen)
	case idExtended:
		answers, err = m.group(extendedLen)
	}
	if err != nil {
		return err
	}
	f := c.land(m.number())
	switch {
	case m.template == idRefused:
		return c.refused(f, &m)
	case f == nil || m.template == idPong:
		return nil
	case m.template == idDecided && f.entriesAt == asksAt:
		c.decided(f, answers)
	case (m.template == idResolved && f.entriesAt == resolvesAt && !f.extends) || (m.template == idExtended && f.extends):
		c.resolved(f, answers)
	case f.lookup != nil:
		f.lookup.answer(&m)
	default:
		c.fail([]*flight{f}, Unreachable)
		return fmt.Errorf("weir: message %d answers a frame of another kind", m.template)
	}
	if answers.count != f.count {
		c.node.client.log.Warn("weir: an answer has another number of entries than its frame", "node", c.node.address,
			"found", answers.count, "expected", f.count)
	}
	f.recycle()
	return nil
}

// land takes a frame out of the window; nil if no such frame is in flight, as after an answer that came twice.
func (c *conn) land(number uint64) *flight {
	c.mu.Lock()
	c.lastRead = time.Now()
	slot := number & slotMask
	if slot >= window || c.slots[slot] == nil || c.slots[slot].number != number {
		c.mu.Unlock()
		return nil
	}
	f := c.slots[slot]
	c.slots[slot] = nil
	c.free = append(c.free, uint8(slot))
	c.load.Add(-1)
	c.unanswered -= len(f.buf)
	l := c.laneOf(f)
	l.inFlight--
	for len(l.queue) > 0 && l.inFlight < l.most {
		next := l.queue[0]
		l.queue = l.queue[1:]
		c.place(next, l)
	}
	c.flushAndUnlock()
	return f
}

// decided gives callers their answers, and releases the grants of those that no longer wait.
func (c *conn) decided(f *flight, answers entries) {
	at := 0
	var packed []byte
	for _, p := range f.parts {
		count := max(min(p.count, answers.count-at), 0)
		bytes := packed[:0]
		if answers.stride == decisionLen {
			bytes = answers.bytes[at*decisionLen : (at+count)*decisionLen]
		} else {
			for i := range count {
				bytes = append(bytes, answers.at(at + i)[:decisionLen]...)
			}
			packed = bytes
		}
		if !p.call.answer(bytes) {
			for i := range count {
				if entry := bytes[i*decisionLen:]; !p.call.hasHold(entry) {
					c.node.client.releaseLate(c.node, entry)
				}
			}
		}
		for i := range count {
			if Verdict(bytes[i*decisionLen+tokenLen]) == CutOff {
				c.node.putLast()
			}
		}
		at += p.count
	}
}

// resolved tells settlements their answers; those without one are repeated.
func (c *conn) resolved(f *flight, answers entries) {
	for i, j := range f.jobs {
		outcome := Outcome{Verdict: Busy}
		if i < answers.count {
			entry := answers.at(i)
			outcome = Outcome{Verdict: Verdict(entry[0]), Repeat: entry[1]&flagRepeat != 0}
			if f.extends && outcome.Verdict == Extended {
				outcome.Deadline = time.UnixMilli(int64(little.Uint64(entry[resolvedLen:])))
			}
		}
		if f.givenUp && !outcome.Verdict.isFinal() {
			continue // it is under way elsewhere
		}
		j.answered(c.node, outcome)
	}
}

// refused handles a frame that was refused whole, or the connection if no frame is named.
func (c *conn) refused(f *flight, m *message) error {
	r, err := m.refusal()
	if f == nil && r.frame != 0 {
		return nil
	}
	if err != nil || f == nil {
		return fmt.Errorf("weir: the node refused the connection: %s: %s", r.reason, shorten(r.detail))
	}
	verdict := Unreachable
	switch {
	case r.reason == reasonBusy:
		verdict = Busy
	case r.reason == reasonJournal:
		verdict = Journal
	case r.reason == reasonShuttingDown:
		c.node.putLast()
	case r.reason.isBroken():
		verdict = FrameRefused
		fallthrough
	default:
		c.node.client.log.Warn("weir: a frame was refused", "node", c.node.address, "reason", r.reason.String(), "detail", r.detail)
	}
	if verdict == Busy && c.askAgain(f) {
		return nil
	}
	c.fail([]*flight{f}, verdict)
	return nil
}

// askAgain sends asks once more that wanted it, on this same connection, whose worker remembers them.
func (c *conn) askAgain(f *flight) bool {
	if len(f.parts) == 0 {
		return false
	}
	for _, p := range f.parts {
		if !p.call.retry || p.call.state.Load() != callWaiting {
			return false
		}
	}
	time.AfterFunc(backoffMin/4, func() {
		c.mu.Lock()
		c.sendAndUnlock(f)
	})
	return true
}
