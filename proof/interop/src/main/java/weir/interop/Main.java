package weir.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Compares the official SBE codec with the golden vectors that the Rust codec is tested with.
 *
 * <p>Each vector is read by Java and must give the values of its .json; each .json is written by Java and must give
 * exactly the bytes of its .hex. As the Rust codec gives and takes exactly these bytes too, both directions are proved.
 * Of the journal, which only Weir writes, the reading is proved.
 */
public final class Main
{
    private Main()
    {
    }

    /**
     * @param args folder of the golden vectors; folder for the frames that Java wrote; schema of the journal.
     * @throws Exception if files cannot be read or written.
     */
    public static void main(final String[] args) throws Exception
    {
        final Path golden = Path.of(args[0]);
        final Path out = Files.createDirectories(Path.of(args[1]));
        final Path schema = Path.of(args[2]);
        final List<String> names = Golden.names(golden);
        final List<String> problems = new ArrayList<>();
        for (final String name : names)
        {
            try
            {
                compare(golden, out, name, problems);
            }
            catch (final Exception e)
            {
                problems.add(name + ": " + e);
            }
        }
        if (names.size() != Reader.MESSAGES)
        {
            problems.add(names.size() + " vectors, but the schema has " + Reader.MESSAGES + " messages");
        }
        final int records = journal(schema, golden.resolve("journal"), problems);
        problems.forEach(problem -> System.err.println("interop: " + problem));
        if (!problems.isEmpty())
        {
            System.exit(1);
        }
        System.out.println("interop: " + names.size() +
            " messages: Java reads the golden vectors' values and writes their bytes; " +
            records + " journal records: Java reads their values");
    }

    /** Compares every record; returns how many there are. */
    private static int journal(final Path schema, final Path golden, final List<String> problems) throws Exception
    {
        final JournalReader reader = new JournalReader(schema);
        final List<String> names = Golden.names(golden);
        for (final String name : names)
        {
            final Map<String, Object> expected = Golden.values(golden, name);
            final Map<String, Object> read = reader.read(Golden.bytes(golden, name));
            if (!read.equals(expected))
            {
                problems.add(name + ": Java reads\n  " + read + "\nexpected (" + name + ".json)\n  " + expected);
            }
        }
        if (names.size() != reader.messages())
        {
            problems.add(names.size() + " records, but the schema has " + reader.messages() + " messages");
        }
        return names.size();
    }

    private static void compare(final Path golden, final Path out, final String name, final List<String> problems)
        throws Exception
    {
        final byte[] frame = Golden.bytes(golden, name);
        final Map<String, Object> expected = Golden.values(golden, name);

        final Map<String, Object> read = Reader.read(frame);
        if (!read.equals(expected))
        {
            problems.add(name + ": Java reads\n  " + read + "\nexpected (" + name + ".json)\n  " + expected);
        }

        final byte[] written = Writer.write(expected);
        Files.write(out.resolve(name + ".bin"), written);
        if (!Arrays.equals(written, frame))
        {
            problems.add(name + ": Java writes other bytes, first at " + Arrays.mismatch(written, frame) +
                "\n  Java   " + Golden.hex(written) + "\n  golden " + Golden.hex(frame));
        }
    }
}
