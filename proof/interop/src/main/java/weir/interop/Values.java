package weir.interop;

import java.math.BigInteger;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Between the types of the generated codecs and the values of the golden vectors: every integer is a BigInteger, an enum
 * is its lower-case name, bytes are hex.
 */
final class Values
{
    /** The form of the generated getters of byte arrays. */
    interface Bytes
    {
        int get(byte[] to, int offset, int length);
    }

    private Values()
    {
    }

    static BigInteger signed(final long value)
    {
        return BigInteger.valueOf(value);
    }

    static BigInteger unsigned(final long value)
    {
        return new BigInteger(Long.toUnsignedString(value));
    }

    static String choice(final Enum<?> value)
    {
        return value.name().toLowerCase(Locale.ROOT);
    }

    static String bytes(final int length, final Bytes from)
    {
        final byte[] bytes = new byte[length];
        from.get(bytes, 0, length);
        return HexFormat.of().formatHex(bytes);
    }

    /** The low 64 bits: an unsigned number above Long.MAX_VALUE is written as it stands. */
    static long number(final Map<String, Object> fields, final String name)
    {
        return ((BigInteger)fields.get(name)).longValue();
    }

    static String text(final Map<String, Object> fields, final String name)
    {
        return (String)fields.get(name);
    }

    static String label(final Map<String, Object> fields, final String name)
    {
        return text(fields, name).toUpperCase(Locale.ROOT);
    }

    static byte[] hex(final Map<String, Object> fields, final String name)
    {
        return HexFormat.of().parseHex(text(fields, name));
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> entries(final Map<String, Object> fields, final String name)
    {
        return (List<Map<String, Object>>)fields.get(name);
    }

    static void expect(final String what, final long expected, final long found)
    {
        if (expected != found)
        {
            throw new IllegalArgumentException(what + ": expected " + expected + ", found " + found);
        }
    }
}
