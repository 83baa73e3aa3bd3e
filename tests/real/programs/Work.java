import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.zip.Deflater;

/**
 * A JVM with a past: objects, direct buffers, native zlib state in many
 * threads; half freed. Prints "ready", then answers each line with "pong";
 * ends at end of file.
 */
public final class Work {
    static final Map<String, byte[]> keep = new HashMap<>();
    static final List<ByteBuffer> direct = new ArrayList<>();
    static final List<Deflater> open = new ArrayList<>();

    private static void deflate(CountDownLatch started, CountDownLatch end) {
        byte[] out = new byte[20_000];
        byte[] in = new byte[15_000];
        for (int i = 0; i < 60; i++) {
            Deflater deflater = new Deflater(6);
            deflater.setInput(in);
            deflater.finish();
            deflater.deflate(out);
            if (i % 20 == 0) {
                synchronized (open) {
                    open.add(deflater);
                }
            } else {
                deflater.end();
            }
        }
        started.countDown();
        try {
            end.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 100_000; i++) {
            keep.put("key-" + i, new byte[i % 701]);
        }
        for (int i = 0; i < 100_000; i += 2) {
            keep.remove("key-" + i);
        }
        for (int i = 0; i < 64; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1_000_003);
            for (int at = 0; at < buffer.capacity(); at += 4096) {
                buffer.put(at, (byte) 1);
            }
            direct.add(buffer);
        }
        int threads = 40;
        CountDownLatch started = new CountDownLatch(threads);
        CountDownLatch end = new CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> deflate(started, end), "work-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        started.await();
        System.gc();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println("pong");
        }
    }
}
