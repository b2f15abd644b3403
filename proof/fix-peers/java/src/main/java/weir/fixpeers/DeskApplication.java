package weir.fixpeers;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import quickfix.Application;
import quickfix.FieldNotFound;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;

/**
 * Tells what arrives; a venue also answers orders. It acts as an honest one: what it was given twice with PossDupFlag it answers once more,
 * with another ExecID.
 */
final class DeskApplication implements Application {
    private static final int[] OF_THE_ORDER = {11, 41, 55, 54, 38, 40, 44};

    private final Map<String, SessionID> sessions;
    private final boolean answers;
    /** Tells the ExecIDs of one process from those of the next. */
    private final String life;
    private final AtomicInteger executions = new AtomicInteger();

    DeskApplication(Map<String, SessionID> sessions, boolean answers, String life) {
        this.sessions = sessions;
        this.answers = answers;
        this.life = life;
    }

    @Override
    public void onCreate(SessionID id) {
        sessions.put(id.getBeginString(), id);
    }

    @Override
    public void onLogon(SessionID id) {
        Peer.tell("logon", id.getBeginString(), "");
    }

    @Override
    public void onLogout(SessionID id) {
        Peer.tell("logout", id.getBeginString(), "");
    }

    @Override
    public void toAdmin(Message message, SessionID id) {}

    @Override
    public void toApp(Message message, SessionID id) {}

    @Override
    public void fromAdmin(Message message, SessionID id) {}

    /** Tells of a message before the library counts it: after a kill it may come again, and is not lost. */
    @Override
    public void fromApp(Message message, SessionID id) throws FieldNotFound {
        Peer.tell("got", id.getBeginString(), message.toRawString());
        if (!answers) {
            return;
        }
        switch (message.getHeader().getString(35)) {
            case "D" -> {
                report(message, id, "0", "0");
                // One that is good till it is cancelled (59=1) rests.
                if (!message.isSetField(59) || !message.getString(59).equals("1")) {
                    report(message, id, "2", "2");
                }
            }
            case "F" -> report(message, id, "4", "4");
            case "G" -> report(message, id, "5", "5");
            default -> { }
        }
    }

    /** Sends an ExecutionReport on an order; execType 2 is a fill, which later versions call F. */
    private void report(Message order, SessionID id, String execType, String status) throws FieldNotFound {
        boolean is42 = id.getBeginString().equals("FIX.4.2");
        boolean isFill = execType.equals("2");
        Message report = new Message();
        report.getHeader().setString(35, "8");
        for (int tag : OF_THE_ORDER) {
            if (order.isSetField(tag)) {
                report.setString(tag, order.getString(tag));
            }
        }
        report.setString(37, "V-" + order.getString(11));
        report.setString(17, "E" + life + "-" + executions.incrementAndGet());
        if (is42) {
            report.setString(20, "0");
        }
        report.setString(150, isFill && !is42 ? "F" : execType);
        report.setString(39, execType.equals("5") && !is42 ? "0" : status);
        report.setString(14, isFill ? order.getString(38) : "0");
        report.setString(6, isFill ? order.getString(44) : "0.000");
        report.setString(151, isFill || !order.isSetField(38) ? "0" : order.getString(38));
        if (isFill) {
            report.setString(31, order.getString(44));
            report.setString(32, order.getString(38));
        }
        report.setString(58, "as  it is, 100% = all");
        report.setString(9702, "the venue's own");
        Session.lookupSession(id).send(report);
    }
}
