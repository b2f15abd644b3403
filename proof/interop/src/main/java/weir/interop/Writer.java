package weir.interop;

import weir.wire.Action;
import weir.wire.BidContextEncoder;
import weir.wire.BooksEncoder;
import weir.wire.BooksRequestEncoder;
import weir.wire.DecideEncoder;
import weir.wire.DecideFlagsEncoder;
import weir.wire.DecidedEncoder;
import weir.wire.EligibilityEncoder;
import weir.wire.ExtendEncoder;
import weir.wire.ExtendedEncoder;
import weir.wire.FindEncoder;
import weir.wire.FoundEncoder;
import weir.wire.HelloEncoder;
import weir.wire.MessageHeaderEncoder;
import weir.wire.PingEncoder;
import weir.wire.PongEncoder;
import weir.wire.Reason;
import weir.wire.RefusedEncoder;
import weir.wire.ResolveEncoder;
import weir.wire.ResolvedEncoder;
import weir.wire.ResolvedFlagsEncoder;
import weir.wire.TotalsEncoder;
import weir.wire.TotalsRequestEncoder;
import weir.wire.Verdict;
import weir.wire.WelcomeEncoder;
import org.agrona.concurrent.UnsafeBuffer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Writes named values as a frame with the encoders that the SBE tool generated.
 */
final class Writer
{
    private static final int BUFFER_LENGTH = 64 * 1024;

    private Writer()
    {
    }

    @SuppressWarnings("unchecked")
    static byte[] write(final Map<String, Object> message)
    {
        final byte[] bytes = new byte[BUFFER_LENGTH];
        final UnsafeBuffer buffer = new UnsafeBuffer(bytes);
        final Map<String, Object> fields = (Map<String, Object>)message.get("fields");
        final int length = fields(buffer, (String)message.get("message"), fields);
        ByteBuffer.wrap(bytes).putInt(length).putShort(Reader.ENCODING_TYPE);
        return Arrays.copyOf(bytes, length);
    }

    /** Writes headers and fields; returns where they end. */
    private static int fields(final UnsafeBuffer buffer, final String name, final Map<String, Object> fields)
    {
        final MessageHeaderEncoder header = new MessageHeaderEncoder();
        return switch (name)
        {
            case "Hello" -> hello(buffer, header, fields);
            case "Welcome" -> welcome(buffer, header, fields);
            case "Decide" -> decide(buffer, header, fields);
            case "Decided" -> decided(buffer, header, fields);
            case "Resolve" -> resolve(buffer, header, fields);
            case "Resolved" -> resolved(buffer, header, fields);
            case "Refused" -> refused(buffer, header, fields);
            case "Ping" -> ping(buffer, header, fields);
            case "Pong" -> pong(buffer, header, fields);
            case "BooksRequest" -> booksRequest(buffer, header, fields);
            case "Books" -> books(buffer, header, fields);
            case "TotalsRequest" -> totalsRequest(buffer, header, fields);
            case "Totals" -> totals(buffer, header, fields);
            case "Find" -> find(buffer, header, fields);
            case "Found" -> found(buffer, header, fields);
            case "Extend" -> extend(buffer, header, fields);
            case "Extended" -> extended(buffer, header, fields);
            case "BidContext" -> bidContext(buffer, header, fields);
            default -> throw new IllegalArgumentException("message " + name);
        };
    }

    private static int hello(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final HelloEncoder out = new HelloEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.versionMin((int)Values.number(fields, "versionMin"));
        out.versionMax((int)Values.number(fields, "versionMax"));
        out.clientId(Values.number(fields, "clientId"));
        final byte[] auth = Values.hex(fields, "auth");
        out.putAuth(auth, 0, auth.length);
        out.name(Values.text(fields, "name"));
        return out.limit();
    }

    private static int welcome(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final WelcomeEncoder out = new WelcomeEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.version((int)Values.number(fields, "version"));
        out.node((int)Values.number(fields, "node"));
        out.run(Values.number(fields, "run"));
        out.batchMax((int)Values.number(fields, "batchMax"));
        out.worker((int)Values.number(fields, "worker"));
        out.frameMax(Values.number(fields, "frameMax"));
        out.holdMs(Values.number(fields, "holdMs"));
        out.billingMs(Values.number(fields, "billingMs"));
        out.nowMs(Values.number(fields, "nowMs"));
        return out.limit();
    }

    private static int decide(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final DecideEncoder out = new DecideEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        decideFlags(out.flags(), Values.number(fields, "flags"));
        final List<Map<String, Object>> asks = Values.entries(fields, "asks");
        final DecideEncoder.AsksEncoder asksOut = out.asksCount(asks.size());
        for (final Map<String, Object> entry : asks)
        {
            asksOut.next();
            asksOut.requestId(Values.number(entry, "requestId"));
            asksOut.budgetId(Values.number(entry, "budgetId"));
            asksOut.amount(Values.number(entry, "amount"));
            asksOut.userId(Values.number(entry, "userId"));
            asksOut.putUnit(Values.hex(entry, "unit"), 0, 4);
            asksOut.pod((int)Values.number(entry, "pod"));
            asksOut.reserved((int)Values.number(entry, "reserved"));
        }
        return out.limit();
    }

    private static int decided(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final DecidedEncoder out = new DecidedEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.snapshot(Values.number(fields, "snapshot"));
        final List<Map<String, Object>> answers = Values.entries(fields, "answers");
        final DecidedEncoder.AnswersEncoder answersOut = out.answersCount(answers.size());
        for (final Map<String, Object> entry : answers)
        {
            answersOut.next();
            answersOut.putToken(Values.hex(entry, "token"), 0, 32);
            answersOut.verdict(Verdict.valueOf(Values.label(entry, "verdict")));
        }
        return out.limit();
    }

    private static int resolve(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final ResolveEncoder out = new ResolveEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        final List<Map<String, Object>> resolves = Values.entries(fields, "resolves");
        final ResolveEncoder.ResolvesEncoder resolvesOut = out.resolvesCount(resolves.size());
        for (final Map<String, Object> entry : resolves)
        {
            resolvesOut.next();
            resolvesOut.putToken(Values.hex(entry, "token"), 0, 32);
            resolvesOut.amount(Values.number(entry, "amount"));
            resolvesOut.action(Action.valueOf(Values.label(entry, "action")));
            resolvesOut.requestId(Values.number(entry, "requestId"));
        }
        return out.limit();
    }

    private static int resolved(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final ResolvedEncoder out = new ResolvedEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        final List<Map<String, Object>> answers = Values.entries(fields, "answers");
        final ResolvedEncoder.AnswersEncoder answersOut = out.answersCount(answers.size());
        for (final Map<String, Object> entry : answers)
        {
            answersOut.next();
            answersOut.verdict(Verdict.valueOf(Values.label(entry, "verdict")));
            resolvedFlags(answersOut.flags(), Values.number(entry, "flags"));
        }
        return out.limit();
    }

    private static int refused(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final RefusedEncoder out = new RefusedEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.reason(Reason.valueOf(Values.label(fields, "reason")));
        out.detail(Values.text(fields, "detail"));
        return out.limit();
    }

    private static int ping(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final PingEncoder out = new PingEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        return out.limit();
    }

    private static int pong(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final PongEncoder out = new PongEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.nowMs(Values.number(fields, "nowMs"));
        return out.limit();
    }

    private static int booksRequest(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final BooksRequestEncoder out = new BooksRequestEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.fromBudgetId(Values.number(fields, "fromBudgetId"));
        out.max((int)Values.number(fields, "max"));
        return out.limit();
    }

    private static int books(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final BooksEncoder out = new BooksEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.nowMs(Values.number(fields, "nowMs"));
        out.more((short)Values.number(fields, "more"));
        final List<Map<String, Object>> budgets = Values.entries(fields, "budgets");
        final BooksEncoder.BudgetsEncoder budgetsOut = out.budgetsCount(budgets.size());
        for (final Map<String, Object> entry : budgets)
        {
            budgetsOut.next();
            budgetsOut.budgetId(Values.number(entry, "budgetId"));
            budgetsOut.limit(Values.number(entry, "limit"));
            budgetsOut.free(Values.number(entry, "free"));
            budgetsOut.purses(Values.number(entry, "purses"));
            budgetsOut.held(Values.number(entry, "held"));
            budgetsOut.settled(Values.number(entry, "settled"));
            budgetsOut.overSettled(Values.number(entry, "overSettled"));
            budgetsOut.late(Values.number(entry, "late"));
            budgetsOut.putUnit(Values.hex(entry, "unit"), 0, 4);
        }
        return out.limit();
    }

    private static int totalsRequest(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final TotalsRequestEncoder out = new TotalsRequestEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        return out.limit();
    }

    private static int totals(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final TotalsEncoder out = new TotalsEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.nowMs(Values.number(fields, "nowMs"));
        out.workerCpuNs(Values.number(fields, "workerCpuNs"));
        out.decisions(Values.number(fields, "decisions"));
        out.granted(Values.number(fields, "granted"));
        out.resolves(Values.number(fields, "resolves"));
        out.repeats(Values.number(fields, "repeats"));
        final List<Map<String, Object>> verdicts = Values.entries(fields, "verdicts");
        final TotalsEncoder.VerdictsEncoder verdictsOut = out.verdictsCount(verdicts.size());
        for (final Map<String, Object> entry : verdicts)
        {
            verdictsOut.next();
            verdictsOut.total(Values.number(entry, "total"));
            verdictsOut.verdict(Verdict.valueOf(Values.label(entry, "verdict")));
        }
        return out.limit();
    }

    private static int find(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final FindEncoder out = new FindEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.handle(Values.text(fields, "handle"));
        return out.limit();
    }

    private static int found(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final FoundEncoder out = new FoundEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        out.budgetId(Values.number(fields, "budgetId"));
        out.putUnit(Values.hex(fields, "unit"), 0, 4);
        out.verdict(Verdict.valueOf(Values.label(fields, "verdict")));
        return out.limit();
    }

    private static int extend(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final ExtendEncoder out = new ExtendEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        final List<Map<String, Object>> holds = Values.entries(fields, "holds");
        final ExtendEncoder.HoldsEncoder holdsOut = out.holdsCount(holds.size());
        for (final Map<String, Object> entry : holds)
        {
            holdsOut.next();
            holdsOut.putToken(Values.hex(entry, "token"), 0, 32);
            holdsOut.confirmMs(Values.number(entry, "confirmMs"));
        }
        return out.limit();
    }

    private static int extended(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final ExtendedEncoder out = new ExtendedEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.frame(Values.number(fields, "frame"));
        final List<Map<String, Object>> answers = Values.entries(fields, "answers");
        final ExtendedEncoder.AnswersEncoder answersOut = out.answersCount(answers.size());
        for (final Map<String, Object> entry : answers)
        {
            answersOut.next();
            answersOut.verdict(Verdict.valueOf(Values.label(entry, "verdict")));
            resolvedFlags(answersOut.flags(), Values.number(entry, "flags"));
            answersOut.deadlineMs(Values.number(entry, "deadlineMs"));
        }
        return out.limit();
    }

    private static int bidContext(
        final UnsafeBuffer buffer, final MessageHeaderEncoder header, final Map<String, Object> fields)
    {
        final BidContextEncoder out = new BidContextEncoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        out.requestId(Values.number(fields, "requestId"));
        out.userId(Values.number(fields, "userId"));
        out.nowMs(Values.number(fields, "nowMs"));
        out.deadlineMs(Values.number(fields, "deadlineMs"));
        eligibility(out.eligibility(), Values.number(fields, "eligibility"));
        out.floorMicros(Values.number(fields, "floorMicros"));
        out.site(Values.number(fields, "site"));
        out.placement(Values.number(fields, "placement"));
        out.width((int)Values.number(fields, "width"));
        out.height((int)Values.number(fields, "height"));
        out.putCurrency(Values.hex(fields, "currency"), 0, 4);
        out.country(Values.text(fields, "country"));
        out.deviceType((short)Values.number(fields, "deviceType"));
        out.hourOfWeek((short)Values.number(fields, "hourOfWeek"));
        final List<Map<String, Object>> segments = Values.entries(fields, "segments");
        final BidContextEncoder.SegmentsEncoder segmentsOut = out.segmentsCount(segments.size());
        for (final Map<String, Object> entry : segments)
        {
            segmentsOut.next();
            segmentsOut.segment(Values.number(entry, "segment"));
            segmentsOut.weight((int)Values.number(entry, "weight"));
        }
        final List<Map<String, Object>> caps = Values.entries(fields, "caps");
        final BidContextEncoder.CapsEncoder capsOut = out.capsCount(caps.size());
        for (final Map<String, Object> entry : caps)
        {
            capsOut.next();
            capsOut.campaign(Values.number(entry, "campaign"));
            capsOut.shown((int)Values.number(entry, "shown"));
            capsOut.cap((int)Values.number(entry, "cap"));
            capsOut.windowMinutes((int)Values.number(entry, "windowMinutes"));
        }
        out.page(Values.text(fields, "page"));
        out.userAgent(Values.text(fields, "userAgent"));
        return out.limit();
    }

    private static void decideFlags(final DecideFlagsEncoder out, final long bits)
    {
        out.clear();
        out.remember((bits & (1L << 0)) != 0);
        out.awaitFill((bits & (1L << 1)) != 0);
    }

    private static void resolvedFlags(final ResolvedFlagsEncoder out, final long bits)
    {
        out.clear();
        out.repeat((bits & (1L << 0)) != 0);
    }

    private static void eligibility(final EligibilityEncoder out, final long bits)
    {
        out.clear();
        out.consent((bits & (1L << 0)) != 0);
        out.coppa((bits & (1L << 1)) != 0);
        out.gdpr((bits & (1L << 2)) != 0);
        out.doNotTrack((bits & (1L << 3)) != 0);
        out.banner((bits & (1L << 4)) != 0);
        out.video((bits & (1L << 5)) != 0);
        out.native_((bits & (1L << 6)) != 0);
        out.audio((bits & (1L << 7)) != 0);
        out.secure((bits & (1L << 8)) != 0);
        out.interstitial((bits & (1L << 9)) != 0);
        out.rewarded((bits & (1L << 10)) != 0);
        out.app((bits & (1L << 11)) != 0);
    }
}
