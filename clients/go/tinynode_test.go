package weir

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync"
	"testing"
)

// tinyNode grants what fits its budget 1 of 1,000,000 base units, finds every handle there, and books what it is told.
type tinyNode struct {
	listener net.Listener
	mu       sync.Mutex
	left     int64
	held     map[uint32]int64
	grants   uint32
	// Actions that came, in order.
	actions []uint8
	asked   int
}

func newTinyNode(t testing.TB, config *tls.Config) *tinyNode {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	n := &tinyNode{listener: listener, left: 1_000_000, held: map[uint32]int64{}}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			go n.serve(nc)
		}
	}()
	return n
}

func (n *tinyNode) address() string { return n.listener.Addr().String() }

func (n *tinyNode) serve(nc net.Conn) {
	defer nc.Close()
	reader := bufio.NewReaderSize(nc, 1<<16)
	var whole []byte
	for {
		frame, err := nextFrame(reader, 1<<20, &whole)
		if err != nil {
			return
		}
		m, _ := parseMessage(frame)
		if _, err := nc.Write(seal(n.answer(&m))); err != nil {
			return
		}
	}
}

func (n *tinyNode) answer(m *message) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m.template {
	case idHello:
		to := appendHeader(nil, idWelcome, 32, 3)
		to = little.AppendUint16(to, 3)
		to = append(to, make([]byte, 30)...)
		little.PutUint16(to[headerLen+8:], 1000)
		little.PutUint32(to[headerLen+12:], 1<<18)
		return to
	case idFind:
		to := appendHeader(nil, idFound, 21, 3)
		to = append(to, m.root...)
		to = little.AppendUint64(to, 1)
		return append(to, 'U', 'S', 'D', 0, byte(Granted))
	case idDecide:
		to := appendHeader(nil, idDecided, 12, 3)
		to = append(append(to, m.root[:8]...), 0, 0, 0, 0)
		asks, _ := m.group(askLen)
		to = binary.LittleEndian.AppendUint16(to, decisionLen)
		to = little.AppendUint16(to, uint16(asks.count))
		for i := range asks.count {
			to = append(to, n.decide(asks.at(i))...)
		}
		return to
	default:
		to := append(appendHeader(nil, idResolved, 8, 3), m.root[:8]...)
		resolves, _ := m.group(resolveLen)
		to = little.AppendUint16(to, resolvedLen)
		to = little.AppendUint16(to, uint16(resolves.count))
		for i := range resolves.count {
			to = append(to, n.resolve(resolves.at(i))...)
		}
		return to
	}
}

func (n *tinyNode) decide(ask []byte) []byte {
	n.asked++
	entry := make([]byte, decisionLen)
	amount := int64(little.Uint64(ask[16:]))
	switch {
	case little.Uint64(ask[8:]) != 1:
		entry[tokenLen] = byte(UnknownBudget)
	case amount > n.left:
		entry[tokenLen] = byte(Exhausted)
	default:
		n.grants++
		n.left -= amount
		n.held[n.grants] = amount
		little.PutUint32(entry, n.grants)
	}
	return entry
}

func (n *tinyNode) resolve(entry []byte) []byte {
	number, action := little.Uint32(entry), entry[tokenLen+8]
	held := n.held[number]
	n.actions = append(n.actions, action)
	switch action {
	case actionConfirm:
		return []byte{byte(Confirmed), 0}
	case actionSettle:
		delete(n.held, number)
		n.left += held - int64(little.Uint64(entry[tokenLen:]))
		return []byte{byte(Settled), 0}
	default:
		delete(n.held, number)
		n.left += held
		return []byte{byte(Released), 0}
	}
}

func (n *tinyNode) seen() (actions []uint8, asked int, left int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]uint8(nil), n.actions...), n.asked, n.left
}
