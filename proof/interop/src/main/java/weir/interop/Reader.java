package weir.interop;

import weir.wire.BidContextDecoder;
import weir.wire.BooksDecoder;
import weir.wire.BooksRequestDecoder;
import weir.wire.DecideDecoder;
import weir.wire.DecidedDecoder;
import weir.wire.ExtendDecoder;
import weir.wire.ExtendedDecoder;
import weir.wire.FindDecoder;
import weir.wire.FoundDecoder;
import weir.wire.HelloDecoder;
import weir.wire.MessageHeaderDecoder;
import weir.wire.PingDecoder;
import weir.wire.PongDecoder;
import weir.wire.RefusedDecoder;
import weir.wire.ResolveDecoder;
import weir.wire.ResolvedDecoder;
import weir.wire.TotalsDecoder;
import weir.wire.TotalsRequestDecoder;
import weir.wire.WelcomeDecoder;
import org.agrona.concurrent.UnsafeBuffer;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a frame with the decoders that the SBE tool generated, into named values.
 */
final class Reader
{
    /** Messages of the schema. */
    static final int MESSAGES = 18;
    static final int FRAME_HEADER_LENGTH = 6;
    static final short ENCODING_TYPE = (short)0xEB50;

    private Reader()
    {
    }

    static Map<String, Object> read(final byte[] frame)
    {
        final ByteBuffer framing = ByteBuffer.wrap(frame);
        Values.expect("frame length", frame.length, framing.getInt());
        Values.expect("encoding type", ENCODING_TYPE, framing.getShort());

        final UnsafeBuffer buffer = new UnsafeBuffer(frame);
        final MessageHeaderDecoder header = new MessageHeaderDecoder().wrap(buffer, FRAME_HEADER_LENGTH);
        Values.expect("schema id", MessageHeaderDecoder.SCHEMA_ID, header.schemaId());
        Values.expect("schema version", MessageHeaderDecoder.SCHEMA_VERSION, header.version());

        final Map<String, Object> fields = new LinkedHashMap<>();
        final Map<String, Object> message = new LinkedHashMap<>();
        message.put("message", fields(buffer, header, fields));
        message.put("templateId", Values.signed(header.templateId()));
        message.put("fields", fields);
        return message;
    }

    /** Fills in the fields; returns the name of the message. */
    private static String fields(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final int end = switch (header.templateId())
        {
            case HelloDecoder.TEMPLATE_ID -> hello(buffer, header, fields);
            case WelcomeDecoder.TEMPLATE_ID -> welcome(buffer, header, fields);
            case DecideDecoder.TEMPLATE_ID -> decide(buffer, header, fields);
            case DecidedDecoder.TEMPLATE_ID -> decided(buffer, header, fields);
            case ResolveDecoder.TEMPLATE_ID -> resolve(buffer, header, fields);
            case ResolvedDecoder.TEMPLATE_ID -> resolved(buffer, header, fields);
            case RefusedDecoder.TEMPLATE_ID -> refused(buffer, header, fields);
            case PingDecoder.TEMPLATE_ID -> ping(buffer, header, fields);
            case PongDecoder.TEMPLATE_ID -> pong(buffer, header, fields);
            case BooksRequestDecoder.TEMPLATE_ID -> booksRequest(buffer, header, fields);
            case BooksDecoder.TEMPLATE_ID -> books(buffer, header, fields);
            case TotalsRequestDecoder.TEMPLATE_ID -> totalsRequest(buffer, header, fields);
            case TotalsDecoder.TEMPLATE_ID -> totals(buffer, header, fields);
            case FindDecoder.TEMPLATE_ID -> find(buffer, header, fields);
            case FoundDecoder.TEMPLATE_ID -> found(buffer, header, fields);
            case ExtendDecoder.TEMPLATE_ID -> extend(buffer, header, fields);
            case ExtendedDecoder.TEMPLATE_ID -> extended(buffer, header, fields);
            case BidContextDecoder.TEMPLATE_ID -> bidContext(buffer, header, fields);
            default -> throw new IllegalArgumentException("template id " + header.templateId());
        };
        Values.expect("end of the message", buffer.capacity(), end);
        return NAMES.get(header.templateId());
    }

    private static final Map<Integer, String> NAMES = Map.ofEntries(
        Map.entry(HelloDecoder.TEMPLATE_ID, "Hello"),
        Map.entry(WelcomeDecoder.TEMPLATE_ID, "Welcome"),
        Map.entry(DecideDecoder.TEMPLATE_ID, "Decide"),
        Map.entry(DecidedDecoder.TEMPLATE_ID, "Decided"),
        Map.entry(ResolveDecoder.TEMPLATE_ID, "Resolve"),
        Map.entry(ResolvedDecoder.TEMPLATE_ID, "Resolved"),
        Map.entry(RefusedDecoder.TEMPLATE_ID, "Refused"),
        Map.entry(PingDecoder.TEMPLATE_ID, "Ping"),
        Map.entry(PongDecoder.TEMPLATE_ID, "Pong"),
        Map.entry(BooksRequestDecoder.TEMPLATE_ID, "BooksRequest"),
        Map.entry(BooksDecoder.TEMPLATE_ID, "Books"),
        Map.entry(TotalsRequestDecoder.TEMPLATE_ID, "TotalsRequest"),
        Map.entry(TotalsDecoder.TEMPLATE_ID, "Totals"),
        Map.entry(FindDecoder.TEMPLATE_ID, "Find"),
        Map.entry(FoundDecoder.TEMPLATE_ID, "Found"),
        Map.entry(ExtendDecoder.TEMPLATE_ID, "Extend"),
        Map.entry(ExtendedDecoder.TEMPLATE_ID, "Extended"),
        Map.entry(BidContextDecoder.TEMPLATE_ID, "BidContext"));

    private static int hello(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final HelloDecoder in = new HelloDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("versionMin", Values.signed(in.versionMin()));
        fields.put("versionMax", Values.signed(in.versionMax()));
        fields.put("clientId", Values.unsigned(in.clientId()));
        fields.put("auth", Values.bytes(in.authLength(), in::getAuth));
        fields.put("name", in.name());
        return in.limit();
    }

    private static int welcome(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final WelcomeDecoder in = new WelcomeDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("version", Values.signed(in.version()));
        fields.put("node", Values.signed(in.node()));
        fields.put("run", Values.signed(in.run()));
        fields.put("batchMax", Values.signed(in.batchMax()));
        fields.put("worker", Values.signed(in.worker()));
        fields.put("frameMax", Values.signed(in.frameMax()));
        fields.put("holdMs", Values.signed(in.holdMs()));
        fields.put("billingMs", Values.signed(in.billingMs()));
        fields.put("nowMs", Values.unsigned(in.nowMs()));
        return in.limit();
    }

    private static int decide(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final DecideDecoder in = new DecideDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("flags", Values.signed(in.flags().getRaw()));
        final List<Object> asks = new ArrayList<>();
        for (final DecideDecoder.AsksDecoder entry : in.asks())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("requestId", Values.unsigned(entry.requestId()));
            values.put("budgetId", Values.unsigned(entry.budgetId()));
            values.put("amount", Values.signed(entry.amount()));
            values.put("userId", Values.unsigned(entry.userId()));
            values.put("unit", Values.bytes(4, entry::getUnit));
            values.put("pod", Values.signed(entry.pod()));
            values.put("reserved", Values.signed(entry.reserved()));
            asks.add(values);
        }
        fields.put("asks", asks);
        return in.limit();
    }

    private static int decided(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final DecidedDecoder in = new DecidedDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("snapshot", Values.signed(in.snapshot()));
        final List<Object> answers = new ArrayList<>();
        for (final DecidedDecoder.AnswersDecoder entry : in.answers())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("token", Values.bytes(32, entry::getToken));
            values.put("verdict", Values.choice(entry.verdict()));
            answers.add(values);
        }
        fields.put("answers", answers);
        return in.limit();
    }

    private static int resolve(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final ResolveDecoder in = new ResolveDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        final List<Object> resolves = new ArrayList<>();
        for (final ResolveDecoder.ResolvesDecoder entry : in.resolves())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("token", Values.bytes(32, entry::getToken));
            values.put("amount", Values.signed(entry.amount()));
            values.put("action", Values.choice(entry.action()));
            values.put("requestId", Values.unsigned(entry.requestId()));
            resolves.add(values);
        }
        fields.put("resolves", resolves);
        return in.limit();
    }

    private static int resolved(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final ResolvedDecoder in = new ResolvedDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        final List<Object> answers = new ArrayList<>();
        for (final ResolvedDecoder.AnswersDecoder entry : in.answers())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("verdict", Values.choice(entry.verdict()));
            values.put("flags", Values.signed(entry.flags().getRaw()));
            answers.add(values);
        }
        fields.put("answers", answers);
        return in.limit();
    }

    private static int refused(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final RefusedDecoder in = new RefusedDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("reason", Values.choice(in.reason()));
        fields.put("detail", in.detail());
        return in.limit();
    }

    private static int ping(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final PingDecoder in = new PingDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        return in.limit();
    }

    private static int pong(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final PongDecoder in = new PongDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("nowMs", Values.unsigned(in.nowMs()));
        return in.limit();
    }

    private static int booksRequest(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final BooksRequestDecoder in = new BooksRequestDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("fromBudgetId", Values.unsigned(in.fromBudgetId()));
        fields.put("max", Values.signed(in.max()));
        return in.limit();
    }

    private static int books(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final BooksDecoder in = new BooksDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("nowMs", Values.unsigned(in.nowMs()));
        fields.put("more", Values.signed(in.more()));
        final List<Object> budgets = new ArrayList<>();
        for (final BooksDecoder.BudgetsDecoder entry : in.budgets())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("budgetId", Values.unsigned(entry.budgetId()));
            values.put("limit", Values.signed(entry.limit()));
            values.put("free", Values.signed(entry.free()));
            values.put("purses", Values.signed(entry.purses()));
            values.put("held", Values.signed(entry.held()));
            values.put("settled", Values.signed(entry.settled()));
            values.put("overSettled", Values.signed(entry.overSettled()));
            values.put("late", Values.signed(entry.late()));
            values.put("unit", Values.bytes(4, entry::getUnit));
            budgets.add(values);
        }
        fields.put("budgets", budgets);
        return in.limit();
    }

    private static int totalsRequest(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final TotalsRequestDecoder in = new TotalsRequestDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        return in.limit();
    }

    private static int totals(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final TotalsDecoder in = new TotalsDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("nowMs", Values.unsigned(in.nowMs()));
        fields.put("workerCpuNs", Values.unsigned(in.workerCpuNs()));
        fields.put("decisions", Values.unsigned(in.decisions()));
        fields.put("granted", Values.unsigned(in.granted()));
        fields.put("resolves", Values.unsigned(in.resolves()));
        fields.put("repeats", Values.unsigned(in.repeats()));
        final List<Object> verdicts = new ArrayList<>();
        for (final TotalsDecoder.VerdictsDecoder entry : in.verdicts())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("total", Values.unsigned(entry.total()));
            values.put("verdict", Values.choice(entry.verdict()));
            verdicts.add(values);
        }
        fields.put("verdicts", verdicts);
        return in.limit();
    }

    private static int find(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final FindDecoder in = new FindDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("handle", in.handle());
        return in.limit();
    }

    private static int found(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final FoundDecoder in = new FoundDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        fields.put("budgetId", Values.unsigned(in.budgetId()));
        fields.put("unit", Values.bytes(4, in::getUnit));
        fields.put("verdict", Values.choice(in.verdict()));
        return in.limit();
    }

    private static int extend(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final ExtendDecoder in = new ExtendDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        final List<Object> holds = new ArrayList<>();
        for (final ExtendDecoder.HoldsDecoder entry : in.holds())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("token", Values.bytes(32, entry::getToken));
            values.put("confirmMs", Values.unsigned(entry.confirmMs()));
            holds.add(values);
        }
        fields.put("holds", holds);
        return in.limit();
    }

    private static int extended(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final ExtendedDecoder in = new ExtendedDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("frame", Values.unsigned(in.frame()));
        final List<Object> answers = new ArrayList<>();
        for (final ExtendedDecoder.AnswersDecoder entry : in.answers())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("verdict", Values.choice(entry.verdict()));
            values.put("flags", Values.signed(entry.flags().getRaw()));
            values.put("deadlineMs", Values.unsigned(entry.deadlineMs()));
            answers.add(values);
        }
        fields.put("answers", answers);
        return in.limit();
    }

    private static int bidContext(
        final UnsafeBuffer buffer, final MessageHeaderDecoder header, final Map<String, Object> fields)
    {
        final BidContextDecoder in = new BidContextDecoder().wrapAndApplyHeader(buffer, Reader.FRAME_HEADER_LENGTH, header);
        fields.put("requestId", Values.unsigned(in.requestId()));
        fields.put("userId", Values.unsigned(in.userId()));
        fields.put("nowMs", Values.unsigned(in.nowMs()));
        fields.put("deadlineMs", Values.unsigned(in.deadlineMs()));
        fields.put("eligibility", Values.unsigned(in.eligibility().getRaw()));
        fields.put("floorMicros", Values.signed(in.floorMicros()));
        fields.put("site", Values.unsigned(in.site()));
        fields.put("placement", Values.signed(in.placement()));
        fields.put("width", Values.signed(in.width()));
        fields.put("height", Values.signed(in.height()));
        fields.put("currency", Values.bytes(4, in::getCurrency));
        fields.put("country", in.country());
        fields.put("deviceType", Values.signed(in.deviceType()));
        fields.put("hourOfWeek", Values.signed(in.hourOfWeek()));
        final List<Object> segments = new ArrayList<>();
        for (final BidContextDecoder.SegmentsDecoder entry : in.segments())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("segment", Values.signed(entry.segment()));
            values.put("weight", Values.signed(entry.weight()));
            segments.add(values);
        }
        fields.put("segments", segments);
        final List<Object> caps = new ArrayList<>();
        for (final BidContextDecoder.CapsDecoder entry : in.caps())
        {
            final Map<String, Object> values = new LinkedHashMap<>();
            values.put("campaign", Values.signed(entry.campaign()));
            values.put("shown", Values.signed(entry.shown()));
            values.put("cap", Values.signed(entry.cap()));
            values.put("windowMinutes", Values.signed(entry.windowMinutes()));
            caps.add(values);
        }
        fields.put("caps", caps);
        fields.put("page", in.page());
        fields.put("userAgent", in.userAgent());
        return in.limit();
    }
}
