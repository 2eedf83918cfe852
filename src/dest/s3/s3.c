/* The row of the kind s3. See s3.h. */
#include "src/dest/s3/s3.h"

#include <string.h>

#include "src/dest/s3/location.h"
#include "src/dest/s3/sign_server.h"

/* Whatever begins so is of this kind, also when it is wrong: it is then refused by name. */
static bool s3_parse(const char *location)
{
    return strncmp(location, "s3://", 5) == 0;
}

/* Without touching the store: daemons ask. */
static int s3_validate(const char *location, struct err *err)
{
    struct location parsed;

    return location_parse(location, &parsed, err);
}

const struct destination_ops destination_s3 = {
    .kind = "s3",
    .parse = s3_parse,
    .validate = s3_validate,
    .probe = s3_probe,
    .claim = NULL,
    .put = s3_put,
    .verify = s3_verify,
    .restore = s3_restore,
    .collect = s3_collect,
    .abandon = s3_abandon,
    .scan = s3_scan,
    .serve = &s3_sign_server,
};
