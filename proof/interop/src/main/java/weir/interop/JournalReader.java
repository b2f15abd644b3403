package weir.interop;

import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import uk.co.real_logic.sbe.PrimitiveType;
import uk.co.real_logic.sbe.ir.Encoding;
import uk.co.real_logic.sbe.ir.Ir;
import uk.co.real_logic.sbe.ir.Token;
import uk.co.real_logic.sbe.otf.OtfHeaderDecoder;
import uk.co.real_logic.sbe.otf.OtfMessageDecoder;
import uk.co.real_logic.sbe.otf.TokenListener;
import uk.co.real_logic.sbe.otf.Types;
import uk.co.real_logic.sbe.xml.IrGenerator;
import uk.co.real_logic.sbe.xml.MessageSchema;
import uk.co.real_logic.sbe.xml.ParserOptions;
import uk.co.real_logic.sbe.xml.XmlSchemaParser;

import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Reads a record of the journal (no framing header) with the decoder of the SBE tool that works from the schema itself,
 * into named values.
 */
final class JournalReader
{
    private final Ir ir;
    private final OtfHeaderDecoder headers;

    JournalReader(final Path schema) throws Exception
    {
        try (InputStream in = Files.newInputStream(schema))
        {
            final MessageSchema parsed = XmlSchemaParser.parse(in, ParserOptions.DEFAULT);
            ir = new IrGenerator().generate(parsed);
        }
        headers = new OtfHeaderDecoder(ir.headerStructure());
    }

    /** Messages of the schema. */
    int messages()
    {
        return ir.messages().size();
    }

    Map<String, Object> read(final byte[] record)
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(record);
        Values.expect("schema id", ir.id(), headers.getSchemaId(buffer, 0));
        Values.expect("schema version", ir.version(), headers.getSchemaVersion(buffer, 0));
        final int templateId = headers.getTemplateId(buffer, 0);
        final List<Token> tokens = ir.getMessage(templateId);
        final Collector fields = new Collector();
        final int end = OtfMessageDecoder.decode(buffer, headers.encodedLength(),
            headers.getSchemaVersion(buffer, 0), headers.getBlockLength(buffer, 0), tokens, fields);
        Values.expect("end of the record", record.length, end);

        final Map<String, Object> message = new LinkedHashMap<>();
        message.put("message", tokens.get(0).name());
        message.put("templateId", Values.signed(templateId));
        message.put("fields", fields.root());
        return message;
    }

    /** Collects what the decoder shows: integers exactly, enums by name, sets as their number, bytes as hex. */
    private static final class Collector implements TokenListener
    {
        /** The object being filled; the root first, then an entry. */
        private final Deque<Map<String, Object>> open = new ArrayDeque<>(List.of(new LinkedHashMap<>()));

        Map<String, Object> root()
        {
            return open.getLast();
        }

        private void put(final Token field, final Object value)
        {
            open.getFirst().put(field.name(), value);
        }

        @Override
        public void onEncoding(
            final Token field, final DirectBuffer buffer, final int index, final Token type, final int version)
        {
            if (type.arrayLength() == 1)
            {
                put(field, number(buffer, index, type.encoding()));
                return;
            }
            final byte[] bytes = new byte[type.arrayLength()];
            buffer.getBytes(index, bytes);
            put(field, Golden.hex(bytes));
        }

        @Override
        public void onEnum(
            final Token field, final DirectBuffer buffer, final int index, final List<Token> tokens,
            final int from, final int to, final int version)
        {
            final long code = Types.getLong(buffer, index, tokens.get(from + 1).encoding());
            Object value = Values.signed(code);
            for (int i = from + 1; i < to; i++)
            {
                if (tokens.get(i).encoding().constValue().longValue() == code)
                {
                    value = tokens.get(i).name().toLowerCase(Locale.ROOT);
                }
            }
            put(field, value);
        }

        @Override
        public void onBitSet(
            final Token field, final DirectBuffer buffer, final int index, final List<Token> tokens,
            final int from, final int to, final int version)
        {
            put(field, number(buffer, index, tokens.get(from + 1).encoding()));
        }

        @Override
        public void onGroupHeader(final Token group, final int count)
        {
            put(group, new ArrayList<Map<String, Object>>());
        }

        @Override
        public void onBeginGroup(final Token group, final int index, final int count)
        {
            open.addFirst(new LinkedHashMap<>());
        }

        @Override
        @SuppressWarnings("unchecked")
        public void onEndGroup(final Token group, final int index, final int count)
        {
            final Map<String, Object> entry = open.removeFirst();
            ((List<Map<String, Object>>)open.getFirst().get(group.name())).add(entry);
        }

        @Override
        public void onVarData(
            final Token field, final DirectBuffer buffer, final int index, final int length, final Token type)
        {
            final byte[] bytes = new byte[length];
            buffer.getBytes(index, bytes);
            put(field, isText(type) ? new String(bytes, StandardCharsets.UTF_8) : Golden.hex(bytes));
        }

        @Override
        public void onBeginMessage(final Token token)
        {
        }

        @Override
        public void onEndMessage(final Token token)
        {
        }

        @Override
        public void onBeginComposite(final Token field, final List<Token> tokens, final int from, final int to)
        {
        }

        @Override
        public void onEndComposite(final Token field, final List<Token> tokens, final int from, final int to)
        {
        }

        /** Of data without a character encoding the golden vectors have the bytes. */
        private static boolean isText(final Token type)
        {
            return type.encoding().characterEncoding() != null && !type.encoding().characterEncoding().isEmpty();
        }

        private static BigInteger number(final DirectBuffer buffer, final int index, final Encoding encoding)
        {
            final long value = Types.getLong(buffer, index, encoding);
            return encoding.primitiveType() == PrimitiveType.UINT64 ? Values.unsigned(value) : Values.signed(value);
        }
    }
}
