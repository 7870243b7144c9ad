import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import org.zeromq.ZMsg;

/** Typical use of libzmq from Java. Runs the test named by its argument; an exception or a wrong value ends it. */
public final class Smoke {
    private static final int DEADLINE_MS = 20_000;
    private static final String HOST = "tcp://127.0.0.1";
    private static final int EADDRINUSE = 98;
    private static final int EFSM = 156384763;

    /** A socket with timeouts on all blocking calls. */
    private static final class Open extends ZMQ.Socket {
        Open(ZMQ.Context context, int type) {
            super(context, type);
            setReceiveTimeOut(DEADLINE_MS);
            setSendTimeOut(DEADLINE_MS);
            setLinger(0);
        }

        String bound() {
            return HOST + ":" + bindToRandomPort(HOST);
        }
    }

    private static void expect(boolean truth, String what) {
        if (!truth) {
            throw new IllegalStateException(what);
        }
    }

    private static void expectText(ZMQ.Socket socket, String wanted) {
        String found = socket.recvStr(StandardCharsets.UTF_8);
        expect(wanted.equals(found), "received " + found + ", not " + wanted);
    }

    private static void library() throws IOException {
        ZMQ.getVersionString();
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            if (line.contains("/libzmq.so")) {
                System.out.println(line.substring(line.indexOf('/')));
                return;
            }
        }
    }

    private static void version() {
        expect(ZMQ.getFullVersion() >= ZMQ.makeVersion(4, 3, 4), ZMQ.getVersionString());
    }

    private static void pushPull(ZMQ.Context context) {
        try (Open pull = new Open(context, ZMQ.PULL); Open push = new Open(context, ZMQ.PUSH)) {
            push.connect(pull.bound());
            for (int number = 0; number < 10_000; number++) {
                push.send("message " + number);
                expectText(pull, "message " + number);
            }
        }
    }

    private static void requestReply(ZMQ.Context context) {
        try (Open reply = new Open(context, ZMQ.REP); Open request = new Open(context, ZMQ.REQ)) {
            request.connect(reply.bound());
            for (int size : new int[] {0, 1, 255, 256, 70_000}) {
                byte[] question = new byte[size];
                Arrays.fill(question, (byte) size);
                request.send(question, 0);
                expect(Arrays.equals(reply.recv(), question), size + " bytes arrived otherwise");
                reply.sendMore("two");
                reply.send("parts");
                ZMsg answer = ZMsg.recvMsg(request);
                expect(answer.size() == 2 && answer.popString().equals("two"), answer.toString());
            }
        }
    }

    private static void publish(ZMQ.Context context) {
        try (Open publisher = new Open(context, ZMQ.XPUB); Open subscriber = new Open(context, ZMQ.SUB)) {
            subscriber.connect(publisher.bound());
            subscriber.subscribe("news".getBytes(StandardCharsets.UTF_8));
            expectText(publisher, "\u0001news");
            publisher.send("weather: rain");
            publisher.send("news: none");
            expectText(subscriber, "news: none");
            subscriber.unsubscribe("news".getBytes(StandardCharsets.UTF_8));
            expectText(publisher, "\0news");
        }
    }

    private static void routerDealer(ZMQ.Context context) {
        try (Open router = new Open(context, ZMQ.ROUTER); Open dealer = new Open(context, ZMQ.DEALER)) {
            router.setRouterMandatory(true);
            dealer.setIdentity("dealer".getBytes(StandardCharsets.UTF_8));
            dealer.connect(router.bound());
            dealer.send("hello");
            expectText(router, "dealer");
            expectText(router, "hello");
            router.sendMore("dealer");
            router.send("back");
            expectText(dealer, "back");
            int errno = 0;
            try {
                router.sendMore("nobody");
            } catch (ZMQException refusal) {
                errno = refusal.getErrorCode();
            }
            expect(errno == ZMQ.Error.EHOSTUNREACH.getCode(), "errno " + errno + " for an unknown peer");
        }
    }

    private static void poller(ZMQ.Context context) {
        try (Open pull = new Open(context, ZMQ.PULL); Open push = new Open(context, ZMQ.PUSH)) {
            push.connect(pull.bound());
            ZMQ.Poller poller = new ZMQ.Poller(2);
            poller.register(pull, ZMQ.Poller.POLLIN);
            poller.register(push, ZMQ.Poller.POLLOUT);
            expect(poller.poll(DEADLINE_MS) == 1 && poller.pollout(1) && !poller.pollin(0), "before the message");
            push.send("ready");
            poller.unregister(push);
            expect(poller.poll(DEADLINE_MS) == 1 && poller.pollin(0), "after the message");
            expectText(pull, "ready");
            expect(poller.poll(0) == 0, "when nothing is left");
        }
    }

    private static void proxy(ZMQ.Context context) throws InterruptedException {
        try (Open front = new Open(context, ZMQ.ROUTER); Open back = new Open(context, ZMQ.DEALER);
                Open client = new Open(context, ZMQ.REQ); Open worker = new Open(context, ZMQ.REP)) {
            client.connect(front.bound());
            worker.connect(back.bound());
            front.setReceiveTimeOut(-1);
            back.setReceiveTimeOut(-1);
            Thread between = new Thread(() -> ZMQ.proxy(front, back, null));
            between.setDaemon(true);
            between.start();
            client.send("question");
            expectText(worker, "question");
            worker.send("answer");
            expectText(client, "answer");
            client.close();
            worker.close();
            // The proxy ends with the context; this thread closes its sockets afterwards.
            Thread ending = new Thread(context::term);
            ending.start();
            between.join(DEADLINE_MS);
            expect(!between.isAlive(), "the proxy goes on without its context");
            front.close();
            back.close();
            ending.join(DEADLINE_MS);
            expect(!ending.isAlive(), "the context does not end");
        }
    }

    private static void buffers(ZMQ.Context context) {
        try (Open pull = new Open(context, ZMQ.PULL); Open push = new Open(context, ZMQ.PUSH)) {
            push.connect(pull.bound());
            ByteBuffer out = ByteBuffer.allocateDirect(5_000);
            for (int number = 0; number < out.capacity(); number++) {
                out.put((byte) number);
            }
            byte[] sent = new byte[out.capacity()];
            out.flip();
            out.duplicate().get(sent);
            expect(push.sendByteBuffer(out, 0) == sent.length, "the buffer was not sent whole");
            ByteBuffer in = ByteBuffer.allocateDirect(8_000);
            expect(pull.recvByteBuffer(in, 0) == sent.length, "the buffer was not received whole");
            byte[] received = new byte[sent.length];
            in.flip();
            in.get(received);
            expect(Arrays.equals(sent, received), "the buffer arrived otherwise");
            expect(push.sendZeroCopy(out, sent.length, 0), "nothing sent by reference");
            expect(Arrays.equals(pull.recv(), sent), "the reference arrived otherwise");
        }
    }

    private static void monitor(ZMQ.Context context) {
        try (Open pull = new Open(context, ZMQ.PULL); Open push = new Open(context, ZMQ.PUSH);
                Open events = new Open(context, ZMQ.PAIR)) {
            expect(pull.monitor("inproc://events", ZMQ.EVENT_LISTENING | ZMQ.EVENT_ACCEPTED), "no monitor");
            events.connect("inproc://events");
            String address = pull.bound();
            push.connect(address);
            for (int wanted : new int[] {ZMQ.EVENT_LISTENING, ZMQ.EVENT_ACCEPTED}) {
                ZMQ.Event event = ZMQ.Event.recv(events);
                expect(event.getEvent() == wanted, "event " + event.getEvent() + ", not " + wanted);
                expect(address.equals(event.getAddress()), "at " + event.getAddress());
                expect((Integer) event.getValue() > 0, "no descriptor");
            }
        }
    }

    private static void options(ZMQ.Context context) {
        try (Open socket = new Open(context, ZMQ.DEALER)) {
            expect(socket.getType() == ZMQ.DEALER, "type");
            expect(socket.getSndHWM() == 1000 && socket.getRcvHWM() == 1000, "marks by default");
            expect(socket.getReconnectIVL() == 100 && socket.getMaxMsgSize() == -1, "defaults");
            socket.setSndHWM(7);
            socket.setRcvHWM(7);
            socket.setAffinity(1);
            socket.setMaxMsgSize(1L << 40);
            socket.setTCPKeepAlive(1);
            expect(socket.getSndHWM() == 7 && socket.getRcvHWM() == 7, "marks");
            expect(socket.getAffinity() == 1 && socket.getMaxMsgSize() == 1L << 40, "numbers of 64 bits");
            expect(socket.getTCPKeepAliveSetting() == 1 && socket.getFD() > 0, "keep-alive");
        }
    }

    private static void refused(ZMQ.Context context) {
        try (Open first = new Open(context, ZMQ.REP); Open second = new Open(context, ZMQ.REP)) {
            String address = first.bound();
            int errno = 0;
            try {
                second.bind(address);
            } catch (ZMQException refusal) {
                errno = refusal.getErrorCode();
            }
            expect(errno == EADDRINUSE, "errno " + errno + " for an address in use");
            try {
                errno = 0;
                second.send("an answer to nothing");
            } catch (ZMQException refusal) {
                errno = refusal.getErrorCode();
            }
            expect(errno == EFSM, "errno " + errno + " for an answer to nothing");
        }
    }

    private static ZMQ.Socket withPassword(ZContext context, String address, String password) {
        ZMQ.Socket client = context.createSocket(ZMQ.PUSH);
        client.setPlainUsername("admin".getBytes(StandardCharsets.UTF_8));
        client.setPlainPassword(password.getBytes(StandardCharsets.UTF_8));
        client.setLinger(0);
        client.connect(address);
        return client;
    }

    /** A PLAIN server, and a ZAP handler that checks the password. */
    private static void plain() throws IOException {
        Path passwords = Files.writeString(Path.of("passwords"), "admin=secret\n");
        try (ZContext context = new ZContext()) {
            org.zeromq.ZAuth handler = new org.zeromq.ZAuth(context);
            handler.configurePlain("*", passwords.toString());
            ZMQ.Socket server = context.createSocket(ZMQ.PULL);
            server.setPlainServer(true);
            server.setReceiveTimeOut(DEADLINE_MS);
            String address = HOST + ":" + server.bindToRandomPort(HOST);
            withPassword(context, address, "guessed").send("kept out");
            withPassword(context, address, "secret").send("let in");
            expectText(server, "let in");
            server.setReceiveTimeOut(200);
            expect(server.recvStr(StandardCharsets.UTF_8) == null, "a wrong password was let in");
            handler.destroy();
        }
    }

    private static void onContext(String name, ZMQ.Context context) throws InterruptedException {
        switch (name) {
            case "pushPull" -> pushPull(context);
            case "requestReply" -> requestReply(context);
            case "publish" -> publish(context);
            case "routerDealer" -> routerDealer(context);
            case "poller" -> poller(context);
            case "proxy" -> proxy(context);
            case "buffers" -> buffers(context);
            case "monitor" -> monitor(context);
            case "options" -> options(context);
            case "refused" -> refused(context);
            default -> throw new IllegalArgumentException(name);
        }
        context.term();
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "library" -> library();
            case "version" -> version();
            case "plain" -> plain();
            default -> onContext(arguments[0], ZMQ.context(1));
        }
    }

    private Smoke() {}
}
