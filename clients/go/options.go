package weir

import (
	"crypto/tls"
	"log/slog"
	"runtime"
	"time"
)

type options struct {
	auth        string
	name        string
	clientID    uint64
	tls         *tls.Config
	deadline    time.Duration
	linger      time.Duration
	batchMax    int
	connections int
	answerWait  time.Duration
	spool       string
	noWait      bool
	hook        func(Event)
	log         *slog.Logger
}

// Option changes how a [Client] behaves.
type Option func(*options)

func defaults() options {
	return options{
		name: "weir-go", linger: 50 * time.Microsecond, connections: min(8, 2*runtime.GOMAXPROCS(0)),
		answerWait: 10 * time.Second, log: slog.Default(),
	}
}

// Auth is the token of the node's batch door; none where the node wants none.
func Auth(token string) Option { return func(o *options) { o.auth = token } }

// Name is how the node's log calls this client.
func Name(name string) Option { return func(o *options) { o.name = name } }

// ClientID is the number that the node knows this client by; 0, the default, draws one at random.
func ClientID(id uint64) Option { return func(o *options) { o.clientID = id } }

// TLS speaks TLS to the nodes. A configuration without a ServerName checks the host of each node's address.
func TLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// Deadline is how long an ask waits for its answer where its context has no deadline: 20 ms by default, 1 s for
// [Client.ReserveConfirmed].
func Deadline(d time.Duration) Option { return func(o *options) { o.deadline = d } }

// Linger is how long single asks and settlements wait for others to share their frame: 50 us by default; 0 sends each at once.
func Linger(d time.Duration) Option { return func(o *options) { o.linger = d } }

// BatchMax is how many asks or settlements share a frame at most; by default as many as the node takes.
func BatchMax(n int) Option { return func(o *options) { o.batchMax = n } }

// Connections is how many connections are kept to a node in use: by default two for each processor, at most 8.
func Connections(n int) Option { return func(o *options) { o.connections = max(n, 1) } }

// AnswerWait is how long a settlement waits for its answer before it is repeated: 10 s by default.
func AnswerWait(d time.Duration) Option { return func(o *options) { o.answerWait = d } }

// Spool keeps what is not answered yet of confirms, settles and releases in a file, so that a crash of this program loses none:
// the next client that is opened with the file sends them. One client at a time may have it open.
func Spool(path string) Option { return func(o *options) { o.spool = path } }

// NoWait lets a node refuse an ask at once when money has to be fetched for it, where it would wait for a few milliseconds.
func NoWait() Option { return func(o *options) { o.noWait = true } }

// Hook is called once for every ask and settlement that is over, by the goroutine that learned it: it must be quick.
func Hook(hook func(Event)) Option { return func(o *options) { o.hook = hook } }

// Log is where the client says what its caller should look at; slog's default otherwise.
func Log(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// Event is what a [Hook] hears.
type Event struct {
	// What was done: "reserve", "confirm", "settle" or "release".
	What string
	// How it ended.
	Verdict Verdict
	// How long it took, with all repetitions.
	Took time.Duration
}
