package weir.fixpeers;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import quickfix.Application;
import quickfix.DefaultMessageFactory;
import quickfix.FileStoreFactory;
import quickfix.Log;
import quickfix.LogFactory;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketAcceptor;
import quickfix.SocketInitiator;

/**
 * A gate made of QuickFIX/J: it accepts a client's session and has one with a venue, and its application passes what comes from either to
 * the other. `peers fix` measures orders through it.
 *
 * <p>usage: Bridge PORT VENUE_PORT FOLDER Y|N: where it listens, the venue's port, where the stores go, and whether they flush each message
 * (the library's default is N). It says `ready` when the venue is logged on, and goes on until it is killed.
 */
final class Bridge implements Application {
    private static final String SETTINGS = """
            [DEFAULT]
            BeginString=FIX.4.4
            SenderCompID=GATE
            HeartBtInt=3600
            StartTime=00:00:00
            EndTime=00:00:00
            ReconnectInterval=1
            UseDataDictionary=N
            SocketTcpNoDelay=Y
            FileStorePath=%s
            FileStoreSync=%s
            [SESSION]
            ConnectionType=acceptor
            TargetCompID=CLIENT1
            SocketAcceptAddress=127.0.0.1
            SocketAcceptPort=%s
            [SESSION]
            ConnectionType=initiator
            TargetCompID=VENUE
            SocketConnectHost=127.0.0.1
            SocketConnectPort=%s
            """;

    /** By TargetCompID of the session that a message came from. */
    private final Map<String, SessionID> to = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 4) {
            System.out.println("usage: Bridge PORT VENUE_PORT FOLDER Y|N");
            System.exit(2);
        }
        String text = String.format(SETTINGS, arguments[2], arguments[3], arguments[0], arguments[1]);
        SessionSettings settings = new SessionSettings(new ByteArrayInputStream(text.getBytes(StandardCharsets.US_ASCII)));
        Bridge bridge = new Bridge();
        LogFactory logs = session -> new NoLog();
        FileStoreFactory stores = new FileStoreFactory(settings);
        DefaultMessageFactory messages = new DefaultMessageFactory();
        new SocketAcceptor(bridge, stores, settings, logs, messages).start();
        new SocketInitiator(bridge, stores, settings, logs, messages).start();
        Thread.currentThread().join();
    }

    @Override
    public void onCreate(SessionID id) {
        to.put(id.getTargetCompID().equals("VENUE") ? "CLIENT1" : "VENUE", id);
    }

    @Override
    public void onLogon(SessionID id) {
        if (id.getTargetCompID().equals("VENUE")) {
            System.out.println("ready");
        }
    }

    @Override
    public void onLogout(SessionID id) {}

    @Override
    public void toAdmin(Message message, SessionID id) {}

    @Override
    public void toApp(Message message, SessionID id) {}

    @Override
    public void fromAdmin(Message message, SessionID id) {}

    /** Sends the message itself: the library gives it the other session's header, and keeps its bytes before this returns. */
    @Override
    public void fromApp(Message message, SessionID id) {
        Session.lookupSession(to.get(id.getTargetCompID())).send(message);
    }

    /** Keeps nothing of what the library says. */
    private static final class NoLog implements Log {
        @Override
        public void clear() {}

        @Override
        public void onIncoming(String message) {}

        @Override
        public void onOutgoing(String message) {}

        @Override
        public void onEvent(String text) {}

        @Override
        public void onErrorEvent(String text) {}
    }
}
