#!/usr/bin/python3
"""Our gRPC server and client against grpcio (C-core): every shape of call, errors, metadata, health, reflection, drain.

Prints TAP. BUILD names the build folder.
"""
import os
import subprocess
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2

BIN = os.path.join(os.environ.get("BUILD", "build"), "bin")
PROGRAM = os.path.join(BIN, "rpc_echo")
IDENTITY = dict(request_serializer=lambda b: b, response_deserializer=lambda b: b)


class Server:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def channel(self, *options):
        return grpc.insecure_channel("127.0.0.1:%d" % self.port, options=options)

    def stop(self):
        if self.process.stdin:
            self.process.stdin.close()
        return self.process.wait(timeout=10)


def bytes_field(number, value):
    """A length-delimited protobuf field."""
    head, size = bytes([number << 3 | 2]), len(value)
    while size >= 128:
        head, size = head + bytes([size % 128 + 128]), size // 128
    return head + bytes([size]) + value


def fails(call, code):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, "%s instead of %s: %s" % (error.code(), code, error.details())
        return error
    raise AssertionError("no error, expected %s" % code)


def unary_calls_carry_bytes_and_metadata(server):
    with server.channel() as channel:
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        for size in (0, 1, 200, 20000, 262144):
            assert unary(b"a" * size, timeout=5) == b"a" * size, size
        reply, call = unary.with_call(b"x", timeout=5, metadata=[("x-echo", "back again")])
        assert reply == b"x"
        assert ("x-echo", "back again") in [(k, v) for k, v in call.trailing_metadata()]


def many_calls_at_once(server):
    with server.channel() as channel:
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        replies = [unary.future(b"%d" % i, timeout=20) for i in range(2000)]
        assert [r.result() for r in replies] == [b"%d" % i for i in range(2000)]


def errors_carry_status_and_text(server):
    with server.channel() as channel:
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        for code in grpc.StatusCode:
            number = code.value[0]
            if number == 0:
                continue
            error = fails(lambda: unary(b"x", timeout=5, metadata=[("x-status", str(number)), ("x-text", "50% off")]), code)
            assert error.details() == "50% off", error.details()


def unknown_methods_and_large_messages(server):
    with server.channel() as channel:
        fails(lambda: channel.unary_unary("/test.T/Nothing", **IDENTITY)(b"x", timeout=5), grpc.StatusCode.UNIMPLEMENTED)
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        fails(lambda: unary(b"a" * 262145, timeout=5), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert unary(b"still", timeout=5) == b"still"


def compressed_messages_are_unimplemented(server):
    with server.channel() as channel:
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        fails(lambda: unary(b"a" * 5000, timeout=5, compression=grpc.Compression.Gzip), grpc.StatusCode.UNIMPLEMENTED)


def streams_go_both_ways(server):
    with server.channel() as channel:
        chat = channel.stream_stream("/test.T/Chat", **IDENTITY)
        messages = [b"%d" % i * (i % 50) for i in range(3000)]
        assert list(chat(iter(messages), timeout=20)) == messages
        assert list(chat(iter([]), timeout=5)) == []
        count = channel.unary_stream("/test.T/Count", **IDENTITY)
        assert [len(m) for m in count(b"a" * 300, timeout=5)] == list(range(300))


def deadlines_and_cancellation(server):
    with server.channel() as channel:
        hold = channel.unary_unary("/test.T/Hold", **IDENTITY)
        begin = time.monotonic()
        fails(lambda: hold(b"x", timeout=0.2), grpc.StatusCode.DEADLINE_EXCEEDED)
        assert 0.15 < time.monotonic() - begin < 2
        future = hold.future(b"x")
        time.sleep(0.1)
        future.cancel()
        assert future.cancelled()
        assert channel.unary_unary("/test.T/Unary", **IDENTITY)(b"x", timeout=5) == b"x"


def health_is_checked_and_watched(server):
    with server.channel() as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", **IDENTITY)
        name = bytes_field(1, b"quis.RaftLeader")
        assert check(b"", timeout=5) == b"\x08\x01"
        fails(lambda: check(name, timeout=5), grpc.StatusCode.NOT_FOUND)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", **IDENTITY)(name, timeout=10)
        assert next(watch) == b"\x08\x03"
        server.tell("serving quis.RaftLeader")
        assert next(watch) == b"\x08\x01"
        assert check(name, timeout=5) == b"\x08\x01"
        server.tell("not-serving quis.RaftLeader")
        assert next(watch) == b"\x08\x02"
        watch.cancel()
        fails(lambda: check(b"\xff\xff", timeout=5), grpc.StatusCode.INVALID_ARGUMENT)


def a_health_checking_client_follows(server):
    config = ('{"loadBalancingConfig":[{"round_robin":{}}],'
              '"healthCheckConfig":{"serviceName":"quis.RaftLeader"}}')
    server.tell("not-serving quis.RaftLeader")
    with server.channel(("grpc.service_config", config)) as channel:
        unary = channel.unary_unary("/test.T/Unary", **IDENTITY)
        fails(lambda: unary(b"x", timeout=0.5), grpc.StatusCode.UNAVAILABLE)
        server.tell("serving quis.RaftLeader")
        assert unary(b"x", timeout=5, wait_for_ready=True) == b"x"


def reflection_lists_services_and_files(server):
    with server.channel() as channel:
        ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", **IDENTITY)
        requests = [bytes_field(7, b""), bytes_field(4, b"ckpt.v1.BrokerService"), bytes_field(3, b"ckpt/v1/common.proto"),
                    bytes_field(4, b"ckpt.v1.BrokerService.RegisterAllocation"), bytes_field(4, b"no.such.Thing"),
                    bytes_field(4, b"grpc.health.v1.HealthCheckResponse.ServingStatus")]
        services, broker, common, method, nothing, nested = [bytes(a) for a in ask(iter(requests), timeout=5)]
        assert b"ckpt.v1.BrokerService" in services and b"grpc.health.v1.Health" in services
        assert method.endswith(broker[broker.index(b"\x22"):][-1000:])
        files = descriptor_files(broker)
        assert files[0].name == "ckpt/v1/broker.proto" and "ckpt/v1/common.proto" in [f.name for f in files]
        assert [f.name for f in descriptor_files(common)][0] == "ckpt/v1/common.proto"
        assert [f.name for f in descriptor_files(nested)] == ["grpc/health/v1/health.proto"]
        assert b"\x08\x05" in nothing  # error_code NOT_FOUND


def fields(data):
    """(number, bytes) of the length-delimited fields; others are skipped."""
    def varint(at):
        value = shift = 0
        while True:
            value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 2:
            size, at = varint(at)
            yield key >> 3, data[at:at + size]
            at += size
        else:
            _, at = varint(at)


def descriptor_files(response):
    inner = dict(fields(response))[4]
    return [descriptor_pb2.FileDescriptorProto.FromString(f) for n, f in fields(inner) if n == 1]


def fast_keepalive_pings_are_tolerated(server):
    options = (("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 500),
               ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0))
    with server.channel(*options) as channel:
        future = channel.unary_unary("/test.T/Hold", **IDENTITY).future(b"x", timeout=3)
        try:
            future.result()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        assert channel.unary_unary("/test.T/Unary", **IDENTITY)(b"x", timeout=1) == b"x"


def draining_finishes_open_streams(server):
    with server.channel() as channel:
        more = threading.Event()

        def messages():
            yield b"first"
            more.wait(5)
            yield b"second"

        chat = channel.stream_stream("/test.T/Chat", **IDENTITY)(messages(), timeout=10)
        assert next(chat) == b"first"
        server.tell("drain")
        time.sleep(0.2)
        fails(lambda: channel.unary_unary("/test.T/Unary", **IDENTITY)(b"x", timeout=1), grpc.StatusCode.UNAVAILABLE)
        more.set()
        assert list(chat) == [b"second"]
    assert server.stop() == 0


class Handlers(grpc.GenericRpcHandler):
    """A server of grpcio for our client; notes the time each call has left."""

    def __init__(self):
        self.left = {}

    def service(self, details):
        name = details.method.rsplit("/", 1)[1]

        def note(context):
            self.left.setdefault(name, []).append(context.time_remaining())

        def unary(request, context):
            note(context)
            if name == "Fail":
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100% \u00e4pfel")
            if name == "Hold":
                time.sleep(1)
            return request

        def chat(requests, context):
            note(context)
            yield from requests

        if name == "Chat":
            return grpc.stream_stream_rpc_method_handler(chat)
        return None if name == "Missing" else grpc.unary_unary_rpc_method_handler(unary)


def our_client_speaks_with_their_server(_):
    handlers = Handlers()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[handlers])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        out = subprocess.run([os.path.join(BIN, "rpc_ask"), "127.0.0.1:%d" % port], stdout=subprocess.PIPE, timeout=60, check=True)
    finally:
        server.stop(None)
    got = dict(line.split(" ", 1) for line in out.stdout.decode().splitlines())
    got["hold"] = got["hold"].lower()  # either side's timer may be first
    expected = {"empty": "OK messages=1 bytes=0 ", "small": "OK messages=1 bytes=200 ", "large": "OK messages=1 bytes=3000000 ",
                "fail": "FAILED_PRECONDITION messages=0 bytes=0 100% \u00e4pfel",
                "missing": "UNIMPLEMENTED messages=0 bytes=0 Method not found!",
                "hold": "deadline_exceeded messages=0 bytes=0 deadline exceeded",
                "chat": "OK messages=2000 bytes=1000000 ", "none": "OK messages=0 bytes=0 ", "forever": "OK messages=1 bytes=10 "}
    assert got == expected, got
    assert 0 < handlers.left["Hold"][0] <= 0.2, handlers.left
    assert handlers.left["Unary"][3] is None or handlers.left["Unary"][3] > 1e6, handlers.left  # no timeout was sent


TESTS = [unary_calls_carry_bytes_and_metadata, many_calls_at_once, errors_carry_status_and_text,
         unknown_methods_and_large_messages, compressed_messages_are_unimplemented, streams_go_both_ways,
         deadlines_and_cancellation, health_is_checked_and_watched, a_health_checking_client_follows,
         reflection_lists_services_and_files, fast_keepalive_pings_are_tolerated, draining_finishes_open_streams,
         our_client_speaks_with_their_server]


def main():
    failed = 0
    for test in (t for t in TESTS if len(sys.argv) < 2 or sys.argv[1] in t.__name__):
        server = Server()
        try:
            test(server)
            assert server.process.poll() is None or server.process.returncode == 0, "the server died"
            print("ok %s" % test.__name__, flush=True)
        except Exception as error:  # any failure of one case is that case's failure
            failed += 1
            print("# %s: %s" % (type(error).__name__, error))
            print("not ok %s" % test.__name__, flush=True)
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
