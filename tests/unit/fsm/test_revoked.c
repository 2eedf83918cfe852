/* The list of revoked certificates: each once, kept by snapshots, and full at its limit. K-009 */
#include "tests/unit/fsm/expect.h"

#include "fsm/revoked.h"

static void a_revoked_certificate_stays_on_the_list(void **unused)
{
    const struct fsm_revoked *revoked;
    struct script script;
    uint64_t hash;

    (void)unused;
    script_start(&script);
    assert_uint_equal(fsm_revoked_hash(script.fsm), 0);
    assert_null(fsm_revoked_at(script.fsm, 0));
    expect_ok(&script, "revoke 0a1b note=leaver by=ann");
    hash = fsm_revoked_hash(script.fsm);
    assert_int_not_equal(hash, 0);
    expect_ok(&script, "revoke 0a1b note=again by=ann"); /* nothing new */
    assert_uint_equal(fsm_revoked_hash(script.fsm), hash);
    expect_ok(&script, "revoke ff by=ann");
    for (unsigned pass = 0; pass < 2; pass++) {
        revoked = fsm_revoked_at(script.fsm, 0);
        assert_string_equal(revoked->serial, "0a1b");
        assert_string_equal(revoked->note, "leaver");
        assert_true(revoked->at_ms > 0);
        assert_string_equal(fsm_revoked_at(script.fsm, 1)->serial, "ff");
        assert_null(fsm_revoked_at(script.fsm, 2));
        hash = fsm_revoked_hash(script.fsm);
        script_restore(&script);
        assert_uint_equal(fsm_revoked_hash(script.fsm), hash);
    }
    script_close(&script);
}

static void what_is_no_serial_number_is_refused(void **unused)
{
    static const char *const wrong[] = {"0A", "0", "0g", "abc",
                                        "00112233445566778899aabbccddeeff0011223344"};
    struct script script;

    (void)unused;
    script_start(&script);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        expect_status(&script, INVALID_SERIAL, "revoke %s", wrong[i]);
    expect_ok(&script, "revoke 00112233445566778899aabbccddeeff00112233");
    script_close(&script);
}

static void the_list_has_an_end(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (unsigned i = 0; i < FSM_REVOKED_MAX; i++)
        expect_ok(&script, "revoke %04x", i);
    expect_status(&script, REVOKED_FULL, "revoke ffff");
    expect_ok(&script, "revoke 0001"); /* it is there */
    script.unchecked = false;
    script_restore(&script);
    assert_non_null(fsm_revoked_at(script.fsm, FSM_REVOKED_MAX - 1));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_revoked_certificate_stays_on_the_list),
        cmocka_unit_test(what_is_no_serial_number_is_refused),
        cmocka_unit_test(the_list_has_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
