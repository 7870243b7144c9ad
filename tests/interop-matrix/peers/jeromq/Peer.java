import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import zmq.ZError;

/**
 * The peer for JeroMQ. Implements the line protocol of ../../README.md.
 *
 * Each socket has its own context. A PLAIN or CURVE server gets a ZAP handler that admits only the user, or the client
 * key, given to `open`.
 */
final class Peer {
    private static final int SEND_MS = 10_000;
    /** JeroMQ 0.6.0 never starts some handshakes (zeromq/jeromq#1022); after this time it reconnects. */
    private static final int HANDSHAKE_MS = 500;
    private static final HexFormat HEX = HexFormat.of();

    private ZContext context;
    private ZMQ.Socket socket;
    private Semaphore refused;

    private static final class Late extends Exception {
        private static final long serialVersionUID = 1L;
    }

    public static void main(String[] arguments) throws IOException {
        Peer peer = new Peer();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(peer.answer(line.split(" ")));
        }
        System.exit(0);
    }

    private String answer(String[] words) {
        try {
            return ("ok " + obey(words[0], Arrays.copyOfRange(words, 1, words.length))).trim();
        } catch (Late late) {
            return "late";
        } catch (RuntimeException problem) {
            return "error " + problem.toString().replace('\n', ' ');
        }
    }

    private String obey(String command, String[] words) throws Late {
        switch (command) {
            case "open":
                open(SocketType.valueOf(words[0]), words);
                return "";
            case "bind":
                check(socket.bind(words[0]));
                return socket.getLastEndpoint();
            case "connect":
                check(socket.connect(words[0]));
                return "";
            case "subscribe":
                check(socket.subscribe(HEX.parseHex(words[0])));
                return "";
            case "unsubscribe":
                check(socket.unsubscribe(HEX.parseHex(words[0])));
                return "";
            case "send":
                send(words);
                return "";
            case "offer":
                socket.setSendTimeOut(0);
                send(words);
                return "";
            case "recv":
                return receive(Integer.parseInt(words[0]));
            case "refused":
                awaitRefusal(Integer.parseInt(words[0]));
                return "";
            case "close":
                context.close();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private void check(boolean done) {
        if (!done) {
            throw new ZMQException(socket.errno());
        }
    }

    private void open(SocketType type, String[] words) {
        Map<String, String> named = new HashMap<>();
        for (String word : words) {
            String[] pair = word.split("=", 2);
            named.put(pair[0], pair[pair.length - 1]);
        }
        context = new ZContext();
        refused = new Semaphore(0);
        context.setLinger(0);
        socket = context.createSocket(type);
        socket.setSendTimeOut(SEND_MS);
        socket.setHandshakeIvl(HANDSHAKE_MS);
        if (named.containsKey("id")) {
            socket.setIdentity(HEX.parseHex(named.get("id")));
        }
        boolean server = "server".equals(named.get("role"));
        if (named.get("mechanism").equals("PLAIN")) {
            plain(named, server);
        } else if (named.get("mechanism").equals("CURVE")) {
            curve(named, server);
        }
    }

    private void plain(Map<String, String> named, boolean server) {
        byte[] user = named.get("user").getBytes(ZMQ.CHARSET);
        byte[] password = named.get("password").getBytes(ZMQ.CHARSET);
        if (server) {
            socket.setPlainServer(true);
            admit("PLAIN".getBytes(ZMQ.CHARSET), user, password);
        } else {
            socket.setPlainUsername(user);
            socket.setPlainPassword(password);
        }
    }

    private void curve(Map<String, String> named, boolean server) {
        byte[] client = ZMQ.Curve.z85Decode(named.get("client-public"));
        if (server) {
            socket.setCurveServer(true);
            socket.setCurvePublicKey(ZMQ.Curve.z85Decode(named.get("server-public")));
            socket.setCurveSecretKey(ZMQ.Curve.z85Decode(named.get("server-secret")));
            admit("CURVE".getBytes(ZMQ.CHARSET), client);
        } else {
            socket.setCurvePublicKey(client);
            socket.setCurveSecretKey(ZMQ.Curve.z85Decode(named.get("client-secret")));
            socket.setCurveServerKey(ZMQ.Curve.z85Decode(named.get("server-public")));
        }
    }

    /** Answers ZAP requests (RFC 27) in a thread, until the context ends. */
    private void admit(byte[]... expected) {
        ZMQ.Socket handler = context.createSocket(SocketType.REP);
        handler.bind("inproc://zeromq.zap.01");
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    List<byte[]> request = parts(handler);
                    List<byte[]> given = request.subList(5, request.size());
                    boolean known = Arrays.deepEquals(given.toArray(), expected);
                    handler.sendMore(request.get(0));
                    handler.sendMore(request.get(1));
                    handler.sendMore(known ? "200" : "400");
                    handler.sendMore(known ? "OK" : "not the one expected");
                    handler.sendMore(""); // no user id: see peers/libzmq/peer
                    handler.send("");
                    if (!known) {
                        refused.release();
                    }
                }
            } catch (ZMQException | ZError.IOException | Late ended) {
                handler.close();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Waits until the ZAP handler has refused a client. */
    private void awaitRefusal(int milliseconds) throws Late {
        try {
            if (!refused.tryAcquire(milliseconds, TimeUnit.MILLISECONDS)) {
                throw new Late();
            }
        } catch (InterruptedException interrupted) {
            throw new Late();
        }
    }

    private void send(String[] words) {
        for (int i = 0; i < words.length; i++) {
            byte[] frame = words[i].equals("-") ? new byte[0] : HEX.parseHex(words[i]);
            check(i + 1 < words.length ? socket.sendMore(frame) : socket.send(frame));
        }
    }

    private String receive(int milliseconds) throws Late {
        socket.setReceiveTimeOut(milliseconds);
        List<String> words = new ArrayList<>();
        for (byte[] frame : parts(socket)) {
            words.add(frame.length == 0 ? "-" : HEX.formatHex(frame));
        }
        return String.join(" ", words);
    }

    private static List<byte[]> parts(ZMQ.Socket from) throws Late {
        List<byte[]> parts = new ArrayList<>();
        do {
            byte[] part = from.recv();
            if (part == null) {
                throw new Late();
            }
            parts.add(part);
        } while (from.hasReceiveMore());
        return parts;
    }
}
