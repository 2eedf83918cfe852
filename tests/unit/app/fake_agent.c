/* See fake_agent.h. */
#include "tests/unit/app/fake_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

static const char *const launchers[] = {"CKPT_RANK",   "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK",    "MV2_COMM_WORLD_RANK",  "RANK",
                                        "SLURM_PROCID"};

void fake_agent_return(struct fake_agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, agent->path, strlen(agent->path) + 1);
    agent->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(agent->listener >= 0);
    unlink(agent->path);
    assert_int_equal(bind(agent->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(agent->listener, 8), 0);
}

void fake_agent_die(struct fake_agent *agent)
{
    if (agent->stream >= 0)
        close(agent->stream);
    if (agent->listener >= 0)
        close(agent->listener);
    agent->stream = agent->listener = -1;
    agent->heard_length = 0;
    unlink(agent->path);
}

void fake_agent_start(struct fake_agent *agent)
{
    memset(agent, 0, sizeof(*agent));
    agent->stream = agent->listener = -1;
    snprintf(agent->folder, sizeof(agent->folder), "/tmp/ckptapp-XXXXXX");
    assert_non_null(mkdtemp(agent->folder));
    snprintf(agent->path, sizeof(agent->path), "%s/s", agent->folder);
    for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++)
        unsetenv(launchers[i]);
    setenv("CKPT_APP_SOCKET", agent->path, 1);
    setenv("CKPT_DIR", agent->folder, 1);
    setenv("CKPT_ALLOCATION_ID", "job one", 1);
    setenv("CKPT_RUN", "7", 1);
    fake_agent_return(agent);
}

void fake_agent_stop(struct fake_agent *agent)
{
    char path[128];

    fake_agent_die(agent);
    for (int rank = 0; rank < 8; rank++) {
        snprintf(path, sizeof(path), "%s/done.%d", agent->folder, rank);
        unlink(path);
        snprintf(path, sizeof(path), "%s/.done.%d", agent->folder, rank);
        unlink(path);
    }
    umount2(agent->folder, MNT_DETACH);        /* of a test that failed with a disk of its own */
    assert_int_equal(rmdir(agent->folder), 0); /* and nothing else was left there */
}

static bool readable(int descriptor, int wait_ms)
{
    struct pollfd wanted = {.fd = descriptor, .events = POLLIN};

    return poll(&wanted, 1, wait_ms) == 1;
}

void fake_agent_accept(struct fake_agent *agent)
{
    if (agent->stream >= 0)
        close(agent->stream);
    agent->heard_length = 0;
    assert_true(readable(agent->listener, 5000));
    agent->stream = accept(agent->listener, NULL, NULL);
    assert_true(agent->stream >= 0);
}

void fake_agent_say(struct fake_agent *agent, const char *text)
{
    assert_int_equal(send(agent->stream, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

const char *fake_agent_line(struct fake_agent *agent)
{
    static char line[LINE_BYTES];

    for (;;) {
        char *end = memchr(agent->heard, '\n', agent->heard_length);

        if (end != NULL) {
            size_t length = (size_t)(end - agent->heard);

            assert_true(length < sizeof(line));
            memcpy(line, agent->heard, length);
            line[length] = '\0';
            agent->heard_length -= length + 1;
            memmove(agent->heard, end + 1, agent->heard_length);
            return line;
        }
        assert_true(agent->heard_length < sizeof(agent->heard));
        assert_true(readable(agent->stream, 5000));
        ssize_t more = recv(agent->stream, agent->heard + agent->heard_length,
                            sizeof(agent->heard) - agent->heard_length, 0);
        assert_true(more > 0);
        agent->heard_length += (size_t)more;
    }
}

void fake_agent_hears(struct fake_agent *agent, const char *line)
{
    assert_string_equal(fake_agent_line(agent), line);
}

void fake_agent_hears_nothing(struct fake_agent *agent)
{
    assert_int_equal(agent->heard_length, 0);
    assert_false(readable(agent->stream, 20));
}

const char *fake_agent_done(struct fake_agent *agent, int rank)
{
    static char text[1024];
    char path[128];
    int file;
    ssize_t length;

    snprintf(path, sizeof(path), "%s/done.%d", agent->folder, rank);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return "";
    length = read(file, text, sizeof(text) - 1);
    close(file);
    assert_true(length > 0);
    text[length] = '\0';
    char *stall = strstr(text, "stall_ms=");
    assert_non_null(stall);
    assert_true(strtoull(stall + sizeof("stall_ms=") - 1, NULL, 10) > 0); /* 0: it is not told */
    assert_true(text[length - 1] == '\n' && strchr(stall, '\n') == text + length - 1);
    *stall = '\0';
    return text;
}
