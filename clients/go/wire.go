package weir

import (
	"encoding/binary"
	"fmt"
)

// The batch protocol: SBE messages in frames of the Simple Open Framing Header. docs/formats.md has the byte diagrams; offsets
// here are from the beginning of a frame, as there.

const (
	schemaID   = 7700
	sbeLittle  = 0xEB50
	versionMin = 2
	versionMax = 4

	headerLen = 14

	idHello    = 1
	idWelcome  = 2
	idDecide   = 3
	idDecided  = 4
	idResolve  = 5
	idResolved = 6
	idRefused  = 7
	idPing     = 8
	idPong     = 9
	idFind     = 14
	idFound    = 15
	idExtend   = 16
	idExtended = 17

	tokenLen    = 32
	askLen      = 40
	decisionLen = tokenLen + 1
	resolveLen  = 49
	resolvedLen = 2
	extendLen   = tokenLen + 4
	extendedLen = resolvedLen + 8

	// Where the entries of a frame begin.
	asksAt     = 27
	resolvesAt = 26

	flagRemember  = 1
	flagAwaitFill = 2
	flagRepeat    = 1

	actionConfirm = 1
	actionSettle  = 2
	actionRelease = 3
	// Not an action of Resolve: it has a message of its own.
	actionExtend = 4
)

var little = binary.LittleEndian

// appendHeader begins a frame; its length is written by seal.
func appendHeader(to []byte, template, block, version uint16) []byte {
	to = append(to, 0, 0, 0, 0, sbeLittle>>8, sbeLittle&0xff)
	to = little.AppendUint16(to, block)
	to = little.AppendUint16(to, template)
	to = little.AppendUint16(to, schemaID)
	return little.AppendUint16(to, version)
}

// seal writes the length of a whole frame.
func seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)))
	return frame
}

func appendData(to []byte, data string) []byte {
	to = little.AppendUint32(to, uint32(len(data)))
	return append(to, data...)
}

// hello is the first message of a connection.
type hello struct {
	min, max uint16
	clientID uint64
	auth     string
	name     string
}

func (h hello) append(to []byte, version uint16) []byte {
	to = appendHeader(to, idHello, 12, version)
	to = little.AppendUint16(to, h.min)
	to = little.AppendUint16(to, h.max)
	to = little.AppendUint64(to, h.clientID)
	return seal(appendData(appendData(to, h.auth), h.name))
}

// beginDecide begins a frame of asks; its number and count are written by finish.
func beginDecide(to []byte, flags uint8, version uint16) []byte {
	to = appendHeader(to, idDecide, 9, version)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0, flags)
	to = little.AppendUint16(to, askLen)
	return append(to, 0, 0)
}

func appendAsk(to []byte, requestID, budget uint64, amount int64, user uint64, unit Unit, pod uint16) []byte {
	var entry [askLen]byte
	little.PutUint64(entry[0:], requestID)
	little.PutUint64(entry[8:], budget)
	little.PutUint64(entry[16:], uint64(amount))
	little.PutUint64(entry[24:], user)
	copy(entry[32:], unit.code[:])
	little.PutUint16(entry[36:], pod)
	return append(to, entry[:]...)
}

func beginResolve(to []byte, version uint16) []byte {
	to = appendHeader(to, idResolve, 8, version)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0)
	to = little.AppendUint16(to, resolveLen)
	return append(to, 0, 0)
}

func appendResolve(to []byte, token *[tokenLen]byte, amount int64, action uint8, requestID uint64) []byte {
	to = append(to, token[:]...)
	to = little.AppendUint64(to, uint64(amount))
	to = append(to, action)
	return little.AppendUint64(to, requestID)
}

// appendExtend is a frame with one later end; its number is written when it is sent.
func appendExtend(to []byte, token *[tokenLen]byte, confirmMs uint32, version uint16) []byte {
	to = appendHeader(to, idExtend, 8, version)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0)
	to = little.AppendUint16(to, extendLen)
	to = append(to, 0, 0)
	return little.AppendUint32(append(to, token[:]...), confirmMs)
}

func appendPing(to []byte, frame uint64, version uint16) []byte {
	return seal(little.AppendUint64(appendHeader(to, idPing, 8, version), frame))
}

// appendFind is a question for the budget of a handle; its number is written when it is sent.
func appendFind(to []byte, handle string, version uint16) []byte {
	to = appendHeader(to, idFind, 8, version)
	return seal(appendData(append(to, 0, 0, 0, 0, 0, 0, 0, 0), handle))
}

// finish writes the number and the count of entries into a frame whose entries begin at the offset, and seals it.
func finish(frame []byte, number uint64, entriesAt, count int) {
	little.PutUint64(frame[headerLen:], number)
	little.PutUint16(frame[entriesAt-2:], uint16(count))
	seal(frame)
}

// message is one whole frame that was checked as far as its header and root block go.
type message struct {
	template uint16
	version  uint16
	root     []byte
	// What follows the root block: groups, then data.
	rest []byte
}

// frameLen is the length that the first bytes of a frame state; 0 while there are too few to tell.
func frameLen(bytes []byte, most int) (int, error) {
	if len(bytes) < 6 {
		return 0, nil
	}
	if string(bytes[:5]) == "HTTP/" {
		return 0, ErrWrongDoor
	}
	if encoding := binary.BigEndian.Uint16(bytes[4:]); encoding != sbeLittle {
		return 0, fmt.Errorf("weir: frame of encoding %#04x, expected %#04x", encoding, sbeLittle)
	}
	length := int64(binary.BigEndian.Uint32(bytes))
	if length < headerLen || length > int64(most) {
		return 0, fmt.Errorf("weir: frame of %d bytes, expected %d to %d", length, headerLen, most)
	}
	return int(length), nil
}

// rootLens are the bytes that a root block of a message has at least: those of its first version.
var rootLens = map[uint16]int{idWelcome: 32, idDecided: 12, idResolved: 8, idRefused: 9, idPong: 16, idFound: 21, idExtended: 8}

// parseMessage reads a whole frame.
func parseMessage(frame []byte) (message, error) {
	if len(frame) < headerLen {
		return message{}, fmt.Errorf("weir: frame of %d bytes, expected at least %d", len(frame), headerLen)
	}
	block := int(little.Uint16(frame[6:]))
	m := message{template: little.Uint16(frame[8:]), version: little.Uint16(frame[12:])}
	if schema := little.Uint16(frame[10:]); schema != schemaID {
		return m, fmt.Errorf("weir: message of schema %d, expected %d", schema, schemaID)
	}
	if block > len(frame)-headerLen || block < rootLens[m.template] {
		return m, fmt.Errorf("weir: message %d: root block of %d bytes, expected %d to %d", m.template, block,
			rootLens[m.template], len(frame)-headerLen)
	}
	m.root, m.rest = frame[headerLen:headerLen+block], frame[headerLen+block:]
	return m, nil
}

func (m *message) number() uint64 { return little.Uint64(m.root) }

// entries are the entries of a group, each at least as long as they were asked for.
type entries struct {
	bytes  []byte
	stride int
	count  int
}

func (e *entries) at(i int) []byte { return e.bytes[i*e.stride : (i+1)*e.stride] }

// group reads the first group of a message.
func (m *message) group(least int) (entries, error) {
	if len(m.rest) < 4 {
		return entries{}, fmt.Errorf("weir: message %d ends before its group", m.template)
	}
	g := entries{stride: int(little.Uint16(m.rest)), count: int(little.Uint16(m.rest[2:]))}
	if g.stride < least || g.stride*g.count > len(m.rest)-4 {
		return entries{}, fmt.Errorf("weir: message %d: %d entries of %d bytes, expected entries of at least %d in %d bytes",
			m.template, g.count, g.stride, least, len(m.rest)-4)
	}
	g.bytes = m.rest[4 : 4+g.stride*g.count]
	return g, nil
}

// data reads the first data of a message without groups.
func (m *message) data() (string, error) {
	if len(m.rest) < 4 {
		return "", fmt.Errorf("weir: message %d ends before its data", m.template)
	}
	length := uint64(little.Uint32(m.rest))
	if length > uint64(len(m.rest)-4) {
		return "", fmt.Errorf("weir: message %d: data of %d bytes, found %d", m.template, length, len(m.rest)-4)
	}
	return string(m.rest[4 : 4+length]), nil
}

// welcome is the node's answer to Hello.
type welcome struct {
	version   uint16
	node      uint16
	run       uint32
	batchMax  uint16
	worker    uint16
	frameMax  uint32
	holdMs    uint32
	billingMs uint32
	nowMs     uint64
}

func (m *message) welcome() welcome {
	r := m.root
	return welcome{
		version: little.Uint16(r), node: little.Uint16(r[2:]), run: little.Uint32(r[4:]), batchMax: little.Uint16(r[8:]),
		worker: little.Uint16(r[10:]), frameMax: little.Uint32(r[12:]), holdMs: little.Uint32(r[16:]),
		billingMs: little.Uint32(r[20:]), nowMs: little.Uint64(r[24:]),
	}
}

// refusal is a frame that was refused whole.
type refusal struct {
	frame  uint64
	reason reason
	detail string
}

func (m *message) refusal() (refusal, error) {
	detail, err := m.data()
	return refusal{m.number(), reason(m.root[8]), detail}, err
}
