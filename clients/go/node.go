package weir

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	nodesMax    = 64
	dialTimeout = 5 * time.Second
	// lastFor is how long a node that went wrong stays behind the others.
	lastFor    = time.Second
	backoffMin = 10 * time.Millisecond
	backoffMax = 5 * time.Second
	// spareLoad is how many frames are in flight on a connection before the next one is used.
	spareLoad = window / 4
	readSize  = 64 << 10
)

// backoff is how long to wait before the try after so many: doubling, with jitter, so that many clients do not come at once.
func backoff(tries int) time.Duration {
	whole := backoffMax
	if tries < 10 {
		whole = min(backoffMax, backoffMin<<max(tries-1, 0))
	}
	return whole/2 + rand.N(whole/2+1)
}

// node is one address, and the connections to it.
type node struct {
	client  *Client
	index   int
	address string
	// Until when it stays behind the others, in nanoseconds since the epoch.
	lastUntil atomic.Int64
	conns     atomic.Pointer[[]*conn]
	// What handles stand for here.
	book book

	mu      sync.Mutex
	shutUp  bool
	dialing bool
	// Dials that failed since the last that did not.
	failures int
	failedAt time.Time
	cause    error
	retry    *time.Timer
	// Closed when a dial has ended, however.
	changed chan struct{}
}

func newNode(c *Client, index int, address string) *node {
	n := &node{client: c, index: index, address: address, changed: make(chan struct{})}
	n.conns.Store(new([]*conn))
	return n
}

func (n *node) all() []*conn            { return *n.conns.Load() }
func (n *node) isOpen() bool            { return len(n.all()) > 0 }
func (n *node) isLast(t time.Time) bool { return t.UnixNano() < n.lastUntil.Load() }
func (n *node) putLast()                { n.lastUntil.Store(time.Now().Add(lastFor).UnixNano()) }

func (n *node) lastError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cause
}

// pick is the first connection that has room, else the one with the most; nil without any.
func (n *node) pick() *conn {
	var best *conn
	var load int32
	for _, c := range n.all() {
		l := c.load.Load()
		if l < spareLoad {
			return c
		}
		if best == nil || l < load {
			best, load = c, l
		}
	}
	return best
}

// waitOpen waits until a connection is open; false if it cannot be, or not by the deadline.
func (n *node) waitOpen(ctx context.Context, deadline time.Time) bool {
	n.mu.Lock()
	changed := n.changed
	n.dialLocked(n.failedAt.Add(backoffMin))
	n.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-changed:
		return n.isOpen()
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// open begins to open a connection if there is none, without waiting.
func (n *node) open() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isOpen() {
		n.dialLocked(n.failedAt.Add(backoffMin))
	}
}

// dialLocked begins to open connections, not before the given time, unless that is under way.
func (n *node) dialLocked(notBefore time.Time) {
	if n.dialing || n.shutUp {
		return
	}
	n.dialing = true
	time.AfterFunc(time.Until(notBefore), n.fill)
}

// fill opens connections until the pool is full; the first one tells those who wait.
func (n *node) fill() {
	for {
		c, err := n.connect()
		n.mu.Lock()
		if err != nil {
			n.failures++
			n.cause, n.failedAt = err, time.Now()
			n.putLast()
			n.retryLocked()
			n.announceLocked()
			n.mu.Unlock()
			return
		}
		if n.shutUp {
			n.mu.Unlock()
			c.lose(net.ErrClosed)
			return
		}
		n.cause = nil
		conns := append(append([]*conn{}, n.all()...), c)
		n.conns.Store(&conns)
		full := len(conns) >= n.client.options.connections
		n.announceLocked()
		n.dialing = !full
		n.mu.Unlock()
		c.start()
		if full {
			return
		}
	}
}

// announceLocked tells those who wait that a dial has ended.
func (n *node) announceLocked() {
	n.dialing = false
	close(n.changed)
	n.changed = make(chan struct{})
}

// retryLocked tries again later by itself, so that a node that comes back is found.
func (n *node) retryLocked() {
	if n.shutUp || n.retry != nil {
		return
	}
	n.retry = time.AfterFunc(backoff(n.failures), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.retry = nil
		if len(n.all()) < n.client.options.connections {
			n.dialLocked(time.Time{})
		}
	})
}

// forget takes a lost connection out of the pool, and opens another.
func (n *node) forget(lost *conn, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var conns []*conn
	for _, c := range n.all() {
		if c != lost {
			conns = append(conns, c)
		}
	}
	n.conns.Store(&conns)
	n.cause = cause
	// A connection that does not last is no better than one that cannot be opened.
	if time.Since(lost.openedAt) < lastFor {
		n.failures++
	} else {
		n.failures = 0
	}
	n.retryLocked()
}

func (n *node) shut() {
	n.mu.Lock()
	n.shutUp = true
	if n.retry != nil {
		n.retry.Stop()
	}
	n.mu.Unlock()
	for _, c := range n.all() {
		c.lose(net.ErrClosed)
	}
}

// connect opens a connection and greets the node.
func (n *node) connect() (*conn, error) {
	o := &n.client.options
	dialer := net.Dialer{Timeout: dialTimeout}
	nc, err := dialer.Dial("tcp", n.address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		// Refused sizes are no reason not to go on.
		_ = tcp.SetWriteBuffer(socketBuffer)
	}
	nc.SetDeadline(time.Now().Add(dialTimeout))
	if o.tls != nil {
		config := o.tls.Clone()
		if host, _, err := net.SplitHostPort(n.address); err == nil && config.ServerName == "" {
			config.ServerName = host
		}
		nc = tls.Client(nc, config)
	}
	reader := bufio.NewReaderSize(nc, readSize)
	w, err := n.greet(nc, reader)
	if err != nil {
		nc.Close()
		return nil, err
	}
	nc.SetDeadline(time.Time{})
	return newConn(n, nc, w, reader), nil
}

// greet says Hello and reads Welcome.
func (n *node) greet(nc net.Conn, reader *bufio.Reader) (welcome, error) {
	o := &n.client.options
	h := hello{min: versionMin, max: versionMax, clientID: o.clientID, auth: o.auth, name: o.name}
	if _, err := nc.Write(h.append(nil, versionMin)); err != nil {
		return welcome{}, err
	}
	var whole []byte
	frame, err := nextFrame(reader, 1<<16, &whole)
	if err != nil {
		return welcome{}, err
	}
	m, err := parseMessage(frame)
	if err != nil {
		return welcome{}, err
	}
	switch m.template {
	case idWelcome:
		w := m.welcome()
		if w.version < versionMin || w.version > versionMax {
			return w, fmt.Errorf("%w: found %d, expected %d to %d", ErrVersion, w.version, versionMin, versionMax)
		}
		return w, nil
	case idRefused:
		r, _ := m.refusal()
		switch r.reason {
		case reasonUnauthorised:
			return welcome{}, fmt.Errorf("%w: %s", ErrUnauthorised, r.detail)
		case reasonVersion:
			return welcome{}, fmt.Errorf("%w: %s", ErrVersion, r.detail)
		}
		return welcome{}, fmt.Errorf("weir: the node refused the connection: %s: %s", r.reason, r.detail)
	default:
		return welcome{}, fmt.Errorf("weir: message %d answers Hello, expected Welcome", m.template)
	}
}
