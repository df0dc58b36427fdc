import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import org.elasticmq.rest.sqs.SQSRestServerBuilder$;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * ElasticMQ on 127.0.0.1. Arguments: port, Region and, for moved time, the clock: a file with nanoseconds that are added
 * to the machine's time (tests/artifact/moved_clock.py).
 *
 * ElasticMQ asks the machine for the time of day in several places. In moved time its classes are loaded with each such
 * call replaced; nothing else in them changes.
 */
public class ElasticMq {
    public static void main(String[] arguments) throws Exception {
        ClassLoader loader = ElasticMq.class.getClassLoader();
        if (arguments.length > 2) {
            MovedTime.follow(Path.of(arguments[2]));
            loader = new MovedClasses(loader);
        }
        Runnable server = (Runnable) loader.loadClass("ElasticMqServer")
                .getConstructor(int.class, String.class)
                .newInstance(Integer.parseInt(arguments[0]), arguments[1]);
        server.run();
    }
}

final class MovedClasses extends ClassLoader {
    private static final String TIME = "MovedTime";

    MovedClasses(ClassLoader parent) {
        super(parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith("org.elasticmq.") && !name.equals("ElasticMqServer")) {
            return super.loadClass(name, resolve);
        }
        synchronized (getClassLoadingLock(name)) {
            Class<?> found = findLoadedClass(name);
            return found != null ? found : define(name);
        }
    }

    private Class<?> define(String name) throws ClassNotFoundException {
        try (InputStream source = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (source == null) {
                throw new ClassNotFoundException(name);
            }
            ClassReader original = new ClassReader(source);
            ClassWriter changed = new ClassWriter(original, 0);
            original.accept(new MovedCalls(changed), 0);
            byte[] code = changed.toByteArray();
            return defineClass(name, code, 0, code.length);
        } catch (IOException error) {
            throw new ClassNotFoundException(name, error);
        }
    }

    private static final class MovedCalls extends ClassVisitor {
        MovedCalls(ClassVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String type, String generic, String[] exceptions) {
            return new MethodVisitor(api, super.visitMethod(access, name, type, generic, exceptions)) {
                @Override
                public void visitMethodInsn(int code, String owner, String called, String form, boolean isInterface) {
                    boolean asks = owner.equals("java/lang/System") && called.equals("currentTimeMillis")
                            || owner.equals("java/time/OffsetDateTime") && called.equals("now") && form.startsWith("()");
                    super.visitMethodInsn(code, asks ? TIME : owner, called, form, isInterface);
                }
            };
        }
    }
}

/** Time of day with the clock's offset. Public, as ElasticMQ's classes call it from another class loader. */
public class MovedTime {
    private static MappedByteBuffer offset;

    static void follow(Path clock) throws IOException {
        try (FileChannel file = FileChannel.open(clock, StandardOpenOption.READ)) {
            offset = file.map(FileChannel.MapMode.READ_ONLY, 0, Long.BYTES);
        }
        offset.order(ByteOrder.nativeOrder());
    }

    public static long currentTimeMillis() {
        // Nanoseconds are added before milliseconds are cut off, as all other processes do.
        Instant now = Instant.now();
        return Math.floorDiv(now.getEpochSecond() * 1_000_000_000 + now.getNano() + offset.getLong(0), 1_000_000);
    }

    public static OffsetDateTime now() {
        return OffsetDateTime.ofInstant(Instant.ofEpochMilli(currentTimeMillis()), ZoneOffset.UTC);
    }
}

public class ElasticMqServer implements Runnable {
    private final int port;
    private final String region;

    public ElasticMqServer(int port, String region) {
        this.port = port;
        this.region = region;
    }

    @Override
    public void run() {
        SQSRestServerBuilder$.MODULE$
                .withInterface("127.0.0.1")
                .withPort(port)
                .withAWSRegion(region)
                .withAWSAccountId("123456789012")
                .start()
                .waitUntilStarted();
    }
}
