/* As whom a removal works: whose the folder is, else whom the registration names. K-007. */
#include "src/dest/owner.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { ANN = 20001 };

/* What the kind says of the place. */
static enum err_code asked_code;
static uid_t asked_uid;

static int say_owner(const char *prefix, const char *path, uid_t *ret_uid, struct err *err)
{
    assert_string_equal(prefix, "/scratch");
    assert_string_equal(path, "/scratch/t/p/a/checkpoints/1-1");
    *ret_uid = asked_uid;
    return asked_code == ERR_NONE ? 0 : err_set(err, asked_code, "stat /scratch/t: refused");
}

static const struct destination_ops kind = {.owner = say_owner};
static const struct destination_ops without_owner = {.owner = NULL};

static int enter(const struct destination_ops *destination, const char *name, struct err *err)
{
    return owner_enter(destination,
                       &(struct owner_place){"/scratch", "/scratch/t/p/a/checkpoints/1-1", name},
                       err);
}

static void the_only_word_is_owner(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(owner_check("owner", NULL), 0);
    assert_int_equal(owner_check("20001:20001", &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_contains(err.text, "--as \"20001:20001\" must be owner here");
}

static void a_name_or_a_number_is_a_user(void **state)
{
    struct err err;
    uid_t uid = 7;

    (void)state;
    assert_int_equal(owner_find("root", &uid, NULL), 0);
    assert_int_equal(uid, 0);
    assert_int_equal(owner_find("20001", &uid, NULL), 0);
    assert_int_equal(uid, ANN);
    uid = 7;
    for (size_t i = 0; i < 4; i++) {
        static const char *const none[] = {"no-such-user", "20001x", "99999999999", ""};

        assert_int_equal(owner_find(none[i], &uid, &err), -1);
        assert_int_equal(err.code, ERR_NOT_FOUND);
        assert_contains(err.text, "this node has no user");
    }
    assert_int_equal(uid, 7);
}

/* A process that is root: its files are the user's until it leaves. In a child, which takes the
 * rights with it. */
static int work_as(const char *folder, const char *name, const char *registered)
{
    char path[256], of_root[256];
    struct stat status;
    struct err err;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(of_root, sizeof(of_root), "%s/of-root", folder);
    if (mkdir(of_root, 0700) != 0)
        return 6;
    strcat(of_root, "/made");
    if (enter(&kind, registered, &err) != 0)
        return 1;
    if (mkdir(path, 0700) != 0 || stat(path, &status) != 0 || status.st_uid != ANN)
        return 2;
    if (mkdir(of_root, 0700) == 0)
        return 3;
    if (!owner_leave() || mkdir(of_root, 0700) != 0)
        return 4;
    return owner_leave() ? 5 : 0; /* once */
}

static void expect_work_as(const char *name, const char *registered)
{
    char folder[] = "/tmp/ckpt-owner-XXXXXX";
    int status;
    pid_t child;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 01777), 0);
    child = fork();
    if (child == 0)
        _exit(work_as(folder, name, registered));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    remove_tree(folder);
}

static void root_takes_the_rights_of_whose_it_is_and_gives_them_back(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    asked_code = ERR_NONE;
    asked_uid = ANN;
    expect_work_as("seen", "root"); /* what is seen counts more than the name */
    asked_code = ERR_AUTH;
    expect_work_as("numbered", "20001");
}

/* The bond to the daemon is made anew with the rights; where the daemon has gone it cannot be. In a
 * child. */
static int enter_orphaned(const char *folder)
{
    char path[256];
    struct stat status;
    struct err err = {0};

    snprintf(path, sizeof(path), "%s/made", folder);
    setenv(WORKER_PARENT, "1", 1);
    for (size_t i = 0; i < 2; i++)
        if (enter(&kind, NULL, &err) == 0 || strstr(err.text, "that started this is gone") == NULL)
            return 1;
    if (owner_leave())
        return 2;
    return mkdir(path, 0700) == 0 && stat(path, &status) == 0 && status.st_uid == 0 ? 0 : 3;
}

static void who_cannot_enter_is_root_still(void **state)
{
    char folder[] = "/tmp/ckpt-owner-XXXXXX";
    int status;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    asked_code = ERR_NONE;
    asked_uid = ANN;
    assert_non_null(mkdtemp(folder));
    child = fork();
    if (child == 0)
        _exit(enter_orphaned(folder));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    remove_tree(folder);
}

static void where_nobody_says_whose_it_is_nothing_is_done(void **state)
{
    struct err err;

    (void)state;
    if (geteuid() != 0)
        skip();
    asked_code = ERR_AUTH;
    assert_int_equal(enter(&kind, NULL, &err), -1);
    assert_contains(err.text, "stat /scratch/t: refused; no owner is registered");
    assert_int_equal(enter(&kind, "no-such-user", &err), -1);
    assert_contains(err.text, "this node has no user no-such-user");
    assert_int_equal(err.code, ERR_IO);
    for (size_t i = 0; i < 2; i++) {
        static const enum err_code of_the_place[] = {ERR_REFUSED, ERR_UNAVAILABLE};

        asked_code = of_the_place[i];
        assert_int_equal(enter(&kind, "20001", &err), -1);
        assert_int_equal(err.code, of_the_place[i]);
    }
    assert_false(owner_leave());
}

/* Nothing is there, it is root's, or the kind has no owners. */
static void root_stays_root_where_there_is_nobody_to_become(void **state)
{
    (void)state;
    asked_code = ERR_NOT_FOUND;
    assert_int_equal(enter(&kind, "20001", NULL), 0);
    assert_false(owner_leave());
    asked_code = ERR_NONE;
    asked_uid = 0;
    assert_int_equal(enter(&kind, NULL, NULL), 0);
    assert_false(owner_leave());
    assert_int_equal(enter(&without_owner, NULL, NULL), 0);
    assert_false(owner_leave());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_word_is_owner),
        cmocka_unit_test(a_name_or_a_number_is_a_user),
        cmocka_unit_test(root_takes_the_rights_of_whose_it_is_and_gives_them_back),
        cmocka_unit_test(who_cannot_enter_is_root_still),
        cmocka_unit_test(where_nobody_says_whose_it_is_nothing_is_done),
        cmocka_unit_test(root_stays_root_where_there_is_nobody_to_become),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
