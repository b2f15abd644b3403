package weir.fixpeers;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import quickfix.Connector;
import quickfix.DataDictionary;
import quickfix.DataDictionaryProvider;
import quickfix.DefaultMessageFactory;
import quickfix.FileStoreFactory;
import quickfix.Log;
import quickfix.LogFactory;
import quickfix.Message;
import quickfix.MessageStore;
import quickfix.MessageStoreFactory;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketInitiator;
import quickfix.ThreadedSocketAcceptor;
import quickfix.field.ApplVerID;

/**
 * Client or venue of FIX sessions with an unmodified QuickFIX/J. A driver writes commands to its standard input and reads what the library
 * and its application saw from its standard output; proof/fix-peers/README.md has both.
 *
 * <p>usage: Peer client|venue SETTINGS LIFE
 */
public final class Peer {
    /** What the library reads and writes messages in. */
    private static final Charset BYTES = StandardCharsets.ISO_8859_1;

    private static final FileOutputStream OUTPUT = new FileOutputStream(FileDescriptor.out);

    private final Map<String, SessionID> sessions = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Peer client|venue SETTINGS LIFE");
            System.exit(2);
        }
        new Peer().run(arguments[0], arguments[1], arguments[2]);
        System.exit(0);
    }

    private void run(String role, String settingsFile, String life) throws Exception {
        SessionSettings settings;
        try (InputStream opened = new FileInputStream(settingsFile)) {
            settings = new SessionSettings(opened);
        }
        DeskApplication application = new DeskApplication(sessions, role.equals("venue"), life);
        MessageStoreFactory stores = tellingStores(new FileStoreFactory(settings));
        LogFactory logs = session -> new TellingLog(session.getBeginString());
        DefaultMessageFactory messages = new DefaultMessageFactory();
        Connector engine = role.equals("venue")
                ? new ThreadedSocketAcceptor(application, stores, settings, logs, messages)
                : new SocketInitiator(application, stores, settings, logs, messages);
        engine.start();
        tell("ready", "-", "");
        obey();
        engine.stop();
        tell("stopped", "-", "");
    }

    /** Carries out the commands: {@code send SESSION BASE64}, until {@code stop} or the end of the input. */
    private void obey() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
            String[] words = line.split(" ");
            SessionID id = words.length == 3 ? sessions.get(words[1]) : null;
            if (id == null || !words[0].equals("send")) {
                System.err.println("no such command or session: " + line);
                System.exit(2);
            }
            Session session = Session.lookupSession(id);
            String raw = new String(Base64.getDecoder().decode(words[2]), BYTES);
            DataDictionaryProvider known = session.getDataDictionaryProvider();
            DataDictionary transport = known.getSessionDataDictionary(id.getBeginString());
            DataDictionary body = id.isFIXT() ? known.getApplicationDataDictionary(new ApplVerID(ApplVerID.FIX50SP2)) : transport;
            Message message = new Message();
            message.fromString(raw, transport, body, false);
            // Without a connection it is kept, and sent when the other side asks for it.
            session.send(message);
            tell("done", id.getBeginString(), "");
        }
    }

    /** Writes one line: an event, the BeginString of its session, bytes. It is with the system before this returns. */
    static synchronized void tell(String event, String session, String bytes) {
        String line = event + " " + session + " " + Base64.getEncoder().encodeToString(bytes.getBytes(BYTES)) + "\n";
        try {
            OUTPUT.write(line.getBytes(StandardCharsets.US_ASCII));
        } catch (IOException error) {
            Runtime.getRuntime().halt(2);
        }
    }

    /** The library's own file stores; of each message that one has taken, and counted, this tells. */
    private static MessageStoreFactory tellingStores(MessageStoreFactory made) {
        return id -> {
            MessageStore store = made.create(id);
            String[] taken = {null};
            return (MessageStore) Proxy.newProxyInstance(
                    Peer.class.getClassLoader(), new Class<?>[] {MessageStore.class}, (proxy, method, values) -> {
                        Object answer;
                        try {
                            answer = method.invoke(store, values);
                        } catch (InvocationTargetException error) {
                            throw error.getCause();
                        }
                        if (method.getName().equals("set")) {
                            taken[0] = (String) values[1];
                        }
                        if (method.getName().equals("incrNextSenderMsgSeqNum") && taken[0] != null) {
                            tell("kept", id.getBeginString(), taken[0]);
                            taken[0] = null;
                        }
                        return answer;
                    });
        };
    }

    /** Tells of what the library says, and of all that goes in and out. */
    private record TellingLog(String session) implements Log {
        @Override
        public void clear() {}

        @Override
        public void onIncoming(String message) {
            tell("in", session, message);
        }

        @Override
        public void onOutgoing(String message) {
            tell("out", session, message);
        }

        @Override
        public void onEvent(String text) {
            tell("says", session, text);
        }

        @Override
        public void onErrorEvent(String text) {
            tell("says", session, text);
        }
    }
}
