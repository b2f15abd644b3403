package weir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of opening a client.
var (
	// ErrUnauthorised: a node wants another token.
	ErrUnauthorised = errors.New("weir: the node wants another auth token")
	// ErrVersion: a node speaks no version of the protocol that this library speaks.
	ErrVersion = errors.New("weir: the node speaks another version of the protocol")
	// ErrWrongDoor: an address is not that of a node's batch door.
	ErrWrongDoor = errors.New("weir: it speaks HTTP: this is not the batch door (default port 7700)")
)

// Client asks one or more nodes. It is safe for use by many goroutines, and meant to be shared by all of a program.
type Client struct {
	options options
	log     *slog.Logger
	nodes   []*node
	ids     atomic.Uint64
	spool   *spool
	done    chan struct{}
	once    sync.Once
	// The log has named units that do not fit.
	unitsLogged sync.Once

	mu sync.Mutex
	// Confirms, settles and releases that are not answered yet.
	pending int
	closing bool
	idle    chan struct{}
}

// Dial opens a client of the nodes at these addresses, separated by commas: "10.0.0.1:7700,10.0.0.2:7700". The first node that
// works is used; the others follow where it does not. It returns when one node has answered. Where none can be reached it logs
// that and returns too: asks are [Unreachable] until one is there. A node that wants another token or version is an error, and so is
// an address where something speaks HTTP.
func Dial(ctx context.Context, addresses string, opts ...Option) (*Client, error) {
	c := &Client{options: defaults(), done: make(chan struct{})}
	for _, option := range opts {
		option(&c.options)
	}
	if c.options.clientID == 0 {
		c.options.clientID = rand.Uint64()
	}
	c.log = c.options.log
	c.ids.Store(rand.Uint64())
	for address := range strings.SplitSeq(addresses, ",") {
		if address = strings.TrimSpace(address); address != "" {
			c.nodes = append(c.nodes, newNode(c, len(c.nodes), address))
		}
	}
	if len(c.nodes) == 0 || len(c.nodes) > nodesMax {
		return nil, fmt.Errorf("weir: addresses %q: found %d nodes, expected 1 to %d such as \"127.0.0.1:7700\"", addresses, len(c.nodes),
			nodesMax)
	}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(dialTimeout)
	}
	if cn, verdict := c.route(ctx, deadline); cn == nil {
		if err := c.dialError(verdict); errors.Is(err, ErrUnauthorised) || errors.Is(err, ErrVersion) || errors.Is(err, ErrWrongDoor) {
			c.shutOnce()
			return nil, err
		}
		// A program may start while its nodes are down: they are used when they are there.
		c.log.Warn("weir: no node answers yet", "error", c.dialError(verdict))
	}
	if c.options.spool != "" {
		if err := c.openSpool(); err != nil {
			c.shutOnce()
			return nil, err
		}
	}
	go c.watch()
	return c, nil
}

func (c *Client) dialError(verdict Verdict) error {
	var errs []error
	for _, n := range c.nodes {
		if err := n.lastError(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.address, err))
		}
	}
	return fmt.Errorf("weir: no node answers (%s): %w", verdict, errors.Join(errs...))
}

// route finds a connection for an ask, and waits for one that is being opened. Without one the verdict says why.
func (c *Client) route(ctx context.Context, deadline time.Time) (*conn, Verdict) {
	var tried uint64
	for {
		n := c.choose(tried, nil)
		if n == nil {
			return nil, Unreachable
		}
		if cn := n.pick(); cn != nil {
			return cn, Granted
		}
		if !n.waitOpen(ctx, deadline) {
			tried |= 1 << n.index
		}
		if ctx.Err() != nil || !time.Now().Before(deadline) {
			return nil, Timeout
		}
	}
}

// choose is the node to ask now, of those whose bits are not in the set: one that works before one that went wrong within the
// last second, one with an open connection before one without, a favourite before the others, then in the order of Dial.
func (c *Client) choose(without uint64, favourite *node) *node {
	var best *node
	bestRank := -1
	now := time.Now()
	for _, n := range c.nodes {
		if without&(1<<n.index) != 0 {
			continue
		}
		rank := 0
		if !n.isLast(now) {
			rank += 4
		}
		if n.isOpen() {
			rank += 2
		}
		if n == favourite {
			rank++
		}
		if rank > bestRank {
			best, bestRank = n, rank
		}
	}
	return best
}

// watch looks after the connections until the client is closed.
func (c *Client) watch() {
	every := min(time.Second, max(c.options.answerWait/4, time.Millisecond))
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case now := <-ticker.C:
			for _, n := range c.nodes {
				for _, cn := range n.all() {
					cn.watch(now, c.options.answerWait)
				}
			}
		}
	}
}

// Close ends the client: new asks get [Closed], and it waits until everything that was to be confirmed, settled or released is
// answered, or the context ends. What is unanswered then is lost unless there is a spool; the error says how much it is.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil
	}
	c.closing = true
	c.idle = make(chan struct{})
	if c.pending == 0 {
		close(c.idle)
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	c.mu.Lock()
	left := c.pending
	c.mu.Unlock()
	c.shutOnce()
	if left > 0 {
		return fmt.Errorf("weir: %d settlements were not answered when the client was closed: %w", left, ctx.Err())
	}
	return nil
}

// shutOnce ends all connections at once.
func (c *Client) shutOnce() { c.once.Do(c.shut) }

func (c *Client) shut() {
	close(c.done)
	for _, n := range c.nodes {
		n.shut()
	}
	if c.spool != nil {
		c.spool.close()
	}
}

func (c *Client) isShut() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *Client) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

func (c *Client) observe(what string, verdict Verdict, began time.Time) {
	if c.options.hook != nil {
		c.options.hook(Event{what, verdict, time.Since(began)})
	}
}
