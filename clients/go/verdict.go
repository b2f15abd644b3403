package weir

import "fmt"

// Verdict is the answer to an ask or to a settlement. Verdicts are values, not errors: a refusal is a good answer.
//
// The codes below 256 come from the node (docs/formats.md lists them); a code that this library does not know is kept as it is
// and is a no. Those from 256 on are said by the library itself, when the node said nothing in time.
type Verdict uint16

// Answers to an ask.
const (
	Granted         Verdict = 0  // reserved: the hold is yours
	UnknownBudget   Verdict = 1  // no budget has this id or handle
	BadAmount       Verdict = 2  // zero, negative, above [AmountMax], or no amount at all
	UnitMismatch    Verdict = 3  // the budget counts in another unit
	NotStarted      Verdict = 4  // the budget's flight has not begun
	Ended           Verdict = 5  // the budget's flight is over
	Paused          Verdict = 6  // the owner paused the budget
	Paced           Verdict = 7  // the plan says not now
	Exhausted       Verdict = 8  // less is left of the limit than was asked
	DayExhausted    Verdict = 9  // less is left of the day's limit than was asked
	PurseEmpty      Verdict = 10 // nothing is at hand for the moment
	PodRefused      Verdict = 11 // another member of the pod was refused
	IDReused        Verdict = 12 // the request id was used before with other content
	Busy            Verdict = 13 // a bounded queue or table is full, or the node is starting
	Journal         Verdict = 14 // the node cannot seal records at the moment
	CutOff          Verdict = 15 // the node is cut off from the others
	WindowExhausted Verdict = 16 // less is left of a window's limit than was asked
)

// Answers to a confirm, a later end, a settle or a release. From [Expired] on nothing was booked.
const (
	Confirmed       Verdict = 32 // the hold now lives until its billing deadline
	Settled         Verdict = 33 // booked within the hold
	SettledOver     Verdict = 34 // booked; a part is above the hold
	SettledLate     Verdict = 35 // booked in full, though the hold was gone
	Released        Verdict = 36 // the hold's money is free again
	Extended        Verdict = 37 // the hold is confirmed, and has the end of the answer
	Expired         Verdict = 40 // too late to confirm or to release
	AlreadySettled  Verdict = 41 // the hold was settled before
	AlreadyReleased Verdict = 42 // the hold was released before
	Forged          Verdict = 43 // the token is not genuine
	Foreign         Verdict = 44 // the token is of another node
	TooOld          Verdict = 45 // nothing is known of the token any more
	BadAction       Verdict = 46 // the node does not know the action
)

// Answers of the library itself.
const (
	// Timeout: the answer was not there at the caller's deadline. A grant that comes afterwards is released by itself.
	Timeout Verdict = 256
	// Unreachable: no node could be reached, or the connection was lost before the answer came.
	Unreachable Verdict = 257
	// FrameRefused: the node found the whole frame broken, so nothing in it took effect; the log says what it found.
	FrameRefused Verdict = 258
	// Closed: the client was closed.
	Closed Verdict = 259
	// Pending: the caller's wait for a settlement ended before its answer came. The client goes on repeating it.
	Pending Verdict = 260
	// TooLarge: a pod has more members than a frame may hold.
	TooLarge Verdict = 261
	// Unsupported: the node is too old to know budgets by their handles, or later ends.
	Unsupported Verdict = 262
)

var verdictNames = map[Verdict]string{
	Granted: "granted", UnknownBudget: "unknown_budget", BadAmount: "bad_amount", UnitMismatch: "unit_mismatch",
	NotStarted: "not_started", Ended: "ended", Paused: "paused", Paced: "paced", Exhausted: "exhausted",
	DayExhausted: "day_exhausted", PurseEmpty: "purse_empty", PodRefused: "pod_refused", IDReused: "id_reused", Busy: "busy",
	Journal: "journal", CutOff: "cut_off", WindowExhausted: "window_exhausted", Confirmed: "confirmed", Settled: "settled",
	SettledOver: "settled_over", SettledLate: "settled_late", Released: "released", Extended: "extended", Expired: "expired",
	AlreadySettled: "already_settled", AlreadyReleased: "already_released", Forged: "forged", Foreign: "foreign",
	TooOld: "too_old", BadAction: "bad_action", Timeout: "timeout", Unreachable: "unreachable", FrameRefused: "refused",
	Closed: "closed", Pending: "pending", TooLarge: "too_large", Unsupported: "unsupported",
}

// String is the verdict's name, or "verdict N" for a code that this library does not know.
func (v Verdict) String() string {
	if name, known := verdictNames[v]; known {
		return name
	}
	return fmt.Sprintf("verdict %d", uint16(v))
}

// Booked tells whether a confirm, settle, release or later end took effect.
func (v Verdict) Booked() bool { return v >= Confirmed && v <= Extended }

// isFinal tells whether a settlement with this answer is over: every answer but those that say "not now" is, also one that this
// library does not know.
func (v Verdict) isFinal() bool { return v != Busy && v != Journal && v != CutOff }

// reason is why a whole frame was refused.
type reason uint8

const (
	reasonVersion      reason = 8
	reasonUnauthorised reason = 10
	reasonBusy         reason = 11
	reasonShuttingDown reason = 12
	reasonJournal      reason = 13
)

var reasonNames = [...]string{1: "malformed", "unknown_encoding", "unknown_schema", "unknown_template", "frame_too_large",
	"batch_too_large", "batch_empty", "version_unsupported", "hello_expected", "unauthorised", "busy", "shutting_down", "journal"}

// isBroken tells whether the frame itself was at fault, so that it would be refused again.
func (r reason) isBroken() bool { return r < reasonVersion }

func (r reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}
