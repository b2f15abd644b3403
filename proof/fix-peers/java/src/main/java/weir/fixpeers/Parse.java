package weir.fixpeers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import quickfix.InvalidMessage;
import quickfix.Message;

/**
 * Parses the messages of a file with QuickFIX/J, all of them once for each line of its standard input, and prints how many nanoseconds
 * that took. `peers fix` runs it.
 *
 * usage: Parse FILE ROUNDS: ROUNDS passes come before it says `ready`
 */
final class Parse {
    private Parse() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2) {
            System.out.println("usage: Parse FILE ROUNDS");
            System.exit(2);
        }
        List<String> messages = Files.readAllLines(Path.of(arguments[0]), StandardCharsets.ISO_8859_1);
        for (int rounds = Integer.parseInt(arguments[1]); rounds > 0; rounds--) {
            parse(messages);
        }
        System.out.println("ready");
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        while (told.readLine() != null) {
            System.out.println(parse(messages));
        }
    }

    private static long parse(List<String> messages) throws InvalidMessage {
        long began = System.nanoTime();
        int fields = 0;
        for (String text : messages) {
            Message message = new Message();
            message.fromString(text, null, true);
            fields += message.getHeader().isSetField(35) ? 1 : 0;
        }
        long took = System.nanoTime() - began;
        if (fields != messages.size()) {
            throw new IllegalStateException("a message has no type");
        }
        return took;
    }
}
